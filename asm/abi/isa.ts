/** The instruction set. Adding an instruction: one opcode here, one file in asm/kernels, one line in asm/core/interpreter.ts. */
export enum Opcode {
  NOP,
  COPY, // T0 = T1 element for element, same dims and element size; P0 rows and P1 columns per tile (a conversion is a MAP)
  MAP, // strip program BLOCK over its own operand list
  REDUCE, // T0 = fold of T1 over its innermost axes; P0 Fold, P1 outer axes, P2 rows per tile, P3 StripType, P4 ReduceMode, P5 elements per row; BLOCK = strip after
  MATMUL, // T0[..., m, n] = T1[..., m, k] x T2; P0 rows, P1 columns, P4 batches per tile, P2 k, P3 1 = T2 is packed panels of the program's width; BLOCK = epilogue
  CONV, // T0 = conv(T1, T2 packed weights), views [N, D, H, W, C]; P0 = offset of a ConvBlock; BLOCK = epilogue
  POOL, // T0 = pool(T1), views [N, D, H, W, C]; P0 = offset of a ConvBlock, P1 PoolKind
  BRANCH, // control: T0 a BOOL/INT scalar; zero -> region P0, else the next. FLAGS 1: always
  LOOP, // control: T0 an INT64 trip count, T1 an INT64 counter, T2 a BOOL condition (P1 0 = none); adds 1; goes to region P0 while it holds
  CALL, // control: goes to region P0, RETURN comes back to the region after this one
  RETURN,
  PROBE, // P0 Probe, P1 argument
  SOFTMAX, // T0 = softmax of the rows of T1 (f32, innermost dim dense); P0 rows per tile
  NORM, // T0 = (x - mean) / sqrt(variance + e) * T2 + T3 over the rows of T1 (f32, innermost dim dense); P0 rows per tile, P1 e as bits of an f32
  KERNEL, // one block of a user's kernel per tile; P0 offset of its Launch, P1 time limit in ms (0 = the watchdog's). Never in a compiled program
  RNN, // T0 [time, batch, hidden] from T1 [time, batch, gates * hidden] and packed weights T2; states T3 and T4 (LSTM) move on; P0 RnnKind, P1 gates, P2 gates in T5, P3 sequences per tile
  GATHER, // T0 [outer, count, inner] = rows of T1 [outer, size, inner] named by T2 [count], int32 or int64; P0 rows per tile
  GATHER_ELEMENTS, // T0 [rows..., n] = elements of T1 [rows..., size] at T2 [rows..., n]; P0 rows per tile
  SCATTER_ELEMENTS, // elements of T1 [rows..., n] go to T0 [rows..., size] at T2 [rows..., n]; P0 rows per tile, P1 Merge
  TOP_K, // T0 values and T1 int64 positions [rows..., k] of T2 [rows..., n]; T3 int64 [rows, k, 2] work space; P0 rows per tile, P1 1 = the largest
  CUMULATE, // T0 = running folds of T1 [rows..., n]; P0 rows per tile, P1 1 = products instead of sums, P2 1 = each element leaves itself out
  GRID_SAMPLE, // T0 [N, positions, C] = T1 [N, D, H, W, C] at T2 [N, positions, axes]; P0 positions per tile, P1 SampleMode, P2 Border, P3 1 = aligned corners
  ROI_ALIGN, // T0 [rois, H, W, C] of T1 [N, 1, H, W, C], T2 [rois, 4], T3 int64 [rois]; P0 rois per tile, P1 1 = largest, P2 samples, P3 scale and P4 offset as f32 bits
  PACK_INTEGER, // T0 [batches, bytes] = the matrices [k, n] of T1 [batch..., k..., n...], 8-bit, as MATMUL_INTEGER reads them; P0 columns per tile, P1 k, P2 dims of n
  MATMUL_INTEGER, // T0[..., m, n] = (T1[..., m, k] - T3[..., m]) x (T2[..., packed k x n] - T4[..., n]), 8-bit into int32; P0 rows, P1 columns, P4 batches per tile, P2 k; BLOCK: a strip program makes T0 of the sums
  ATTENTION, // T0 [..., rows, values] = softmax(T1 [..., rows, depth] x T2 [..., keys, depth] * scale + T4, if it is there) x T3 [..., keys, values], f32; P0 rows per tile, P1 scale as bits of an f32, P2 first row's last key (FLAGS: AttentionForm)
}

