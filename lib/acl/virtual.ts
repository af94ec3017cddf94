/**
 * Virtual memory without an MMU. A virtual range is a linear range of the device's memory, physical memory is a quota that is bound to bytes when it is
 * mapped. Unmapped memory keeps its bytes: they stay where they were until somebody else is mapped there, and move when they are mapped elsewhere.
 * A second mapping of imported memory is an alias: calls resolve it, kernels must use the first one.
 */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { placeOf } from "../runtime/address";
import { addressOf, aliases, guards } from "./addresses";
import { allocate, OwnerBit, ownerAt, releaseAt } from "./allocations";
import { type AclDevice, deviceIfOpen, Shared } from "./devices";
import { deviceEnds } from "./lifecycle";
import { endIfUnused, evict, overlaps, Physical, physicalHandle, physicalOf, physicals, physicalWord, place, setPhysical } from "./physical";
import { exclusively } from "./process";
import { RecordTable } from "./records";

export const GRANULARITY = 2 ** 21;

enum Range {
  LIVE,
  GENERATION,
  START,
  SIZE,
  BASE,
}
enum Alias {
  LIVE,
  GENERATION,
  START,
  SIZE,
  PHYSICAL,
}
/** aclrtMemAccessFlags. */
export enum Access {
  NONE,
  READ,
  READ_WRITE = 3,
}

const ranges = new RecordTable(Shared.RANGES, 256, 8);
const aliased = new RecordTable(Shared.ALIASES, 256, 8);

function rangeWord(device: AclDevice, index: number, word: Range): number {
  return device.machine.words[ranges.at(device, index) + word]!;
}

function aliasWord(device: AclDevice, index: number, word: Alias): number {
  return device.machine.words[aliased.at(device, index) + word]!;
}

/** The device and offset of an address. */
function locate(address: number, what: string): { device: AclDevice; offset: number } {
  const place = placeOf(address);
  const device = place === undefined ? undefined : deviceIfOpen(place.device);
  if (place === undefined || device === undefined) {
    throw invalidParam(`${what}: 0x${address.toString(16)} is no virtual address; pass what reserve_mem_address returned`);
  }
  return { device, offset: place.offset };
}

function findRange(device: AclDevice, offset: number): number | undefined {
  for (const index of ranges.live(device)) {
    const start = rangeWord(device, index, Range.START);
    if (offset >= start && offset < start + rangeWord(device, index, Range.SIZE)) {
      return index;
    }
  }
  return undefined;
}

// ---- ranges

/** @throws AclError 207001 if no linear range of that size is free */
export function reserve(device: AclDevice, sizeBytes: number): number {
  const what = "reserve_mem_address";
  return exclusively(() => {
    let base = allocate(device, sizeBytes, OwnerBit.FREE_CHARGE | OwnerBit.HUGE, what);
    if (base % GRANULARITY !== 0) {
      releaseAt(device, base, ownerAt(device, base));
      base = allocate(device, sizeBytes + GRANULARITY, OwnerBit.FREE_CHARGE | OwnerBit.HUGE, what);
    }
    const index = ranges.add(device);
    if (index < 0) {
      releaseAt(device, base, ownerAt(device, base));
      throw new AclError(207001, `${what}: device ${device.index} has 256 ranges; release some`);
    }
    const { words } = device.machine;
    const at = ranges.at(device, index);
    words[at + Range.START] = Math.ceil(base / GRANULARITY) * GRANULARITY;
    words[at + Range.SIZE] = sizeBytes;
    words[at + Range.BASE] = base;
    return addressOf(device, words[at + Range.START]!, false);
  });
}

