/** Stream-ordered memory pools. */
import { invalidParam } from "../../errors/make";
import { dict, handle, integer } from "../args";
import { Location } from "../addresses";
import { current } from "../contexts";
import { ensureDevice, physicalIndex } from "../devices";
import { createPool, destroyPool, poolAttribute, poolFree, poolMalloc, setPoolAttribute, trimPool } from "../pools";
import { ownStream } from "../streams";
import { call } from "../table";

/** aclrtMemPoolProps. */
export interface PoolProps {
  readonly allocType?: number;
  readonly handleType?: number;
  readonly location?: { readonly id?: number; readonly type?: number };
  readonly maxSize?: number;
}

export const poolCalls = {
  mem_pool_create: call({
    c: "aclrtMemPoolCreate",
    args: [dict<PoolProps>("poolProps")],
    returns: "[value, ret]",
    doc: "A pool on the device of `location`, of at most `maxSize` bytes (0: no limit), for the thread that makes it.",
    none: 0,
    run({ allocType = 0, handleType = 0, location, maxSize = 0 }) {
      const what = "mem_pool_create";
      const { device } = current(what);
      if (allocType !== 0 || handleType !== 0) {
        throw invalidParam(`${what}: allocType is ${allocType} and handleType ${handleType}; pass 0 (pinned) and 0 (none)`);
      }
      if (location !== undefined && location.type !== undefined && location.type !== Location.DEVICE) {
        throw invalidParam(`${what}: location.type is ${location.type}; pass 1 (device)`);
      }
      if (!Number.isInteger(maxSize) || maxSize < 0) {
        throw invalidParam(`${what}: maxSize is ${String(maxSize)}; pass bytes, or 0 for no limit`);
      }
      const where = location?.id === undefined ? device : ensureDevice(physicalIndex(location.id, what));
      return createPool(where, maxSize === 0 ? Number.POSITIVE_INFINITY : maxSize);
    },
  }),
  mem_pool_destroy: call({
    c: "aclrtMemPoolDestroy",
    args: [handle("memPool")],
    returns: "ret",
    doc: "Ends the pool; blocks in use stay until they are given back.",
    run: (pool): void => destroyPool(pool),
  }),
  mem_pool_malloc_async: call({
    c: "aclrtMemPoolMallocAsync",
    args: [integer("size"), handle("memPool"), handle("stream")],
    returns: "[value, ret]",
    doc: "Memory for the stream's tasks from here on: the best fitting block that no earlier task can still use, else a new segment of the device.",
    none: 0,
    run: (size, pool, stream) => poolMalloc(pool, size, ownStream(stream, "mem_pool_malloc_async")),
  }),
  mem_pool_free_async: call({
    c: "aclrtMemPoolFreeAsync",
    args: [integer("ptr"), handle("stream")],
    returns: "ret",
    doc: "Gives a block back behind the tasks that the stream has by now.",
    run: (ptr, stream): void => poolFree(ptr, ownStream(stream, "mem_pool_free_async")),
  }),
  mem_pool_trim_to: call({
    c: "aclrtMemPoolTrimTo",
    args: [handle("memPool"), integer("minBytesToKeep")],
    returns: "ret",
    doc: "Gives unused segments back to the device while the pool keeps that many bytes.",
    run: (pool, keep): void => trimPool(pool, keep),
  }),
  mem_pool_set_attr: call({
    c: "aclrtMemPoolSetAttr",
    args: [handle("memPool"), integer("attr"), integer("value")],
    returns: "ret",
    doc: "Switches of reuse (1 to 3), the release threshold (4), and 0 for the highest values (6, 8).",
    run: (pool, attribute, value): void => setPoolAttribute(pool, attribute, value),
  }),
  mem_pool_get_attr: call({
    c: "aclrtMemPoolGetAttr",
    args: [handle("memPool"), integer("attr")],
    returns: "[value, ret]",
    doc: "The same, and bytes reserved (5, highest 6) and used (7, highest 8).",
    none: 0,
    run: (pool, attribute) => poolAttribute(pool, attribute),
  }),
};
