/** Who waits for which fence on this host thread. Drivers call `poll`; nothing here knows how a core is woken. */
import type { AclError } from "../errors/acl-error";
import type { CoreExports } from "./core-exports";

type Reached = (error: AclError | undefined) => void;

interface Waiter {
  readonly sequence: number;
  readonly reached: Reached;
}

export class Completions {
  readonly #core: CoreExports;
  /** Per stream, by rising sequence. */
  readonly #waiting = new Map<number, Waiter[]>();
  #count = 0;
  #polling = false;

  constructor(core: CoreExports) {
    this.#core = core;
  }

  /** Callbacks that have not been called. */
  get count(): number {
    return this.#count;
  }

  /** Calls `reached` once `sequence` has retired (never before it returns), or with an error if the device is lost. The caller then calls `driver.watch`. */
  add(stream: number, sequence: number, reached: Reached): void {
    const list = this.#waiting.get(stream);
    const waiter = { sequence, reached };
    this.#count++;
    if (list === undefined) {
      this.#waiting.set(stream, [waiter]);
      return;
    }
    let at = list.length;
    while (at > 0 && list[at - 1]!.sequence > sequence) {
      at--;
    }
    list.splice(at, 0, waiter);
  }

  /** Calls back whoever's fence is reached. Returns how many. */
  poll(): number {
    if (this.#count === 0 || this.#polling) {
      return 0;
    }
    this.#polling = true;
    let called = 0;
    try {
      for (const [stream, list] of this.#waiting) {
        called += this.#pollStream(stream, list);
      }
    } finally {
      this.#polling = false;
    }
    return called;
  }

  #pollStream(stream: number, list: Waiter[]): number {
    // acquire: pairs with `advanceFence` in asm/sync/fence.ts
    const fence = this.#core.fence(stream);
    let due = 0;
    while (due < list.length && list[due]!.sequence <= fence) {
      due++;
    }
    if (due === 0) {
      return 0;
    }
    const ready = list.splice(0, due);
    if (list.length === 0) {
      this.#waiting.delete(stream);
    }
    this.#count -= due;
    for (const { reached } of ready) {
      reached(undefined);
    }
    return due;
  }

  /** Asks the cores to ring for the lowest sequence of each stream. True if one is reached already. */
  arm(): boolean {
    let already = false;
    for (const [stream, list] of this.#waiting) {
      if (this.#core.arm(stream, list[0]!.sequence) === 1) {
        already = true;
      }
    }
    return already;
  }

  /** The device is gone: tells everybody. */
  fail(error: AclError): void {
    const lists = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#count = 0;
    for (const list of lists) {
      for (const { reached } of list) {
        reached(error);
      }
    }
  }
}
