/**
 * Addresses of JavaScript buffers: `bytes_to_ptr` gives a buffer's memory a range of addresses of its own, from 2^45 on. As in Python the address does
 * not keep the buffer alive: who drops the buffer has a dangling pointer, which is found out and named.
 */
import { invalidParam } from "../errors/make";

const BASE = 2 ** 45;
const LIMIT = 2 ** 46;
const PAGE = 4096;

interface Range {
  readonly start: number;
  readonly sizeBytes: number;
  readonly buffer: WeakRef<ArrayBufferLike>;
}

/** By rising start; ranges are never used again, so a stale address stays stale. */
const ranges: Range[] = [];
const known = new WeakMap<ArrayBufferLike, number>();
let next = BASE;

export function isHostBuffer(address: number): boolean {
  return address >= BASE && address < LIMIT;
}

/** Address of the first byte of `view`; the same buffer always has the same addresses. */
export function addressOfView(view: ArrayBufferView): number {
  const { buffer } = view;
  let start = known.get(buffer);
  if (start === undefined) {
    start = next;
    next += Math.max(PAGE, Math.ceil(buffer.byteLength / PAGE) * PAGE + PAGE);
    known.set(buffer, start);
    ranges.push({ start, sizeBytes: buffer.byteLength, buffer: new WeakRef(buffer) });
    if (ranges.length % 1024 === 0) {
      forgetDead();
    }
  }
  return start + view.byteOffset;
}

function forgetDead(): void {
  const live = ranges.filter(({ buffer }) => buffer.deref() !== undefined);
  ranges.splice(0, ranges.length, ...live);
}

function rangeOf(address: number): Range | undefined {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ranges[middle]!.start <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return ranges[low - 1];
}

/** `sizeBytes` from `address` on. @throws AclError 107000 if they are not all there */
export function hostBytes(address: number, sizeBytes: number, what: string): Uint8Array {
  const range = rangeOf(address);
  const buffer = range?.buffer.deref();
  if (range === undefined || buffer === undefined) {
    throw invalidParam(
      `${what}: 0x${address.toString(16)} points to a JavaScript buffer that is gone; keep the buffer as long as its address is in use`,
    );
  }
  const offset = address - range.start;
  if (offset + sizeBytes > range.sizeBytes) {
    throw invalidParam(`${what} ends ${offset + sizeBytes - range.sizeBytes} bytes past its buffer of ${range.sizeBytes} bytes; pass a smaller size`);
  }
  return new Uint8Array(buffer, offset, sizeBytes);
}
