/**
 * The blocks of a stream-ordered pool: large segments of device memory cut into blocks, best fit, neighbours joined.
 * A block that was given back in a stream may still be in use by tasks before that place; who may have it again, the caller decides.
 * Knows no device: segments come from and go to two functions.
 */

/** The place in a stream where a block was given back. */
export interface FreedAt {
  readonly stream: number;
  /** Of the stream: an index may be used again by another stream. */
  readonly generation: number;
  readonly sequence: number;
}

export interface Block {
  at: number;
  sizeBytes: number;
  readonly segment: Segment;
  before: Block | undefined;
  behind: Block | undefined;
  free: boolean;
  /** Undefined: nothing uses it any more. */
  freed: FreedAt | undefined;
}

interface Segment {
  readonly at: number;
  readonly sizeBytes: number;
}

/** What a free block is to the one who asks. */
export enum Use {
  NO,
  AFTER_WAIT,
  YES,
}

export interface SegmentSource {
  /** Address of `sizeBytes`; undefined if there is no room. */
  take(sizeBytes: number): number | undefined;
  giveBack(at: number, sizeBytes: number): void;
}

export const BLOCK_UNIT = 64;
const SEGMENT_UNIT = 2 ** 21;

/** A quantity with its highest value. */
class Level {
  now = 0;
  high = 0;

  add(amount: number): void {
    this.now += amount;
    this.high = Math.max(this.high, this.now);
  }
}

function isBefore(a: Block, sizeBytes: number, at: number): boolean {
  return a.sizeBytes < sizeBytes || (a.sizeBytes === sizeBytes && a.at < at);
}

export class PoolBlocks {
  readonly reserved = new Level();
  readonly used = new Level();
  /** Segments taken so far. */
  segmentsTaken = 0;
  readonly #source: SegmentSource;
  readonly #maxBytes: number;
  /** Free blocks by rising size, then address. */
  readonly #free: Block[] = [];

  constructor(source: SegmentSource, maxBytes: number) {
    this.#source = source;
    this.#maxBytes = maxBytes;
  }

  /** The smallest free block that `useOf` lets have at once, else a new segment, else one that can be had after a wait; cut to size. Undefined: no room. */
  allocate(sizeBytes: number, useOf: (freed: FreedAt) => Use): { block: Block; wait: FreedAt | undefined } | undefined {
    const need = Math.ceil(sizeBytes / BLOCK_UNIT) * BLOCK_UNIT;
    let later: Block | undefined;
    for (let index = this.#indexOf(need, 0); index < this.#free.length; index++) {
      const block = this.#free[index]!;
      const use = block.freed === undefined ? Use.YES : useOf(block.freed);
      if (use === Use.YES) {
        return { block: this.#take(block, need), wait: undefined };
      }
      if (use === Use.AFTER_WAIT) {
        later ??= block;
      }
    }
    if (later !== undefined) {
      const wait = later.freed;
      return { block: this.#take(later, need), wait };
    }
    const fresh = this.#grow(need);
    return fresh === undefined ? undefined : { block: this.#take(fresh, need), wait: undefined };
  }

  /** Gives `block` back at `freed`; neighbours that are free from the same stream on, or from now on, join. */
  release(block: Block, freed: FreedAt): void {
    block.free = true;
    block.freed = freed;
    this.used.add(-block.sizeBytes);
    this.#insert(this.#join(block));
  }

  /** Forgets the places that `isOver` says have been reached, and joins what can be joined then. */
  settle(isOver: (freed: FreedAt) => boolean): void {
    const settled = this.#free.filter(({ freed }) => freed !== undefined && isOver(freed));
    for (const block of settled) {
      block.freed = undefined;
    }
    for (const block of settled) {
      if (this.#remove(block)) {
        this.#insert(this.#join(block));
      }
    }
  }

  /** Gives back segments that nothing uses while more than `keepBytes` are reserved; the largest first. Returns whether it gave any. */
  trim(keepBytes: number): boolean {
    const whole = this.#free.filter(({ freed, sizeBytes, segment }) => freed === undefined && sizeBytes === segment.sizeBytes);
    let gave = false;
    for (const block of whole.reverse()) {
      if (this.reserved.now - block.sizeBytes >= keepBytes) {
        this.#remove(block);
        this.reserved.add(-block.sizeBytes);
        this.#source.giveBack(block.at, block.sizeBytes);
        gave = true;
      }
    }
    return gave;
  }

  /** Index of the first free block that is not before (size, address). */
  #indexOf(sizeBytes: number, at: number): number {
    let low = 0;
    let high = this.#free.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(this.#free[middle]!, sizeBytes, at)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  #insert(block: Block): void {
    this.#free.splice(this.#indexOf(block.sizeBytes, block.at), 0, block);
  }

  /** False: it is not in the list, because a neighbour has joined it. */
  #remove(block: Block): boolean {
    const index = this.#indexOf(block.sizeBytes, block.at);
    if (this.#free[index] !== block) {
      return false;
    }
    this.#free.splice(index, 1);
    return true;
  }

  #grow(need: number): Block | undefined {
    const sizeBytes = Math.ceil(need / SEGMENT_UNIT) * SEGMENT_UNIT;
    if (this.reserved.now + sizeBytes > this.#maxBytes) {
      return undefined;
    }
    const at = this.#source.take(sizeBytes);
    if (at === undefined) {
      return undefined;
    }
    this.segmentsTaken++;
    this.reserved.add(sizeBytes);
    const block: Block = { at, sizeBytes, segment: { at, sizeBytes }, before: undefined, behind: undefined, free: true, freed: undefined };
    this.#insert(block);
    return block;
  }

  #take(block: Block, need: number): Block {
    this.#remove(block);
    if (block.sizeBytes > need) {
      const rest: Block = { ...block, at: block.at + need, sizeBytes: block.sizeBytes - need, before: block };
      if (rest.behind !== undefined) {
        rest.behind.before = rest;
      }
      block.behind = rest;
      block.sizeBytes = need;
      this.#insert(rest);
    }
    block.free = false;
    block.freed = undefined;
    this.used.add(need);
    return block;
  }

  /** Joins a free block, which is in no list, with its free neighbours. Returns what has come of it. */
  #join(block: Block): Block {
    const { before, behind } = block;
    let joined = block;
    if (before?.free && canJoin(before, block) && this.#remove(before)) {
      joined = unite(before, block);
    }
    if (behind?.free && canJoin(joined, behind) && this.#remove(behind)) {
      joined = unite(joined, behind);
    }
    return joined;
  }
}

/** Whether one place stands for both: it is free after that of both. */
function canJoin(a: Block, b: Block): boolean {
  if (a.freed === undefined || b.freed === undefined) {
    return a.freed === b.freed;
  }
  return a.freed.stream === b.freed.stream && a.freed.generation === b.freed.generation;
}

function unite(first: Block, second: Block): Block {
  first.sizeBytes += second.sizeBytes;
  first.behind = second.behind;
  if (second.behind !== undefined) {
    second.behind.before = first;
  }
  if (second.freed !== undefined && second.freed.sequence > (first.freed?.sequence ?? 0)) {
    first.freed = second.freed;
  }
  return first;
}
