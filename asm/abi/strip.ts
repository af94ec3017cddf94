/**
 * A strip program: bytecode over registers of REGISTER_BYTES, run strip by strip over a range of elements (asm/kernels/strip.ts).
 * Block = header, constants, operands, operations. Registers 0..REGISTERS-1 lie in scratch, the constants follow them in the numbering.
 */
export const REGISTER_BYTES: u32 = 4096;
/** Bytes between registers in scratch: not a multiple of 4 KiB, so that equal offsets of two registers do not share a cache set. */
export const REGISTER_PITCH: u32 = 4160;
export const REGISTER_LIMIT: u32 = 24;
export const CONSTANT_LIMIT: u32 = 40;
/** One constant: its value repeated over 64 bytes, so that a splat operand is a register whose pointer stands still. */
export const SPLAT_BYTES: u32 = 64;
/** Operations work on whole groups of this many elements; a shorter last group runs in scratch. */
export const GROUP: u32 = 16;

export namespace StripBlock {
  export const OPERANDS: usize = 0; // u16
  export const OPERATIONS: usize = 2; // u16
  export const CONSTANTS: usize = 4; // u16
  export const REGISTERS: usize = 6; // u16
  export const ELEMENTS: usize = 8; // u32: of the dims that all operands share
  export const STEP: usize = 12; // u32: elements per strip, a multiple of GROUP
  export const TILE: usize = 16; // u32: elements per tile of a MAP, a multiple of STEP
  export const BYTES: usize = 20; // u32: whole block
  export const SIZE: usize = 64;
}

export namespace StripOperand {
  export const SIZE: usize = 8;
  export const TENSOR: usize = 0; // u32
  export const MODE: usize = 4; // u8 OperandMode
  export const TYPE: usize = 5; // u8 StripType: the register type its dtype loads to
  export const REGISTER: usize = 6; // u8: inputs own theirs; outputs in mode DIRECT too
}
export enum OperandMode {
  FLAT, // input, contiguous: read in place when the dtype is the register type
  SPLAT, // input, one element
  PERIODIC, // input, contiguous with a period: loaded once per range, with one period more than a strip where STEP is no multiple of it
  GATHER, // input, any strides
  ACCUMULATOR, // input, given by the instruction: the values a REDUCE has just folded
  DIRECT, // output, contiguous, of the register's type: the last operation writes to memory
  STORE, // output, contiguous: narrowed or copied at the end of the strip
  SCATTER, // output, any strides
}

export namespace StripOperation {
  export const SIZE: usize = 8;
  export const CODE: usize = 0; // u8 StripCode
  export const TYPE: usize = 1; // u8 StripType of its arguments
  export const TARGET: usize = 2; // u8 register
  export const A: usize = 3; // u8 register or constant
  export const B: usize = 4;
  export const C: usize = 5;
}

export enum StripType { F32, F64, I32, U32, I64, U64 }

export enum StripCode {
  MOVE,
  ADD, SUB, MUL, DIV, MIN, MAX, POW, MOD, FMOD,
  NEG, ABS, SIGN, FLOOR, CEIL, ROUND, TRUNC, SQRT, RSQRT, RECIPROCAL,
  EXP, LOG, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH, COSH, TANH, ASINH, ACOSH, ATANH,
  ERF, SIGMOID, RELU, CLIP, MULADD,
  EQ, NE, LT, LE, GT, GE, AND, OR, XOR, NOT, ISNAN, ISINF,
  BITAND, BITOR, BITXOR, BITNOT, SHL, SHR,
  SELECT,
  CAST_F32, CAST_F64, CAST_I32, CAST_U32, CAST_I64, CAST_U64, CAST_BOOL,
  QUANTIZE_INT8, QUANTIZE_UINT8, // f32 -> i32 of that range: round(a * b) + c
}
