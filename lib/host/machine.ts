/**
 * A device as one host thread sees it: the shared memory, this thread's instance of the core module, the driver, and who waits.
 * Everything below the public API goes through here; nothing here knows contexts' rules, buffers or models.
 */
import { AclError } from "../errors/acl-error";
import { deviceLost, internal, notSupported } from "../errors/make";
import { Completions } from "./completions";
import { Submitter } from "./submitter";
import type { CoreExports } from "./core-exports";
import type { Driver } from "./driver";
import { makeDriver } from "./driver-choice";
import { announce } from "./driver-threads";
import { Heart } from "./heart";
import { claimThread, hasOtherThreads, liveness, releaseThread } from "./host-threads";
import {
  ABI_VERSION,
  Core,
  DeviceState,
  Header,
  Layout,
  MAGIC,
  MAILBOX_BYTES,
  PoolTag,
  PRIORITIES,
  SCRATCH_BYTES,
  Thread,
  Trace,
  WORKER_LIMIT,
} from "./layout";
import { parkMemory, takeMemory } from "./memory";
import { chooseKernels, type Kernels, testLater } from "./kernels";
import { adoptModule, coreModule, hostInstance } from "./module";
import { classify } from "./traps";
import type { MachineOptions, MachineToken } from "./types";

/** An attached thread looks this often whether the opener lives. */
const OPENER_LOOK_MS = 400;
export type Outcome = "reached" | "timeout" | "aborted";
const open = new Set<Machine>();
let exitHooked = false;

/** A thread that ends normally says so to those who attached; one that is terminated is found dead by them. */
function hookExit(): void {
  if (!exitHooked) {
    exitHooked = true;
    process.on("exit", () => {
      for (const machine of open) {
        machine.abandon();
      }
    });
  }
}

export class Machine extends Submitter {
  readonly core: CoreExports;
  readonly thread: number;
  readonly opener: boolean;
  readonly driver: Driver;
  readonly completions: Completions;
  /** A view of device memory was handed to the user: this memory cannot be given to another device. */
  exposed = false;
  readonly #heart: Heart;
  readonly #dropTest: () => void;
  /** 1 by index for the streams in `#busyStreams`; grows with the streams that are used. */
  readonly #busyFlags: number[] = [];
  #busyStreams: number[] = [];
  #openerSeen = 0;
  #closed: Promise<void> | undefined;

