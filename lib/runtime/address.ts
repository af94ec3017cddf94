/**
 * Addresses as users see them: plain numbers below 2^53. Device d's memory starts at (16 + d) * 2^32, its pinned host window at 2^44 + d * 2^32;
 * both are the same bytes. The tag says "device pointer of device d" or "host pointer", and is checked and stripped here.
 */
import type { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import type { Machine } from "../host/machine";

const SPAN = 2 ** 32;
const DEVICE_TAG = 16;
const HOST_BASE = 2 ** 44;

export function deviceAddress(device: number, offset: number): number {
  return (DEVICE_TAG + device) * SPAN + offset;
}

export function hostAddress(device: number, offset: number): number {
  return HOST_BASE + device * SPAN + offset;
}

export interface Place {
  readonly device: number;
  readonly offset: number;
}

/** Which device and byte an address names; undefined if it is neither a device nor a pinned host address. */
export function placeOf(address: number): Place | undefined {
  if (!Number.isSafeInteger(address) || address < DEVICE_TAG * SPAN) {
    return undefined;
  }
  const tag = address >= HOST_BASE ? Math.floor((address - HOST_BASE) / SPAN) : Math.floor(address / SPAN) - DEVICE_TAG;
  return tag < 4096 ? { device: tag, offset: address % SPAN } : undefined;
}

/**
 * Checks that [offset, offset + sizeBytes) lies in one live allocation of `machine`.
 * @throws AclError 107000 naming the allocation
 */
export function checkRange(machine: Machine, offset: number, sizeBytes: number, what: string): void {
  const { core, device } = machine;
  const start = core.allocationOf(offset) >>> 0;
  if (start === 0) {
    throw invalidParam(
      `${what}: address 0x${deviceAddress(device, offset).toString(16)} of device ${device} is in no live allocation; was it freed?`,
    );
  }
  const end = start + (core.allocationBytes(start) >>> 0);
  if (offset + sizeBytes > end) {
    const over = offset + sizeBytes - end;
    const text = `${what} ends ${over} bytes past the allocation of ${end - start} bytes at 0x${deviceAddress(device, start).toString(16)} of device ${device}`;
    throw invalidParam(`${text}; pass at most ${Math.max(0, end - offset)} bytes, or allocate more`);
  }
}

export function foreign(what: string, machine: Machine, place: Place): AclError {
  return invalidParam(
    `${what}: the address belongs to device ${place.device} and the stream to device ${machine.device}; no such device is open in this thread`,
  );
}
