/**
 * Submitting, by host threads, under the stream's lock. Order inside the lock: payload, READY (publishes), TAIL, ready bit. A thread that dies anywhere
 * in between leaves either nothing (its record was not READY) or a whole task that `repairStream` counts: none is lost, none is half.
 */
import { Layout, Thread } from "../abi/device";
import { ARGUMENT_RING_BYTES, Event, PLACE_STREAM_BITS, Stream, StreamState } from "../abi/stream";
import { Task, TaskOp } from "../abi/task";
import { armFence, reached, streamAt } from "../sync/fence";
import { tryLock, unlock } from "../sync/lock";
import { setReady } from "../sync/ready";
import { lockName } from "./local";
import { slotOf } from "./streams";
import { stampIssued } from "./time";

const FULL: f64 = -1;
const BUSY: f64 = -2;
const ARGUMENTS_FULL: f64 = -3;
const NOT_LIVE: f64 = -4;
const NO_RING: f64 = -5;

/** Sequences the ring has room for, at most `wanted`. */
function room(sc: usize, tail: u64, wanted: u32): u32 {
  const slots = <u64>load<u32>(sc, Stream.MASK) + 1;
  let left = slots - (tail - load<u64>(sc, Stream.SEEN_FENCE));
  if (left < <u64>wanted) {
    // acquire: the slots up to the fence are read to the end; pairs with `advanceFence`
    const fence = atomic.load<u64>(sc, Stream.FENCE);
    store<u64>(sc, fence, Stream.SEEN_FENCE);
    left = slots - (tail - fence);
  }
  return left < <u64>wanted ? <u32>left : wanted;
}

/** Checks that hold under the lock: 0 or a negative answer of `submit`. */
function refuse(sc: usize): f64 {
  if (atomic.load<u32>(sc, Stream.STATE) == StreamState.FREE) return NOT_LIVE;
  return load<u32>(sc, Stream.RING) ? 0 : NO_RING;
}

function publish(stream: u32, sc: usize, record: usize, op: u32, sequence: u64): void {
  store<u16>(record, <u16>op, Task.OP); // OP and, in the second byte of `op`, FLAGS
  store<u32>(record, load<u32>(sc, Stream.ARGUMENT_TAIL), Task.ARGUMENT_END);
  stampIssued(record);
  // release: publishes the record; pairs with the load in `hasHead` and `advance`
  atomic.store<u32>(record, <u32>sequence, Task.READY);
  store<u64>(sc, sequence, Stream.TAIL);
}

export function submit(stream: u32, op: u32, p0: u32, p1: u32, p2: u32, p3: u32, p4: u32, p5: u32): f64 {
  const sc = streamAt(stream);
  if (!tryLock(sc + Stream.LOCK)) return BUSY;
  let answer = refuse(sc);
  if (answer == 0) answer = put(stream, sc, op, p0, p1, p2, p3, p4, p5);
  unlock(sc + Stream.LOCK);
  return answer;
}

function put(stream: u32, sc: usize, op: u32, p0: u32, p1: u32, p2: u32, p3: u32, p4: u32, p5: u32): f64 {
  const tail = load<u64>(sc, Stream.TAIL);
  if (!room(sc, tail, 1)) return FULL;
  const sequence = tail + 1;
  const record = slotOf(sc, sequence);
  store<u32>(record, p0, Task.P0);
  store<u32>(record, p1, Task.P1);
  store<u32>(record, p2, Task.P2);
  store<u32>(record, p3, Task.P3);
  store<u32>(record, p4, Task.P4);
  store<u32>(record, p5, Task.P5);
  publish(stream, sc, record, op, sequence);
  setReady(stream, load<u32>(sc, Stream.PRIORITY));
  return <f64>sequence;
}

/** Room for `bytes` in one piece of the argument ring: its address, or 0. Moves ARGUMENT_TAIL; the next task's ARGUMENT_END gives it back. */
function takeArguments(sc: usize, bytes: u32): usize {
  const ring = <usize>load<u32>(sc, Stream.ARGUMENTS);
  if (!ring) return 0;
  const size = (bytes + 15) & ~15;
  const tail = load<u32>(sc, Stream.ARGUMENT_TAIL);
  let at = tail & (ARGUMENT_RING_BYTES - 1);
  const skip: u32 = at + size > ARGUMENT_RING_BYTES ? ARGUMENT_RING_BYTES - at : 0;
  if (tail + skip + size - load<u32>(sc, Stream.ARGUMENT_HEAD) > ARGUMENT_RING_BYTES) return 0;
  if (skip) at = 0;
  store<u32>(sc, tail + skip + size, Stream.ARGUMENT_TAIL);
  return ring + at;
}

