/** Managed memory: one address for host and device. util.ptr_to_view shows its bytes. */
import { invalidParam } from "../../errors/make";
import { TaskOp } from "../../host/layout";
import { Location } from "../addresses";
import { dict, handle, integer, list } from "../args";
import { current } from "../contexts";
import { physicalIndex } from "../devices";
import { advise, allocateManaged, type ManagedRef, managedAt, managedAttribute, notePrefetch, wholePages } from "../managed";
import type { ManagedLocation } from "../shapes";
import { type AclStream, checkLaunch, ownStream, submitTask } from "../streams";
import { call } from "../table";

const ATTACH_GLOBAL = 1;
const location = (name: string) => dict<ManagedLocation>(name);

/** Physical index of the device, undefined for the host. */
function whereOf({ id = 0, type = -1 }: ManagedLocation, what: string): number | undefined {
  if (type !== Location.HOST && type !== Location.DEVICE) {
    throw invalidParam(`${what}: location type is ${type}; pass {type: 0} (host) or {type: 1, id} (device)`);
  }
  return type === Location.HOST ? undefined : physicalIndex(id, what);
}

interface Prefetch {
  readonly ref: ManagedRef;
  readonly sizeBytes: number;
  readonly where: number | undefined;
}

function prefetch(stream: AclStream, work: readonly Prefetch[], flags: number, what: string): void {
  if (flags !== 0) {
    throw invalidParam(`${what}: flags is ${flags}; it is reserved, pass 0`);
  }
  for (const { ref } of work) {
    if (ref.device !== stream.device) {
      throw invalidParam(
        `${what}: the memory is of device ${ref.device.index}, the stream of device ${stream.device.index}; use a stream of its device`,
      );
    }
  }
  for (const { ref, sizeBytes, where } of work) {
    // Towards a device the bytes are read, so that the machine's caches have them; they are never away from the host.
    submitTask(stream, what, where === undefined ? TaskOp.NOP : TaskOp.TOUCH, ref.offset, sizeBytes);
    notePrefetch(ref, where);
  }
}

export const managedCalls = {
  mem_alloc_managed: call({
    c: "aclrtMemAllocManaged",
    args: [integer("size"), integer("flag")],
    returns: "[value, ret]",
    doc: "Memory that host and device use under one address; multiples of 2 MiB, flag 1 (global). free gives it back.",
    none: 0,
    run(size, flag) {
      const what = "mem_alloc_managed";
      const { device } = current(what);
      if (flag !== ATTACH_GLOBAL || !wholePages(size)) {
        throw invalidParam(`${what}: size is ${size} and flag ${flag}; pass a multiple of 2 MiB and 1 (attach global)`);
      }
      return allocateManaged(device, size, what);
    },
  }),
  mem_managed_advise: call({
    c: "aclrtMemManagedAdvise",
    args: [integer("ptr"), integer("size"), integer("advise"), location("location")],
    returns: "ret",
    doc: "What the program means to do with it: read mostly (set 0, unset 1), preferred location (2, 3), accessed by (4, 5). mem_managed_get_attr tells it again.",
    run(ptr, size, advice, where): void {
      const what = "mem_managed_advise";
      advise(managedAt(ptr, size, what), advice, whereOf(where, what), what);
    },
  }),
  mem_managed_prefetch_async: call({
    c: "aclrtMemManagedPrefetchAsync",
    args: [integer("ptr"), integer("size"), location("location"), integer("flags"), handle("stream")],
    returns: "ret",
    doc: "Brings the bytes near a place in stream order.",
    run(ptr, size, to, flags, streamHandle): void {
      const what = "mem_managed_prefetch_async";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      prefetch(stream, [{ ref: managedAt(ptr, size, what), sizeBytes: size, where: whereOf(to, what) }], flags, what);
    },
  }),
  mem_managed_prefetch_batch_async: call({
    c: "aclrtMemManagedPrefetchBatchAsync",
    args: [
      list("ptrs", integer),
      list("sizes", integer),
      list("locations", location),
      list("locationIndexes", integer),
      integer("flags"),
      handle("stream"),
    ],
    returns: "ret",
    doc: "Several ranges; location i holds from the range that locationIndexes[i] names on.",
    run(ptrs, sizes, locations, indexes, flags, streamHandle): void {
      const what = "mem_managed_prefetch_batch_async";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      const rising = indexes.every((at, i) => at >= 0 && at < ptrs.length && (i === 0 ? at === 0 : at > indexes[i - 1]!));
      if (ptrs.length === 0 || sizes.length !== ptrs.length || locations.length === 0 || indexes.length !== locations.length || !rising) {
        throw invalidParam(`${what}: ${ptrs.length} addresses, ${sizes.length} sizes, ${locations.length} locations; indexes start at 0 and rise`);
      }
      const places = locations.map((one) => whereOf(one, what));
      const work = ptrs.map((ptr, i) => {
        const range = indexes.filter((at) => at <= i).length - 1;
        return { ref: managedAt(ptr, sizes[i]!, what), sizeBytes: sizes[i]!, where: places[range] };
      });
      prefetch(stream, work, flags, what);
    },
  }),
  mem_managed_get_attr: call({
    c: "aclrtMemManagedGetAttr",
    args: [integer("attribute"), integer("ptr"), integer("size")],
    returns: "[value, ret]",
    doc: "Read mostly (0), preferred location (1), accessed by (2, a list) or place of the last prefetch (3); {id: -1, type: -1} = none.",
    none: 0,
    run: (attribute, ptr, size) => managedAttribute(managedAt(ptr, size, "mem_managed_get_attr"), attribute, "mem_managed_get_attr"),
  }),
  mem_managed_get_attrs: call({
    c: "aclrtMemManagedGetAttrs",
    args: [list("attributes", integer), integer("ptr"), integer("size")],
    returns: "[value, ret]",
    doc: "Several at once.",
    none: [],
    run(attributes, ptr, size) {
      const ref = managedAt(ptr, size, "mem_managed_get_attrs");
      return attributes.map((one) => managedAttribute(ref, one, "mem_managed_get_attrs"));
    },
  }),
};
