/** inline: no workers. Steps run inside blocking calls, and on a setImmediate pump while work is queued. One core: the calling thread's own instance. */
import { type Driver, LONGEST_TIMER_MS } from "./driver";
import { Header, Layout } from "./layout";
import type { Machine } from "./machine";
import { wallClock } from "./module";

const BUDGET = 64;
/** How long the pump runs before the event loop gets its turn. */
const SLICE_US = 1000;

export class InlineDriver implements Driver {
  readonly name = "inline";
  readonly coresUp = 1;
  readonly #machine: Machine;
  #scheduled = false;
  #stopped = false;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  start(): void {}

  async ready(): Promise<void> {}

  kick(): void {
    if (!this.#scheduled) {
      this.#scheduled = true;
      setImmediate(this.#pump);
    }
  }

  watch(): void {
    this.kick();
  }

  readonly #pump = (): void => {
    this.#scheduled = false;
    if (this.#stopped) {
      return;
    }
    const { machine, end } = { machine: this.#machine, end: this.now() + SLICE_US };
    let did = 0;
    do {
      did = machine.step(BUDGET);
    } while (did > 0 && this.now() < end);
    machine.progress();
    if (did > 0) {
      this.kick();
    }
  };

  block(stream: number, sequence: number, timeoutMs: number): boolean {
    const machine = this.#machine;
    const end = this.now() + timeoutMs * 1000;
    while (machine.core.fence(stream) < sequence) {
      if (machine.step(BUDGET) === 0 || this.now() > end) {
        return machine.core.fence(stream) >= sequence;
      }
    }
    return true;
  }

  timer(delayMs: number, fire: () => void): () => void {
    const timer = setTimeout(fire, Math.min(delayMs, LONGEST_TIMER_MS));
    return () => clearTimeout(timer);
  }

  readonly now = wallClock();

  /** The heart beats: streams that wait for a word or a time-out look again. */
  check(): void {
    if (Atomics.load(this.#machine.words, (Layout.HEADER + Header.POLLED) >> 2) !== 0) {
      this.kick();
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
  }
}
