/**
 * What the core module exports: the whole seam between host and device. A worker core, an inline or sim core and every host thread have an
 * instance of the same module over the same memory. Sequences cross as f64 (exact below 2^53): no BigInt on a hot path.
 */
export interface CoreExports {
  // ---- life
  /** Writes the header and tables of a fresh (zeroed) memory. `firstSequence` is where every stream's counters start. */
  format(pages: number, cores: number, device: number, firstSequence: number): void;
  /** Makes this instance act as core `core`. Call once, after its core record has SCRATCH. */
  bindCore(core: number): void;
  /** Makes this instance submit as host thread `thread` (0-based). */
  bindThread(thread: number): void;

  // ---- cores
  /** Bounded work: at most about `budget` tiles and tasks. Returns how many it did; -1 when this core was KILLED and must stop at once. */
  step(budget: number): number;
  /** A worker's life: steps, spins about `spinUs`, parks. Returns 0 when the device closes, -1 when killed. */
  loop(spinUs: number): number;
  /** Runs tasks of one stream on the caller until `sequence` has retired (1), nothing more can be done here (0), or this core was killed (-1). */
  help(stream: number, sequence: number): number;
  /** After a trap on this core: finishes the tile or task as failed with `code` (asm/abi/errors.ts) and goes on. 0 = the trap was not in a kernel: device lost. */
  recover(code: number, trap: number): number;
  /** For a worker that is gone: if it had been won to KILLED, finishes its tile or task with `code`. 1 done, 0 nothing to do, -1 it died outside a kernel: device lost. */
  reap(core: number, code: number): number;

  /** Virtual clock: this core's time in us. Set it to 0 or more on every instance of a device that has one; below 0 the clock is the import's. */
  setCoreTime(us: number): void;
  coreTime(): number;

  // ---- submit: -1 ring full, -2 lock busy (its holder may be dead: see takeOver), -3 argument ring full, -4 stream is not live, -5 no ring yet (attachRing)
  /** `op` is a TaskOp, with Task.FLAGS in its second byte. Publishes one task and marks the stream ready; does not ring the bell. Returns its sequence. */
  submit(stream: number, op: number, p0: number, p1: number, p2: number, p3: number, p4: number, p5: number): number;
  /** As submit, with `bytes` of arguments taken from this thread's MAILBOX; P0 becomes their address in the argument ring. */
  submitWithArguments(stream: number, op: number, bytes: number, p1: number, p2: number, p3: number, p4: number, p5: number): number;
  /** Publishes `count` NOP or identical records in one go under one lock. Returns how many fitted (possibly 0). */
  submitMany(stream: number, op: number, p0: number, p1: number, p2: number, p3: number, count: number): number;
  /** RECORD of an event: submits and stores (stream, sequence) in the event. */
  record(stream: number, event: number): number;
  /** Wakes up to `count` sleeping cores; cheap when none sleeps. */
  bell(count: number): void;
  /** Sequence of the last retired task. */
  fence(stream: number): number;
  /** Sequence of the last submitted task. */
  tail(stream: number): number;
  /** Asks for HOST_BELL when `sequence` retires. Returns 1 if it already has. */
  arm(stream: number, sequence: number): number;

  // ---- tables, under TABLE_LOCK; -2 = lock busy
  createContext(): number;
  destroyContext(context: number): number;
  /** -1 none free, -3 the context is destroyed; otherwise the index. */
  createStream(context: number, priority: number): number;
  /** Gives the stream the ring at `ring` (RING_SLOTS * 64 bytes) if it has none yet: 1, else 0. */
  attachRing(stream: number, ring: number, slots: number, args: number): number;
  /** 1 freed, 0 it still has tasks or a core in it, -3 that life of it had ended before. */
  destroyStream(stream: number, generation: number): number;
  createEvent(): number;
  destroyEvent(event: number): number;
  /** Makes `stream` wait for the record of `event` that is current now. Sequence of the wait task; 0 = already reached or never recorded: nothing submitted. */
  waitEvent(stream: number, event: number): number;
  /** Makes a stream look at its head again after the host changed its STATE. */
  kick(stream: number): void;
  /** Event's (stream + 1, sequence, time) one by one; 0 = never recorded. */
  eventStream(event: number): number;
  eventSequence(event: number): number;
  eventTime(event: number): number;

  // ---- pool; addresses are u32 as signed or unsigned i32: callers use `>>> 0`
  /** Address of `bytes` (64-aligned), 0 = does not fit, 1 = lock busy. `tag` is a PoolTag, `owner` any u32 the caller wants back. */
  allocate(bytes: number, tag: number, owner: number): number;
  /** 1 freed, 0 not the start of a live allocation, -2 lock busy. */
  release(address: number): number;
  /** Start of the live allocation that contains `address`, 0 if none. Walks: for error texts and checks of raw addresses. */
  allocationOf(address: number): number;
  /** Requested bytes of a live allocation. */
  allocationBytes(start: number): number;
  /** `owner` and `tag` that a live allocation was made with; 0 if `start` is none. */
  allocationOwner(start: number): number;
  allocationTag(start: number): number;
  /** Start of the first live allocation behind the one at `start` (0: of all); 0 = there is none. For listings, while nobody allocates. */
  nextAllocation(start: number): number;
  poolLive(): number;
  poolPeak(): number;
  poolCount(): number;
  poolLargestFree(): number;
  poolFree(): number;
  /** Live bytes with that tag. */
  poolTag(tag: number): number;
  /** Highest address ever handed out plus its size: what a wipe has to cover. */
  poolHigh(): number;

  // ---- locks of dead threads
  /** Takes the lock at `address` over from `holder` (thread + 1, known to be dead) and repairs what it guarded (`kind`: 0 stream, 1 table, 2 pool). */
  takeOver(address: number, holder: number, kind: number): number;
}

/** What the core module imports. */
export interface CoreImports {
  env: {
    memory: WebAssembly.Memory;
    /** The driver's clock in microseconds: wall on threads and inline, virtual in sim. */
    clock(): number;
    /** Runs a block of the user's kernel that the Launch at `launch` names (asm/abi/kernel.ts); traps like device code. Addresses are u32 as signed i32. */
    kernel(launch: number, block: number, poison: number, stack: number): void;
  };
}
