/**
 * The device's allocator: segregated fit in two levels (a power of two, split in 16), O(1), best class first. Called by host threads under POOL_LOCK; cores never come here.
 *
 *   | header 64 B | payload, 64-aligned ... | header | payload ...      blocks cover [start, end) without a gap
 *
 * Sizes are counted in granules of 64 bytes, header included. A free block has free neighbours on neither side.
 * The chain of UNITS alone describes memory: free lists and bitmaps are rebuilt from it when a lock holder died in here.
 */
import { Header, Layout, POOL_TAGS } from "../abi/device";
import { tryLock, unlock } from "../sync/lock";

const LOCK: usize = Layout.HEADER + Header.POOL_LOCK;

namespace Pool {
  export const START: usize = 0;
  export const END: usize = 4;
  export const HIGH: usize = 8; // one past the highest byte ever handed out
  export const LIVE: usize = 12; // charged bytes
  export const PEAK: usize = 16;
  export const COUNT: usize = 20; // live blocks
  export const FREE: usize = 24; // free bytes, headers included
  export const ROWS: usize = 28; // bit per row with a free block
  export const TAGS: usize = 64; // POOL_TAGS u32: live charged bytes
  export const COLUMNS: usize = 128; // ROW_COUNT u32: bit per column with a free block
  export const HEADS: usize = 256; // ROW_COUNT x 16 u32: first free block
}

namespace Block {
  export const MAGIC: usize = 0; // USED or UNUSED
  export const UNITS: usize = 4;
  export const PREVIOUS: usize = 8; // header of the block before it in memory, 0 = first
  export const TAG: usize = 12;
  export const OWNER: usize = 16;
  export const REQUESTED: usize = 20;
  export const NEXT: usize = 24; // in its free list
  export const LAST: usize = 28; // before it in its free list
}

const USED: u32 = 0x6465_7375;
const UNUSED: u32 = 0x6565_7266;
const HEADER_UNITS: u32 = 1;
const ROW_COUNT: u32 = 24;
/** Blocks looked at in a class that only may fit. */
const LOOKS: i32 = 32;

// ---- classes

/** (row << 4) | column of a block of `units`. */
// @ts-ignore: decorator
@inline
function classOf(units: u32): u32 {
  if (units < 16) return units;
  const top = 31 - clz<u32>(units);
  return ((top - 3) << 4) | ((units >> (top - 4)) - 16);
}

/** The smallest class all of whose blocks hold `units`. */
// @ts-ignore: decorator
@inline
function classFor(units: u32): u32 {
  if (units < 16) return units;
  const top = 31 - clz<u32>(units);
  return classOf(units + (1 << (top - 4)) - 1);
}

// @ts-ignore: decorator
@inline
function at(field: usize): usize {
  return Layout.POOL + field;
}

// @ts-ignore: decorator
@inline
function get(field: usize): u32 {
  return load<u32>(Layout.POOL + field);
}

// @ts-ignore: decorator
@inline
function add(field: usize, delta: u32): void {
  store<u32>(Layout.POOL + field, load<u32>(Layout.POOL + field) + delta);
}

// ---- free lists

function pushFree(block: usize, units: u32): void {
  const cls = classOf(units);
  const head = at(Pool.HEADS) + (<usize>cls << 2);
  const first = load<u32>(head);
  store<u32>(block, UNUSED, Block.MAGIC);
  store<u32>(block, first, Block.NEXT);
  store<u32>(block, 0, Block.LAST);
  if (first) store<u32>(<usize>first, <u32>block, Block.LAST);
  store<u32>(head, <u32>block);
  const columns = at(Pool.COLUMNS) + (<usize>(cls >> 4) << 2);
  store<u32>(columns, load<u32>(columns) | (1 << (cls & 15)));
  store<u32>(at(Pool.ROWS), get(Pool.ROWS) | (1 << (cls >> 4)));
  add(Pool.FREE, units << 6);
}

