/**
 * Stream-ordered pools: memory that is allocated and given back at places in streams. A pool and its blocks are managed by the thread that made it;
 * the memory is the device's and may be used by every thread.
 */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { Layout, Stream, TaskOp } from "../host/layout";
import { placeOf } from "../runtime/address";
import { type Block, type FreedAt, PoolBlocks, Use } from "../runtime/pool-blocks";
import { addressOf } from "./addresses";
import { allocate, OwnerBit, ownerAt, reclaimers, releaseAt } from "./allocations";
import { type AclDevice, Shared } from "./devices";
import { HandleTable, HandleType } from "./handles";
import { deviceEnds } from "./lifecycle";
import { type AclStream, orderHooks, submitTask, syncHooks } from "./streams";

/** aclrtMemPoolAttr. */
export enum PoolAttribute {
  FOLLOW_EVENTS = 1,
  OPPORTUNISTIC,
  INTERNAL_DEPENDENCIES,
  RELEASE_THRESHOLD,
  RESERVED_CURRENT,
  RESERVED_HIGH,
  USED_CURRENT,
  USED_HIGH,
}
/** What switches are set to. */
const ON = 1;
const OFF = 2;

interface Pool {
  readonly device: AclDevice;
  readonly blocks: PoolBlocks;
  readonly switches: Map<PoolAttribute, number>;
  threshold: number;
  /** Resets of the device when it was made: another thread's reset takes the memory too. */
  readonly resets: number;
  /** Its handle is gone; it leaves with its last block. */
  destroyed: boolean;
}

const handles = new HandleTable<Pool>(HandleType.POOL);
const pools = new Set<Pool>();
/** Blocks in use, by address. */
const live = new Map<number, { readonly pool: Pool; readonly block: Block }>();
/** How far a stream's later tasks come behind another stream: by device, stream and other stream. `since` is the task from which on that holds. */
const orders = new WeakMap<AclDevice, Map<number, Map<number, { sequence: number; since: number }>>>();

function generationOf(device: AclDevice, stream: number): number {
  return device.machine.words[(Layout.STREAMS + stream * Stream.SIZE + Stream.GENERATION) >> 2]!;
}

/** The stream has come past the place, or has ended. */
function isOver(device: AclDevice, { stream, generation, sequence }: FreedAt): boolean {
  return generationOf(device, stream) !== generation || device.machine.core.fence(stream) >= sequence;
}

export function createPool(device: AclDevice, maxBytes: number): number {
  const source = {
    take(sizeBytes: number): number | undefined {
      try {
        const at = allocate(device, sizeBytes, OwnerBit.FREE_CHARGE | OwnerBit.HUGE, "mem_pool_malloc_async");
        device.charge(sizeBytes);
        return at;
      } catch (error) {
        if (error instanceof AclError && error.code === 207001) {
          return undefined;
        }
        throw error;
      }
    },
    giveBack(at: number, sizeBytes: number): void {
      releaseAt(device, at, ownerAt(device, at));
      device.charge(-sizeBytes);
    },
  };
  const pool: Pool = {
    device,
    blocks: new PoolBlocks(source, maxBytes),
    switches: new Map(),
    threshold: 0,
    resets: device.get(Shared.RESETS),
    destroyed: false,
  };
  pools.add(pool);
  return handles.add(pool);
}

/** The handle is stale at once; memory goes back when the streams have come past the last block's end. */
export function destroyPool(handle: number): void {
  const pool = handles.remove(handle, "mem_pool_destroy: pool");
  pool.destroyed = true;
  trimAtSync(pool);
}

/** Its device was reset or lost: the segments are not its own any more. */
function isGone({ device, resets }: Pool): boolean {
  return device.machine.lost !== undefined || device.get(Shared.RESETS) !== resets;
}

/** The pool behind `handle`. @throws AclError 507899 if its memory is gone */
function poolOf(handle: number, what: string): Pool {
  const pool = handles.get(handle, `${what}: pool`);
  if (isGone(pool)) {
    pools.delete(pool);
    throw new AclError(507899, `${what}: device ${pool.device.index} was reset, and the pool's memory went with it; create another pool`);
  }
  return pool;
}

