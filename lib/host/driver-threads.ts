/** threads: one worker per core over the shared memory. The host sleeps on HOST_BELL, cores on BELL. */
import type { Worker } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import { addonFile } from "./addon";
import { type Driver, LONGEST_TIMER_MS } from "./driver";
import { birth } from "./host-threads";
import { Core, CoreState, type DeviceState, Header, Layout, SCRATCH_BYTES } from "./layout";
import type { Machine } from "./machine";
import { adoptCoreKernels, coreKernels, moduleNow } from "./kernels";
import { coreModule, wallClock } from "./module";
import { cpuPerCore } from "./topology";
import { OTHER_TRAP, TRAPS } from "./traps";
import { Watchdog } from "./watchdog";
import { CORE_BODY, type CoreBoot } from "./worker-body";

const HOST_BELL = (Layout.HEADER + Header.HOST_BELL) >> 2;
const HOST_WAITERS = (Layout.HEADER + Header.HOST_WAITERS) >> 2;
const BELL = (Layout.HEADER + Header.BELL) >> 2;
/** A host sleeps at most this long before it looks whether the device still lives. */
const SLEEP_MS = 250;
/** Cores end within microseconds unless a kernel is stuck; then they are terminated. */
const STOP_GRACE_MS = 500;
/**
 * Cores boot this long after the device was opened, or with the first work that is not small. A worker costs 20 ms of a CPU and 5 to 8 MB: the first
 * result of a small model should not wait for that, nor should a process that never needs it pay.
 */
const BOOT_DELAY_MS = 250;

/** While a terminated worker has not ended, a host that blocks looks this often whether it has. */
const DYING_MS = 1;

let threads: typeof import("node:worker_threads") | undefined;
/** Loaded by the first boot and kept: a test runner takes `require` away before the last core has been replaced. */
const workers = (): typeof import("node:worker_threads") => (threads ??= require("node:worker_threads") as typeof import("node:worker_threads"));

/** A worker that was told to end. `born` tells its thread from a later one with the same id. */
interface Dying {
  readonly seat: Seat;
  readonly worker: Worker;
  readonly tid: number;
  readonly born: number;
}

interface Seat {
  readonly core: number;
  worker: Worker | undefined;
  up: boolean;
  exited: Promise<void>;
}

export class ThreadsDriver implements Driver {
  readonly name = "threads";
  readonly now = wallClock();
  readonly #machine: Machine;
  readonly #seats: Seat[] = [];
  readonly #watchdog: Watchdog;
  readonly #spinUs: number;
  readonly #count: number;
  #dying: Dying[] = [];
  #coresUp = 0;
  #watching = false;
  #stopping = false;
  #ready: Promise<void> | undefined;
  #bootTimer: NodeJS.Timeout | undefined;

  /** `cores` is 0 on a thread that is only attached: then this driver waits, and the opener's cores work. */
  constructor(machine: Machine, cores: number, spinUs: number, watchdogMs: number) {
    this.#machine = machine;
    this.#count = cores;
    this.#spinUs = spinUs;
    this.#watchdog = new Watchdog(machine, watchdogMs, (core) => this.#replace(core));
  }

  get coresUp(): number {
    return this.#count === 0 ? 1 : this.#coresUp;
  }

  start(): void {
    for (let core = 0; core < this.#count; core++) {
      this.#machine.giveScratch(core, SCRATCH_BYTES);
      this.#seats.push({ core, worker: undefined, up: false, exited: Promise.resolve() });
    }
    this.#bootTimer = setTimeout(() => this.#bootAll(), BOOT_DELAY_MS);
    this.#bootTimer.unref();
  }

  #bootAll(): void {
    if (this.#bootTimer === undefined) {
      return;
    }
    clearTimeout(this.#bootTimer);
    this.#bootTimer = undefined;
    this.#ready = Promise.all(this.#seats.map((seat) => this.#boot(seat))).then(() => {});
    // An unhandled rejection must not end the process: whoever awaits `ready` gets it, and the device is marked lost.
    this.#ready.catch(() => {});
  }

