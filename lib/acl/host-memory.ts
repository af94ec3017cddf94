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
  /** All of the buffer. */
  readonly view: WeakRef<Uint8Array>;
}

/** By rising start; ranges are never used again, so a stale address stays stale. */
const ranges: Range[] = [];
/** A buffer keeps its view, and the view names the buffer: both go together. */
const known = new WeakMap<ArrayBufferLike, { readonly start: number; readonly view: Uint8Array }>();
let next = BASE;

export function isHostBuffer(address: number): boolean {
  return address >= BASE && address < LIMIT;
}

/** Address of the first byte of `view`; the same buffer always has the same addresses. */
export function addressOfView(view: ArrayBufferView): number {
  const { buffer } = view;
  let start = known.get(buffer)?.start;
  if (start === undefined) {
    start = next;
    next += Math.max(PAGE, Math.ceil(buffer.byteLength / PAGE) * PAGE + PAGE);
    const all = new Uint8Array(buffer);
    known.set(buffer, { start, view: all });
    ranges.push({ start, sizeBytes: buffer.byteLength, view: new WeakRef(all) });
    if (ranges.length % 1024 === 0) {
      forgetDead();
    }
  }
  return start + view.byteOffset;
}

function forgetDead(): void {
  const live = ranges.filter(({ view: all }) => all.deref() !== undefined);
  ranges.splice(0, ranges.length, ...live);
}

/**
 * The range that was asked for last, with its view held, for the rest of the event loop's turn: that is how long asking a WeakRef holds it too, but each
 * asking costs as much as a copy of 10 KB.
 */
let latest: { readonly range: Range; readonly memory: Uint8Array } | undefined;

function latestOr(address: number): typeof latest {
  if (latest !== undefined && address >= latest.range.start && address < latest.range.start + latest.range.sizeBytes) {
    return latest;
  }
  const range = rangeOf(address);
  const memory = range?.view.deref();
  if (range === undefined || memory === undefined) {
    return undefined;
  }
  if (latest === undefined) {
    setImmediate(() => {
      latest = undefined;
    }).unref();
  }
  latest = { range, memory };
  return latest;
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

/** The buffer behind `address` and the offset in it. @throws AclError 107000 if `sizeBytes` from there are not all there */
export function hostMemory(address: number, sizeBytes: number, what: string): { readonly memory: Uint8Array; readonly offset: number } {
  const found = latestOr(address);
  if (found === undefined) {
    throw invalidParam(
      `${what}: 0x${address.toString(16)} points to a JavaScript buffer that is gone; keep the buffer as long as its address is in use`,
    );
  }
  const { range, memory } = found;
  const offset = address - range.start;
  if (offset + sizeBytes > memory.byteLength) {
    const over = offset + sizeBytes - memory.byteLength;
    const moved = memory.byteLength < range.sizeBytes ? " (it was transferred elsewhere, or made smaller)" : "";
    throw invalidParam(`${what} ends ${over} bytes past its buffer of ${memory.byteLength} bytes${moved}; pass a smaller size`);
  }
  return { memory, offset };
}
