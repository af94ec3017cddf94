/** Virtual memory: ranges of addresses, physical memory, and mapping one on the other. */
import { invalidParam } from "../../errors/make";
import { dict, handle, integer, list, optional } from "../args";
import { Location } from "../addresses";
import { current } from "../contexts";
import { type AclDevice, ensureDevice, physicalIndex, userId } from "../devices";
import { freePhysical, mallocPhysical, Physical, physicalOf, physicalWord } from "../physical";
import { call } from "../table";
import { Access, accessAt, GRANULARITY, map, releaseRange, reserve, retain, setAccess, unmap } from "../virtual";

/** aclrtMemLocation. */
export interface MemoryLocation {
  readonly id?: number;
  readonly type?: number;
}

/** aclrtPhysicalMemProp. */
export interface PhysicalProperties {
  readonly handleType?: number;
  readonly allocationType?: number;
  readonly memAttr?: number;
  readonly location?: MemoryLocation;
  readonly reserve?: number;
}

/** aclrtMemAccessDesc. */
export interface AccessDescription {
  readonly flags?: number;
  readonly location?: MemoryLocation;
}

const ATTRIBUTES = 12;

function deviceAt(location: MemoryLocation | undefined, what: string): AclDevice {
  const { device } = current(what);
  if (location?.type !== undefined && location.type !== Location.DEVICE) {
    throw invalidParam(`${what}: location.type is ${location.type}; pass 1 (device): host memory is malloc_host's`);
  }
  return location?.id === undefined ? device : ensureDevice(physicalIndex(location.id, what));
}

function checkWhole(size: number, what: string): void {
  if (size <= 0 || size % GRANULARITY !== 0) {
    throw invalidParam(`${what}: size is ${size}; pass a multiple of ${GRANULARITY}, as mem_get_allocation_granularity says`);
  }
}

function checkProperties({ allocationType = 0, memAttr = 0, handleType = 0 }: PhysicalProperties, what: string): void {
  if (allocationType !== 0 || handleType !== 0 || !(memAttr >= 0 && memAttr < ATTRIBUTES)) {
    throw invalidParam(
      `${what}: handleType ${handleType}, allocationType ${allocationType}, memAttr ${memAttr}; pass 0 (none), 0 (pinned) and 0 (DDR) to ${ATTRIBUTES - 1}`,
    );
  }
}

function checkReserve(size: number, alignment: number, flags: number, what: string): void {
  checkWhole(size, what);
  if (alignment !== 0 || (flags !== 0 && flags !== 1)) {
    throw invalidParam(
      `${what}: alignment is ${alignment} and flags ${flags}; pass 0, and 0 or 1 (huge pages): ranges start at multiples of ${GRANULARITY}`,
    );
  }
}

function checkMap(offset: number, flags: number, what: string): void {
  if (offset !== 0 || flags !== 0) {
    throw invalidParam(`${what}: offset is ${offset} and flags ${flags}; both are reserved, pass 0`);
  }
}

const RESERVE_ARGS = [integer("size"), integer("alignment"), integer("expectPtr"), integer("flags")] as const;
const MAP_ARGS = [integer("virPtr"), integer("size"), integer("offset"), handle("handle"), integer("flags")] as const;

