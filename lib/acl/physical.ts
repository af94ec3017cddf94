/** Physical memory: quota with handles. Its bytes lie where it is mapped; unmapped memory keeps them at home, until somebody else is mapped there. */
import { AclError } from "../errors/acl-error";
import { allocate, OwnerBit, ownerAt, releaseAt } from "./allocations";
import { type AclDevice, deviceIfOpen, Shared } from "./devices";
import { encodeHandle, expectHandle, HandleType } from "./handles";
import { exclusively } from "./process";
import { RecordTable } from "./records";

/** Words of physical memory. */
export enum Physical {
  LIVE,
  GENERATION,
  SIZE,
  MAPPED, // offset of its mapping, 0 = not mapped
  HOME, // offset where the bytes of unmapped memory lie; 0 = it has none yet
  PARKED, // offset of an allocation that holds its bytes because its home is taken
  HANDLES, // handles of the one who made it
  IMPORTS,
  ACCESS,
  EXPORTED, // 1 + export flags
  ALLOWED, // 1: this process is on the white list
  MEMORY_ATTRIBUTE,
}
export const physicals = new RecordTable(Shared.PHYSICALS, 512, 16);
/** Indices of imported handles lie above those of the maker's. */
const IMPORTED = 1024;

export function physicalWord(device: AclDevice, index: number, word: Physical): number {
  return device.machine.words[physicals.at(device, index) + word]!;
}

export function setPhysical(device: AclDevice, index: number, word: Physical, value: number): void {
  device.machine.words[physicals.at(device, index) + word] = value;
}

/** Whether two runs of bytes share one. */
export function overlaps(a: number, aSize: number, b: number, bSize: number): boolean {
  return a < b + bSize && b < a + aSize;
}

/** @throws AclError 207001 if the device has no such quota left */
export function mallocPhysical(device: AclDevice, sizeBytes: number, memoryAttribute: number): number {
  const what = "malloc_physical";
  return exclusively(() => {
    const left = device.memoryBytes - device.chargedBytes;
    if (sizeBytes > left) {
      throw new AclError(207001, `${what}: ${sizeBytes} bytes do not fit device ${device.index}, of which ${left} are not taken; free some`);
    }
    const index = physicals.add(device);
    if (index < 0) {
      throw new AclError(207001, `${what}: device ${device.index} has 512 pieces of physical memory; free some, or make them larger`);
    }
    device.charge(sizeBytes);
    setPhysical(device, index, Physical.SIZE, sizeBytes);
    setPhysical(device, index, Physical.HANDLES, 1);
    setPhysical(device, index, Physical.MEMORY_ATTRIBUTE, memoryAttribute);
    return physicalHandle(device, index, false);
  });
}

export function physicalHandle(device: AclDevice, index: number, imported: boolean): number {
  const generation = physicalWord(device, index, Physical.GENERATION);
  return encodeHandle(HandleType.PHYSICAL, device.index, generation, index + (imported ? IMPORTED : 0));
}

export interface PhysicalRef {
  readonly device: AclDevice;
  readonly index: number;
  readonly imported: boolean;
}

/** @throws AclError 107000 for 0, 107017 for another type or freed memory */
export function physicalOf(handle: number, what: string): PhysicalRef {
  const parts = expectHandle(handle, HandleType.PHYSICAL, `${what}: handle`);
  const device = deviceIfOpen(parts.device);
  const imported = parts.index >= IMPORTED;
  const index = parts.index % IMPORTED;
  const live =
    device !== undefined &&
    physicals.exists(device) &&
    physicalWord(device, index, Physical.LIVE) !== 0 &&
    physicalWord(device, index, Physical.GENERATION) === parts.generation &&
    physicalWord(device, index, imported ? Physical.IMPORTS : Physical.HANDLES) > 0;
  if (!live) {
    throw new AclError(107017, `${what}: the physical memory is freed, or its device was reset; call malloc_physical for another`);
  }
  return { device, index, imported };
}

/** Its memory goes when it is neither mapped nor held by another handle. */
export function freePhysical(handle: number): void {
  exclusively(() => {
    const { device, index, imported } = physicalOf(handle, "free_physical");
    const word = imported ? Physical.IMPORTS : Physical.HANDLES;
    setPhysical(device, index, word, physicalWord(device, index, word) - 1);
    endIfUnused(device, index);
  });
}

export function endIfUnused(device: AclDevice, index: number): void {
  const held = physicalWord(device, index, Physical.HANDLES) + physicalWord(device, index, Physical.IMPORTS);
  if (held > 0 || physicalWord(device, index, Physical.MAPPED) !== 0) {
    return;
  }
  unpark(device, index);
  device.charge(-physicalWord(device, index, Physical.SIZE));
  physicals.remove(device, index);
}

function unpark(device: AclDevice, index: number): void {
  const parked = physicalWord(device, index, Physical.PARKED);
  if (parked !== 0) {
    releaseAt(device, parked, ownerAt(device, parked));
    setPhysical(device, index, Physical.PARKED, 0);
  }
}

/** Moves the bytes of unmapped memory (but not of `except`) out of [offset, offset + size). @throws AclError 207001 if there is no room for them */
export function evict(device: AclDevice, offset: number, size: number, except: number, what: string): void {
  for (const index of physicals.live(device)) {
    const home = physicalWord(device, index, Physical.HOME);
    const bytes = physicalWord(device, index, Physical.SIZE);
    if (index !== except && home !== 0 && overlaps(home, bytes, offset, size)) {
      const parked = allocate(device, bytes, OwnerBit.FREE_CHARGE, `${what}: keeping the bytes of unmapped memory`);
      device.machine.bytes.copyWithin(parked, home, home + bytes);
      setPhysical(device, index, Physical.PARKED, parked);
      setPhysical(device, index, Physical.HOME, 0);
    }
  }
}

/** Brings the bytes to `offset`, which is free. */
export function place(device: AclDevice, index: number, offset: number): void {
  const from = physicalWord(device, index, Physical.PARKED) || physicalWord(device, index, Physical.HOME);
  if (from !== 0 && from !== offset) {
    device.machine.bytes.copyWithin(offset, from, from + physicalWord(device, index, Physical.SIZE));
  }
  unpark(device, index);
  setPhysical(device, index, Physical.HOME, 0);
  setPhysical(device, index, Physical.MAPPED, offset);
}