/** FLAGS of ATTENTION. */
export namespace AttentionForm {
  export const CAUSAL: u32 = 1; // row r sees keys up to r + P2 (an i32)
  export const ZEROS: u32 = 2; // a row that sees no key is zeros, not NaN
}
/** Largest depth and number of values of ATTENTION: panels of a block of keys lie in scratch. */
export const ATTENTION_WIDTH: u32 = 256;
/** Most rows of one tile of ATTENTION. */
export const ATTENTION_ROWS: u32 = 512;

/** How an element that SCATTER_ELEMENTS brings meets the one that is there. */
export enum Merge { NONE, ADD, MUL, MIN, MAX }
/** How GRID_SAMPLE reads between pixels, and what lies outside. */
export enum SampleMode { NEAREST, LINEAR, CUBIC }
export enum Border { ZEROS, EDGE, REFLECT }

/** FLAGS of f32 MATMUL and CONV: T3 is a bias per column, sums start from it; below 0 becomes 0; above P5 (bits of an f32) becomes P5. Then BLOCK. */
export namespace Closing {
  export const BIAS: u32 = 1;
  export const RELU: u32 = 2;
  export const CAPPED: u32 = 4;
}

export enum Fold { SUM, MEAN, MAX, MIN, PROD, SUM_SQUARE, L1, LOG_SUM_EXP, ALL, ANY, ARG_MAX, ARG_MIN }
export enum PoolKind { MAX, AVERAGE, AVERAGE_INCLUDE_PAD, LP }

/** Layout of the block at P0 of CONV and POOL: geometry over up to three spatial dims (unused ones are 1, pads 0), outermost first. */
export namespace ConvBlock {
  export const KERNEL: usize = 0; // three u32
  export const STRIDES: usize = 12;
  export const DILATIONS: usize = 24;
  export const PADS: usize = 36; // three u32: padding before
  export const PADS_END: usize = 48; // three u32: padding after
  export const GROUPS: usize = 60;
  export const MODE: usize = 64; // ConvMode
  export const ROWS: usize = 68; // output pixels per tile
  export const COLUMNS: usize = 72; // output channels per tile, whole panels
  export const SIZE: usize = 80;
}
/**
 * How CONV works. GATHER copies the taps of each pixel side by side first (few channels); RUNS reads neighbours in a kernel row as one run, in place;
 * POINTERS reads tap by tap (dilation, groups); DEPTHWISE has one channel per group; WINOGRAD is F(4 x 4, 3 x 3), where ROWS counts rows of tiles;
 * PLANES is depthwise over row-major planes with weights [C][taps], where ROWS counts rows of planes.
 */
export enum ConvMode { GATHER, POINTERS, DEPTHWISE, RUNS, WINOGRAD, PLANES }
/** Bytes of a plane's rows, with the padding around them, that one row of the target needs in mode PLANES. */
export const PLANE_BYTES: u32 = 131072;
/** Elements that may be read behind the last of such a row. */
export const PLANE_SLACK: u32 = 8;

/** Bytes of the rows of source and target that a row of patches needs side by side in mode WINOGRAD where one of them is row-major. */
export const WINOGRAD_BAND_BYTES: u32 = 393216;

/** How REDUCE walks: ROWS folds one row after the other; COLUMNS adds whole lines when neighbours in memory belong to different rows. */
export enum ReduceMode { ROWS, COLUMNS }

/** GRU_RESET_AFTER has a bias T5 inside its reset gate; LSTM may have peepholes there. TANH and RELU are simple layers. */
export enum RnnKind { LSTM, GRU, GRU_RESET_AFTER, TANH, RELU }
/** Numbers that RNN weights are packed by. */
export const GATE_BLOCK: u32 = 16;