function unlinkFree(block: usize): void {
  const units = load<u32>(block, Block.UNITS);
  const cls = classOf(units);
  const next = load<u32>(block, Block.NEXT);
  const last = load<u32>(block, Block.LAST);
  if (next) store<u32>(<usize>next, last, Block.LAST);
  if (last) store<u32>(<usize>last, next, Block.NEXT);
  else {
    store<u32>(at(Pool.HEADS) + (<usize>cls << 2), next);
    if (!next) {
      const columns = at(Pool.COLUMNS) + (<usize>(cls >> 4) << 2);
      const left = load<u32>(columns) & ~(1 << (cls & 15));
      store<u32>(columns, left);
      if (!left) store<u32>(at(Pool.ROWS), get(Pool.ROWS) & ~(1 << (cls >> 4)));
    }
  }
  add(Pool.FREE, 0 - (units << 6));
}

/** A free block that fits, 0 if none: of the first class that surely fits, else among the first blocks of the class that only may. */
function findFree(units: u32): usize {
  const sure = findAbove(classFor(units));
  if (sure) return sure;
  const maybe = classOf(units);
  if (maybe >> 4 >= ROW_COUNT) return 0;
  let block = <usize>load<u32>(at(Pool.HEADS) + (<usize>maybe << 2));
  for (let i = 0; block && i < LOOKS; i++) {
    if (load<u32>(block, Block.UNITS) >= units) return block;
    block = <usize>load<u32>(block, Block.NEXT);
  }
  return 0;
}

/** The first block of the lowest class from `cls` up that has one. */
function findAbove(cls: u32): usize {
  const row = cls >> 4;
  if (row >= ROW_COUNT) return 0;
  const here = load<u32>(at(Pool.COLUMNS) + (<usize>row << 2)) & (<u32>-1 << (cls & 15));
  if (here) return load<u32>(at(Pool.HEADS) + (<usize>((row << 4) | ctz<u32>(here)) << 2));
  const rows = get(Pool.ROWS) & (<u32>-1 << (row + 1));
  if (!rows) return 0;
  const up = ctz<u32>(rows);
  return load<u32>(at(Pool.HEADS) + (<usize>((up << 4) | ctz<u32>(load<u32>(at(Pool.COLUMNS) + (<usize>up << 2)))) << 2));
}

// ---- the chain of blocks

// @ts-ignore: decorator
@inline
function after(block: usize): usize {
  return block + (<usize>load<u32>(block, Block.UNITS) << 6);
}

function setUnits(block: usize, units: u32): void {
  store<u32>(block, units, Block.UNITS);
  const next = after(block);
  if (next < <usize>get(Pool.END)) store<u32>(next, <u32>block, Block.PREVIOUS);
}

export function formatPool(start: usize, end: usize): void {
  memory.fill(at(0), 0, Pool.HEADS + (<usize>ROW_COUNT << 6));
  store<u32>(at(Pool.START), <u32>start);
  // `end` may be 2^32: the last granule stays unused, so that ends fit 32 bits.
  store<u32>(at(Pool.END), <u32>(end - 64));
  store<u32>(at(Pool.HIGH), <u32>start);
  store<u32>(start, 0, Block.PREVIOUS);
  store<u32>(start, <u32>((end - 64 - start) >> 6), Block.UNITS);
  pushFree(start, load<u32>(start, Block.UNITS));
}

/** What an allocation of `bytes` costs: CANN rounds up to 32 and adds 32. */
// @ts-ignore: decorator
@inline
function charge(bytes: u32): u32 {
  return ((bytes + 31) & ~31) + 32;
}

function account(bytes: u32, tag: u32, sign: u32): void {
  const cost = charge(bytes) * sign;
  add(Pool.LIVE, cost);
  add(Pool.COUNT, sign);
  add(Pool.TAGS + (<usize>(tag & (POOL_TAGS - 1)) << 2), cost);
  if (get(Pool.LIVE) > get(Pool.PEAK)) store<u32>(at(Pool.PEAK), get(Pool.LIVE));
}