export function submitWithArguments(stream: u32, op: u32, bytes: u32, p1: u32, p2: u32, p3: u32, p4: u32, p5: u32): f64 {
  const sc = streamAt(stream);
  if (!tryLock(sc + Stream.LOCK)) return BUSY;
  let answer = refuse(sc);
  if (answer == 0) {
    // acquire: ARGUMENT_HEAD is written before FENCE
    store<u64>(sc, atomic.load<u64>(sc, Stream.FENCE), Stream.SEEN_FENCE);
    if (!room(sc, load<u64>(sc, Stream.TAIL), 1)) answer = FULL;
    else {
      const target = takeArguments(sc, bytes);
      if (!target) answer = ARGUMENTS_FULL;
      else {
        const mailbox = <usize>load<u32>(Layout.THREADS + <usize>(lockName - 1) * Thread.SIZE, Thread.MAILBOX);
        memory.copy(target, mailbox, bytes);
        answer = put(stream, sc, op, <u32>target, p1, p2, p3, p4, p5);
      }
    }
  }
  unlock(sc + Stream.LOCK);
  return answer;
}

export function submitMany(stream: u32, op: u32, p0: u32, p1: u32, p2: u32, p3: u32, count: u32): f64 {
  const sc = streamAt(stream);
  if (!tryLock(sc + Stream.LOCK)) return BUSY;
  let answer = refuse(sc);
  if (answer == 0) {
    const tail = load<u64>(sc, Stream.TAIL);
    const fits = room(sc, tail, count);
    for (let i: u32 = 1; i <= fits; i++) {
      const record = slotOf(sc, tail + i);
      store<u32>(record, p0, Task.P0);
      store<u32>(record, p1, Task.P1);
      store<u32>(record, p2, Task.P2);
      store<u32>(record, p3, Task.P3);
      publish(stream, sc, record, op, tail + i);
    }
    if (fits) setReady(stream, load<u32>(sc, Stream.PRIORITY));
    answer = <f64>fits;
  }
  unlock(sc + Stream.LOCK);
  return answer;
}

// @ts-ignore: decorator
@inline
function eventAt(event: u32): usize {
  return Layout.EVENTS + <usize>event * Event.SIZE;
}

export function record(stream: u32, event: u32): f64 {
  const sequence = submit(stream, TaskOp.RECORD, event, 0, 0, 0, 0, 0);
  if (sequence > 0) atomic.store<u64>(eventAt(event), (<u64>sequence << PLACE_STREAM_BITS) | <u64>(stream + 1), Event.PLACE);
  return sequence;
}

export function eventStream(event: u32): u32 {
  return <u32>atomic.load<u64>(eventAt(event), Event.PLACE) & ((1 << PLACE_STREAM_BITS) - 1);
}

export function eventSequence(event: u32): f64 {
  return <f64>(atomic.load<u64>(eventAt(event), Event.PLACE) >> PLACE_STREAM_BITS);
}

export function eventTime(event: u32): f64 {
  return load<f64>(eventAt(event), Event.TIME);
}

export function waitEvent(stream: u32, event: u32): f64 {
  const place = atomic.load<u64>(eventAt(event), Event.PLACE);
  if (!place) return 0;
  const other = (<u32>place & ((1 << PLACE_STREAM_BITS) - 1)) - 1;
  const sequence = place >> PLACE_STREAM_BITS;
  if (reached(streamAt(other), sequence)) return 0;
  return submit(stream, TaskOp.WAIT, other, <u32>sequence, <u32>(sequence >> 32), 0, 0, 0);
}

export function fence(stream: u32): f64 {
  return <f64>atomic.load<u64>(streamAt(stream), Stream.FENCE);
}

export function tail(stream: u32): f64 {
  return <f64>atomic.load<u64>(streamAt(stream), Stream.TAIL);
}

export function arm(stream: u32, sequence: f64): u32 {
  return armFence(streamAt(stream), <u64>sequence) ? 1 : 0;
}

export function kick(stream: u32): void {
  setReady(stream, load<u32>(streamAt(stream), Stream.PRIORITY));
}

/** Counts what a dead holder of LOCK had published, and shows it to the cores. */
export function repairStream(sc: usize): void {
  if (load<u32>(sc, Stream.RING)) {
    for (;;) {
      const next = load<u64>(sc, Stream.TAIL) + 1;
      if (atomic.load<u32>(slotOf(sc, next), Task.READY) != <u32>next) break;
      store<u64>(sc, next, Stream.TAIL);
    }
  }
  setReady(<u32>((sc - Layout.STREAMS) / Stream.SIZE), load<u32>(sc, Stream.PRIORITY));
}
