/** What is behind a Stream handle: checks, tasks, waiting, and the failure modes. */
import { AclError } from "../errors/acl-error";
import { aborted, checkInteger, checkOptions, checkSignal, invalidParam, kindOf, notSupported } from "../errors/make";
import { Code, Layout, Probe, Stream, StreamState, TaskOp } from "../host/layout";
import type { Machine, Outcome } from "../host/machine";
import type { ContextCore } from "./context-core";
import { type CopyShape, type Operand, resolve, transfer } from "./copy";
import type { DeviceCore } from "./device-core";
import { deviceFailure, faultsOf } from "./failures";
import type { EventCore } from "./internals";
import { turn } from "./turn";
import type { WaitOptions } from "./types";

const PROBES: Readonly<Record<string, Probe>> = {
  nothing: Probe.NOTHING,
  unreachable: Probe.UNREACHABLE,
  outOfBounds: Probe.OUT_OF_BOUNDS,
  divideByZero: Probe.DIVIDE_BY_ZERO,
  runaway: Probe.RUNAWAY,
  runawayPolling: Probe.RUNAWAY_POLLING,
  spin: Probe.SPIN,
  mix: Probe.MIX,
};

/** Checks the options of a wait; -1, Infinity and undefined wait for ever. Returns the time-out to use. */
export function checkWait(where: string, options: WaitOptions): number | undefined {
  checkOptions(where, options, ["timeoutMs", "signal"]);
  const { timeoutMs, signal } = options;
  if (timeoutMs !== undefined && timeoutMs !== -1 && (typeof timeoutMs !== "number" || !(timeoutMs >= 1))) {
    throw invalidParam(`${where}: timeoutMs is ${kindOf(timeoutMs)}; pass at least 1, or -1 to wait for ever`);
  }
  checkSignal(where, signal);
  if (signal?.aborted) {
    throw aborted(where, signal.reason);
  }
  return timeoutMs === -1 || timeoutMs === Number.POSITIVE_INFINITY ? undefined : timeoutMs;
}

/** Work that could not enter the stream when it was called: it waits in line for a frame or for room. */
export interface LateEntry {
  /** It stands first in line. */
  tryEnter(): void;
  /** Enters at once, blocking if it must. */
  enterNow(): void;
}

export class StreamCore {
  readonly device: DeviceCore;
  readonly context: ContextCore;
  readonly index: number;
  readonly machine: Machine;
  readonly generation: number;
  live = true;
  /** Serves runs without a stream: nobody synchronizes it, each run tells its own caller. */
  forRuns = false;
  readonly #at: number;
  /** In the order of their calls. */
  #late: LateEntry[] = [];
  readonly #lateWatchers = new Set<() => void>();
  #destroyed: Promise<void> | undefined;
  /** Sequence up to which failures were reported. */
  #reported = 0;

  constructor(context: ContextCore, index: number) {
    this.context = context;
    this.device = context.device;
    this.machine = context.device.machine;
    this.index = index;
    this.#at = (Layout.STREAMS + index * Stream.SIZE) >> 2;
    this.generation = this.machine.words[this.#at + (Stream.GENERATION >> 2)]!;
    this.#reported = this.machine.core.fence(index);
  }

  get name(): string {
    return `stream ${this.index} of device ${this.device.index}`;
  }

  /** Throws unless tasks may be submitted now: device, context, stream live and not stopped. */
  check(): void {
    this.device.admit();
    this.context.check();
    this.#checkHandle();
    this.context.checkLatch();
  }

  /** As `check`, for tasks that are submitted now: what stands in line was called before them, so it enters first. */
  open(): void {
    this.check();
    this.#enterAll();
  }

  #enterAll(): void {
    while (this.#late.length > 0) {
      this.#late[0]!.enterNow();
    }
  }

