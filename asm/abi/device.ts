/**
 * The memory map of a device and the records that every core and every host thread shares.
 * Compiled by asc into the core and by tsc into lib: annotated constants and plain enums only (see asm/README.md).
 * Fields are byte offsets into their record; `u64` fields are 8-aligned. Words that several threads write have a 64-byte line of their own.
 */

/** Raised whenever a layout in asm/abi changes; host and core compare it when they meet (attach, saved programs). */
export const ABI_VERSION: u32 = 1;

/** Fixed addresses. Everything above HEAP is handed out by the pool (asm/mem/pool.ts). Address 0 is null. */
export namespace Layout {
  export const HEADER: usize = 0x400;
  export const CORES: usize = 0x1000; // CORE_LIMIT records
  export const READY: usize = 0x9000; // PRIORITIES bitmaps of STREAM_LIMIT bits
  export const THREADS: usize = 0xa000; // THREAD_LIMIT records
  export const FAULTS: usize = 0xd000; // ring of FAULT_LIMIT records
  export const POOL: usize = 0xf000; // state of the allocator
  export const STATIC: usize = 0xff00; // asc's --memoryBase: static data would land here; a release build has none
  export const CONTEXTS: usize = 0x10000; // CONTEXT_LIMIT records
  export const STREAMS: usize = 0x90000; // STREAM_LIMIT records
  export const EVENTS: usize = 0x290000; // EVENT_LIMIT records
  export const HEAP: usize = 0x490000; // 4.6 MiB; untouched pages of the tables cost nothing
}

/** Worker cores are 0..WORKER_LIMIT-1 (one bit each in SLEEPERS); host threads that run device code themselves use the rest. */
export const WORKER_LIMIT: u32 = 64;
export const CORE_LIMIT: u32 = 256;
export const THREAD_LIMIT: u32 = 192; // host thread t may act as core WORKER_LIMIT + t
export const FAULT_LIMIT: u32 = 64;
export const CONTEXT_LIMIT: u32 = 4096;
export const STREAM_LIMIT: u32 = 4096; // CANN's largest limit is 2,048; the rest is for default streams
export const EVENT_LIMIT: u32 = 65536;
export const PRIORITIES: u32 = 8; // 0 is served first
/** What kernels use of a core's scratch: strip registers, packed panels, pointer tables. Untouched pages cost nothing. */
export const KERNEL_SCRATCH_BYTES: u32 = 1048576;
/** Scratch that each core owns: the kernels' part, then MICRO_SCRATCH_BYTES (asm/abi/micro.ts) of its instance of the micro module. */
export const SCRATCH_BYTES: u32 = 1375232;
/** Where a host thread lays task arguments before `submit` copies them into the stream's argument ring. */
export const MAILBOX_BYTES: u32 = 4096;

export namespace Header {
  export const MAGIC: usize = 0x0;
  export const VERSION: usize = 0x4;
  export const PAGES: usize = 0x8; // size of the memory in 64 KiB pages
  export const CORES: usize = 0xc; // worker cores of this device
  export const DEVICE: usize = 0x10; // index of the device in its process
  export const STATE: usize = 0x14; // DeviceState; atomic
  export const FIRST_SEQUENCE: usize = 0x18; // u64: every stream starts here (the sim starts just below 2^32)
  export const OPENER: usize = 0x20; // host thread id (+1) that owns the cores
  export const STREAM_HIGH: usize = 0x24; // one past the highest stream index ever used
  export const CONTEXT_HIGH: usize = 0x28;
  export const EVENT_HIGH: usize = 0x2c;
  export const BELL: usize = 0x40; // grows when sleeping cores should look again
  export const SLEEPERS: usize = 0x80; // u64: bit per worker core that sleeps or is about to
  export const HOST_BELL: usize = 0xc0; // grows when a host's armed fence is reached
  export const HOST_WAITERS: usize = 0x100; // host threads waiting on HOST_BELL
  export const TABLE_LOCK: usize = 0x140; // host thread id (+1) that changes contexts, streams or events
  export const POOL_LOCK: usize = 0x180; // host thread id (+1) inside the pool
  export const FAULT_COUNT: usize = 0x1c0; // faults recorded so far; record i lies at FAULTS + (i % FAULT_LIMIT) * Fault.SIZE
  export const SUMMARY: usize = 0x200; // PRIORITIES u64: bit w = word w of that priority's ready bitmap may be non-zero
  export const TRACE: usize = 0x240; // address of the trace ring, 0 = off
  export const TRACE_MASK: usize = 0x244; // slots - 1
  export const TRACE_NEXT: usize = 0x280; // slots taken so far; atomic
  export const POLLED: usize = 0x2c0; // list of streams whose wait has no fence to tell them: values, time-outs; stream index + 1
  export const LANES: usize = 0x300; // hardware lanes: streams that may be at work at once; 0 = no limit
  export const LANES_FREE: usize = 0x340; // atomic
  export const LANE_WAITERS: usize = 0x380; // list of streams that wait for a lane
  export const BANDWIDTHS: usize = 0x3c0; // four f64, bytes per us, by Direction: what a copy costs on a virtual clock
  export const ENGINE_TIMES: usize = 0x3e0; // four f64, us: when the copy engine of each Direction is free, on a virtual clock
  export const TASK_COST: usize = 0x400; // f64 us: what every task costs at least, on a virtual clock
  export const BINARIES: usize = 0x440; // ids given to kernel binaries so far; atomic
  export const PRINT: usize = 0x444; // address of the PrintRing (asm/abi/kernel.ts), 0 = no kernel prints
  export const LANE_TIMES: usize = 0x480; // TIMED_LANES f64, us: when each lane is free, on a virtual clock
}
/** A virtual clock tells this many lanes apart; with more there is no waiting for one. */
export const TIMED_LANES: u32 = 64;
export const MAGIC: u32 = 0x7472_7570; // "purt"

