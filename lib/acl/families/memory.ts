/** Memory: allocating, freeing, and what an address is. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { callbackOrNull, dict, handle, integer, list, optional, pointer } from "../args";
import { addressOf, Location, resolve } from "../addresses";
import { freePointer, mallocDevice, mallocHost, OwnerBit, pageBytes } from "../allocations";
import { current } from "../contexts";
import { type AclDevice, deviceIfOpen, ensureDevice, physicalIndex, userId } from "../devices";
import { isManaged } from "../managed";
import { ownStream, syncContext } from "../streams";
import { call } from "../table";
import { createTemporary, destroyTemporary, evictionsOf, useTemporary } from "../temporaries";
import type { Recompute } from "../shapes";

const MEMORY_ATTRIBUTES = 12;
/** aclrtMallocAttrType. */
enum Attribute {
  RESERVED,
  MODULE_ID,
  DEVICE_ID,
  VA_FLAG,
}
const LARGEST_MODULE = 65535;

const here = (what: string): AclDevice => current(what).device;

/** {numAttrs, attrs: [{attr, value}]}: which device, and nothing else that changes anything here. */
function configured(config: Readonly<Record<string, unknown>> | undefined, what: string): AclDevice {
  let device = here(what);
  const attrs = config?.["attrs"];
  if (attrs === undefined) {
    return device;
  }
  if (!Array.isArray(attrs) || (config?.["numAttrs"] !== undefined && config["numAttrs"] !== attrs.length)) {
    throw invalidParam(`${what}: config must be {numAttrs: n, attrs: [n objects {attr, value}]}`);
  }
  for (const { attr, value } of attrs as { attr: number; value: number }[]) {
    if (attr === Attribute.DEVICE_ID) {
      device = ensureDevice(physicalIndex(value, what));
    } else if (attr === Attribute.MODULE_ID ? !(value >= 0 && value <= LARGEST_MODULE) : attr !== Attribute.VA_FLAG) {
      throw invalidParam(
        `${what}: attribute ${attr} with value ${value}; the attributes are 1 (module, 0 to 65535), 2 (device) and 3 (address flag)`,
      );
    }
  }
  return device;
}

/** What pointer_get_attributes tells. */
export interface PointerAttributes {
  readonly location: { readonly id: number; readonly type: number };
  readonly page_size: number;
  readonly rsv: readonly number[];
}

function describe(address: number): PointerAttributes {
  if (address === 0) {
    throw invalidParam("pointer_get_attributes: the address is null");
  }
  try {
    const spot = resolve(address, 1, "pointer_get_attributes");
    if (spot.device !== undefined) {
      const page = spot.location === Location.DEVICE ? pageBytes(spot.device, spot.offset) : 4096;
      const type = isManaged(spot.device, spot.offset) ? Location.MANAGED : spot.location;
      return { location: { id: userId(spot.device.index), type }, page_size: page, rsv: [0, 0, 0] };
    }
  } catch (error) {
    if (!(error instanceof AclError)) {
      throw error;
    }
  }
  return { location: { id: 0, type: Location.UNREGISTERED }, page_size: 0, rsv: [0, 0, 0] };
}

function usage(device: AclDevice): { name: string; curMemSize: number; memPeakSize: number }[] {
  const { core } = device.machine;
  const app = device.chargedBytes;
  const runtime = Math.max(0, (core.poolLive() >>> 0) - app);
  return [
    { name: "APP", curMemSize: app, memPeakSize: device.chargedPeak },
    { name: "RUNTIME", curMemSize: runtime, memPeakSize: Math.max(runtime, (core.poolPeak() >>> 0) - device.chargedPeak) },
  ];
}

const flushed = (what: string) =>
  function run(address: number | ArrayBufferView, size: number): void {
    here(what);
    if (size <= 0) {
      throw invalidParam(`${what}: size is ${size}; pass at least 1 byte`);
    }
    resolve(address, size, what);
  };

