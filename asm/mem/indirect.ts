/** Tasks whose addresses stand in device memory and are read when the task runs. What the host could not check is checked here: a bad address traps. */
import { Header, Layout } from "../abi/device";
import { CopyDescriptor, Task } from "../abi/task";

/** Upper half of an address, by what it names: lib/runtime/address.ts. */
const DEVICE_TAG: u32 = 16;
const HOST_TAG: u32 = 4096;
const LINE: usize = 64;

/** Traps as an access outside the memory does: a device has less than 4 GiB. */
function outOfBounds(): void {
  store<u8>(u32.MAX_VALUE, 0);
}

/** The place of `bytes` at an address of a user, which must be in this device's memory and not in its tables. */
export function placeOf(address: u64, bytes: u64): usize {
  const device = load<u32>(Layout.HEADER, Header.DEVICE);
  const tag = <u32>(address >> 32);
  const offset = <u64><u32>address;
  if ((tag != DEVICE_TAG + device && tag != HOST_TAG + device) || offset < Layout.HEAP || offset + bytes > <u64>memory.size() << 16) outOfBounds();
  return <usize>offset;
}

export function copyDescribed(task: usize): void {
  const descriptor = <usize>load<u32>(task, Task.P0);
  const target = load<u64>(descriptor, CopyDescriptor.TARGET);
  const bytes = load<u64>(descriptor, CopyDescriptor.BYTES);
  const source = placeOf(load<u64>(descriptor, CopyDescriptor.SOURCE), bytes);
  if (target) memory.copy(placeOf(target, bytes), source, <usize>bytes);
  else touch(source, <usize>bytes);
}

export function copyPointed(task: usize): void {
  const bytes = <u64>load<u32>(task, Task.P4);
  const target = load<u64>(load<u32>(task, Task.P0)) + <u64>load<u32>(task, Task.P1);
  const source = load<u64>(load<u32>(task, Task.P2)) + <u64>load<u32>(task, Task.P3);
  memory.copy(placeOf(target, bytes), placeOf(source, bytes), <usize>bytes);
}

/** Loads that nobody needs: volatile, so they stay. */
export function touch(start: usize, bytes: usize): void {
  for (let at = start, end = start + bytes; at < end; at += LINE) atomic.load<u8>(at);
}