/** Which way a copy goes: Task.FLAGS of a DMA task. */
export enum Direction { DEVICE_TO_DEVICE, HOST_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_HOST }

export enum DeviceState { CLOSED, OPEN, CLOSING, LOST }

export namespace Core {
  export const SIZE: usize = 128;
  export const STATE: usize = 0; // CoreState
  export const PHASE: usize = 4; // Phase; atomic: KERNEL -> DEVICE by the core, KERNEL -> KILLED by the watchdog
  export const STREAM: usize = 8; // stream index + 1 whose tile or task runs
  export const INSTRUCTION: usize = 12; // address of the instruction, or 0 for a task
  export const TILE: usize = 16;
  export const KIND: usize = 20; // Work
  export const BEAT: usize = 24; // grows with every tile and task: a beat that stands still in KERNEL is a stuck kernel
  export const TILES: usize = 28;
  export const TASKS: usize = 32;
  export const PARKS: usize = 36;
  export const TRAPS: usize = 40;
  export const SCRATCH: usize = 44; // address of SCRATCH_BYTES of its own
  export const CONTEXT: usize = 48; // context index of the running kernel
  export const POISON: usize = 52; // the word that unbounded kernels poll: non-zero = trap. 0 at the start of each tile and task; set by the watchdog, or for Context.POISON
  export const TID: usize = 56; // system thread id of the worker, 0 where unknown
}
export enum CoreState { FREE, UP, STOPPED, LOST }
/** A core in KERNEL holds exactly one claimed and unfinished tile (or one task) and no lock; only there can it trap or be killed. */
export enum Phase { IDLE, DEVICE, KERNEL, KILLED }
export enum Work { TILE, TASK }

export namespace Thread {
  export const SIZE: usize = 64;
  export const STATE: usize = 0; // 0 free, 1 claimed; atomic
  export const TID: usize = 4; // system thread id, 0 where unknown
  export const BORN: usize = 8; // f64: start time of that thread as the system counts it, so that a reused id is told apart
  export const MAILBOX: usize = 16; // address of MAILBOX_BYTES
  export const SERIAL: usize = 20; // grows with each claim
}

export namespace Fault {
  export const SIZE: usize = 64;
  export const CODE: usize = 0; // Code
  export const STREAM: usize = 4;
  export const SEQUENCE: usize = 8; // u64
  export const CORE: usize = 16;
  export const TILE: usize = 20;
  export const INSTRUCTION: usize = 24; // address, 0 for a task
  export const PROGRAM: usize = 28; // address, 0 for a task
  export const NODE: usize = 32; // index into the program's node names
  export const TASK: usize = 36; // TaskOp
  export const CONTEXT: usize = 40;
  export const TRAP: usize = 44; // Trap
  export const TIME: usize = 48; // f64, clock of the driver, us
}

/** Trace ring record, written by cores when Header.TRACE is set. */
export namespace Trace {
  export const SIZE: usize = 64;
  export const KIND: usize = 0; // TraceKind
  export const CORE: usize = 4;
  export const STREAM: usize = 8;
  export const OP: usize = 12; // TaskOp or Opcode
  export const SEQUENCE: usize = 16; // u64
  export const NODE: usize = 24;
  export const TILE: usize = 28;
  export const START: usize = 32; // f64 us
  export const END: usize = 40; // f64 us
  export const PROGRAM: usize = 48;
  export const READY: usize = 52; // slot number + 1 once the record is whole; atomic
}
export enum TraceKind { TASK, TILE, RUN }

export namespace Context {
  export const SIZE: usize = 128;
  export const STATE: usize = 0; // 0 free, 1 live; changed under TABLE_LOCK
  export const GENERATION: usize = 4;
  export const STREAMS: usize = 8; // live streams
  export const MODE: usize = 12; // FailureMode
  export const DEFAULT_STREAM: usize = 16; // stream index
  export const OWNER: usize = 20; // host thread id (+1) that made it
  export const ERROR: usize = 64; // the latched code of STOP mode; CAS 0 -> code
  export const FAULT: usize = 68; // fault number (+1) of that code
  export const POISON: usize = 72; // non-zero: unbounded kernels of this context trap at their next poll
}
export enum FailureMode { CONTINUE, STOP }

/** Who owns an allocation; statistics are kept per tag. */
export enum PoolTag { NONE, USER, PINNED, RING, SCRATCH, PROGRAM, DATA, FRAME, ARENA, STAGING, TRACE }
export const POOL_TAGS: u32 = 16;