/** See CoreExports.allocate. */
export function allocate(bytes: u32, tag: u32, owner: u32): u32 {
  if (bytes == 0 || bytes > 0xffff_ff00) return 0;
  if (!tryLock(LOCK)) return 1;
  const units = ((bytes + 63) >> 6) + HEADER_UNITS;
  const block = findFree(units);
  if (block) take(block, units, bytes, tag, owner);
  unlock(LOCK);
  return block ? <u32>block + 64 : 0;
}

function take(block: usize, units: u32, bytes: u32, tag: u32, owner: u32): void {
  unlinkFree(block);
  const whole = load<u32>(block, Block.UNITS);
  const rest = whole - units;
  if (rest > HEADER_UNITS) {
    // The rest gets its own size before this block shrinks: a walk never leaves the chain.
    const remainder = block + (<usize>units << 6);
    store<u32>(remainder, <u32>block, Block.PREVIOUS);
    setUnits(remainder, rest);
    store<u32>(remainder, UNUSED, Block.MAGIC);
    store<u32>(block, units, Block.UNITS);
    pushFree(remainder, rest);
  }
  store<u32>(block, tag, Block.TAG);
  store<u32>(block, owner, Block.OWNER);
  store<u32>(block, bytes, Block.REQUESTED);
  store<u32>(block, USED, Block.MAGIC);
  account(bytes, tag, 1);
  const end = <u32>after(block);
  if (end > get(Pool.HIGH)) store<u32>(at(Pool.HIGH), end);
}

/** True for the address of a live allocation. The magic of a header that was never written cannot match: memory starts zeroed, and merged headers are cleared. */
function isLive(address: usize): bool {
  if (address & 63 || address < <usize>get(Pool.START) + 64 || address >= <usize>get(Pool.END)) return false;
  return load<u32>(address - 64, Block.MAGIC) == USED && blockBefore(address) == address - 64;
}

/** Guards against a payload that happens to look like a header: the chain's neighbours must agree. */
function blockBefore(address: usize): usize {
  const block = address - 64;
  const units = load<u32>(block, Block.UNITS);
  if (units < 2 || <u64>block + (<u64>units << 6) > <u64>get(Pool.END)) return 0;
  const next = after(block);
  if (next < <usize>get(Pool.END) && load<u32>(next, Block.PREVIOUS) != <u32>block) return 0;
  const previous = load<u32>(block, Block.PREVIOUS);
  if (previous == 0) return block == <usize>get(Pool.START) ? block : 0;
  if (<usize>previous < <usize>get(Pool.START) || <usize>previous >= block) return 0;
  return after(<usize>previous) == block ? block : 0;
}

/** See CoreExports.release. */
export function release(address: u32): i32 {
  if (!tryLock(LOCK)) return -2;
  const live = isLive(<usize>address);
  if (live) giveBack(<usize>address - 64);
  unlock(LOCK);
  return live ? 1 : 0;
}

function giveBack(block: usize): void {
  account(load<u32>(block, Block.REQUESTED), load<u32>(block, Block.TAG), <u32>-1);
  let start = block;
  let units = load<u32>(block, Block.UNITS);
  store<u32>(block, UNUSED, Block.MAGIC);
  const next = after(block);
  if (next < <usize>get(Pool.END) && load<u32>(next, Block.MAGIC) == UNUSED) {
    unlinkFree(next);
    units += load<u32>(next, Block.UNITS);
    store<u32>(next, 0, Block.MAGIC);
  }
  const previous = <usize>load<u32>(block, Block.PREVIOUS);
  if (previous && load<u32>(previous, Block.MAGIC) == UNUSED) {
    unlinkFree(previous);
    units += load<u32>(previous, Block.UNITS);
    store<u32>(block, 0, Block.MAGIC);
    start = previous;
  }
  setUnits(start, units);
  pushFree(start, units);
}

/** The allocation in which the last address of this instance lay that was no start: the next one mostly lies there too. */
let lastFound: usize = 0;

/**
 * See CoreExports.allocationOf. Without the lock: a torn answer is one about memory that another thread is just freeing. The chain is walked only for
 * addresses inside of allocations, and each step of it is a cache miss: copies ask for two addresses each.
 */
