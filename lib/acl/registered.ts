/** Registered host memory: pinned memory of the device under its device address. Whatever reads it there reads the host's bytes. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { addressOf, Location, resolve, type Spot } from "./addresses";
import { releaseHooks } from "./allocations";
import type { Pointer } from "./args";
import { type AclDevice, Shared } from "./devices";
import { deviceEnds } from "./lifecycle";
import { exclusively } from "./process";
import { RecordTable } from "./records";

enum Registered {
  LIVE,
  GENERATION,
  START,
  SIZE,
}
const UNIT = 64;
const table = new RecordTable(Shared.REGISTERED, 1024, 4);

function word(device: AclDevice, index: number, which: Registered): number {
  return device.machine.words[table.at(device, index) + which]!;
}

/** Pinned memory at `pointer`. @throws AclError 207000 for pageable memory */
function pinned(pointer: Pointer, sizeBytes: number, what: string): Spot & { readonly device: AclDevice } {
  const spot = resolve(pointer, sizeBytes, `${what}: ptr`);
  if (spot.location === Location.DEVICE) {
    throw invalidParam(`${what}: the address is device memory already; pass host memory`);
  }
  if (spot.device === undefined) {
    throw new AclError(207000, `${what}: a JavaScript buffer's memory is not the device's, so it cannot be mapped; take the memory from malloc_host`);
  }
  return spot as Spot & { readonly device: AclDevice };
}

/** The registration that covers `offset`. */
function find(device: AclDevice, offset: number): number | undefined {
  for (const index of table.live(device)) {
    const start = word(device, index, Registered.START);
    if (offset >= start && offset < start + word(device, index, Registered.SIZE)) {
      return index;
    }
  }
  return undefined;
}

/** @throws AclError 507910 if part of it is registered, 107008 if it is not 64-aligned */
export function register(device: AclDevice, pointer: Pointer, sizeBytes: number, what: string): number {
  if (sizeBytes <= 0) {
    throw invalidParam(`${what}: size is ${sizeBytes}; pass at least 1`);
  }
  return exclusively(() => {
    const { device: owner, offset } = pinned(pointer, sizeBytes, what);
    if (owner !== device) {
      throw invalidParam(`${what}: the memory was pinned for device ${owner.index}; register it with that device current`);
    }
    if (offset % UNIT !== 0) {
      throw new AclError(107008, `${what}: the address is not a multiple of ${UNIT}; pass what malloc_host returned`);
    }
    for (const index of table.live(device)) {
      const start = word(device, index, Registered.START);
      if (start < offset + sizeBytes && offset < start + word(device, index, Registered.SIZE)) {
        throw new AclError(
          507910,
          `${what}: [0x${addressOf(device, start, true).toString(16)}, +${word(device, index, Registered.SIZE)}) is registered already; unregister it first`,
        );
      }
    }
    const index = table.add(device);
    if (index < 0) {
      throw new AclError(207012, `${what}: device ${device.index} has 1024 registrations; unregister some`);
    }
    const at = table.at(device, index);
    device.machine.words[at + Registered.START] = offset;
    device.machine.words[at + Registered.SIZE] = sizeBytes;
    return addressOf(device, offset, false);
  });
}

/** @throws AclError 507911 if nothing registered starts there */
export function unregister(pointer: Pointer): void {
  const what = "host_unregister";
  exclusively(() => {
    const { device, offset } = pinned(pointer, 1, what);
    const index = find(device, offset);
    if (index === undefined || word(device, index, Registered.START) !== offset) {
      throw new AclError(507911, `${what}: nothing registered starts at this address; pass the address that was registered`);
    }
    table.remove(device, index);
  });
}

/** @throws AclError 507911 if the address is not registered */
export function registeredAddress(pointer: Pointer): number {
  const { device, offset } = pinned(pointer, 1, "host_get_device_pointer");
  if (find(device, offset) === undefined) {
    throw new AclError(507911, "host_get_device_pointer: the address is not registered; call host_register first");
  }
  return addressOf(device, offset, false);
}

releaseHooks.push((device, offset, sizeBytes) => {
  for (const index of table.live(device)) {
    const start = word(device, index, Registered.START);
    if (start >= offset && start < offset + sizeBytes) {
      table.remove(device, index);
    }
  }
});

deviceEnds.push((device) => table.clear(device));
