/** The shared memory as one host thread sees it, and what is done in it under a lock: the pool and the tables. */
import { outOfMemory } from "../errors/make";
import type { CoreExports } from "./core-exports";
import { liveness } from "./host-threads";
import { Header, Layout, type PoolTag } from "./layout";
import { allowHugePages, HUGE_PAGE_BYTES } from "./pages";

/** What the core answers when a lock is held. */
export const BUSY = -2;
/** A lock whose holder cannot be looked up is taken over after this long: holders do bounded work. */
const LOCK_LIMIT_MS = 2000;

/** What a lock guards, as `takeOver` of the core numbers it. */
export enum LockKind {
  STREAM,
  TABLE,
  POOL,
}

interface Views {
  readonly bytes: Buffer;
  readonly words: Uint32Array;
  readonly ints: Int32Array;
}
const views = new WeakMap<WebAssembly.Memory, Views>();

/** Views of the whole memory, made once: a parked memory brings them along. */
function viewsOf(memory: WebAssembly.Memory): Views {
  let known = views.get(memory);
  if (known === undefined) {
    known = { bytes: Buffer.from(memory.buffer), words: new Uint32Array(memory.buffer), ints: new Int32Array(memory.buffer) };
    views.set(memory, known);
  }
  return known;
}

export abstract class LockedMemory {
  readonly memory: WebAssembly.Memory;
  readonly bytes: Buffer;
  readonly words: Uint32Array;
  readonly ints: Int32Array;
  readonly device: number;
  readonly counters = { killed: 0, traps: 0, takeOvers: 0, copiedBytes: 0 };
  /** Called without a lock when an allocation does not fit: gives something back and says so, or says that there is nothing left. */
  reclaim: (() => boolean) | undefined;
  /** This thread's instance of the core module. */
  abstract readonly core: CoreExports;

  /** From here on the system may use huge pages. */
  #hugeFrom: number;

  protected constructor(memory: WebAssembly.Memory, device: number) {
    this.memory = memory;
    const { bytes, words, ints } = viewsOf(memory);
    this.bytes = bytes;
    this.words = words;
    this.ints = ints;
    this.device = device;
    this.#hugeFrom = bytes.length;
  }

  /** Huge pages for a large allocation and all behind it; what lies before stays small, so a device without large ones takes no more than it uses. */
  #allowHuge(address: number): void {
    if (address >= this.#hugeFrom) return;
    allowHugePages(this.bytes.subarray(address, this.#hugeFrom));
    this.#hugeFrom = address;
  }

  /** Repeats `call` while it answers that the lock at `address` is busy. */
  locked(address: number, kind: LockKind, call: () => number): number {
    const since = performance.now();
    for (;;) {
      let answer: number;
      try {
        answer = call();
      } catch (error) {
        throw this.ruined(error);
      }
      if (answer !== BUSY) {
        return answer;
      }
      this.awaitLock(address, kind, since);
    }
  }

  /** A table or the pool trapped: its memory was overwritten. What to throw; the device is lost. */
  protected abstract ruined(error: unknown): unknown;

  /** The holder is descheduled, or dead: then its lock is taken over and what it guarded repaired. */
  protected awaitLock(address: number, kind: LockKind, sinceMs: number): void {
    const holder = Atomics.load(this.ints, address >> 2);
    if (holder === 0) {
      return;
    }
    const life = liveness(this.memory.buffer, holder - 1);
    if (life === "dead" || (life === "unknown" && performance.now() - sinceMs > LOCK_LIMIT_MS)) {
      this.counters.takeOvers += this.core.takeOver(address, holder, kind);
      return;
    }
    Atomics.wait(this.ints, address >> 2, holder, 1);
  }

  /** Changes a table (contexts, streams, events). */
  table(call: () => number): number {
    return this.locked(Layout.HEADER + Header.TABLE_LOCK, LockKind.TABLE, call);
  }

  /** Address of `sizeBytes`, 64-aligned. @throws AclError 207001 naming `what` */
  allocate(sizeBytes: number, tag: PoolTag, what: string, owner = 0): number {
    const address = this.tryAllocate(sizeBytes, tag, owner);
    if (address === 0) {
      throw outOfMemory(this.device, sizeBytes, this.core.poolLargestFree(), what);
    }
    return address;
  }

  /** As `allocate`; 0 if it does not fit. */
  tryAllocate(sizeBytes: number, tag: PoolTag, owner = 0): number {
    if (sizeBytes >= this.bytes.length) {
      return 0; // the core would see its lowest 32 bits
    }
    const pool = Layout.HEADER + Header.POOL_LOCK;
    for (;;) {
      const address = this.locked(pool, LockKind.POOL, () => {
        const found = this.core.allocate(sizeBytes, tag, owner) >>> 0;
        return found === 1 ? BUSY : found;
      });
      if (address !== 0 && sizeBytes >= HUGE_PAGE_BYTES) this.#allowHuge(address);
      if (address !== 0 || this.reclaim === undefined || !this.reclaim()) {
        return address;
      }
    }
  }

  /** True if `address` was the start of a live allocation. */
  release(address: number): boolean {
    return this.locked(Layout.HEADER + Header.POOL_LOCK, LockKind.POOL, () => this.core.release(address)) === 1;
  }
}
