/** What the two simulating drivers share: cores as instances on the calling thread, a clock that is a counter, timers on it, and a pump of the event loop. */
import type { CoreExports } from "./core-exports";
import type { Driver } from "./driver";
import { Core, Header, Layout } from "./layout";
import type { Machine } from "./machine";
import { Random } from "./random";

export interface SteppedCore {
  readonly core: CoreExports;
  readonly index: number;
  asleep: boolean;
  /** Bell count it went to sleep with. */
  bell: number;
}

interface Timer {
  readonly at: number;
  readonly fire: () => void;
}

export abstract class SteppedDriver<C extends SteppedCore> implements Driver {
  readonly name = "sim";
  readonly coresUp: number;
  protected readonly machine: Machine;
  protected readonly random: Random;
  protected readonly cores: C[] = [];
  /** Microseconds. */
  protected time = 0;
  /** By rising time. */
  #timers: Timer[] = [];
  #scheduled = false;
  #stopped = false;

  constructor(machine: Machine, cores: number, seed: number) {
    this.machine = machine;
    this.coresUp = cores;
    this.random = new Random(seed);
  }

  readonly now = (): number => this.time;

  abstract start(): void;
  abstract block(stream: number, sequence: number, timeoutMs: number): boolean;
  abstract check(): void;
  /** One turn of the event loop. True: another is wanted. */
  protected abstract turn(): boolean;

  async ready(): Promise<void> {}

  kick(): void {
    if (!this.#scheduled && !this.#stopped) {
      this.#scheduled = true;
      setImmediate(this.#pump);
    }
  }

  readonly #pump = (): void => {
    this.#scheduled = false;
    if (!this.#stopped && this.turn()) {
      this.kick();
    }
  };

  watch(): void {
    this.kick();
  }

  timer(delayMs: number, fire: () => void): () => void {
    const timer = { at: this.time + delayMs * 1000, fire };
    this.#timers.push(timer);
    this.#timers.sort((a, b) => a.at - b.at);
    this.kick();
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** When the next timer fires, infinity if none does. */
  protected get timerAt(): number {
    return this.#timers[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  protected fireTimer(): void {
    this.#timers.shift()?.fire();
  }

  /** Streams wait for a word or a time-out that nobody announces. */
  protected hasPolled(): boolean {
    return Atomics.load(this.machine.words, (Layout.HEADER + Header.POLLED) >> 2) !== 0;
  }

  protected bell(): number {
    return Atomics.load(this.machine.words, (Layout.HEADER + Header.BELL) >> 2);
  }

  /** Says in the device's memory whether core `index` sleeps, as a real one does. */
  protected mark(index: number, asleep: boolean): void {
    const word = (Layout.HEADER + Header.SLEEPERS + (index >> 5) * 4) >> 2;
    const bit = 1 << (index & 31);
    if (asleep) {
      Atomics.or(this.machine.words, word, bit);
    } else {
      Atomics.and(this.machine.words, word, ~bit);
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
  }

  /** Sum of what the cores' records count, for tests. */
  tiles(): number[] {
    return this.cores.map(({ index }) => this.machine.words[(Layout.CORES + index * Core.SIZE + Core.TILES) >> 2]!);
  }
}
