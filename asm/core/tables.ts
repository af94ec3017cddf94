/** Tables of contexts, streams and events, changed by host threads under TABLE_LOCK. STATE is written last when an entry comes to life: a thread that dies leaves it free. */
import {
  ABI_VERSION, CONTEXT_LIMIT, Context, DeviceState, EVENT_LIMIT, FailureMode, Header, Layout, MAGIC, STREAM_LIMIT,
} from "../abi/device";
import { Event, Stream, StreamState } from "../abi/stream";
import { Task } from "../abi/task";
import { formatPool } from "../mem/pool";
import { streamAt } from "../sync/fence";
import { tryLock, unlock } from "../sync/lock";
import { lockName } from "./local";

const HEADER: usize = Layout.HEADER;
const LOCK: usize = Layout.HEADER + Header.TABLE_LOCK;
const BUSY: i32 = -2;
const NONE: i32 = -1;
const GONE: i32 = -3;

export function format(pages: u32, cores: u32, device: u32, firstSequence: f64): void {
  store<u32>(HEADER, MAGIC, Header.MAGIC);
  store<u32>(HEADER, ABI_VERSION, Header.VERSION);
  store<u32>(HEADER, pages, Header.PAGES);
  store<u32>(HEADER, cores, Header.CORES);
  store<u32>(HEADER, device, Header.DEVICE);
  store<u64>(HEADER, <u64>firstSequence, Header.FIRST_SEQUENCE);
  store<u32>(HEADER, lockName, Header.OPENER);
  formatPool(Layout.HEAP, <usize>pages << 16);
  atomic.store<u32>(HEADER, DeviceState.OPEN, Header.STATE);
}

/** The lowest event that may be free, as far as this thread knows: making 65,536 of them need not look at all of them each time. */
let eventHint: u32 = 0;

/** First entry from `from` on whose STATE (at offset `state`) is 0, below `limit`; keeps the high-water mark in header word `high`. */
function freeEntry(base: usize, size: usize, state: usize, limit: u32, high: usize, from: u32 = 0): i32 {
  const used = load<u32>(HEADER + high);
  for (let i = from; i < used; i++) {
    if (!atomic.load<u32>(base + <usize>i * size + state)) return <i32>i;
  }
  if (used >= limit) return from ? freeEntry(base, size, state, limit, high) : NONE;
  store<u32>(HEADER + high, used + 1);
  return <i32>used;
}

export function createContext(): i32 {
  if (!tryLock(LOCK)) return BUSY;
  const index = freeEntry(Layout.CONTEXTS, Context.SIZE, Context.STATE, CONTEXT_LIMIT, Header.CONTEXT_HIGH);
  if (index >= 0) {
    const context = Layout.CONTEXTS + <usize>index * Context.SIZE;
    store<u32>(context, load<u32>(context, Context.GENERATION) + 1, Context.GENERATION);
    store<u32>(context, 0, Context.STREAMS);
    store<u32>(context, FailureMode.CONTINUE, Context.MODE);
    store<u32>(context, lockName, Context.OWNER);
    store<u32>(context, 0, Context.FAULT);
    store<u32>(context, 0, Context.POISON);
    atomic.store<u32>(context, 0, Context.ERROR);
    atomic.store<u32>(context, 1, Context.STATE);
  }
  unlock(LOCK);
  return index;
}

/** 1 gone, 0 it still has streams. */
export function destroyContext(context: u32): i32 {
  if (!tryLock(LOCK)) return BUSY;
  const at = Layout.CONTEXTS + <usize>context * Context.SIZE;
  const empty = load<u32>(at, Context.STREAMS) == 0;
  if (empty) atomic.store<u32>(at, 0, Context.STATE);
  unlock(LOCK);
  return empty ? 1 : 0;
}

