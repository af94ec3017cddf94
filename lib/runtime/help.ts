/**
 * Which runs the calling thread takes on itself, if it opened the device. To wake a core and to be woken by it takes longer than a short program; but
 * what runs here holds the event loop, and runs here are never beside each other.
 */
import type { StreamCore } from "./stream-core";

/** Until the cores are up nobody else can run anything, so the caller does even what takes this long. */
const WHILE_BOOTING_NS = 30e6;
/** Without other cores, a program this short is not worth a turn of the event loop. */
const INLINE_NS = 1e6;
/** Handing over a program this short costs as much of this thread's time as the program. */
const TINY_NS = 100_000;
/** Of longer ones, so much is done here until the event loop has had its turn. */
const TURN_NS = 4e6;

export class Help {
  /** Since the event loop had its turn. */
  #doneNs = 0;
  /** The caller of the last longer program has not had its result yet. */
  #untaken = false;
  readonly #onTurn = (): void => {
    this.#doneNs = 0;
  };
  readonly #onTaken = (): void => {
    this.#untaken = false;
  };

  /** Whether a program that takes `costNs` is to run here, now. `blocking`: the caller waits for it in any case. */
  takes(stream: StreamCore, costNs: number, blocking: boolean): boolean {
    const { driver, opener } = stream.machine;
    const asked = stream.device.options.helpBelowNs;
    if (asked === 0 || driver.name === "sim" || !opener) {
      return false;
    }
    if (driver.name === "inline") {
      return costNs < Math.max(asked, INLINE_NS);
    }
    if (driver.coresUp === 0) {
      return costNs < Math.max(asked, WHILE_BOOTING_NS);
    }
    return costNs < asked && (costNs < TINY_NS || blocking || this.#fits(costNs));
  }

  #fits(costNs: number): boolean {
    // Whoever begins another run before it has had the last one's result wants them beside each other: that takes cores.
    if (this.#untaken || this.#doneNs + costNs > TURN_NS) {
      return false;
    }
    if (this.#doneNs === 0) {
      setImmediate(this.#onTurn);
    }
    this.#doneNs += costNs;
    this.#untaken = true;
    queueMicrotask(this.#onTaken);
    return true;
  }
}
