/**
 * A fence only grows: the sequence of the last retired task of a stream. Written by the core that owns the stream, read by cores and hosts.
 * A list of waiters (of a fence, or of an arena pool) holds the streams that must look again when it moves. One stream sits in at most one list.
 */
import { Header, Layout } from "../abi/device";
import { Stream } from "../abi/stream";
import { setReady } from "./ready";
import { bell, hostBell } from "./park";

// @ts-ignore: decorator
@inline
export function streamAt(stream: u32): usize {
  return Layout.STREAMS + <usize>stream * Stream.SIZE;
}

export function reached(sc: usize, sequence: u64): bool {
  // acquire: pairs with the store in `advanceFence`
  return <i64>(atomic.load<u64>(sc, Stream.FENCE) - sequence) >= 0;
}

/** Retires up to `sequence`. */
export function advanceFence(sc: usize, sequence: u64): void {
  // release: publishes every byte the task wrote; pairs with `reached` and with the host's load in lib/host/completions.ts
  atomic.store<u64>(sc, sequence, Stream.FENCE);
  if (atomic.load<u32>(sc, Stream.WAITERS)) wakeList(sc + Stream.WAITERS);
  wakePolled(); // what just retired may have written the word they wait for
  const target = atomic.load<u64>(sc, Stream.HOST_TARGET);
  if (target != 0 && target <= sequence && atomic.cmpxchg<u64>(sc, target, 0, Stream.HOST_TARGET) == target) hostBell();
}

/**
 * Puts the stream into `list`. The caller owns the stream, has seen its condition false, and must look at it again afterwards
 * (the fence may have moved before the push): if it is true by then, `wakeList` takes the stream out.
 */
export function joinList(list: usize, stream: u32, sc: usize): void {
  if (atomic.load<u32>(sc, Stream.WAITING)) return; // still in a list: its waker will set the ready bit
  atomic.store<u32>(sc, 1, Stream.WAITING);
  let head = atomic.load<u32>(list);
  for (;;) {
    store<u32>(sc, head, Stream.WAITER_NEXT);
    const seen = atomic.cmpxchg<u32>(list, head, stream + 1);
    if (seen == head) return;
    head = seen;
  }
}

/** Takes the whole list at once (so there is no ABA) and makes its streams look again. */
export function wakeList(list: usize): void {
  const count = readyList(list);
  if (count) bell(count);
}

/** As `wakeList`, but wakes no core: the caller looks at them itself. Returns how many there were. */
function readyList(list: usize): i32 {
  let waiter = atomic.xchg<u32>(list, 0);
  let count = 0;
  while (waiter) {
    const sc = streamAt(waiter - 1);
    const next = load<u32>(sc, Stream.WAITER_NEXT); // before WAITING falls: then the stream may join another list
    atomic.store<u32>(sc, 0, Stream.WAITING);
    setReady(waiter - 1, load<u32>(sc, Stream.PRIORITY));
    waiter = next;
    count++;
  }
  return count;
}

/** Waits for a word or with a time-out look again: whenever a task retires, and at every step of a core that has nothing else to do. */
export function wakePolled(): void {
  const list = Layout.HEADER + Header.POLLED;
  // No bell: cores that wake each other to poll would never sleep.
  if (atomic.load<u32>(list)) readyList(list);
}

export function hasPolled(): bool {
  return atomic.load<u32>(Layout.HEADER + Header.POLLED) != 0;
}

/** A host asks to be woken at `sequence`; the lowest armed one counts, a woken host arms again for the rest. True if it is reached already. */
export function armFence(sc: usize, sequence: u64): bool {
  for (;;) {
    const target = atomic.load<u64>(sc, Stream.HOST_TARGET);
    if (target != 0 && target <= sequence) break;
    if (atomic.cmpxchg<u64>(sc, target, sequence, Stream.HOST_TARGET) == target) break;
  }
  return reached(sc, sequence);
}
