/** First fit inside one allocation: what `mem_pool_alloc` and `mem_pool_free` of `npurt/rt` hand out. The runtime is asked for memory once. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { addressOf, Location, resolve } from "./addresses";
import { releaseHooks } from "./allocations";

const ALIGNMENT = 64;

interface Hole {
  at: number;
  bytes: number;
}

interface SubPool {
  readonly bytes: number;
  /** By rising address; neighbours never touch. */
  readonly holes: Hole[];
  readonly used: Map<number, number>;
}

/** By their start, which this thread knows. */
const pools = new Map<number, SubPool>();
releaseHooks.push((device, offset) => {
  pools.delete(addressOf(device, offset, false));
});

/** Address of `sizeBytes` in the memory of `poolBytes` at `pool`. @throws AclError 107000 for what is no device memory, 207001 if no hole is large enough */
export function poolAllocate(pool: number, poolBytes: number, sizeBytes: number): number {
  if (poolBytes < 1 || sizeBytes < 1 || resolve(pool, poolBytes, "mem_pool_alloc: pool").location !== Location.DEVICE) {
    throw invalidParam(`mem_pool_alloc: ${sizeBytes} bytes of a pool of ${poolBytes}; pass device memory that rtMalloc gave, and sizes from 1 up`);
  }
  let entry = pools.get(pool);
  if (entry === undefined || entry.bytes !== poolBytes) {
    if (entry !== undefined && entry.used.size > 0) {
      throw invalidParam(`mem_pool_alloc: the pool has ${entry.bytes} bytes, not ${poolBytes}; pass the size it was first used with`);
    }
    entry = { bytes: poolBytes, holes: [{ at: pool, bytes: poolBytes }], used: new Map() };
    pools.set(pool, entry);
  }
  const need = Math.ceil(sizeBytes / ALIGNMENT) * ALIGNMENT;
  const hole = entry.holes.find(({ bytes }) => bytes >= need);
  if (hole === undefined) {
    throw new AclError(207001, `mem_pool_alloc: ${sizeBytes} bytes do not fit the pool of ${poolBytes}; free blocks of it, or make it larger`);
  }
  const address = hole.at;
  hole.at += need;
  hole.bytes -= need;
  if (hole.bytes === 0) {
    entry.holes.splice(entry.holes.indexOf(hole), 1);
  }
  entry.used.set(address, need);
  return address;
}

/** @throws AclError 107000 for what is no block of the pool */
export function poolFree(pool: number, address: number): void {
  const entry = pools.get(pool);
  const bytes = entry?.used.get(address);
  if (entry === undefined || bytes === undefined) {
    throw invalidParam(
      `mem_pool_free: 0x${address.toString(16)} is no block of the pool at 0x${pool.toString(16)}; pass what mem_pool_alloc returned, once`,
    );
  }
  entry.used.delete(address);
  const at = entry.holes.findIndex((hole) => hole.at > address);
  entry.holes.splice(at < 0 ? entry.holes.length : at, 0, { at: address, bytes });
  for (let index = entry.holes.length - 1; index > 0; index--) {
    const before = entry.holes[index - 1]!;
    const hole = entry.holes[index]!;
    if (before.at + before.bytes === hole.at) {
      before.bytes += hole.bytes;
      entry.holes.splice(index, 1);
    }
  }
  if (entry.used.size === 0) {
    pools.delete(pool); // so that freed memory is not remembered as a pool
  }
}