  private constructor(
    memory: WebAssembly.Memory,
    options: MachineOptions,
    readonly kernels: Kernels,
    opener: boolean,
  ) {
    super(memory, options.device);
    this.opener = opener;
    this.#dropTest = testLater(kernels);
    this.driver = makeDriver(this, options);
    const core = hostInstance(memory, this.driver.now, kernels.module);
    this.core = this.driver.view?.(core) ?? core;
    this.thread = claimThread(memory.buffer);
    this.core.bindThread(this.thread);
    this.completions = new Completions(this.core);
    this.#heart = new Heart(
      () => this.#inFlight(),
      () => this.#beat(),
    );
  }

  /** Makes a device. Its cores boot in the background. */
  static open(options: MachineOptions): Machine {
    coreModule();
    const kernels = chooseKernels({ ...options, quick: options.driver !== "inline" });
    const memory = takeMemory(options.memoryBytes);
    const machine = new Machine(memory, options, kernels, true);
    machine.core.format(memory.buffer.byteLength / 65536, options.cores, options.device, options.firstSequence);
    machine.#giveMailbox();
    // An attached thread runs no device code: it may be terminated at any moment, and what it held by then would stand still for ever.
    const core = options.driver === "inline" ? 0 : WORKER_LIMIT + machine.thread;
    machine.giveScratch(core, SCRATCH_BYTES);
    machine.core.bindCore(core);
    if (options.traceRecords > 0) {
      machine.#startTrace(options.traceRecords);
    }
    machine.driver.start();
    open.add(machine);
    hookExit();
    return machine;
  }

  /** Joins a device that another thread of this process opened. */
  static attach(token: MachineToken): Machine {
    adoptModule(token.module);
    const words = new Uint32Array(token.memory.buffer, Layout.HEADER, Header.STATE);
    if (words[0] !== MAGIC || words[Header.VERSION >> 2] !== ABI_VERSION || token.abi !== ABI_VERSION) {
      throw new AclError(107017, "Device.attach: the token is not of a device of this npurt version; pass what device.share() returned");
    }
    if (words[Header.STATE >> 2] !== DeviceState.OPEN) {
      throw deviceLost(token.device, "it was closed before this thread attached");
    }
    const rest = { firstSequence: 0, seed: 0, faults: {}, spinUs: 20, watchdogMs: 1000, traceRecords: 0, memoryBytes: 0 };
    const machine = new Machine(token.memory, { device: token.device, driver: "threads", cores: 0, ...rest }, token.kernels, false);
    machine.#giveMailbox();
    open.add(machine);
    hookExit();
    return machine;
  }

  token(): MachineToken {
    if (this.driver.name !== "threads") {
      throw notSupported(`device ${this.device}: a device of the ${this.driver.name} driver cannot be shared; open it with driver "threads"`);
    }
    this.exposed = true; // a token that is used after the close must not meet another device in the same memory
    this.driver.kick(); // whoever attaches finds cores that boot
    return { memory: this.memory, module: coreModule(), kernels: this.kernels, device: this.device, abi: ABI_VERSION };
  }

  #giveMailbox(): void {
    const mailbox = (Layout.THREADS + this.thread * Thread.SIZE + Thread.MAILBOX) >> 2;
    if (this.words[mailbox] === 0) {
      this.words[mailbox] = this.allocate(MAILBOX_BYTES, PoolTag.SCRATCH, "a host thread's mailbox");
    }
  }

  /** Gives core record `core` its scratch; a record that had a core before keeps what it has. */
  giveScratch(core: number, sizeBytes: number): void {
    const word = (Layout.CORES + core * Core.SIZE + Core.SCRATCH) >> 2;
    if (this.words[word] === 0) {
      this.words[word] = this.allocate(sizeBytes, PoolTag.SCRATCH, "a core's scratch");
    }
  }

  #startTrace(records: number): void {
    const slots = 2 ** Math.ceil(Math.log2(records));
    const ring = this.allocate(slots * Trace.SIZE, PoolTag.TRACE, "the trace ring");
    this.words.fill(0, ring >> 2, (ring + slots * Trace.SIZE) >> 2);
    this.words[(Layout.HEADER + Header.TRACE_MASK) >> 2] = slots - 1;
    Atomics.store(this.words, (Layout.HEADER + Header.TRACE) >> 2, ring);
  }

  // ---- running device code on this thread

  step(budget: number): number {
    try {
      return this.core.step(budget);
    } catch (error) {
      return this.recover(this.core, error);
    }
  }

  /** Runs tasks of `stream` here until `sequence` has retired (true) or nothing more can be done here. */
  help(stream: number, sequence: number): boolean {
    for (;;) {
      try {
        return this.core.help(stream, sequence) === 1;
      } catch (error) {
        this.recover(this.core, error);
      }
    }
  }

  /** `run` of a core on this thread, with its traps turned into faults. */
  guard(core: CoreExports, run: () => number): number {
    try {
      return run();
    } catch (error) {
      return this.recover(core, error);
    }
  }

  /** After an error out of `core`: a trap in a kernel becomes a fault (returns 1), anything else loses the device. */
  recover(core: CoreExports, error: unknown): number {
    let cause = error;
    for (;;) {
      if (!(cause instanceof WebAssembly.RuntimeError) && !(cause instanceof RangeError)) {
        throw cause;
      }
      const [trap, code] = classify(cause);
      this.counters.traps++;
      try {
        if (core.recover(code, trap) === 0) {
          this.lose(`the host's core trapped outside a kernel (${String(cause)})`);
          throw internal(`device ${this.device}: the core trapped outside a kernel`, cause);
        }
        return 1;
      } catch (next) {
        if (next instanceof AclError) {
          throw next;
        }
        cause = next;
      }
    }
  }

  hasReadyStreams(): boolean {
    const first = (Layout.HEADER + Header.SUMMARY) >> 2;
    for (let word = 0; word < PRIORITIES * 2; word++) {
      if (Atomics.load(this.words, first + word) !== 0) {
        return true;
      }
    }
    return false;
  }

  // ---- waiting

  /** Waits without blocking. Never rejects but for a lost device. */
  wait(stream: number, sequence: number, timeoutMs?: number, signal?: AbortSignal): Promise<Outcome> {
    if (this.core.fence(stream) >= sequence) {
      this.progress();
      return Promise.resolve("reached");
    }
    return new Promise((resolve, reject) => {
      let stopTimer: (() => void) | undefined;
      const finish = (outcome: Outcome): void => {
        stopTimer?.();
        signal?.removeEventListener("abort", onAbort);
        resolve(outcome);
      };
      const onAbort = (): void => finish("aborted");
      this.completions.add(stream, sequence, (error) => {
        if (error === undefined) {
          finish("reached");
        } else {
          stopTimer?.();
          signal?.removeEventListener("abort", onAbort);
          reject(error);
        }
      });
      if (timeoutMs !== undefined) {
        stopTimer = this.driver.timer(timeoutMs, () => finish("timeout"));
      }
      signal?.addEventListener("abort", onAbort, { once: true });
      this.hold(stream);
      this.driver.watch(stream, sequence);
    });
  }

  /** Calls back when `sequence` has retired or the device is lost. */
  whenReached(stream: number, sequence: number, reached: (error: AclError | undefined) => void): void {
    this.completions.add(stream, sequence, reached);
    this.hold(stream);
    this.driver.watch(stream, sequence);
  }

  /** Waits and blocks this thread. False: `timeoutMs` have passed, or (sim, inline) nothing can move any more. */
  block(stream: number, sequence: number, timeoutMs: number): boolean {
    const reached = this.driver.block(stream, sequence, timeoutMs);
    this.progress();
    if (this.lost !== undefined) {
      throw this.lost;
    }
    return reached;
  }

  /** Fences may have moved: tells who waits, and lets the process go if nothing is left. */
  progress(): void {
    this.completions.poll();
    this.#heart.settle();
  }

  protected hold(stream: number): void {
    if (this.#busyFlags[stream] !== 1) {
      this.#busyFlags[stream] = 1;
      this.#busyStreams.push(stream);
      this.#heart.hold();
    }
  }

  #inFlight(): boolean {
    if (this.lost !== undefined) {
      return false;
    }
    this.#busyStreams = this.#busyStreams.filter((stream) => {
      const busy = this.core.fence(stream) < this.core.tail(stream);
      this.#busyFlags[stream] = busy ? 1 : 0;
      return busy;
    });
    return this.#busyStreams.length > 0 || this.completions.count > 0;
  }

  #beat(): void {
    this.checkAlive();
    if (this.lost === undefined) {
      this.driver.check();
      this.completions.poll();
    }
  }

  // ---- the end

  /** Notices that the device was closed elsewhere, or that the thread that opened it is dead. */
  checkAlive(): void {
    if (this.opener || this.lost !== undefined) {
      return;
    }
    if (Atomics.load(this.words, (Layout.HEADER + Header.STATE) >> 2) !== DeviceState.OPEN) {
      this.lose("the thread that opened it closed it or has ended");
      return;
    }
    const now = performance.now();
    if (now - this.#openerSeen > OPENER_LOOK_MS) {
      this.#openerSeen = now;
      const holder = this.words[(Layout.HEADER + Header.OPENER) >> 2]!;
      if (liveness(this.memory.buffer, holder - 1) === "dead") {
        announce(this.ints, DeviceState.LOST);
        this.lose("the thread that opened it has ended");
      }
    }
  }

  /** The device is not to be used any more: everybody who waits is told. */
  lose(why: string): void {
    if (this.lost === undefined) {
      this.lost = deviceLost(this.device, why);
      if (this.opener) {
        announce(this.ints, DeviceState.LOST);
      }
      this.#end();
    }
  }

  protected override ruined(error: unknown): unknown {
    if (!(error instanceof WebAssembly.RuntimeError)) {
      return error;
    }
    this.lose("the tables in its memory were overwritten (a write to freed memory, or by a kernel)");
    return this.lost;
  }

  #end(): void {
    open.delete(this);
    this.#heart.stop();
    this.#dropTest();
    this.completions.fail(this.lost as AclError);
  }

  /** This thread is ending; no time for manners. */
  abandon(): void {
    if (this.opener) {
      announce(this.ints, DeviceState.LOST);
    }
    releaseThread(this.memory.buffer, this.thread);
  }

  /** Opener: stops the cores, tells attached threads, parks the memory. Attached: lets go. Once: a memory parked twice would serve two devices. */
  close(why: string): Promise<void> {
    this.#closed ??= this.#close(why);
    return this.#closed;
  }

  async #close(why: string): Promise<void> {
    const wasLost = this.lost !== undefined;
    this.lost ??= deviceLost(this.device, why);
    this.#end();
    if (this.opener) {
      announce(this.ints, DeviceState.CLOSING);
      await this.driver.stop();
      announce(this.ints, DeviceState.CLOSED);
    }
    const shared = hasOtherThreads(this.memory.buffer, this.thread);
    releaseThread(this.memory.buffer, this.thread);
    // What led to a loss is not known well enough to trust that nobody writes any more.
    if (this.opener && !wasLost && !shared && !this.exposed) {
      parkMemory(this.memory, this.core.poolHigh() >>> 0);
    }
  }
}
