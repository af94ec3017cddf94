/**
 * sim: all cores on the calling thread, one small step at a time. A seeded generator picks who steps, for how long, and which adversity strikes;
 * time is a counter. The same seed and the same calls give the same interleaving.
 */
import { type SteppedCore, SteppedDriver } from "./driver-stepped";
import { Header, Layout, SCRATCH_BYTES, Stream, Task } from "./layout";
import type { Machine } from "./machine";
import { instantiate } from "./module";
import type { SimFaults } from "./types";

/** Picks before the event loop gets its turn: a count, not a time, so that it is the same in every run. */
const SLICE_PICKS = 512;
const MOST_STEPS = 8;
/** A parked core looks again by itself after this long, like PARK_MS of a real one. */
const PARK_US = 100_000;
const STALL_PICKS = 64;

interface SimCore extends SteppedCore {
  /** Virtual time at which a sleeping core looks by itself. */
  alarm: number;
  stalled: number;
}

export class SimDriver extends SteppedDriver<SimCore> {
  readonly #faults: SimFaults;

  constructor(machine: Machine, cores: number, seed: number, faults: SimFaults) {
    super(machine, cores, seed);
    this.#faults = faults;
  }

  override start(): void {
    for (let index = 0; index < this.coresUp; index++) {
      this.machine.giveScratch(index, SCRATCH_BYTES);
      // A core that looks at the clock takes a microsecond: what it does in one step has different times.
      const core = instantiate(this.machine.memory, () => ++this.time, this.machine.kernels.module);
      core.bindCore(index);
      this.cores.push({ core, index, asleep: false, alarm: 0, bell: 0, stalled: 0 });
    }
  }

  protected override turn(): boolean {
    // Time jumps only at the start of a turn: whoever the last turn called back has had the chance to go on or to take its timer away.
    if (this.#allAsleep) {
      this.#jump();
    }
    for (let pick = 0; pick < SLICE_PICKS && !(pick > 0 && this.#allAsleep); pick++) {
      this.#pick();
    }
    this.machine.progress();
    // With everybody asleep and no timer, only new work can move anything: `kick` starts the pump again.
    return !this.#allAsleep || this.#next() !== Number.POSITIVE_INFINITY;
  }

  get #allAsleep(): boolean {
    return this.cores.every((core) => core.asleep);
  }

  /** One pick: a core steps, sleeps or hears the bell, and a little time passes. */
  #pick(): void {
    this.time += 1 + this.random.below(4);
    this.#fireTimers();
    const chosen = this.cores[this.random.below(this.cores.length)]!;
    if (chosen.asleep) {
      this.#hear(chosen);
    } else if (chosen.stalled > 0) {
      chosen.stalled--;
    } else if (this.random.chance(this.#faults.stall ?? 0)) {
      chosen.stalled = this.random.below(STALL_PICKS);
    } else if (this.#step(chosen) === 0) {
      this.#sleep(chosen);
    }
  }

  #step(chosen: SimCore): number {
    return this.machine.guard(chosen.core, () => chosen.core.step(1 + this.random.below(MOST_STEPS)));
  }

  /** As `park` of the core: counts as asleep first, then looks once more. */
  #sleep(chosen: SimCore): void {
    const bell = this.bell();
    this.mark(chosen.index, true);
    if (this.#step(chosen) > 0) {
      this.mark(chosen.index, false);
      return;
    }
    chosen.asleep = true;
    chosen.bell = bell;
    chosen.alarm = this.time + PARK_US;
  }

  #hear(chosen: SimCore): void {
    if (this.bell() !== chosen.bell) {
      chosen.bell = this.bell();
      if (!this.random.chance(this.#faults.skippedWakeUp ?? 0)) {
        this.#wake(chosen);
      }
    } else if (this.time >= chosen.alarm) {
      this.#wake(chosen);
    }
  }

  #wake(chosen: SimCore): void {
    chosen.asleep = false;
    this.mark(chosen.index, false);
  }

  /** While everybody sleeps: when something will happen by itself, infinity if never. A core is woken by its alarm only while work is left. */
  #next(): number {
    if (this.cores.some((core) => core.bell !== this.bell())) {
      return this.time;
    }
    const timer = Math.min(this.#deadline(), this.timerAt);
    return this.machine.hasReadyStreams() ? Math.min(timer, ...this.cores.map((core) => core.alarm)) : timer;
  }

  /** Everybody sleeps: time goes to the next thing that will happen. False: nothing will. */
  #jump(): boolean {
    const next = this.#next();
    if (next === Number.POSITIVE_INFINITY) {
      return false;
    }
    this.time = Math.max(this.time, next);
    if (this.hasPolled()) {
      this.#wake(this.cores[this.random.below(this.cores.length)]!);
    }
    return true;
  }

  /** When the first wait at the head of a stream times out. */
  #deadline(): number {
    const { words, core, memory } = this.machine;
    let first = Number.POSITIVE_INFINITY;
    const high = this.hasPolled() ? words[(Layout.HEADER + Header.STREAM_HIGH) >> 2]! : 0;
    for (let stream = 0; stream < high; stream++) {
      const at = Layout.STREAMS + stream * Stream.SIZE;
      const since = new Float64Array(memory.buffer, at + Stream.WAIT_SINCE, 1)[0]!;
      if (since > 0) {
        const slot = (core.fence(stream) + 1) % (words[(at + Stream.MASK) >> 2]! + 1);
        const timeoutMs = words[(words[(at + Stream.RING) >> 2]! + slot * Task.SIZE + Task.P3) >> 2]!;
        first = Math.min(first, since + timeoutMs * 1000);
      }
    }
    return first;
  }

  #fireTimers(): void {
    while (this.timerAt <= this.time) {
      this.fireTimer();
    }
  }

  override block(stream: number, sequence: number, timeoutMs: number): boolean {
    const end = this.time + timeoutMs * 1000;
    while (this.machine.core.fence(stream) < sequence) {
      if (this.time > end || (this.#allAsleep && !this.#jump())) {
        return this.machine.core.fence(stream) >= sequence;
      }
      this.#pick();
    }
    return true;
  }

  /** The heart beats: a word that the host itself has written is seen now. */
  override check(): void {
    if (this.hasPolled()) {
      this.#wake(this.cores[0]!);
      this.kick();
    }
  }
}