export function allocationOf(address: u32): u32 {
  if (isLive(address)) return address;
  if (<usize>address > lastFound && isLive(lastFound) && <usize>address < after(lastFound - 64)) return <u32>lastFound;
  const end = <usize>get(Pool.END);
  let block = <usize>get(Pool.START);
  while (block < end) {
    const units = load<u32>(block, Block.UNITS);
    if (!units) return 0;
    const next = block + (<usize>units << 6);
    if (<usize>address < next) {
      if (<usize>address < block + 64 || load<u32>(block, Block.MAGIC) != USED) return 0;
      lastFound = block + 64;
      return <u32>lastFound;
    }
    block = next;
  }
  return 0;
}

export function allocationBytes(start: u32): u32 {
  return isLive(<usize>start) ? load<u32>(<usize>start - 64, Block.REQUESTED) : 0;
}

export function allocationOwner(start: u32): u32 {
  return isLive(<usize>start) ? load<u32>(<usize>start - 64, Block.OWNER) : 0;
}

export function allocationTag(start: u32): u32 {
  return isLive(<usize>start) ? load<u32>(<usize>start - 64, Block.TAG) : 0;
}

/** See CoreExports.nextAllocation. */
export function nextAllocation(start: u32): u32 {
  const end = <usize>get(Pool.END);
  let block = start ? after(<usize>start - 64) : <usize>get(Pool.START);
  while (block < end && load<u32>(block, Block.MAGIC) != USED) {
    if (!load<u32>(block, Block.UNITS)) return 0;
    block = after(block);
  }
  return block < end ? <u32>block + 64 : 0;
}

export function poolLive(): u32 {
  return get(Pool.LIVE);
}
export function poolPeak(): u32 {
  return get(Pool.PEAK);
}
export function poolCount(): u32 {
  return get(Pool.COUNT);
}
export function poolFree(): u32 {
  return get(Pool.FREE);
}
export function poolHigh(): u32 {
  return get(Pool.HIGH);
}
export function poolTag(tag: u32): u32 {
  return get(Pool.TAGS + (<usize>(tag & (POOL_TAGS - 1)) << 2));
}

/** Payload of the largest free block: what one allocation could get. */
export function poolLargestFree(): u32 {
  if (!tryLock(LOCK)) return 0;
  const rows = get(Pool.ROWS);
  let largest: u32 = 0;
  if (rows) {
    const row = 31 - clz<u32>(rows);
    const column = 31 - clz<u32>(load<u32>(at(Pool.COLUMNS) + (<usize>row << 2)));
    let block = load<u32>(at(Pool.HEADS) + (<usize>((row << 4) | column) << 2));
    while (block) {
      largest = max<u32>(largest, load<u32>(<usize>block, Block.UNITS));
      block = load<u32>(<usize>block, Block.NEXT);
    }
  }
  unlock(LOCK);
  return largest > HEADER_UNITS ? (largest - HEADER_UNITS) << 6 : 0;
}

/** Makes lists, bitmaps and statistics anew from the chain of blocks, after a thread died inside. The caller has the lock. */
export function rebuildPool(): void {
  const high = get(Pool.HIGH);
  const start = <usize>get(Pool.START);
  const end = <usize>get(Pool.END);
  const peak = get(Pool.PEAK);
  memory.fill(at(Pool.LIVE), 0, Pool.HEADS + (<usize>ROW_COUNT << 6) - Pool.LIVE);
  store<u32>(at(Pool.HIGH), high);
  store<u32>(at(Pool.PEAK), peak);
  let block = start;
  let previous: usize = 0;
  while (block < end) {
    let next = after(block);
    store<u32>(block, <u32>previous, Block.PREVIOUS);
    if (load<u32>(block, Block.MAGIC) == USED) {
      account(load<u32>(block, Block.REQUESTED), load<u32>(block, Block.TAG), 1);
    } else {
      while (next < end && load<u32>(next, Block.MAGIC) != USED) {
        store<u32>(next, 0, Block.MAGIC);
        next = after(next);
      }
      store<u32>(block, <u32>((next - block) >> 6), Block.UNITS);
      pushFree(block, load<u32>(block, Block.UNITS));
    }
    previous = block;
    block = next;
  }
}