  /** Throws unless work that was accepted before may enter now. */
  checkEntry(): void {
    this.device.check();
    if (this.machine.words[this.#at + (Stream.GENERATION >> 2)] !== this.generation) {
      this.#checkHandle();
    }
    this.context.checkLatch();
  }

  #checkHandle(): void {
    if (!this.live || this.machine.words[this.#at + (Stream.GENERATION >> 2)] !== this.generation) {
      throw new AclError(107003, `${this.name} is destroyed; create another`);
    }
  }

  get hasLateEntries(): boolean {
    return this.#late.length > 0;
  }

  /** Puts `entry` in line; does nothing if it stands there already. */
  enterLate(entry: LateEntry): void {
    if (!this.#late.includes(entry)) {
      this.#late.push(entry);
      if (this.#late.length === 1) {
        entry.tryEnter();
      }
    }
  }

  /** `entry` is in the ring or has given up: the next one tries. */
  entered(entry: LateEntry): void {
    const at = this.#late.indexOf(entry);
    if (at < 0) {
      return;
    }
    this.#late.splice(at, 1);
    for (const watcher of [...this.#lateWatchers]) {
      watcher();
    }
    if (at === 0) {
      this.#late[0]?.tryEnter();
    }
  }

  /** Waits until what stands in line now has entered. */
  #whenEntered(timeoutMs: number | undefined, signal: AbortSignal | undefined): Promise<Outcome> {
    const last = this.#late.at(-1);
    if (last === undefined) {
      return Promise.resolve("reached");
    }
    return new Promise((resolve) => {
      const finish = (outcome: Outcome): void => {
        stopTimer?.();
        signal?.removeEventListener("abort", onAbort);
        this.#lateWatchers.delete(look);
        resolve(outcome);
      };
      const onAbort = (): void => finish("aborted");
      const look = (): void => {
        if (!this.#late.includes(last)) {
          finish("reached");
        }
      };
      const stopTimer = timeoutMs === undefined ? undefined : this.machine.driver.timer(timeoutMs, () => finish("timeout"));
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#lateWatchers.add(look);
    });
  }

  submit(op: TaskOp, p0 = 0, p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0): number {
    this.open();
    return this.machine.submit(this.index, op, p0, p1, p2, p3, p4, p5);
  }

  nop(count: number): void {
    if (count === 1) {
      this.submit(TaskOp.NOP);
      return;
    }
    checkInteger("stream.nop", "count", count, 1, 2 ** 24); // some seconds of a blocked thread
    this.open();
    this.machine.submitMany(this.index, TaskOp.NOP, count);
  }

  /** Offset of `operand` in this device's memory, after checking that `sizeBytes` from there lie in its allocation. */
  localOffset(operand: Operand, sizeBytes: number, what: string): number {
    const end = resolve(this.machine, operand, sizeBytes, what);
    if ("bytes" in end || end.machine !== this.machine) {
      throw invalidParam(`${what} must be memory of device ${this.device.index}`);
    }
    return end.offset;
  }

  transfer(shape: CopyShape): void {
    this.open();
    transfer(this, shape);
  }

  /** True if every task has retired, so that the host may act in stream order itself. Not in sim, whose point is the tasks. */
  get idle(): boolean {
    return (
      this.#late.length === 0 && this.machine.driver.name !== "sim" && this.machine.core.fence(this.index) === this.machine.core.tail(this.index)
    );
  }

  probe(kind: string, argument: number, word: number): void {
    const probe = typeof kind === "string" && Object.hasOwn(PROBES, kind) ? PROBES[kind] : undefined;
    if (probe === undefined) {
      throw invalidParam(`stream.launch: probe ${kindOf(kind)} is unknown; use one of ${Object.keys(PROBES).join(", ")}`);
    }
    if ((probe === Probe.RUNAWAY || probe === Probe.RUNAWAY_POLLING) && this.machine.driver.name !== "threads") {
      throw notSupported(`stream.launch: an endless probe would hang this thread on the ${this.machine.driver.name} driver; use "threads"`);
    }
    checkInteger("stream.launch", "argument", argument, 0, 2 ** 32 - 1);
    this.submit(TaskOp.PROBE, probe, argument, word);
  }

  record(event: EventCore): void {
    this.#sameDevice(event, "record");
    this.open();
    this.machine.submitBy(this.index, () => this.machine.core.record(this.index, event.index));
  }

  waitEvent(event: EventCore): void {
    this.#sameDevice(event, "wait");
    this.open();
    this.machine.submitBy(this.index, () => this.machine.core.waitEvent(this.index, event.index));
  }

  #sameDevice(event: EventCore, call: string): void {
    if (!event.live) {
      throw new AclError(107017, `stream.${call}: the event is destroyed; create another`);
    }
    if (event.device !== this.device) {
      throw new AclError(107000, `stream.${call}: the event belongs to device ${event.device.index}, the stream to device ${this.device.index}`);
    }
    if (event.context.index !== this.context.index) {
      throw new AclError(107003, `stream.${call}: the event belongs to ${event.context.name}, the stream to ${this.context.name}`);
    }
  }

  async synchronize(options?: WaitOptions): Promise<void> {
    this.#checkLive();
    if (options !== undefined || !this.#settle()) {
      await this.drain(options ?? {});
    }
    this.report();
  }