/** @throws AclError 107000 if something is still mapped, or it is no range's start */
export function releaseRange(address: number): void {
  const what = "release_mem_address";
  exclusively(() => {
    const { device, offset } = locate(address, what);
    const index = findRange(device, offset);
    if (index === undefined || rangeWord(device, index, Range.START) !== offset) {
      throw invalidParam(`${what}: 0x${address.toString(16)} is not the start of a range; pass what reserve_mem_address returned`);
    }
    const size = rangeWord(device, index, Range.SIZE);
    const mapping = mappingIn(device, offset, size);
    if (mapping !== undefined) {
      throw invalidParam(`${what}: memory is mapped at 0x${addressOf(device, mapping, false).toString(16)}; unmap it first`);
    }
    evict(device, offset, size, -1, what);
    const base = rangeWord(device, index, Range.BASE);
    releaseAt(device, base, ownerAt(device, base));
    ranges.remove(device, index);
  });
}

/** Offset of a mapping that overlaps [offset, offset + size). */
function mappingIn(device: AclDevice, offset: number, size: number): number | undefined {
  for (const index of physicals.live(device)) {
    const mapped = physicalWord(device, index, Physical.MAPPED);
    if (mapped !== 0 && overlaps(mapped, physicalWord(device, index, Physical.SIZE), offset, size)) {
      return mapped;
    }
  }
  for (const index of aliased.live(device)) {
    const start = aliasWord(device, index, Alias.START);
    if (overlaps(start, aliasWord(device, index, Alias.SIZE), offset, size)) {
      return start;
    }
  }
  return undefined;
}

// ---- mappings

/** @throws AclError 107000 for a wrong size or place, 207000 for a second mapping of memory that was not imported */
export function map(address: number, sizeBytes: number, handle: number, access: Access, what: string): void {
  exclusively(() => {
    const { device, index, imported } = physicalOf(handle, what);
    const { device: owner, offset } = locate(address, what);
    const range = owner === device ? findRange(device, offset) : undefined;
    const size = physicalWord(device, index, Physical.SIZE);
    if (sizeBytes !== size) {
      throw invalidParam(`${what}: size is ${sizeBytes} and the physical memory has ${size} bytes; pass ${size}`);
    }
    const end = range === undefined ? 0 : rangeWord(device, range, Range.START) + rangeWord(device, range, Range.SIZE);
    if (range === undefined || offset % GRANULARITY !== 0 || offset + size > end) {
      throw invalidParam(
        `${what}: [0x${address.toString(16)}, +${size}) is in no reserved range of device ${device.index} at a multiple of ${GRANULARITY}; reserve it first`,
      );
    }
    if (mappingIn(device, offset, size) !== undefined) {
      throw invalidParam(`${what}: something is mapped at 0x${address.toString(16)}; unmap it first`);
    }
    if (physicalWord(device, index, Physical.MAPPED) !== 0) {
      if (!imported) {
        throw new AclError(
          207000,
          `${what}: this memory is mapped at 0x${addressOf(device, physicalWord(device, index, Physical.MAPPED), false).toString(16)} already, and the emulator has no MMU; unmap it there first`,
        );
      }
      addAlias(device, offset, size, index, what);
      return;
    }
    evict(device, offset, size, index, what);
    place(device, index, offset);
    setPhysical(device, index, Physical.ACCESS, access);
  });
}

function addAlias(device: AclDevice, offset: number, size: number, physical: number, what: string): void {
  evict(device, offset, size, physical, what);
  const alias = aliased.add(device);
  if (alias < 0) {
    throw new AclError(207001, `${what}: device ${device.index} has 256 second mappings; unmap some`);
  }
  const at = aliased.at(device, alias);
  device.machine.words[at + Alias.START] = offset;
  device.machine.words[at + Alias.SIZE] = size;
  device.machine.words[at + Alias.PHYSICAL] = physical;
}

/** @throws AclError 107000 if nothing is mapped there */
export function unmap(address: number): void {
  const what = "unmap_mem";
  exclusively(() => {
    const { device, offset } = locate(address, what);
    for (const alias of aliased.live(device)) {
      if (aliasWord(device, alias, Alias.START) === offset) {
        aliased.remove(device, alias);
        return;
      }
    }
    const index = mappedAt(device, offset, what);
    setPhysical(device, index, Physical.MAPPED, 0);
    setPhysical(device, index, Physical.HOME, offset);
    // An alias becomes the mapping: its range has bytes of its own.
    for (const alias of aliased.live(device)) {
      if (aliasWord(device, alias, Alias.PHYSICAL) === index) {
        place(device, index, aliasWord(device, alias, Alias.START));
        aliased.remove(device, alias);
        return;
      }
    }
    endIfUnused(device, index);
  });
}

