/** Allocators of the user, bound to streams: scratch memory that a task of the stream needs comes from there. Functions stay in the thread that gave them. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { resolve } from "./addresses";
import { HandleTable, HandleType } from "./handles";
import type { LaunchWork, Placed } from "../runtime/kernel-launch";
import { type AclStream, destroyHooks } from "./streams";
import type { AddressOf, Advise, Allocate, GiveBack } from "./shapes";

export interface Allocator {
  object: unknown;
  alloc: Allocate | undefined;
  free: GiveBack | undefined;
  advise: Advise | undefined;
  addressOf: AddressOf | undefined;
}
export interface Registration {
  readonly descriptor: number;
  readonly allocator: Allocator;
  /** Address of the latest block, for the advice. */
  latest: number;
}

const SLOT = 8;
/** Data of a launch that is at least this large takes memory of the stream's allocator. */
const SCRATCH_LEAST = 2048;
const align = (bytes: number): number => Math.ceil(bytes / SLOT) * SLOT;

const descriptors = new HandleTable<Allocator>(HandleType.ALLOCATOR);
const registered = new Map<number, Registration>();
destroyHooks.add(({ handle }) => registered.delete(handle));

export function createAllocator(): number {
  return descriptors.add({ object: undefined, alloc: undefined, free: undefined, advise: undefined, addressOf: undefined });
}

export function allocatorAt(handle: number, what: string): Allocator {
  return descriptors.get(handle, `${what}: allocatorDesc`);
}

/** @throws AclError 107000 while streams use it */
export function destroyAllocator(handle: number, what: string): void {
  allocatorAt(handle, what);
  if ([...registered.values()].some(({ descriptor }) => descriptor === handle)) {
    throw invalidParam(`${what}: a stream uses the allocator; call allocator_unregister first`);
  }
  descriptors.remove(handle, what);
}

export function registerAllocator(stream: AclStream, descriptor: number, what: string): void {
  const allocator = allocatorAt(descriptor, what);
  const missing = (["alloc", "free", "addressOf"] as const).filter((name) => allocator[name] === undefined);
  if (missing.length > 0) {
    throw invalidParam(`${what}: the allocator has no ${missing.join(", no ")} function; set alloc, free and get_addr_from_block`);
  }
  registered.set(stream.handle, { descriptor, allocator, latest: 0 });
}

export function unregisterAllocator(stream: AclStream, what: string): void {
  if (!registered.delete(stream.handle)) {
    throw invalidParam(`${what}: ${stream.core.name} has no allocator; call allocator_register first`);
  }
}

export function allocatorOf(stream: AclStream): Registration | undefined {
  return registered.get(stream.handle);
}

/** Scratch of `sizeBytes` from the stream's allocator, and how it goes back. @throws AclError 207001 if the allocator has none, 107000 for memory elsewhere */
function takeScratch(stream: AclStream, own: Registration, sizeBytes: number, what: string): { offset: number; address: number; giveBack(): void } {
  const { allocator } = own;
  const { object } = allocator;
  const advised = own.latest !== 0 && allocator.advise !== undefined;
  const block = advised ? allocator.advise?.(object, sizeBytes, own.latest) : allocator.alloc?.(object, sizeBytes);
  if (block === undefined || block === null || block === 0) {
    throw new AclError(207001, `${what}: the allocator of ${stream.core.name} gave no block for ${sizeBytes} bytes`);
  }
  const giveBack = (): void => void allocator.free?.(object, block);
  try {
    const address = allocator.addressOf?.(block) ?? 0;
    const spot = resolve(address, sizeBytes, `${what}: the allocator's block`);
    if (spot.device !== stream.device) {
      throw invalidParam(`${what}: the allocator's block lies outside device ${stream.device.index}; allocate it there`);
    }
    own.latest = address;
    return { offset: spot.offset, address, giveBack };
  } catch (error) {
    giveBack();
    throw error;
  }
}

/** Data that does not fit the stream's ring goes to memory of the stream's allocator, if it has one; the arguments are then plain addresses. */
export function placeByAllocator(
  stream: AclStream,
  { placed, slots }: Pick<LaunchWork, "placed" | "slots">,
  what: string,
): { placed: readonly Placed[]; giveBack?: () => void } {
  const own = allocatorOf(stream);
  const sizeBytes = placed.reduce((sum, { bytes }) => sum + align(bytes.length), 0);
  if (own === undefined || sizeBytes < SCRATCH_LEAST || typeof slots === "number") {
    return { placed };
  }
  const { offset, address, giveBack } = takeScratch(stream, own, sizeBytes, what);
  const view = new DataView(slots.buffer, slots.byteOffset);
  let at = 0;
  for (const { slot, bytes } of placed) {
    stream.device.machine.bytes.set(bytes, offset + at);
    view.setBigUint64(SLOT * slot, BigInt(address + at), true);
    at += align(bytes.length);
  }
  return { placed: [], giveBack };
}

export function forgetAllocators(): void {
  descriptors.clear();
  registered.clear();
}
