/**
 * The sim driver with a cost model: discrete events on one thread. Each core has a time, the core whose time is lowest steps, and a task is seen as
 * retired by the host when the host's own time has come to its end. Costs are data in the header (lib/acl/soc.ts has some per chip).
 * The same calls give the same times, whatever the machine does meanwhile.
 */
import type { CoreExports } from "./core-exports";
import { type SteppedCore, SteppedDriver } from "./driver-stepped";
import { Header, Layout, SCRATCH_BYTES, Stream, Task } from "./layout";
import type { Machine } from "./machine";
import { instantiate } from "./module";

/** What tasks cost: virtual time is made of this and of what the compiler expects of a program's regions. */
export interface SimCosts {
  /** Bytes per microsecond, by direction: device to device, host to device, device to host, host to host. */
  readonly bandwidths: readonly [number, number, number, number];
  /** What every task costs at least, in microseconds. */
  readonly taskUs: number;
}

/** Events before the event loop gets its turn. */
const SLICE_EVENTS = 512;
const NEVER = Number.POSITIVE_INFINITY;

export class VirtualDriver extends SteppedDriver<SteppedCore> {
  readonly #costs: SimCosts;
  /** Per stream: the last sequence whose end is not after now. */
  readonly #seen: number[] = [];
  #host: CoreExports | undefined;
  #times: Float64Array = new Float64Array(0);
  #pollUs = 1;
  /** Waits that time out up to here have had a core woken for them: a stopped stream's stays. */
  #passed = -1;
  /** A timer has fired in this turn. */
  #fired = false;

  constructor(machine: Machine, cores: number, seed: number, costs: SimCosts) {
    super(machine, cores, seed);
    this.#costs = costs;
  }

  /** The host's instance as the machine uses it: a fence is what has ended by now, and a step is one of the simulation. */
  view(core: CoreExports): CoreExports {
    this.#host = core;
    core.setCoreTime(0);
    return {
      ...core,
      fence: (stream) => this.#fence(stream),
      step: (budget) => this.#steps(budget),
      help: (stream, sequence) => (this.#fence(stream) >= sequence ? 1 : 0),
      arm: (stream, sequence) => (this.#fence(stream) >= sequence ? 1 : 0),
    };
  }

  override start(): void {
    const { memory } = this.machine;
    this.#times = new Float64Array(memory.buffer);
    this.#times.set(this.#costs.bandwidths, (Layout.HEADER + Header.BANDWIDTHS) >> 3);
    this.#times[(Layout.HEADER + Header.TASK_COST) >> 3] = this.#costs.taskUs;
    for (let index = 0; index < this.coresUp; index++) {
      this.machine.giveScratch(index, SCRATCH_BYTES);
      const core = instantiate(memory, this.now, this.machine.kernels.module);
      core.bindCore(index);
      core.setCoreTime(0);
      this.cores.push({ core, index, asleep: false, bell: 0 });
    }
  }

  protected override turn(): boolean {
    this.#look();
    let moved = true;
    this.#fired = false;
    // Whoever is called back has the chance to go on at that very time: a turn ends with the first callback.
    for (let event = 0; moved && !this.#fired && event < SLICE_EVENTS && this.machine.completions.poll() === 0; event++) {
      moved = this.#advance(NEVER);
    }
    this.machine.progress();
    return moved;
  }

  /** The bell of the cores, and words that the host has written: sleeping cores look again, at the host's time. */
  #look(): void {
    const bell = this.bell();
    for (const one of this.cores) {
      if (one.asleep && (one.bell !== bell || this.hasPolled() || this.machine.hasReadyStreams())) {
        this.#wake(one);
      }
    }
  }

  #wake(one: SteppedCore): void {
    one.asleep = false;
    one.core.setCoreTime(Math.max(one.core.coreTime(), this.time));
    this.mark(one.index, false);
  }

