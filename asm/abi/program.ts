/**
 * A program image: header, tensor table, region table, instructions, strip blocks, node-name section. Immutable, position independent:
 * every reference inside is a byte offset from its start or an index; addresses come from the frame's bindings only.
 */
export namespace Program {
  export const MAGIC: usize = 0; // PROGRAM_MAGIC
  export const VERSION: usize = 4; // ABI_VERSION
  export const BYTES: usize = 8; // whole image
  export const TENSORS: usize = 12; // offset of the tensor table
  export const TENSOR_COUNT: usize = 16;
  export const REGIONS: usize = 20; // offset of the region table
  export const REGION_COUNT: usize = 24;
  export const INSTRUCTIONS: usize = 28;
  export const INSTRUCTION_COUNT: usize = 32;
  export const STRIPS: usize = 36; // offset of the first strip or parameter block
  export const STRIPS_BYTES: usize = 40;
  export const DEBUG: usize = 44; // offset of node names: u32 count, then offsets, then UTF-8; 0 = none
  export const DEBUG_BYTES: usize = 48;
  export const BINDINGS: usize = 52; // bases a frame must supply
  export const ARENA_BYTES: usize = 56; // size of binding ARENA
  export const FLAGS: usize = 60; // columns of the panels that weights are packed in: programs of one width run on kernel builds of that width
  export const SIZE: usize = 64;
}
export const PROGRAM_MAGIC: u32 = 0x7270_706e; // "nppr"

/** Tensor record. A view: any offset, any strides. Rank 7 to 12 continues in the next record (same layout, its DIMS and STRIDES only). */
export namespace Tensor {
  export const SIZE: usize = 64;
  export const BINDING: usize = 0; // u16
  export const DTYPE: usize = 2; // u8 Dtype
  export const RANK: usize = 3; // u8
  export const FLAGS: usize = 4; // u32
  export const OFFSET: usize = 8; // u32: first element, bytes from the binding's base
  export const BYTES: usize = 12; // u32: bytes between the lowest and one past the highest byte touched
  export const DIMS: usize = 16; // six u32
  export const STRIDES: usize = 40; // six i32, BYTES between neighbours; 0 = broadcast, negative = backwards
}

export namespace Region {
  export const SIZE: usize = 16;
  export const FIRST: usize = 0; // index of its first instruction
  export const COUNT: usize = 4; // instructions, free to run in parallel
  export const TILES: usize = 8; // sum over them; 0 = a control region: one BRANCH, LOOP, CALL or RETURN, run by the completer
  export const COST_NS: usize = 12; // estimate for the whole region: sleepers are woken only above WAKE_COST_NS
}
export const WAKE_COST_NS: u32 = 30000;
export const HOST_WAKE_COST_NS: u32 = 200000;

export namespace Instruction {
  export const SIZE: usize = 64;
  export const OP: usize = 0; // u8 Opcode
  export const FLAGS: usize = 1; // u8, by op
  export const OPERANDS: usize = 2; // u8: how many of T0.. are used
  export const TILES: usize = 4;
  export const NODE: usize = 8; // index into the debug section
  export const BLOCK: usize = 12; // offset in the program of a strip block (MAP: the work; others: the epilogue), 0 = none
  export const T0: usize = 16; // six u32 indices into the tensor table; the target is always T0
  export const T1: usize = 20;
  export const T2: usize = 24;
  export const T3: usize = 28;
  export const T4: usize = 32;
  export const T5: usize = 36;
  export const P0: usize = 40; // six u32 parameters, by op (asm/abi/isa.ts)
  export const P1: usize = 44;
  export const P2: usize = 48;
  export const P3: usize = 52;
  export const P4: usize = 56;
  export const P5: usize = 60;
}

/** Element types. STRING never reaches the device. 2- and 4-bit types are one byte per element there. */
export enum Dtype {
  NONE, FLOAT32, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, FLOAT64, UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16,
  FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, UINT4, INT4, FLOAT4E2M1, FLOAT8E8M0, UINT2, INT2,
}
