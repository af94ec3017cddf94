/** Copies between device memory and JavaScript's arrays. V8 copies shared memory word by word; the addon is 1.3 to 5 times faster. */
import { type Addon, loadAddon } from "./addon";

/** Below these, calling into the addon, or an allocation that is not cleared, costs more than it saves. */
const NATIVE_BYTES = 4096;
const UNCLEARED_BYTES = 16384;

let native: Addon["copy"] | undefined;
let asked = false;

function nativeCopy(): Addon["copy"] | undefined {
  if (!asked) {
    asked = true;
    native = loadAddon()?.copy;
  }
  return native;
}

/** Copies all of `source` into `target`, which has the same element type; both have `sizeBytes` (asking arrays of many types for it takes 15 ns). */
export function copyBytes(target: ArrayBufferView, source: ArrayBufferView, sizeBytes: number): void {
  if (sizeBytes < NATIVE_BYTES || nativeCopy()?.(target, 0, source, 0, sizeBytes) !== true) {
    (target as Uint8Array).set(source as Uint8Array);
  }
}

/** Copies `sizeBytes` from byte `from` of `source` to byte `to` of `target`. */
export function copyRange(target: Uint8Array, to: number, source: Uint8Array, from: number, sizeBytes: number): void {
  if (sizeBytes < NATIVE_BYTES || nativeCopy()?.(target, to, source, from, sizeBytes) !== true) {
    target.set(source.subarray(from, from + sizeBytes), to);
  }
}

interface ArrayType<T> {
  new (source: T): T;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): T;
}

/** A copy of `source`, which has `sizeBytes`, with memory of its own. */
export function copyOf<T extends ArrayBufferView & { readonly length: number }>(source: T, type: ArrayType<T>, sizeBytes: number): T {
  if (sizeBytes < UNCLEARED_BYTES || nativeCopy() === undefined) {
    return new type(source);
  }
  const copy = new type(Buffer.allocUnsafeSlow(sizeBytes).buffer, 0, source.length); // a buffer of exactly that size, outside any pool
  copyBytes(copy, source, sizeBytes);
  return copy;
}