/** The physical memory whose mapping starts at `offset`. @throws AclError 107000 */
function mappedAt(device: AclDevice, offset: number, what: string): number {
  for (const index of physicals.live(device)) {
    if (physicalWord(device, index, Physical.MAPPED) === offset) {
      return index;
    }
  }
  throw invalidParam(`${what}: nothing is mapped at 0x${addressOf(device, offset, false).toString(16)}; pass the start of a mapping`);
}

/** Another handle of what is mapped at `address`. */
export function retain(address: number): number {
  const what = "mem_retain_allocation_handle";
  return exclusively(() => {
    const { device, offset } = locate(address, what);
    const index = mappedAt(device, offset, what);
    setPhysical(device, index, Physical.HANDLES, physicalWord(device, index, Physical.HANDLES) + 1);
    return physicalHandle(device, index, false);
  });
}

/** Sets the access of every mapping in the range, which has to be covered by whole ones. */
export function setAccess(address: number, sizeBytes: number, access: Access): void {
  const what = "mem_set_access";
  exclusively(() => {
    const { device, offset } = locate(address, what);
    const found: number[] = [];
    for (let at = offset; at < offset + sizeBytes; ) {
      const index = mappedAt(device, at, what);
      found.push(index);
      at += physicalWord(device, index, Physical.SIZE);
    }
    for (const index of found) {
      setPhysical(device, index, Physical.ACCESS, access);
    }
  });
}

export function accessAt(address: number): Access {
  const { device, offset } = locate(address, "mem_get_access");
  const index = covering(device, offset);
  if (index === undefined) {
    throw invalidParam(`mem_get_access: nothing is mapped at 0x${address.toString(16)}; map it first`);
  }
  return physicalWord(device, index, Physical.ACCESS);
}

function covering(device: AclDevice, offset: number): number | undefined {
  for (const index of physicals.live(device)) {
    const mapped = physicalWord(device, index, Physical.MAPPED);
    if (mapped !== 0 && offset >= mapped && offset < mapped + physicalWord(device, index, Physical.SIZE)) {
      return index;
    }
  }
  return undefined;
}

// ---- what calls may touch

/** Ends of calls that write, as their texts name them. */
const WRITES = /: (target|dst)( \d+)?$/;

guards.push((device, offset, sizeBytes, what) => {
  if (!ranges.exists(device) || findRange(device, offset) === undefined) {
    return;
  }
  for (let at = offset; at < offset + Math.max(1, sizeBytes); ) {
    const index = covering(device, at);
    const shown = addressOf(device, at, false).toString(16);
    if (index === undefined) {
      throw invalidParam(`${what}: 0x${shown} is reserved, and nothing is mapped there; call map_mem first`);
    }
    const access = physicalWord(device, index, Physical.ACCESS);
    if (access === Access.NONE || (access === Access.READ && WRITES.test(what))) {
      throw invalidParam(`${what}: the memory mapped at 0x${shown} has access ${access}; call mem_set_access first`);
    }
    at = physicalWord(device, index, Physical.MAPPED) + physicalWord(device, index, Physical.SIZE);
  }
});

aliases.push((device, offset, sizeBytes) => {
  if (!aliased.exists(device)) {
    return undefined;
  }
  for (const alias of aliased.live(device)) {
    const start = aliasWord(device, alias, Alias.START);
    if (offset >= start && offset + sizeBytes <= start + aliasWord(device, alias, Alias.SIZE)) {
      return physicalWord(device, aliasWord(device, alias, Alias.PHYSICAL), Physical.MAPPED) + offset - start;
    }
  }
  return undefined;
});

/** The ranges' memory goes with all other memory of the device. */
deviceEnds.push((device) => {
  physicals.clear(device);
  ranges.clear(device);
  aliased.clear(device);
});