export function createStream(context: u32, priority: u32): i32 {
  if (!tryLock(LOCK)) return BUSY;
  const owner = Layout.CONTEXTS + <usize>context * Context.SIZE;
  if (atomic.load<u32>(owner, Context.STATE) == 0) {
    unlock(LOCK);
    return GONE;
  }
  const index = freeEntry(Layout.STREAMS, Stream.SIZE, Stream.STATE, STREAM_LIMIT, Header.STREAM_HIGH);
  if (index >= 0) {
    const sc = streamAt(<u32>index);
    const first = load<u64>(HEADER, Header.FIRST_SEQUENCE);
    if (load<u32>(sc, Stream.GENERATION) == 0) {
      // Later lives of this index go on counting, so events of an earlier one stay true.
      store<u64>(sc, first, Stream.TAIL);
      store<u64>(sc, first, Stream.SEEN_FENCE);
      atomic.store<u64>(sc, first, Stream.FENCE);
    }
    store<u32>(sc, load<u32>(sc, Stream.GENERATION) + 1, Stream.GENERATION);
    store<u32>(sc, context, Stream.CONTEXT);
    store<u32>(sc, priority, Stream.PRIORITY);
    store<u32>(sc, 0, Stream.ERROR_FAULT);
    store<u32>(sc, 0, Stream.FAILURES);
    atomic.store<u32>(sc, 0, Stream.ERROR);
    store<u32>(owner, load<u32>(owner, Context.STREAMS) + 1, Context.STREAMS);
    atomic.store<u32>(sc, StreamState.LIVE, Stream.STATE);
  }
  unlock(LOCK);
  return index;
}

export function attachRing(stream: u32, ring: u32, slots: u32, args: u32): i32 {
  const sc = streamAt(stream);
  if (!tryLock(sc + Stream.LOCK)) return BUSY;
  const wanted = load<u32>(sc, Stream.RING) == 0;
  if (wanted) {
    // READY of a slot must not match the first sequence that lands there: give it the one before the slot's first.
    const first = load<u64>(sc, Stream.TAIL) + 1;
    for (let i: u32 = 0; i < slots; i++) {
      const sequence = first + i;
      store<u32>(<usize>ring + (<usize>(<u32>sequence & (slots - 1)) << 6), <u32>sequence - slots, Task.READY);
    }
    store<u32>(sc, args, Stream.ARGUMENTS);
    store<u32>(sc, slots - 1, Stream.MASK);
    atomic.store<u32>(sc, ring, Stream.RING);
  }
  unlock(sc + Stream.LOCK);
  return wanted ? 1 : 0;
}

/** 1 freed, 0 it still has tasks or a core in it, -3 that life of it had ended before. Its ring stays with the index for its next life. */
export function destroyStream(stream: u32, generation: u32): i32 {
  const sc = streamAt(stream);
  if (!tryLock(LOCK)) return BUSY;
  if (atomic.load<u32>(sc, Stream.STATE) == StreamState.FREE || load<u32>(sc, Stream.GENERATION) != generation) {
    unlock(LOCK);
    return GONE;
  }
  if (!tryLock(sc + Stream.LOCK)) {
    unlock(LOCK);
    return BUSY;
  }
  const idle = load<u64>(sc, Stream.TAIL) == atomic.load<u64>(sc, Stream.FENCE) && atomic.load<u32>(sc, Stream.OWNER) == 0;
  if (idle) {
    const context = Layout.CONTEXTS + <usize>load<u32>(sc, Stream.CONTEXT) * Context.SIZE;
    store<u32>(context, load<u32>(context, Context.STREAMS) - 1, Context.STREAMS);
    atomic.store<u32>(sc, StreamState.FREE, Stream.STATE);
  }
  unlock(sc + Stream.LOCK);
  unlock(LOCK);
  return idle ? 1 : 0;
}

export function createEvent(): i32 {
  if (!tryLock(LOCK)) return BUSY;
  const index = freeEntry(Layout.EVENTS, Event.SIZE, Event.STATE, EVENT_LIMIT, Header.EVENT_HIGH, eventHint);
  if (index >= 0) {
    eventHint = <u32>index + 1;
    const event = Layout.EVENTS + <usize>index * Event.SIZE;
    store<u32>(event, load<u32>(event, Event.GENERATION) + 1, Event.GENERATION);
    store<f64>(event, 0, Event.TIME);
    atomic.store<u64>(event, 0, Event.PLACE);
    atomic.store<u32>(event, 1, Event.STATE);
  }
  unlock(LOCK);
  return index;
}

export function destroyEvent(event: u32): i32 {
  if (!tryLock(LOCK)) return BUSY;
  atomic.store<u32>(Layout.EVENTS + <usize>event * Event.SIZE, 0, Event.STATE);
  eventHint = min<u32>(eventHint, event);
  unlock(LOCK);
  return 1;
}
