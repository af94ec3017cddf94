/** Streams, events and the state of a run. See asm/abi/device.ts for the rules of this folder. */

export const RING_SLOTS: u32 = 256;
export const ARGUMENT_RING_BYTES: u32 = 16384;

/**
 * A stream is a ring of 64-byte tasks with many producers (under LOCK) and one consumer at a time (under OWNER).
 * The sequence of a task is its position, from Header.FIRST_SEQUENCE + 1; its slot is `sequence & MASK`.
 * Sequences never restart: a stream index that is used again goes on counting, so an old event stays true.
 */
export namespace Stream {
  export const SIZE: usize = 512;
  // line 0: producers, under LOCK
  export const LOCK: usize = 0; // host thread id (+1) that submits; may be taken over from a dead thread
  export const RING: usize = 4; // address, allocated at first submit
  export const MASK: usize = 8; // slots - 1
  export const ARGUMENTS: usize = 12; // address of the argument ring, 0 before first use
  export const ARGUMENT_TAIL: usize = 16; // bytes ever taken from the argument ring (wraps at 2^32)
  export const TAIL: usize = 24; // u64: sequence of the last task submitted; never read by cores
  export const SEEN_FENCE: usize = 32; // u64: FENCE as a producer last read it, so that a ring with room costs no shared line
  // line 1: the consumer
  export const OWNER: usize = 64; // core (+1) that works on the head, or whose run is in flight; atomic
  export const CONTEXT: usize = 68;
  export const PRIORITY: usize = 72;
  export const STATE: usize = 76; // StreamState; atomic
  export const GENERATION: usize = 80;
  export const LANE: usize = 84; // hardware lane + 1 while this stream holds one
  // line 2: written at retire
  export const FENCE: usize = 128; // u64: sequence of the last retired task; only grows
  export const ARGUMENT_HEAD: usize = 136; // argument bytes given back; written before FENCE
  // line 3: the open region: what cores fight for, so that one line travels
  export const TICKETS: usize = 192; // two u64, one per share of the tiles: (epoch << 32) | tiles left to claim; claimed by CAS
  export const PENDING: usize = 208; // tiles of the region not finished; whoever takes it to 0 is the completer
  export const REGION: usize = 212; // index of the open region; written by the owner before TICKETS open
  // line 4: the run in flight, written by the owner when it begins: every core reads it, nobody writes it between two regions that end well
  export const PROGRAM: usize = 256; // address, 0 = no run in flight
  export const FRAME: usize = 260;
  export const RUN_FAULT: usize = 264; // first code of this run; CAS 0 -> code
  export const RUN_FAULT_NUMBER: usize = 268; // fault number (+1)
  export const UNBOUNDED: usize = 272; // 1: the run is a user's kernel, which only worker cores may run
  export const STARTED: usize = 280; // f64 us, only while tracing
  // line 5: the virtual clock
  export const TIME: usize = 320; // f64 us: nothing of this stream starts earlier
  export const END: usize = 328; // f64 us: when the last tile of the open region ends
  // line 6: who waits
  export const HOST_TARGET: usize = 384; // u64: lowest sequence a host armed; 0 = none
  export const WAITERS: usize = 392; // list of streams blocked on this fence: stream index + 1
  export const WAITER_NEXT: usize = 396; // next in the list that this stream sits in
  export const WAITING: usize = 400; // 1 while this stream sits in a list
  export const WAIT_SINCE: usize = 408; // f64 us: when the wait at the head first blocked; 0 = it has not
  // line 7: failures of CONTINUE mode: reported and cleared by the next synchronize
  export const ERROR: usize = 448; // code of the latest failing task; atomic
  export const ERROR_FAULT: usize = 452; // its fault number (+1), 0 if it has no record
  export const FAILURES: usize = 456; // failing tasks so far
}
export enum StreamState { FREE, LIVE, STOPPED, ABORTING }

/** An event is a place in a stream: the record task that was current when somebody looked. */
export namespace Event {
  export const SIZE: usize = 32;
  export const STATE: usize = 0; // 0 free, 1 live, under TABLE_LOCK
  export const PLACE: usize = 8; // u64 (sequence << PLACE_STREAM_BITS) | stream index + 1 of the latest record call; 0 = never; one atomic word, so no reader sees half
  export const TIME: usize = 16; // f64 us of the driver's clock, written by the record task
  export const GENERATION: usize = 24;
}

export const PLACE_STREAM_BITS: u32 = 13;

/** Per-call state of a program. BASES[i] is the address of binding i. Allocated by the host, reused from call to call. */
export namespace Frame {
  export const PROGRAM: usize = 0; // address; below 0x10000: bytes from the frame, for a frame and program that lie in an argument ring
  export const CANCEL: usize = 4; // host writes a code: the run retires with it at the next region edge
  export const STATUS: usize = 8; // written before the task retires: 0 or the first code
  export const FAULT: usize = 12; // fault number (+1)
  export const ARENAS: usize = 16; // address of an ArenaPool, 0 = bases[ARENA] is fixed
  export const SLOT: usize = 20; // arena slot in use (+1), 0 = none
  export const BINDINGS: usize = 24; // number of bases
  export const DEPTH: usize = 28; // calls on STACK
  export const STACK: usize = 32; // CALL_DEPTH return regions (u32)
  export const BASES: usize = 64;
}
export const CALL_DEPTH: u32 = 8;

/** Bindings every program has; inputs follow, then outputs. */
export enum Binding { DATA, ARENA, FIRST_INPUT }

/** Arenas that the runs of one executor share: a run takes one when it starts and gives it back when it retires. */
export namespace ArenaPool {
  export const SIZE: usize = 64;
  export const FREE: usize = 0; // u64: bit per free arena; atomic
  export const BASE: usize = 8; // address of arena 0
  export const STRIDE: usize = 12; // bytes between arenas
  export const WAITERS: usize = 16; // list of streams that wait for an arena: stream index + 1
}