/** Every synchronize: places that are reached are forgotten, and what is reserved beyond the threshold goes back. */
function trimAtSync(pool: Pool): void {
  if (isGone(pool)) {
    pools.delete(pool);
    return;
  }
  pool.blocks.settle((freed) => isOver(pool.device, freed));
  pool.blocks.trim(pool.destroyed ? 0 : pool.threshold);
  if (pool.destroyed && pool.blocks.reserved.now === 0) {
    pools.delete(pool);
  }
}

syncHooks.add((device) => {
  for (const pool of pools) {
    if (pool.device === device) {
      trimAtSync(pool);
    }
  }
});

reclaimers.push((device) => {
  let gave = false;
  for (const pool of pools) {
    if (pool.device === device && !isGone(pool)) {
      pool.blocks.settle((freed) => isOver(device, freed));
      gave = pool.blocks.trim(0) || gave;
    }
  }
  return gave;
});

deviceEnds.push((device) => {
  for (const pool of pools) {
    if (pool.device === device) {
      pools.delete(pool);
    }
  }
  for (const [address, { pool }] of live) {
    if (pool.device === device) {
      live.delete(address);
    }
  }
  orders.delete(device);
});

/** From its next task on, which may be the wait itself, `stream` runs behind `sequence` of `other`, and behind all that `other` was behind by then. */
function noteOrder(stream: AclStream, other: number, sequence: number): void {
  if (pools.size === 0) {
    return;
  }
  const { device, index } = stream;
  const streams = orders.get(device) ?? new Map<number, Map<number, { sequence: number; since: number }>>();
  orders.set(device, streams);
  const mine = streams.get(index) ?? new Map<number, { sequence: number; since: number }>();
  streams.set(index, mine);
  const since = device.machine.core.tail(index) + 1;
  const add = (to: number, upTo: number): void => {
    if ((mine.get(to)?.sequence ?? 0) < upTo) {
      mine.set(to, { sequence: upTo, since });
    }
  };
  add(other, sequence);
  for (const [third, order] of streams.get(other) ?? []) {
    if (order.since <= sequence) {
      add(third, order.sequence);
    }
  }
}
orderHooks.add(noteOrder);

function isOn(pool: Pool, attribute: PoolAttribute): boolean {
  return (pool.switches.get(attribute) ?? ON) === ON;
}

/** What a block that was given back at `freed` is to `stream`. */
function useOf(pool: Pool, stream: AclStream, freed: FreedAt): Use {
  const { device } = pool;
  if (freed.stream === stream.index && freed.generation === generationOf(device, stream.index)) {
    return Use.YES;
  }
  const behind = orders.get(device)?.get(stream.index)?.get(freed.stream)?.sequence ?? 0;
  if (isOn(pool, PoolAttribute.FOLLOW_EVENTS) && behind >= freed.sequence) {
    return Use.YES;
  }
  if (isOn(pool, PoolAttribute.OPPORTUNISTIC) && isOver(device, freed)) {
    return Use.YES;
  }
  return isOn(pool, PoolAttribute.INTERNAL_DEPENDENCIES) ? Use.AFTER_WAIT : Use.NO;
}

/** Memory for the tasks of `stream` from here on. @throws AclError 207001 */
export function poolMalloc(handle: number, sizeBytes: number, stream: AclStream): number {
  const what = "mem_pool_malloc_async";
  const pool = poolOf(handle, what);
  const { device } = pool;
  if (sizeBytes <= 0 || device !== stream.device) {
    throw invalidParam(`${what}: ${sizeBytes} bytes on a stream of device ${stream.device.index}; pass at least 1, on device ${device.index}`);
  }
  const got = pool.blocks.allocate(sizeBytes, (freed) => useOf(pool, stream, freed));
  if (got === undefined) {
    const { reserved, used } = pool.blocks;
    throw new AclError(
      207001,
      `${what}: ${sizeBytes} bytes do not fit: the pool has ${reserved.now} bytes, ${used.now} of them in use, and device ${device.index} ${device.machine.core.poolFree() >>> 0} free; give blocks back and synchronize`,
    );
  }
  if (got.wait !== undefined && !isOver(device, got.wait)) {
    const { stream: other, sequence } = got.wait;
    submitTask(stream, what, TaskOp.WAIT, other, sequence % 2 ** 32, Math.floor(sequence / 2 ** 32), 0);
    noteOrder(stream, other, sequence);
  }
  const address = addressOf(device, got.block.at, false);
  live.set(address, { pool, block: got.block });
  return address;
}