  /** The next event, if it is not after `limit`: a task's end becomes visible, a timer fires, a wait times out, or a core steps. False: there is none. */
  #advance(limit: number): boolean {
    const core = this.#lowest();
    const step = core === undefined ? NEVER : Math.max(this.time, core.core.coreTime());
    const end = this.#nextEnd();
    const timer = this.timerAt;
    const deadline = this.cores.some(({ asleep }) => asleep) ? this.#deadline() : NEVER;
    const next = Math.min(step, end, timer, deadline);
    if (next === NEVER || next > limit) {
      return false;
    }
    this.#setTime(next);
    if (end === next) {
      return true;
    }
    if (timer === next) {
      this.#fired = true;
      this.fireTimer();
    } else if (core !== undefined && step === next) {
      this.#step(core);
    } else {
      this.#passed = deadline;
      this.#look();
    }
    return true;
  }

  #step(one: SteppedCore): void {
    const did = this.machine.guard(one.core, () => one.core.step(1));
    if (did === 0) {
      one.asleep = true;
      one.bell = this.bell();
      this.mark(one.index, true);
      return;
    }
    this.#look();
  }

  #setTime(time: number): void {
    this.time = Math.max(this.time, time);
    this.#host?.setCoreTime(this.time);
  }

  /** Of the cores that are awake, the one whose time is lowest; the seed decides between equals. */
  #lowest(): SteppedCore | undefined {
    let found: SteppedCore | undefined;
    let lowest = NEVER;
    let equals = 0;
    for (const one of this.cores) {
      const time = one.asleep ? NEVER : Math.max(this.time, one.core.coreTime());
      if (time < lowest) {
        found = one;
        lowest = time;
        equals = 1;
      } else if (time === lowest && !one.asleep && this.random.below(++equals) === 0) {
        found = one;
      }
    }
    return found;
  }

  /** When a task ended, on the device; undefined if its slot is in use again, which the host cannot have caused before it saw the end. */
  #endOf(stream: number, sequence: number): number | undefined {
    const { words } = this.machine;
    const at = (Layout.STREAMS + stream * Stream.SIZE) >> 2;
    const slot = words[at + (Stream.RING >> 2)]! + (sequence & words[at + (Stream.MASK >> 2)]!) * Task.SIZE;
    return words[slot >> 2] === sequence >>> 0 ? this.#times[(slot + Task.DONE) >> 3] : undefined;
  }

  #fence(stream: number): number {
    const retired = this.#host!.fence(stream);
    let seen = this.#seen[stream] ?? this.#firstSequence();
    while (seen < retired && (this.#endOf(stream, seen + 1) ?? 0) <= this.time) {
      seen++;
    }
    this.#seen[stream] = seen;
    return seen;
  }

  #firstSequence(): number {
    const at = (Layout.HEADER + Header.FIRST_SEQUENCE) >> 2;
    const { words } = this.machine;
    return (words[at]! >>> 0) + words[at + 1]! * 2 ** 32;
  }

  /** The next time at which the host sees a task end. */
  #nextEnd(): number {
    let next = NEVER;
    const high = this.machine.words[(Layout.HEADER + Header.STREAM_HIGH) >> 2]!;
    for (let stream = 0; stream < high; stream++) {
      const seen = this.#fence(stream);
      if (seen < this.#host!.fence(stream)) {
        next = Math.min(next, this.#endOf(stream, seen + 1) ?? this.time);
      }
    }
    return next;
  }

  /** When the first wait at the head of a stream times out, of those that no core has been woken for. */
  #deadline(): number {
    const { words } = this.machine;
    if (!this.hasPolled()) {
      return NEVER;
    }
    let first = NEVER;
    const high = words[(Layout.HEADER + Header.STREAM_HIGH) >> 2]!;
    for (let stream = 0; stream < high; stream++) {
      const at = Layout.STREAMS + stream * Stream.SIZE;
      const since = this.#times[(at + Stream.WAIT_SINCE) >> 3]!;
      if (since > 0) {
        const sequence = this.#host!.fence(stream) + 1;
        const slot = words[(at + Stream.RING) >> 2]! + (sequence & words[(at + Stream.MASK) >> 2]!) * Task.SIZE;
        const timeoutMs = words[(slot + Task.P3) >> 2]!;
        const over = since + timeoutMs * 1000;
        first = timeoutMs > 0 && over > this.#passed ? Math.min(first, over) : first;
      }
    }
    return first;
  }

  /** Somebody polls: a microsecond passes, and twice as much each time that nothing comes of it, so that a loop of polls ends soon. */
  #steps(budget: number): number {
    this.#look();
    const end = this.time + this.#pollUs;
    let did = 0;
    while (did < budget && this.#advance(end)) {
      did++;
    }
    this.#pollUs = did === 0 ? this.#pollUs * 2 : 1;
    if (did < budget) {
      this.#setTime(end);
    }
    return did;
  }

  override block(stream: number, sequence: number, timeoutMs: number): boolean {
    const end = this.time + timeoutMs * 1000;
    this.#pollUs = 1;
    this.#look();
    while (this.#fence(stream) < sequence) {
      if (!this.#advance(end)) {
        // Nothing happens before the limit: it passes, unless there is none, or nothing at all can happen and the caller looks for another reason.
        if (Number.isFinite(end) && this.#hasFuture()) {
          this.#setTime(end);
        }
        return this.#fence(stream) >= sequence;
      }
      this.machine.completions.poll();
    }
    return true;
  }

  /** Whether anything will happen by itself. */
  #hasFuture(): boolean {
    return this.#lowest() !== undefined || Math.min(this.#nextEnd(), this.#deadline(), this.timerAt) !== NEVER;
  }

  /** The heart beats: a word that the host itself has written is seen now. */
  override check(): void {
    this.kick();
  }
}
