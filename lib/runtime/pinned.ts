/** Feeds and outputs that lie in pinned memory of the device: a run uses them where they are. */
import { invalidParam } from "../errors/make";
import { PoolTag } from "../host/layout";
import type { Machine } from "../host/machine";
import { holderOf } from "./buffer";
import type { TensorData } from "./tensor";

/** What kernels may expect of the beginning of an input or output. */
const ALIGN = 64;

/**
 * Address of `data` if the device can use it in place; 0 if it has to be copied.
 * @throws AclError 107000 if its pinned buffer was disposed
 */
export function pinnedAddress(machine: Machine, data: TensorData): number {
  if (!machine.exposed) {
    return 0;
  }
  const { byteOffset } = data;
  // Address 0 is no user's. (Asking a small array for its buffer would move it out of V8's heap.)
  if (byteOffset === 0 || data.buffer !== machine.bytes.buffer || byteOffset % ALIGN !== 0) {
    return 0;
  }
  const holder = holderOf(data);
  const live = holder === undefined ? isPinned(machine, byteOffset, data.byteLength) : !holder.disposed;
  if (!live) {
    throw invalidParam("executor.run: the pinned buffer of a tensor was disposed; dispose it when its last run has ended");
  }
  return byteOffset;
}

/** A view that the user made of a buffer's bytes. */
function isPinned({ core }: Machine, address: number, sizeBytes: number): boolean {
  const start = core.allocationOf(address) >>> 0;
  return start !== 0 && core.allocationTag(start) === PoolTag.PINNED && address + sizeBytes <= start + (core.allocationBytes(start) >>> 0);
}

export interface Range {
  readonly start: number;
  readonly end: number;
}

/** Whether [start, end) shares a byte with one of `ranges`. */
export function overlaps({ start, end }: Range, ranges: readonly Range[]): boolean {
  return ranges.some((other) => start < other.end && other.start < end);
}
