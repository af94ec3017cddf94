/** Allocating device and pinned host memory with CANN's rounding, and giving it back. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { PoolTag } from "../host/layout";
import { placeOf } from "../runtime/address";
import type { Pointer } from "./args";
import { addressOf } from "./addresses";
import { type AclDevice, deviceIfOpen, Shared } from "./devices";
import { ACL_OWNER } from "./lifecycle";

/** aclrtMemMallocPolicy: what matters of it is the page size that attributes report. */
const POLICIES = 8;
const HUGE_FIRST = [0, 3];
const HUGE_ONLY = [1, 4, 6, 7];
const BAND_WIDTHS = 0x1100;
const SMALL_BYTES = 2 ** 20;
const HUGE_PAGE = 2 ** 21;
const NORMAL_PAGE = 4096;
const UNIT = 32;
const HOST_TAG = 2 ** 44;

/** Bits behind ACL_OWNER. */
export enum OwnerBit {
  ALIGN32 = 1, // charged without the extra 32 bytes
  HUGE = 2, // counts as lying in 2 MiB pages
  PINNED = 4,
  FREE_CHARGE = 8, // charged elsewhere: a virtual range, a pool's segment
  CACHED = 16,
}

function checkSize(sizeBytes: number, what: string): void {
  if (sizeBytes <= 0) {
    throw invalidParam(`${what}: size is ${sizeBytes}; pass at least 1 byte`);
  }
}

function isHuge(sizeBytes: number, policy: number, what: string): boolean {
  const base = policy & ~BAND_WIDTHS;
  if (policy < 0 || base >= POLICIES) {
    throw new AclError(107018, `${what}: policy 0x${policy.toString(16)} is unknown; pass 0 (huge first) to 7, or-ed with 0x100 or 0x1000`);
  }
  return HUGE_ONLY.includes(base) || (HUGE_FIRST.includes(base) && sizeBytes > SMALL_BYTES);
}

/** Bytes that an allocation is charged. */
function charged(device: AclDevice, sizeBytes: number, owner: number): number {
  if (owner & (OwnerBit.FREE_CHARGE | OwnerBit.PINNED)) {
    return 0;
  }
  return Math.ceil(sizeBytes / UNIT) * UNIT + (owner & OwnerBit.ALIGN32 ? 0 : device.soc.allocationExtra);
}

/** Called when memory is short, before an allocation fails; each gives back what it can spare and says whether it did. */
export const reclaimers: ((device: AclDevice, sizeBytes: number) => boolean)[] = [];

/** Called before memory is allocated; throws if none may be now. */
export const allocationGuards: ((what: string) => void)[] = [];

/** Offset of `sizeBytes`; `bits` are OwnerBits. @throws AclError 207001 */
export function allocate(device: AclDevice, sizeBytes: number, bits: number, what: string): number {
  for (const guard of allocationGuards) {
    guard(what);
  }
  const owner = (ACL_OWNER | bits) >>> 0;
  const tag = bits & OwnerBit.PINNED ? PoolTag.PINNED : PoolTag.USER;
  let offset = 0;
  if (sizeBytes < device.memoryBytes) {
    do {
      offset = device.machine.tryAllocate(sizeBytes, tag, owner);
    } while (offset === 0 && reclaimers.some((reclaim) => reclaim(device, sizeBytes)));
  }
  if (offset === 0) {
    const largest = device.machine.core.poolLargestFree() >>> 0;
    throw new AclError(
      207001,
      `${what}: ${sizeBytes} bytes do not fit device ${device.index}: ${device.machine.core.poolFree() >>> 0} are free, the largest block has ${largest}, ${device.machine.core.poolCount()} allocations are live; free some, or configure more emulator.memory`,
    );
  }
  device.charge(charged(device, sizeBytes, owner));
  return offset;
}

export function mallocDevice(device: AclDevice, sizeBytes: number, policy: number, bits: number, what: string): number {
  checkSize(sizeBytes, what);
  const huge = isHuge(sizeBytes, policy, what) ? OwnerBit.HUGE : 0;
  return addressOf(device, allocate(device, sizeBytes, bits | huge, what), false);
}

export function mallocHost(device: AclDevice, sizeBytes: number, what: string): number {
  checkSize(sizeBytes, what);
  return addressOf(device, allocate(device, sizeBytes, OwnerBit.PINNED, what), true);
}

/** Owner word of the live allocation that starts at `offset`; 0 if there is none, or it is not of the parity face. */
export function ownerAt(device: AclDevice, offset: number): number {
  const owner = device.machine.core.allocationOwner(offset) >>> 0;
  return (owner & 0xfff0_0000) >>> 0 === ACL_OWNER ? owner : 0;
}

/** Called before an allocation goes: what refers to it goes with it. */
export const releaseHooks: ((device: AclDevice, offset: number, sizeBytes: number) => void)[] = [];

/** Gives back the allocation at `offset`, whose owner word is `owner`. */
export function releaseAt(device: AclDevice, offset: number, owner: number): void {
  const bytes = device.machine.core.allocationBytes(offset) >>> 0;
  for (const hook of releaseHooks) {
    hook(device, offset, bytes);
  }
  device.machine.release(offset);
  device.charge(-charged(device, bytes, owner));
}

/** Says what an address is that cannot be freed. */
function story(device: AclDevice, offset: number): string {
  const start = device.machine.core.allocationOf(offset) >>> 0;
  if (start === 0) {
    return "it is in no live allocation: freed before, or never allocated";
  }
  return start === offset
    ? "it was not allocated by this call's counterpart"
    : `it points ${offset - start} bytes into an allocation; pass its start`;
}

/** free and free_host. @throws AclError 107000 */
export function freePointer(pointer: Pointer, pinned: boolean, what: string): void {
  if (typeof pointer !== "number" || pointer === 0) {
    throw invalidParam(
      `${what}: ${pointer === 0 ? "the address is null" : "an array was passed"}; pass what ${pinned ? "malloc_host" : "malloc"} returned`,
    );
  }
  const place = placeOf(pointer);
  if (place === undefined || pointer >= HOST_TAG !== pinned) {
    const looks =
      place === undefined ? "is no address of a device" : pinned ? "is device memory; call free" : "looks like a host pointer; call free_host";
    throw invalidParam(`${what}: 0x${pointer.toString(16)} ${looks}`);
  }
  const device = deviceIfOpen(place.device);
  const owner = device === undefined ? 0 : ownerAt(device, place.offset);
  if (device === undefined || (owner === 0 && !device.active && device.get(Shared.RESETS) > 0)) {
    throw new AclError(507899, `${what}: device ${place.device} was reset, and its memory went with it; free before reset_device`);
  }
  if (owner === 0 || (owner & OwnerBit.FREE_CHARGE) !== 0 || ((owner & OwnerBit.PINNED) !== 0) !== pinned) {
    throw invalidParam(`${what}: 0x${pointer.toString(16)} cannot be freed: ${story(device, place.offset)}`);
  }
  releaseAt(device, place.offset, owner);
}

/** Bytes of a page that the allocation at `offset` counts as lying in. */
export function pageBytes(device: AclDevice, offset: number): number {
  const start = device.machine.core.allocationOf(offset) >>> 0;
  return ownerAt(device, start) & OwnerBit.HUGE ? HUGE_PAGE : NORMAL_PAGE;
}
