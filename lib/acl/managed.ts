/** Managed memory: host and device see the same bytes at the same address, which is how all memory of the emulator is; what it adds is what users said about it. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { addressOf, Location, resolve } from "./addresses";
import { allocate, OwnerBit, ownerAt, releaseAt, releaseHooks } from "./allocations";
import { type AclDevice, Shared, userId } from "./devices";
import { deviceEnds } from "./lifecycle";
import { exclusively } from "./process";
import { RecordTable } from "./records";
import type { ManagedValue } from "./shapes";

const PAGE = 2 ** 21;

enum Managed {
  LIVE,
  GENERATION,
  START,
  SIZE,
  READ_MOSTLY,
  PREFERRED, // place + 1, 0 = none
  ACCESSED_BY, // bit per device
  ACCESSED_BY_HOST,
  PREFETCHED, // place + 1, 0 = never
}
/** aclrtMemManagedAdviseType. */
enum Advice {
  SET_READ_MOSTLY,
  UNSET_READ_MOSTLY,
  SET_PREFERRED_LOCATION,
  UNSET_PREFERRED_LOCATION,
  SET_ACCESSED_BY,
  UNSET_ACCESSED_BY,
}
/** aclrtMemManagedRangeAttribute. */
enum Attribute {
  READ_MOSTLY,
  PREFERRED_LOCATION,
  ACCESSED_BY,
  LAST_PREFETCH_LOCATION,
}
/** Place of the host; devices have their physical index. */
const HOST = 64;
const NOWHERE = { id: -1, type: -1 };

const table = new RecordTable(Shared.MANAGED, 512, 16);
const word = (device: AclDevice, index: number, which: Managed): number => device.machine.words[table.at(device, index) + which]!;
const setWord = (device: AclDevice, index: number, which: Managed, value: number): void => {
  device.machine.words[table.at(device, index) + which] = value;
};

export function allocateManaged(device: AclDevice, sizeBytes: number, what: string): number {
  return exclusively(() => {
    const start = allocate(device, sizeBytes, OwnerBit.HUGE, what);
    const index = table.add(device);
    if (index < 0) {
      releaseAt(device, start, ownerAt(device, start));
      throw new AclError(207012, `${what}: device ${device.index} has 512 pieces of managed memory; free some, or make them larger`);
    }
    setWord(device, index, Managed.START, start);
    setWord(device, index, Managed.SIZE, sizeBytes);
    return addressOf(device, start, false);
  });
}

export const wholePages = (sizeBytes: number): boolean => sizeBytes > 0 && sizeBytes % PAGE === 0;

function find(device: AclDevice, offset: number): number | undefined {
  for (const index of table.live(device)) {
    const start = word(device, index, Managed.START);
    if (offset >= start && offset < start + word(device, index, Managed.SIZE)) {
      return index;
    }
  }
  return undefined;
}

export const isManaged = (device: AclDevice, offset: number): boolean => find(device, offset) !== undefined;

export interface ManagedRef {
  readonly device: AclDevice;
  readonly index: number;
  readonly offset: number;
}

/** @throws AclError 107000 for memory that is not managed */
export function managedAt(address: number, sizeBytes: number, what: string): ManagedRef {
  const { device, offset } = resolve(address, Math.max(1, sizeBytes), `${what}: ptr`);
  const index = device === undefined ? undefined : find(device, offset);
  if (device === undefined || index === undefined || sizeBytes < 1) {
    throw invalidParam(`${what}: ${sizeBytes} bytes at 0x${address.toString(16)} are not managed memory; pass what mem_alloc_managed returned`);
  }
  return { device, index, offset };
}

const placeOf = (device: number | undefined): number => (device === undefined ? HOST : device) + 1;
const locationOf = (place: number): { id: number; type: number } =>
  place === 0 ? NOWHERE : place - 1 === HOST ? { id: 0, type: Location.HOST } : { id: userId(place - 1), type: Location.DEVICE };

/** `device`: physical index, undefined = the host. */
export function advise({ device, index }: ManagedRef, advice: number, where: number | undefined, what: string): void {
  const bit = where === undefined ? 1 : 1 << where;
  const mask = where === undefined ? Managed.ACCESSED_BY_HOST : Managed.ACCESSED_BY;
  switch (advice) {
    case Advice.SET_READ_MOSTLY:
    case Advice.UNSET_READ_MOSTLY:
      setWord(device, index, Managed.READ_MOSTLY, advice === Advice.SET_READ_MOSTLY ? 1 : 0);
      return;
    case Advice.SET_PREFERRED_LOCATION:
      setWord(device, index, Managed.PREFERRED, placeOf(where));
      return;
    case Advice.UNSET_PREFERRED_LOCATION:
      setWord(device, index, Managed.PREFERRED, 0);
      return;
    case Advice.SET_ACCESSED_BY:
      setWord(device, index, mask, word(device, index, mask) | bit);
      return;
    case Advice.UNSET_ACCESSED_BY:
      setWord(device, index, mask, word(device, index, mask) & ~bit);
      return;
    default:
      throw invalidParam(`${what}: advise is ${advice}; pass 0 to 5: read mostly, preferred location, accessed by, each set or unset`);
  }
}

export function notePrefetch({ device, index }: ManagedRef, where: number | undefined): void {
  setWord(device, index, Managed.PREFETCHED, placeOf(where));
}

export function managedAttribute({ device, index }: ManagedRef, attribute: number, what: string): ManagedValue {
  switch (attribute) {
    case Attribute.READ_MOSTLY:
      return word(device, index, Managed.READ_MOSTLY);
    case Attribute.PREFERRED_LOCATION:
      return locationOf(word(device, index, Managed.PREFERRED));
    case Attribute.LAST_PREFETCH_LOCATION:
      return locationOf(word(device, index, Managed.PREFETCHED));
    case Attribute.ACCESSED_BY: {
      const devices = [...Array(32).keys()].filter((bit) => word(device, index, Managed.ACCESSED_BY) & (1 << bit));
      const host = word(device, index, Managed.ACCESSED_BY_HOST) !== 0 ? [locationOf(placeOf(undefined))] : [];
      return [...host, ...devices.map((bit) => locationOf(placeOf(bit)))];
    }
    default:
      throw invalidParam(`${what}: attribute is ${attribute}; pass 0 (read mostly), 1 (preferred location), 2 (accessed by) or 3 (last prefetch)`);
  }
}

releaseHooks.push((device, offset) => {
  for (const index of table.live(device)) {
    if (word(device, index, Managed.START) === offset) {
      table.remove(device, index);
    }
  }
});
deviceEnds.push((device) => table.clear(device));