  /** Whether nothing is left to wait for; if so, whoever waited has been told. */
  #settle(): boolean {
    const settled = this.#late.length === 0 && this.machine.core.fence(this.index) >= this.machine.core.tail(this.index);
    if (settled) {
      this.machine.progress();
    }
    return settled;
  }

  /** Waits for what is queued; reports no failure. */
  async drain(options: WaitOptions): Promise<void> {
    const where = `synchronize of ${this.name}`;
    const timeoutMs = checkWait(where, options);
    let outcome: Outcome = "reached";
    let leftMs = timeoutMs;
    if (this.#late.length > 0) {
      const since = this.machine.driver.now();
      outcome = await this.#whenEntered(timeoutMs, options.signal);
      leftMs = timeoutMs === undefined ? undefined : Math.max(0, timeoutMs - (this.machine.driver.now() - since) / 1000);
    }
    if (outcome === "reached") {
      outcome = await this.machine.wait(this.index, this.machine.core.tail(this.index), leftMs, options.signal);
    }
    if (outcome === "timeout") {
      throw new AclError(507046, `${where} is not done after ${timeoutMs} ms: ${this.machine.describeHead(this.index)}`);
    }
    if (outcome === "aborted") {
      throw aborted(where, options.signal?.reason);
    }
  }

  /** Blocks this thread; on inline and sim it runs the tasks. */
  synchronizeBlocking(timeoutMs: number | undefined): void {
    const where = `synchronize of ${this.name}`;
    const limit = checkWait(where, timeoutMs === undefined ? {} : { timeoutMs });
    this.#checkLive();
    this.#enterAll();
    if (!this.machine.block(this.index, this.machine.core.tail(this.index), limit ?? Number.POSITIVE_INFINITY)) {
      throw new AclError(507046, `${where} cannot finish: ${this.machine.describeHead(this.index)}`);
    }
    this.report();
  }

  #checkLive(): void {
    this.context.check();
    if (!this.live) {
      throw new AclError(107003, `${this.name} is destroyed; create another`);
    }
  }

  /** Throws what went wrong since the last report, in CANN's order: aborted, latched, failed. A failure is reported once. */
  report(): void {
    for (const tell of this.device.beforeReport) {
      tell();
    }
    const { words, core } = this.machine;
    if (words[this.#at + (Stream.STATE >> 2)] === StreamState.ABORTING) {
      throw new AclError(Code.STREAM_ABORT, `${this.name} was aborted; destroy it and create another`);
    }
    this.context.checkLatch();
    const code = Atomics.exchange(words, this.#at + (Stream.ERROR >> 2), 0);
    const after = this.#reported;
    this.#reported = core.fence(this.index);
    if (code !== 0) {
      const fault = words[this.#at + (Stream.ERROR_FAULT >> 2)]!;
      throw deviceFailure(this.machine, code, fault, this.name, faultsOf(this.machine, this.index, after));
    }
  }

  /** Whether `report` would find nothing. */
  get isClean(): boolean {
    return this.device.beforeReport.size === 0 && !this.context.latched && Atomics.load(this.machine.words, this.#at + (Stream.ERROR >> 2)) === 0;
  }

  forgetErrors(): void {
    Atomics.store(this.machine.words, this.#at + (Stream.ERROR >> 2), 0);
    this.#reported = this.machine.core.fence(this.index);
  }

  /** True when no task is left; a run of the driver's pump may be what moves it. */
  query(): boolean {
    this.#checkLive();
    this.context.checkLatch();
    const { core, driver } = this.machine;
    if (core.fence(this.index) < core.tail(this.index) && driver.name !== "threads") {
      this.machine.step(64);
    }
    this.machine.progress();
    return this.#late.length === 0 && core.fence(this.index) >= core.tail(this.index);
  }

  /** Retires what is queued without running it; every later synchronize reports 107023. */
  abort(): void {
    this.#checkLive();
    Atomics.store(this.machine.words, this.#at + (Stream.STATE >> 2), StreamState.ABORTING);
    this.machine.core.kick(this.index);
    this.machine.driver.kick();
  }

  async destroy(): Promise<void> {
    if (this.context.isDefault(this) && this.context.live) {
      throw new AclError(107003, `${this.name} is the default stream of its context and goes with it; destroy the context instead`);
    }
    this.#destroyed ??= this.#destroy();
    await this.#destroyed;
  }

  async #destroy(): Promise<void> {
    this.live = false;
    await this.#whenEntered(undefined, undefined);
    this.context.streams.delete(this);
    const { machine } = this;
    for (;;) {
      if (machine.lost !== undefined) {
        return;
      }
      await machine.wait(this.index, machine.core.tail(this.index));
      // 0: a core has not let go of OWNER yet, which follows the fence within microseconds.
      if (machine.table(() => machine.core.destroyStream(this.index, this.generation)) !== 0) {
        return;
      }
      await turn();
    }
  }
}
