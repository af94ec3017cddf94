/**
 * Temporary device memory: what a program can compute again makes room when any other allocation of the device would fail. The least recently used goes
 * first, after the streams that used it have come past what they had by then. All other memory is persistent.
 */
import { AclError } from "../errors/acl-error";
import { addressOf } from "./addresses";
import { allocate, ownerAt, reclaimers, releaseAt } from "./allocations";
import { type AclDevice, Shared } from "./devices";
import { HandleTable, HandleType } from "./handles";
import { deviceEnds } from "./lifecycle";
import type { AclStream } from "./streams";
import type { Recompute } from "./shapes";
import { blockOn } from "./waiting";

interface Temporary {
  readonly device: AclDevice;
  readonly sizeBytes: number;
  readonly recompute: Recompute | null;
  /** Resets of the device when it was made: a later one has taken everything. */
  readonly resets: number;
  /** 0 while it is evicted. */
  offset: number;
  evictions: number;
  readonly streams: Set<number>;
}

/** How long an eviction waits for a stream that uses the memory. */
const LONGEST_WAIT_MS = 30_000;

const table = new HandleTable<Temporary>(HandleType.TEMPORARY);
/** Those that hold memory, least recently used first. */
const held = new Set<Temporary>();

export function createTemporary(device: AclDevice, sizeBytes: number, recompute: Recompute | null, what: string): number {
  const offset = allocate(device, sizeBytes, 0, what);
  const made = { device, sizeBytes, recompute, resets: device.get(Shared.RESETS), offset, evictions: 0, streams: new Set<number>() };
  held.add(made);
  return table.add(made);
}

function release(temporary: Temporary): void {
  const { device, offset } = temporary;
  held.delete(temporary);
  temporary.offset = 0;
  temporary.streams.clear();
  if (offset !== 0 && device.machine.lost === undefined && device.get(Shared.RESETS) === temporary.resets) {
    releaseAt(device, offset, ownerAt(device, offset));
  }
}

reclaimers.push((device) => {
  for (const temporary of held) {
    const { machine } = temporary.device;
    const idle = (stream: number): boolean => blockOn(device, stream, machine.core.tail(stream), LONGEST_WAIT_MS);
    if (temporary.device === device && [...temporary.streams].every(idle)) {
      release(temporary);
      temporary.evictions++;
      return true;
    }
  }
  return false;
});

/** The address for tasks that `stream` gets next, before anything else is allocated. @throws AclError 207001 if it is gone for good */
export function useTemporary(handle: number, stream: AclStream, what: string): number {
  const temporary = table.get(handle, `${what}: temporary`);
  const { device, sizeBytes, recompute } = temporary;
  if (stream.device !== device || device.get(Shared.RESETS) !== temporary.resets) {
    const why = stream.device === device ? "its device was reset" : `the stream is of device ${stream.device.index}, the memory of ${device.index}`;
    throw new AclError(107000, `${what}: ${why}`);
  }
  const evicted = temporary.offset === 0;
  if (evicted && recompute === null) {
    throw new AclError(207001, `${what}: ${sizeBytes} bytes were evicted to make room; allocate others, or pass a recompute function`);
  }
  held.delete(temporary); // while it is filled it cannot be evicted
  temporary.offset ||= allocate(device, sizeBytes, 0, what);
  const address = addressOf(device, temporary.offset, false);
  temporary.streams.add(stream.index);
  if (evicted) {
    recompute?.(address, stream.handle);
  }
  held.add(temporary);
  return address;
}

export function evictionsOf(handle: number, what: string): number {
  return table.get(handle, `${what}: temporary`).evictions;
}

export function destroyTemporary(handle: number, what: string): void {
  release(table.remove(handle, `${what}: temporary`));
}

deviceEnds.push((device) => {
  for (const temporary of [...held].filter((one) => one.device === device)) {
    held.delete(temporary); // its memory goes with the device's
  }
});

export function forgetTemporaries(): void {
  table.clear();
  held.clear();
}