/** Gives the block back: tasks that `stream` has by now may still use it. @throws AclError 107000 */
export function poolFree(address: number, stream: AclStream): void {
  const what = "mem_pool_free_async";
  const entry = live.get(address);
  if (entry === undefined || entry.pool.device !== stream.device || isGone(entry.pool)) {
    const why =
      placeOf(address) === undefined ? "is no address of a device" : "is no block that this thread took from a pool, or was given back before";
    throw invalidParam(`${what}: 0x${address.toString(16)} ${why}; pass what mem_pool_malloc_async returned, once, with a stream of its device`);
  }
  live.delete(address);
  const { device, index } = stream;
  const freed = { stream: index, generation: generationOf(device, index), sequence: device.machine.core.tail(index) };
  entry.pool.blocks.release(entry.block, freed);
}

/** @throws AclError 107000 */
export function trimPool(handle: number, keepBytes: number): void {
  const pool = poolOf(handle, "mem_pool_trim_to");
  if (keepBytes < 0) {
    throw invalidParam(`mem_pool_trim_to: minBytesToKeep is ${keepBytes}; pass at least 0`);
  }
  pool.blocks.settle((freed) => isOver(pool.device, freed));
  pool.blocks.trim(keepBytes);
}

export function setPoolAttribute(handle: number, attribute: number, value: number): void {
  const what = "mem_pool_set_attr";
  const pool = poolOf(handle, what);
  const { reserved, used } = pool.blocks;
  if (attribute >= PoolAttribute.FOLLOW_EVENTS && attribute <= PoolAttribute.INTERNAL_DEPENDENCIES) {
    if (value !== 0 && value !== ON && value !== OFF) {
      throw invalidParam(`${what}: attribute ${attribute} is a switch; pass 1 (on) or 2 (off)`);
    }
    pool.switches.set(attribute, value === ON ? ON : OFF);
  } else if (attribute === PoolAttribute.RELEASE_THRESHOLD && value >= 0) {
    pool.threshold = value;
  } else if ((attribute === PoolAttribute.RESERVED_HIGH || attribute === PoolAttribute.USED_HIGH) && value === 0) {
    const level = attribute === PoolAttribute.RESERVED_HIGH ? reserved : used;
    level.high = level.now;
  } else {
    throw invalidParam(
      `${what}: attribute ${attribute} cannot be set to ${value}; switches 1 to 3 take 1 or 2, 4 (release threshold) bytes, and 6 and 8 (highest values) only 0`,
    );
  }
}

export function poolAttribute(handle: number, attribute: number): number {
  const pool = poolOf(handle, "mem_pool_get_attr");
  const { reserved, used } = pool.blocks;
  switch (attribute) {
    case PoolAttribute.FOLLOW_EVENTS:
    case PoolAttribute.OPPORTUNISTIC:
    case PoolAttribute.INTERNAL_DEPENDENCIES:
      return pool.switches.get(attribute) ?? ON;
    case PoolAttribute.RELEASE_THRESHOLD:
      return pool.threshold;
    case PoolAttribute.RESERVED_CURRENT:
      return reserved.now;
    case PoolAttribute.RESERVED_HIGH:
      return reserved.high;
    case PoolAttribute.USED_CURRENT:
      return used.now;
    case PoolAttribute.USED_HIGH:
      return used.high;
    default:
      throw invalidParam(`mem_pool_get_attr: attribute is ${attribute}; pass 1 to 8`);
  }
}

/** finalize: whatever is left belongs to devices that are closed. */
export function forgetPools(): void {
  pools.clear();
  live.clear();
  handles.clear();
}