  async ready(): Promise<void> {
    this.#bootAll();
    for (const { worker } of this.#seats) {
      worker?.ref();
    }
    try {
      await this.#ready;
    } finally {
      for (const { worker } of this.#seats) {
        worker?.unref();
      }
    }
  }

  #boot(seat: Seat): Promise<void> {
    const [addon, cpus] = [addonFile(), cpuPerCore(this.#count)];
    const workerData: CoreBoot = {
      module: coreModule(),
      kernels: moduleNow(this.#machine.kernels),
      own: coreKernels(this.#machine.kernels),
      memory: this.#machine.memory,
      core: seat.core,
      spinUs: this.#spinUs,
      pin: addon !== undefined && cpus !== undefined ? { addon, cpu: cpus[seat.core]! } : undefined,
      traps: TRAPS,
      otherTrap: OTHER_TRAP,
    };
    const cannotStart = (cause: unknown): AclError =>
      new AclError(507033, `core ${seat.core} of device ${this.#machine.device} cannot start: ${String(cause)}`, { cause });
    let worker: Worker;
    try {
      worker = new (workers().Worker)(CORE_BODY, {
        eval: true,
        workerData,
        execArgv: [],
        name: `npurt core ${this.#machine.device}.${seat.core}`,
      });
    } catch (error) {
      // Thrown where Node's permission model allows no threads; nobody may be there to catch it, since cores boot by a timer.
      const failure = cannotStart(`${String(error)}; allow worker threads (--allow-worker) or open the device with driver "inline"`);
      this.#machine.lose(failure.message);
      return Promise.reject(failure);
    }
    worker.unref();
    seat.worker = worker;
    let failure: unknown;
    seat.exited = new Promise((resolve) => {
      worker.once("exit", () => {
        this.#gone(seat, worker, failure);
        resolve();
        worker.removeAllListeners(); // what V8 still keeps of the worker leads to the device no more
      });
    });
    return new Promise((resolve, reject) => {
      worker.on("error", (error) => {
        failure = error;
        reject(cannotStart(error));
      });
      worker.once("exit", () => resolve());
      worker.once("message", () => {
        if (this.#stopping || seat.worker !== worker) {
          return resolve(); // of a thread that blocked meanwhile: the device is closing, or the worker was killed and replaced
        }
        seat.up = true;
        adoptCoreKernels(this.#machine.kernels);
        this.#coresUp++;
        resolve();
      });
    });
  }

  /** A worker has ended. Wanted (closing, replaced) or not: then its tile is finished as failed and another takes its seat. */
  #gone(seat: Seat, worker: Worker, failure: unknown): void {
    if (seat.worker !== worker) {
      return; // seen before, by a host that blocked
    }
    seat.worker = undefined;
    if (seat.up) {
      seat.up = false;
      this.#coresUp--;
    }
    if (this.#stopping) {
      return;
    }
    if (this.#watchdog.bury(seat.core)) {
      void this.#boot(seat).catch(() => {});
    } else {
      this.#machine.lose(`core ${seat.core} died outside a kernel: ${String(failure ?? "its thread ended")}`);
    }
  }

  /** The watchdog has won PHASE of this core to KILLED: it will touch no table any more. The exit listener does the rest, or `#buryDead` if this thread blocks. */
  #replace(core: number): void {
    const seat = this.#seats[core];
    const worker = seat?.worker;
    if (seat === undefined || worker === undefined) {
      return;
    }
    const tid = this.#machine.words[(Layout.CORES + core * Core.SIZE + Core.TID) >> 2]!;
    const born = tid === 0 ? undefined : birth(tid);
    void worker.terminate();
    if (born !== undefined) {
      this.#dying.push({ seat, worker, tid, born });
    }
  }

  /** A blocked thread hears of no exit event, but sees when the system's thread is no more. */
  #buryDead(): void {
    if (this.#dying.length > 0) {
      const dead = this.#dying.filter(({ tid, born }) => birth(tid) !== born);
      this.#dying = this.#dying.filter((one) => !dead.includes(one));
      for (const { seat, worker } of dead) {
        this.#gone(seat, worker, undefined);
      }
    }
  }

  /** Fault injection: kills `core` if it is inside a kernel, as the watchdog does. */
  killCore(core: number): boolean {
    return this.#watchdog.kill(core);
  }

  kick(cores = 1): void {
    this.#bootAll();
    this.#machine.core.bell(cores);
  }

  watch(stream: number, sequence: number): void {
    this.#bootAll();
    if (!this.#watching) {
      this.#watching = true;
      void this.#listen();
    } else if (this.#machine.core.arm(stream, sequence) === 1) {
      queueMicrotask(() => this.#machine.progress());
    }
  }

  async #listen(): Promise<void> {
    const machine = this.#machine;
    const { completions, ints } = machine;
    await undefined; // nobody is called back before `watch` returns
    Atomics.add(ints, HOST_WAITERS, 1); // before the first `arm`: pairs with `hostBell` in asm/sync/park.ts
    while (completions.count > 0 && !machine.lost) {
      const seen = Atomics.load(ints, HOST_BELL);
      if (!completions.arm()) {
        const sleep = Atomics.waitAsync(ints, HOST_BELL, seen, SLEEP_MS);
        if (sleep.async) {
          await sleep.value;
        }
      }
      machine.progress();
    }
    Atomics.sub(ints, HOST_WAITERS, 1);
    this.#watching = false;
  }

  block(stream: number, sequence: number, timeoutMs: number): boolean {
    this.#bootAll();
    const { core, ints } = this.#machine;
    const end = this.now() + timeoutMs * 1000;
    const spinEnd = this.now() + this.#spinUs;
    while (this.now() < spinEnd) {
      if (core.fence(stream) >= sequence) {
        return true;
      }
    }
    Atomics.add(ints, HOST_WAITERS, 1);
    try {
      for (;;) {
        const seen = Atomics.load(ints, HOST_BELL);
        if (core.arm(stream, sequence) === 1) {
          return true;
        }
        const leftMs = (end - this.now()) / 1000;
        if (leftMs <= 0) {
          return false;
        }
        // No core is up yet: their boot needs nothing of this thread, so sleeping is enough.
        const napMs = this.#machine.opener ? this.#watchdog.periodMs : SLEEP_MS;
        Atomics.wait(ints, HOST_BELL, seen, Math.min(leftMs, this.#dying.length > 0 ? DYING_MS : napMs));
        this.#machine.checkAlive();
        if (this.#machine.lost !== undefined) {
          return false;
        }
        this.check();
      }
    } finally {
      Atomics.sub(ints, HOST_WAITERS, 1);
    }
  }

  timer(delayMs: number, fire: () => void): () => void {
    const timer = setTimeout(fire, Math.min(delayMs, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }

  check(): void {
    if (this.#count > 0 && !this.#stopping) {
      this.#watchdog.look(this.#count);
      this.#buryDead();
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#bootTimer);
    this.#bootTimer = undefined;
    const { ints } = this.#machine;
    Atomics.add(ints, BELL, 1);
    Atomics.notify(ints, BELL);
    const exits = this.#seats.map((seat) => {
      seat.worker?.ref();
      return seat.exited;
    });
    const late = setTimeout(() => {
      for (const { worker } of this.#seats) {
        void worker?.terminate();
      }
    }, STOP_GRACE_MS);
    await Promise.all(exits);
    clearTimeout(late);
  }

  /** States of the cores, for info. */
  states(): string[] {
    const { words } = this.#machine;
    return this.#seats.map(({ core }) => CoreState[words[(Layout.CORES + core * Core.SIZE + Core.STATE) >> 2]!]!);
  }
}

/** The state word that tells cores and attached threads to stop. */
export function announce(ints: Int32Array, state: DeviceState): void {
  Atomics.store(ints, (Layout.HEADER + Header.STATE) >> 2, state);
  Atomics.add(ints, HOST_BELL, 1);
  Atomics.notify(ints, HOST_BELL);
}
