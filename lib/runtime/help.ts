/**
 * Which runs the calling thread takes on itself, if it opened the device. To wake a core and to be woken by it takes longer than a short program; but
 * what runs here holds the event loop, and runs here are never beside each other.
 */
import type { Driver } from "../host/driver";
import type { StreamCore } from "./stream-core";
import { turn } from "./turn";

/** Until the cores are up nobody else can run anything, so the caller does even what takes this long. */
const WHILE_BOOTING_NS = 30e6;
/** Without other cores, a program this short is not worth a turn of the event loop. */
const INLINE_NS = 1e6;
/** Handing over a program this short costs as much of this thread's time as the program. */
const TINY_NS = 100_000;
/** So much is done here until the event loop has had its turn: timers, sockets, what the cores have finished. */
const TURN_NS = 4e6;
/** What a run costs its caller at least. */
const CALL_NS = 10_000;

export type Place = "HERE" | "CORES" | "LATER";

export class Help {
  /** Runs that wait until the event loop has had its turn. */
  readonly late = new Set<object>();
  /** Since the event loop had its turn. */
  #doneNs = 0;
  /** The caller of the last longer program has not had its result yet. */
  #untaken = false;
  /** A run waits until the event loop has had its turn. */
  #waiting = false;
  readonly #onTurn = (): void => {
    this.#doneNs = 0;
    this.#waiting = false;
  };
  readonly #onTaken = (): void => {
    this.#untaken = false;
  };

  /** Where a program that takes `costNs` runs. LATER: ask again in a turn of the event loop's own. `blocking`: the caller waits for it in any case. */
  place(stream: StreamCore, costNs: number, blocking: boolean): Place {
    const { driver, opener } = stream.machine;
    const asked = stream.device.options.helpBelowNs;
    if (asked === 0 || driver.name === "sim" || !opener || costNs >= this.#limitNs(driver, asked)) {
      return "CORES";
    }
    if (blocking) {
      return "HERE";
    }
    const noCores = driver.name === "inline" || driver.coresUp === 0;
    return this.#inTurn(Math.max(costNs, CALL_NS), noCores || costNs < TINY_NS);
  }

  /** Waits until the runs that wait for a turn of the event loop now have begun: each turn some do. */
  async settle(): Promise<void> {
    const now = [...this.late];
    while (now.some((run) => this.late.has(run))) {
      await turn();
    }
  }

  #limitNs(driver: Driver, askedNs: number): number {
    if (driver.name === "inline") {
      return Math.max(askedNs, INLINE_NS);
    }
    return driver.coresUp === 0 ? Math.max(askedNs, WHILE_BOOTING_NS) : askedNs;
  }

  /** `alone`: the cores would be no help with it. */
  #inTurn(costNs: number, alone: boolean): Place {
    // Whoever begins another run before it has had the last one's result wants them beside each other: that takes cores.
    if (!alone && (this.#untaken || this.#waiting)) {
      return "CORES";
    }
    if (this.#doneNs === 0) {
      setImmediate(this.#onTurn);
    } else if (this.#doneNs + costNs > TURN_NS) {
      this.#waiting = true;
      return "LATER";
    }
    this.#doneNs += costNs;
    if (!alone) {
      this.#untaken = true;
      queueMicrotask(this.#onTaken);
    }
    return "HERE";
  }
}
