/** Pointers as parity calls take them: device addresses, pinned host addresses, and addresses of JavaScript buffers. */
import { invalidParam } from "../errors/make";
import { checkRange, deviceAddress, hostAddress, placeOf } from "../runtime/address";
import type { Pointer } from "./args";
import { type AclDevice, deviceIfOpen, Shared } from "./devices";
import { hostMemory, isHostBuffer } from "./host-memory";
import { AclError } from "../errors/acl-error";

/** aclrtMemLocationType. */
export enum Location {
  HOST,
  DEVICE,
  UNREGISTERED,
  MANAGED,
}

/** Where a pointer points. */
export class Spot {
  /** @param device whose memory it is (pinned host memory too); undefined for pageable memory. @param offset in `memory` */
  constructor(
    readonly location: Location,
    readonly device: AclDevice | undefined,
    readonly memory: Uint8Array,
    readonly offset: number,
    readonly sizeBytes: number,
  ) {}

  /** The bytes that were asked for. Making this view costs as much as copying a few KB: copies do without. */
  get bytes(): Uint8Array {
    return this.memory.subarray(this.offset, this.offset + this.sizeBytes);
  }
}

/** The number of the tag says "host" from here on. */
const HOST_TAG = 2 ** 44;

/** Offsets of a device that stand for memory elsewhere: a second mapping of shared physical memory. Each returns the offset meant, or undefined. */
export const aliases: ((device: AclDevice, offset: number, sizeBytes: number) => number | undefined)[] = [];
/** Says why `sizeBytes` from a device offset may not be used, beyond being in no allocation. Throws. */
export const guards: ((device: AclDevice, offset: number, sizeBytes: number, what: string) => void)[] = [];

function unalias(device: AclDevice, offset: number, sizeBytes: number): number {
  for (const alias of aliases) {
    const meant = alias(device, offset, sizeBytes);
    if (meant !== undefined) {
      return meant;
    }
  }
  return offset;
}

/** Finds what `pointer` points to and checks that `sizeBytes` are there. @throws AclError 107000 that says what is wrong with the address */
export function resolve(pointer: Pointer, sizeBytes: number, what: string): Spot {
  if (sizeBytes < 0) {
    throw invalidParam(`${what}: ${sizeBytes} bytes; pass a size from 0 up`);
  }
  if (typeof pointer !== "number") {
    return resolveView(pointer, sizeBytes, what);
  }
  if (pointer === 0) {
    throw invalidParam(`${what} is null; pass an address`);
  }
  if (isHostBuffer(pointer)) {
    const { memory, offset } = hostMemory(pointer, sizeBytes, what);
    return new Spot(Location.UNREGISTERED, undefined, memory, offset, sizeBytes);
  }
  const place = placeOf(pointer);
  if (place === undefined) {
    throw invalidParam(
      `${what}: 0x${pointer.toString(16)} is no address: it is below every device's memory, or a handle; pass what malloc or bytes_to_ptr returned`,
    );
  }
  const device = deviceIfOpen(place.device);
  if (device === undefined) {
    throw invalidParam(`${what}: 0x${pointer.toString(16)} belongs to device ${place.device}, which is not in use; call set_device first`);
  }
  const offset = unalias(device, place.offset, sizeBytes);
  for (const guard of guards) {
    guard(device, offset, sizeBytes, what);
  }
  checkRange(device.machine, offset, sizeBytes, what);
  const location = pointer >= HOST_TAG ? Location.HOST : Location.DEVICE;
  return new Spot(location, device, device.machine.bytes, offset, sizeBytes);
}

function asBytes(view: ArrayBufferView): Uint8Array {
  if (view instanceof Uint8Array) {
    return view;
  }
  // A view whose buffer was transferred elsewhere has no bytes, and none can be made of it.
  return view.byteLength === 0 ? new Uint8Array(0) : new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

function resolveView(view: ArrayBufferView, sizeBytes: number, what: string): Spot {
  if (sizeBytes > view.byteLength) {
    throw invalidParam(`${what} needs ${sizeBytes} bytes and the array has ${view.byteLength}; pass a longer array or a smaller size`);
  }
  return new Spot(Location.UNREGISTERED, undefined, asBytes(view), 0, sizeBytes);
}

/** As `resolve`, for memory that tasks of `device` can reach. */
export function resolveOn(device: AclDevice, pointer: Pointer, sizeBytes: number, what: string): number {
  const spot = resolve(pointer, sizeBytes, what);
  if (spot.device !== device) {
    const where = spot.device === undefined ? "pageable host memory (it looks like a host pointer)" : `memory of device ${spot.device.index}`;
    throw invalidParam(`${what} is ${where}; pass memory of device ${device.index}`);
  }
  return spot.offset;
}

/** An 8-aligned word of `device`. @throws AclError 107008 */
export function resolveWord(device: AclDevice, pointer: Pointer, what: string): number {
  const offset = resolveOn(device, pointer, 8, what);
  if (offset % 8 !== 0) {
    throw new AclError(107008, `${what} is not a multiple of 8; align it`);
  }
  return offset;
}

/** Address of `offset` as users see it. */
export function addressOf(device: AclDevice, offset: number, pinned: boolean): number {
  return pinned ? hostAddress(device.index, offset) : deviceAddress(device.index, offset);
}

/** Whether copies between the two may run: the same device, or peer access enabled one way or the other. */
export function canReach(a: AclDevice, b: AclDevice): boolean {
  const has = (from: AclDevice, to: AclDevice): boolean =>
    ((to.index < 32 ? from.get(Shared.PEERS_LOW) : from.get(Shared.PEERS_HIGH)) & (1 << (to.index & 31))) !== 0;
  return a === b || has(a, b) || has(b, a);
}
