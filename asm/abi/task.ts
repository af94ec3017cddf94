/** The 64-byte record of a stream's ring. */
export namespace Task {
  export const SIZE: usize = 64;
  export const READY: usize = 0; // low 32 bits of the sequence once published; written last by the producer
  export const OP: usize = 4; // TaskOp (u8)
  export const FLAGS: usize = 5; // u8: Direction of a copy, RUN_UNBOUNDED of a run
  export const STATUS: usize = 8; // code, written at retire
  export const ARGUMENT_END: usize = 12; // Stream.ARGUMENT_TAIL after this task's arguments
  export const P0: usize = 16; // ten u32 of payload, meaning by op
  export const P1: usize = 20;
  export const P2: usize = 24;
  export const P3: usize = 28;
  export const P4: usize = 32;
  export const P5: usize = 36;
  export const P6: usize = 40;
  export const P7: usize = 44;
  export const P8: usize = 48;
  export const P9: usize = 52;
  export const DONE: usize = 56; // f64 us, virtual clock only: when it was submitted, and from its end on when it retired
}

/**
 * What a task does. Addresses are device addresses; the host has checked their ranges.
 * `descriptor` = address of one or two tensor records (asm/abi/program.ts) whose BASE field holds an absolute address.
 */
export enum TaskOp {
  NOP,
  RUN, // P0 frame
  COPY, // P0 target, P1 source, P2 bytes
  COPY_2D, // P0 target, P1 target pitch, P2 source, P3 source pitch, P4 width bytes, P5 height
  COPY_STRIDED, // P0 target descriptor, P1 source descriptor: same dims; permute, slice, concat, broadcast, convert of dtype
  FILL, // P0 target, P1 bytes, P2 pattern, P3 pattern bytes (1, 2, 4)
  BATCH, // P0 list of {target u32, source u32, bytes u32}, P1 count
  RECORD, // P0 event index
  WAIT, // P0 stream index, P1 sequence low, P2 sequence high, P3 time-out ms (0 = none)
  WRITE_VALUE, // P0 address (8-aligned), P1 low, P2 high, P3 Update
  WAIT_VALUE, // P0 address (8-aligned), P1 low, P2 high, P3 time-out ms (0 = none), P4 Compare, P5 1 = set the word to 0 on success
  PROBE, // P0 Probe, P1 argument: test instrument, never in a compiled program's stream unless asked for
  REDUCE, // P0 target, P1 source, P2 elements, P3 Dtype, P4 Fold: target = target op source
  COPY_DESCRIBED, // P0 address of a CopyDescriptor, read when the task runs
  COPY_POINTED, // P0 address of the target's address, P1 offset, P2 address of the source's address, P3 offset, P4 bytes
  TOUCH, // P0 start, P1 bytes: reads one byte of each line, so that the machine's own cache has them
  RANDOM, // P0 address of a Random record, read when the task runs
}

/** What COPY_DESCRIBED does. Addresses are u64 as users see them. */
export namespace CopyDescriptor {
  export const SIZE: usize = 32;
  export const TARGET: usize = 0; // u64, 0 = no copy: SOURCE is touched
  export const SOURCE: usize = 8; // u64
  export const BYTES: usize = 16; // u64
}

/** Numbers for RANDOM to write. Addresses are u64 as users see them. */
export namespace Random {
  export const SIZE: usize = 64;
  export const DISTRIBUTION: usize = 0; // Distribution
  export const DTYPE: usize = 4; // Dtype
  export const INDIRECT: usize = 8; // bits: SEED (1), COUNT (2), FIRST (4), SECOND (8) hold an address of the value
  export const TARGET: usize = 16; // u64
  export const COUNTER: usize = 24; // u64: address of a u64 that says how many blocks of four numbers were drawn and grows by those of this task; 0 = none
  export const SEED: usize = 32; // u64
  export const COUNT: usize = 40; // u64: elements; of a bit mask, bits
  export const FIRST: usize = 48; // f64: share of zeros, least value, or mean. Behind an address: of the record's dtype
  export const SECOND: usize = 56; // f64: end of the values, or standard deviation
}
export enum Distribution { DROPOUT_MASK, UNIFORM, NORMAL, TRUNCATED_NORMAL }

/** What REDUCE does with two elements; sums of integers wrap. */
export enum Fold { SUM, MAX, MIN }

/** What WRITE_VALUE does to the 64-bit word; atomic. */
export enum Update { SET, ADD, OR, AND }

/** When WAIT_VALUE goes on, of the 64-bit word w and the value v, unsigned. */
export enum Compare { GREATER_EQUAL, EQUAL, AND, NOR, LESS, GREATER, LESS_EQUAL, NOT_EQUAL }

/** Flag of a RUN: it may never end, so no host thread helps with it. */
export const RUN_UNBOUNDED: u32 = 1;

/** Deliberate misbehaviour for tests of the fault and kill protocol, as a task or as an instruction. */
export enum Probe {
  NOTHING,
  UNREACHABLE,
  OUT_OF_BOUNDS,
  DIVIDE_BY_ZERO,
  RUNAWAY, // loops until killed; does not poll
  RUNAWAY_POLLING, // loops, polls the context's poison word and traps on it
  SPIN, // argument: iterations of a dependent multiply
  COUNT, // instruction: adds 1 (not atomic) to the u32 at operand 0 + 4 * tile: a tile run twice or lost shows
  MIX, // task: argument folded into the u32 at P2: order within a stream shows
}