export const virtualCalls = {
  mem_get_allocation_granularity: call({
    c: "aclrtMemGetAllocationGranularity",
    args: [dict<PhysicalProperties>("prop"), integer("option")],
    returns: "[value, ret]",
    doc: "2 MiB, the least (option 0) as well as the recommended one (1).",
    none: 0,
    run(prop, option) {
      const what = "mem_get_allocation_granularity";
      deviceAt(prop.location, what);
      checkProperties(prop, what);
      if (option !== 0 && option !== 1) {
        throw invalidParam(`${what}: option is ${option}; pass 0 (minimum) or 1 (recommended)`);
      }
      return GRANULARITY;
    },
  }),
  reserve_mem_address: call({
    c: "aclrtReserveMemAddress",
    args: RESERVE_ARGS,
    returns: "[value, ret]",
    doc: "A range of addresses, charged nothing; it takes linear room in the device's memory. expectPtr is a wish that is not followed.",
    none: 0,
    run(size, alignment, _expected, flags) {
      checkReserve(size, alignment, flags, "reserve_mem_address");
      return reserve(current("reserve_mem_address").device, size);
    },
  }),
  reserve_mem_address_no_uc_memory: call({
    c: "aclrtReserveMemAddressNoUCMemory",
    args: RESERVE_ARGS,
    returns: "[value, ret]",
    doc: "The same: all memory of the emulator is cached and coherent.",
    none: 0,
    run(size, alignment, _expected, flags) {
      checkReserve(size, alignment, flags, "reserve_mem_address_no_uc_memory");
      return reserve(current("reserve_mem_address_no_uc_memory").device, size);
    },
  }),
  release_mem_address: call({
    c: "aclrtReleaseMemAddress",
    args: [integer("virPtr")],
    returns: "ret",
    doc: "Gives the range back; nothing may be mapped in it.",
    run: (address): void => releaseRange(address),
  }),
  malloc_physical: call({
    c: "aclrtMallocPhysical",
    args: [integer("size"), dict<PhysicalProperties>("prop"), integer("flags")],
    returns: "[value, ret]",
    doc: "Physical memory, charged its size; it is used through a mapping.",
    none: 0,
    run(size, prop, flags) {
      const what = "malloc_physical";
      const device = deviceAt(prop.location, what);
      checkWhole(size, what);
      checkProperties(prop, what);
      if (flags !== 0) {
        throw invalidParam(`${what}: flags is ${flags}; it is reserved, pass 0`);
      }
      return mallocPhysical(device, size, prop.memAttr ?? 0);
    },
  }),
  free_physical: call({
    c: "aclrtFreePhysical",
    args: [handle("handle")],
    returns: "ret",
    doc: "Frees the handle at once, its memory when it is unmapped.",
    run: (physical): void => freePhysical(physical),
  }),
  map_mem: call({
    c: "aclrtMapMem",
    args: MAP_ARGS,
    returns: "ret",
    doc: "Maps all of the physical memory, with read and write access. One mapping at a time; imported memory may have a second one, for calls but not for kernels.",
    run(address, size, offset, physical, flags): void {
      checkMap(offset, flags, "map_mem");
      map(address, size, physical, Access.READ_WRITE, "map_mem");
    },
  }),
  mem_map_no_access: call({
    c: "aclrtMemMapNoAccess",
    args: MAP_ARGS,
    returns: "ret",
    doc: "The same without access: mem_set_access gives it.",
    run(address, size, offset, physical, flags): void {
      checkMap(offset, flags, "mem_map_no_access");
      map(address, size, physical, Access.NONE, "mem_map_no_access");
    },
  }),
  unmap_mem: call({
    c: "aclrtUnmapMem",
    args: [integer("virPtr")],
    returns: "ret",
    doc: "Ends the mapping that starts there; the bytes stay with the physical memory.",
    run: (address): void => unmap(address),
  }),
  mem_set_access: call({
    c: "aclrtMemSetAccess",
    args: [integer("virPtr"), integer("size"), list("desc", (name) => dict<AccessDescription>(name))],
    returns: "ret",
    doc: "Access (0 none, 1 read, 3 read and write) of the mappings in the range, for calls; what kernels do is not checked.",
    run(address, size, descriptions): void {
      const what = "mem_set_access";
      const [description] = descriptions;
      const flags = description?.flags ?? -1;
      deviceAt(description?.location, what);
      if (descriptions.length !== 1 || Access[flags] === undefined || size <= 0) {
        throw invalidParam(
          `${what}: ${descriptions.length} descriptions, the first with flags ${flags}, size ${size}; pass one with flags 0, 1 or 3`,
        );
      }
      setAccess(address, size, flags);
    },
  }),
  mem_get_access: call({
    c: "aclrtMemGetAccess",
    args: [integer("virPtr"), optional(dict<MemoryLocation>("location"))],
    returns: "[value, ret]",
    doc: "The access of the mapping there.",
    none: 0,
    run(address, location) {
      deviceAt(location, "mem_get_access");
      return accessAt(address) as number;
    },
  }),
  mem_retain_allocation_handle: call({
    c: "aclrtMemRetainAllocationHandle",
    args: [integer("virPtr")],
    returns: "[value, ret]",
    doc: "A handle of what is mapped there, to be freed like any other.",
    none: 0,
    run: (address) => retain(address),
  }),
  mem_get_allocation_properties_from_handle: call({
    c: "aclrtMemGetAllocationPropertiesFromHandle",
    args: [handle("handle")],
    returns: "[value, ret]",
    doc: "What the physical memory was made with.",
    none: undefined,
    run(physical) {
      const { device, index } = physicalOf(physical, "mem_get_allocation_properties_from_handle");
      const location = { id: userId(device.index), type: Location.DEVICE as number };
      return { handleType: 0, allocationType: 0, memAttr: physicalWord(device, index, Physical.MEMORY_ATTRIBUTE), location, reserve: 0 };
    },
  }),
};
