/**
 * Device memories. A memory never grows (initial = maximum), so no view goes stale. Dropped memories stay resident until a garbage collection,
 * hence a closed device's memory is wiped as far as it was written, parked, and given to the next device of that size.
 */
import { Context, Event, Header, Layout, Stream } from "./layout";
import { AclError } from "../errors/acl-error";
import { wipe } from "./pages";
import { invalidParam } from "../errors/make";

const PAGE_BYTES = 65536;
/** wasm32 allows 65,536 pages; the last one stays unused so that one past the end is a number below 2^32. */
export const MAX_MEMORY_BYTES = 65535 * PAGE_BYTES;
export const MIN_MEMORY_BYTES = 16 * 1024 * 1024;
/** More than this is not wiped but dropped: wiping would cost more than a fresh memory. */
const WIPE_LIMIT_BYTES = 256 * 1024 * 1024;
const PARKED_PER_SIZE = 4;

const parked = new Map<number, WebAssembly.Memory[]>();

/** A zeroed shared memory of `sizeBytes`, rounded up to whole pages. */
export function takeMemory(sizeBytes: number): WebAssembly.Memory {
  if (!Number.isFinite(sizeBytes) || sizeBytes < MIN_MEMORY_BYTES || sizeBytes > MAX_MEMORY_BYTES) {
    throw invalidParam(`Device.open: memoryBytes is ${sizeBytes}; pass ${MIN_MEMORY_BYTES} to ${MAX_MEMORY_BYTES}`);
  }
  const pages = Math.ceil(sizeBytes / PAGE_BYTES);
  const free = parked.get(pages)?.pop();
  if (free !== undefined) {
    return free;
  }
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  } catch (error) {
    const text = `Device.open: the system refuses ${pages * PAGE_BYTES} bytes of address space for one more device; open fewer devices, pass a smaller memoryBytes, or raise the limit (ulimit -v)`;
    throw new AclError(207001, text, { cause: error });
  }
}

/** Wipes `memory` and keeps it for the next device. `poolHigh` is one past the highest heap byte ever handed out. Nobody may use it any more. */
export function parkMemory(memory: WebAssembly.Memory, poolHigh: number): void {
  const bytes = new Uint8Array(memory.buffer);
  const pages = bytes.length / PAGE_BYTES;
  const list = parked.get(pages) ?? [];
  if (list.length >= PARKED_PER_SIZE || poolHigh - Layout.HEAP > WIPE_LIMIT_BYTES) {
    return;
  }
  const words = new Uint32Array(memory.buffer, Layout.HEADER, 64);
  const used = (word: number): number => words[word >> 2] as number;
  const contexts = Layout.CONTEXTS + used(Header.CONTEXT_HIGH) * Context.SIZE;
  const streams = Layout.STREAMS + used(Header.STREAM_HIGH) * Stream.SIZE;
  const events = Layout.EVENTS + used(Header.EVENT_HIGH) * Event.SIZE;
  bytes.fill(0, Layout.CONTEXTS, contexts);
  bytes.fill(0, Layout.STREAMS, streams);
  bytes.fill(0, Layout.EVENTS, events);
  // The header of the free block behind the highest one lies just past it: one more page covers it.
  wipe(bytes.subarray(Layout.HEAP, Math.min(bytes.length, poolHigh + PAGE_BYTES)));
  bytes.fill(0, 0, Layout.CONTEXTS);
  list.push(memory);
  parked.set(pages, list);
}

/** Drops every parked memory; the garbage collector gives them back to the system. Returns the bytes dropped. */
export function dropParked(): number {
  let sizeBytes = 0;
  for (const [pages, list] of parked) {
    sizeBytes += pages * PAGE_BYTES * list.length;
  }
  parked.clear();
  return sizeBytes;
}