export const memoryCalls = {
  malloc: call({
    c: "aclrtMalloc",
    args: [integer("size"), integer("policy")],
    returns: "[value, ret]",
    doc: "Device memory, 64-aligned, not cleared; charged is the size rounded up to 32, and 32 more.",
    none: 0,
    run: (size, policy) => mallocDevice(here("malloc"), size, policy, 0, "malloc"),
  }),
  malloc_align32: call({
    c: "aclrtMallocAlign32",
    args: [integer("size"), integer("policy")],
    returns: "[value, ret]",
    doc: "As malloc, charged the size rounded up to 32.",
    none: 0,
    run: (size, policy) => mallocDevice(here("malloc_align32"), size, policy, OwnerBit.ALIGN32, "malloc_align32"),
  }),
  malloc_cached: call({
    c: "aclrtMallocCached",
    args: [integer("size"), integer("policy")],
    returns: "[value, ret]",
    doc: "As malloc; the emulated device's memory is coherent with every cache.",
    none: 0,
    run: (size, policy) => mallocDevice(here("malloc_cached"), size, policy, OwnerBit.CACHED, "malloc_cached"),
  }),
  mem_flush: call({
    c: "aclrtMemFlush",
    args: [pointer("ptr"), integer("size")],
    returns: "ret",
    doc: "Checks the range; memory is coherent, so its bytes are in place already.",
    run: flushed("mem_flush"),
  }),
  mem_invalidate: call({
    c: "aclrtMemInvalidate",
    args: [pointer("ptr"), integer("size")],
    returns: "ret",
    doc: "Checks the range; memory is coherent, so no stale bytes can be read.",
    run: flushed("mem_invalidate"),
  }),
  malloc_with_cfg: call({
    c: "aclrtMallocWithCfg",
    args: [integer("size"), integer("policy"), optional(dict("config"))],
    returns: "[value, ret]",
    doc: "As malloc, with attributes: module (1), device (2), address flag (3).",
    none: 0,
    run: (size, policy, config) => mallocDevice(configured(config, "malloc_with_cfg"), size, policy, 0, "malloc_with_cfg"),
  }),
  malloc_for_task_scheduler: call({
    c: "aclrtMallocForTaskScheduler",
    args: [integer("size"), integer("policy"), optional(dict("config"))],
    returns: "[value, ret]",
    doc: "As malloc_with_cfg; task scheduler and kernels share one memory.",
    none: 0,
    run: (size, policy, config) => mallocDevice(configured(config, "malloc_for_task_scheduler"), size, policy, 0, "malloc_for_task_scheduler"),
  }),
  free: call({
    c: "aclrtFree",
    args: [pointer("ptr")],
    returns: "ret",
    doc: "Gives device memory back at once; tasks that use it must have run.",
    run: (ptr): void => freePointer(ptr, false, "free"),
  }),
  free_with_dev_sync: call({
    c: "aclrtFreeWithDevSync",
    args: [pointer("ptr")],
    returns: "ret",
    doc: "Waits for the current context's streams first.",
    blocks: true,
    run(ptr): void {
      syncContext(current("free_with_dev_sync"), Number.POSITIVE_INFINITY, "free_with_dev_sync");
      freePointer(ptr, false, "free_with_dev_sync");
    },
  }),
  malloc_host: call({
    c: "aclrtMallocHost",
    args: [integer("size")],
    returns: "[value, ret]",
    doc: "Pinned host memory: copies of it are asynchronous; util.ptr_to_view shows its bytes.",
    none: 0,
    run: (size) => mallocHost(here("malloc_host"), size, "malloc_host"),
  }),
  malloc_host_with_cfg: call({
    c: "aclrtMallocHostWithCfg",
    args: [integer("size"), optional(dict("config"))],
    returns: "[value, ret]",
    doc: "As malloc_host, with attributes.",
    none: 0,
    run: (size, config) => mallocHost(configured(config, "malloc_host_with_cfg"), size, "malloc_host_with_cfg"),
  }),
  free_host: call({
    c: "aclrtFreeHost",
    args: [pointer("ptr")],
    returns: "ret",
    doc: "Gives pinned host memory back.",
    run: (ptr): void => freePointer(ptr, true, "free_host"),
  }),
  free_host_with_dev_sync: call({
    c: "aclrtFreeHostWithDevSync",
    args: [pointer("ptr")],
    returns: "ret",
    doc: "Waits for the current context's streams first.",
    blocks: true,
    run(ptr): void {
      syncContext(current("free_host_with_dev_sync"), Number.POSITIVE_INFINITY, "free_host_with_dev_sync");
      freePointer(ptr, true, "free_host_with_dev_sync");
    },
  }),
  get_mem_info: call({
    c: "aclrtGetMemInfo",
    args: [integer("attribute")],
    returns: "[...values, ret]",
    doc: "Free and total bytes of the current device; all kinds of memory (attribute 0 to 11) are the same memory here.",
    none: [0, 0],
    run(attribute): [number, number] {
      const device = here("get_mem_info");
      if (attribute < 0 || attribute >= MEMORY_ATTRIBUTES) {
        throw invalidParam(`get_mem_info: attribute is ${attribute}; pass 0 (DDR) to 11`);
      }
      const total = device.memoryBytes;
      return [total - device.chargedBytes, total];
    },
  }),
  get_mem_usage_info: call({
    c: "aclrtGetMemUsageInfo",
    args: [integer("deviceId"), integer("capacity")],
    returns: "[value, ret]",
    doc: "Bytes now and at most, for the application and for the runtime.",
    none: [],
    run(id, capacity) {
      const device = deviceIfOpen(physicalIndex(id, "get_mem_usage_info"));
      const rows = device === undefined ? [] : usage(device);
      if (capacity < rows.length) {
        throw new AclError(107039, `get_mem_usage_info: ${rows.length} components do not fit ${capacity}; pass at least ${rows.length}`);
      }
      return rows;
    },
  }),
  pointer_get_attributes: call({
    c: "aclrtPointerGetAttributes",
    args: [integer("ptr")],
    returns: "[value, ret]",
    doc: "Where the address points: host 0, device 1, unregistered 2, managed 3; its device and page size.",
    none: undefined,
    run: describe,
  }),
  malloc_temporary: call({
    c: "npurt malloc_temporary",
    args: [integer("size"), callbackOrNull<Recompute>("recompute")],
    returns: "[value, ret]",
    doc: "Memory that makes room when another allocation would fail. recompute(ptr, stream) queues what fills it again; null: it is lost then.",
    none: 0,
    run(size, recompute) {
      const device = here("malloc_temporary");
      if (size <= 0) {
        throw invalidParam(`malloc_temporary: size is ${size}; pass at least 1 byte`);
      }
      return createTemporary(device, size, recompute, "malloc_temporary");
    },
  }),
  use_temporary: call({
    c: "npurt use_temporary",
    args: [handle("temporary"), handle("stream")],
    returns: "[value, ret]",
    doc: "Address of temporary memory for the tasks that the stream gets next; if it was evicted, it is allocated and filled again first.",
    none: 0,
    run: (temporary, stream) => useTemporary(temporary, ownStream(stream, "use_temporary"), "use_temporary"),
  }),
  get_temporary_evictions: call({
    c: "npurt get_temporary_evictions",
    args: [handle("temporary")],
    returns: "[value, ret]",
    doc: "How often temporary memory was taken away.",
    none: 0,
    run: (temporary) => evictionsOf(temporary, "get_temporary_evictions"),
  }),
  free_temporary: call({
    c: "npurt free_temporary",
    args: [handle("temporary")],
    returns: "ret",
    doc: "Gives temporary memory back.",
    run: (temporary): void => destroyTemporary(temporary, "free_temporary"),
  }),
  check_mem_type: call({
    c: "aclrtCheckMemType",
    args: [list("ptrs", integer), integer("memType")],
    returns: "[value, ret]",
    doc: "1 if every address is of the type (0 host, 1 device), else 0.",
    none: 0,
    run: (ptrs, type) => (ptrs.every((ptr) => describe(ptr).location.type === type) ? 1 : 0),
  }),
  mem_get_address_range: call({
    c: "aclrtMemGetAddressRange",
    args: [integer("ptr")],
    returns: "[...values, ret]",
    doc: "Start and size of the allocation that holds the address.",
    none: [0, 0],
    run(ptr): [number, number] {
      const spot = resolve(ptr, 1, "mem_get_address_range");
      if (spot.device === undefined) {
        throw invalidParam("mem_get_address_range: pageable host memory has no allocation on a device; pass what malloc returned");
      }
      const { core } = spot.device.machine;
      const start = core.allocationOf(spot.offset) >>> 0;
      return [addressOf(spot.device, start, spot.location === Location.HOST), core.allocationBytes(start) >>> 0];
    },
  }),
};
