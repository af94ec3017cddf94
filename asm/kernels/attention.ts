/**
 * ATTENTION: softmax(Q x K^T * scale + mask) x V. One tile = a block of rows of one matrix. Keys go by in blocks, each with the largest score and the
 * sum of exponents so far (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), so scratch
 * holds a block of scores and no matrix of rows x keys is ever in memory. Blocks are cut by keys alone: the cut of rows into tiles changes no bit.
 */
import { ATTENTION_WIDTH, AttentionForm } from "../abi/isa";
import { Instruction } from "../abi/program";
import { canonicalF32 } from "../micro/load";
import { exp } from "../micro/math";
import { exponentRows, gemm, panelColumns } from "../micro/module";
import { packPanels } from "./panels";
import { addressOf, dim, offsetAt, rank, record, stride } from "./view";

/** Keys whose panels and scores are in scratch at a time, and rows of scores: they stay in the second-level cache. */
const KEYS: u32 = 256;
const ROWS: u32 = 64;

const KEY_PANELS: usize = 0;
const VALUE_PANELS: usize = KEY_PANELS + <usize>KEYS * ATTENTION_WIDTH * 4;
const QUERIES: usize = VALUE_PANELS + <usize>KEYS * ATTENTION_WIDTH * 4;
const SCORES: usize = QUERIES + <usize>ROWS * ATTENTION_WIDTH * 4;
/** What `exponentRows` reads and leaves: largest score and sum of a block, 8 bytes a row. */
const MOMENTS: usize = SCORES + <usize>ROWS * KEYS * 4;
/** Largest score and sum of all blocks so far, 8 bytes a row of the tile. */
const RUNNING: usize = MOMENTS + <usize>ROWS * 8;
/** The finite number below which nothing is: the exponent of minus infinity is 0 from there, not NaN. */
const LOWEST: f32 = -f32.MAX_VALUE;

/** One matrix as the functions below see it; core-local, set per tile. */
let query: usize = 0;
let queryRow: i32 = 0;
let queryStep: i32 = 0;
let target: usize = 0;
let targetRow: i32 = 0;
/** 0: none. */
let mask: usize = 0;
let maskRow: i32 = 0;
let maskStep: i32 = 0;
let depth: u32 = 0;
let values: u32 = 0;
let scale: f32 = 1;
let causal: bool = false;
/** Row r of a causal form sees keys [0, r + ahead). */
let ahead: i32 = 0;

/** `count` f32 at `at` times `factor`. */
function scaleRow(at: usize, count: u32, factor: f32): void {
  const end = at + (<usize>count << 2), factors = f32x4.splat(factor);
  for (; at + 16 <= end; at += 16) v128.store(at, f32x4.mul(v128.load(at), factors));
  for (; at < end; at += 4) store<f32>(at, load<f32>(at) * factor);
}

/** Rows of Q times the scale, dense in scratch. */
function takeQueries(row: u32, rows: u32, to: usize): void {
  for (let r: u32 = 0; r < rows; r++) {
    let from = query + <usize>(<i32>(row + r) * queryRow);
    if (queryStep == 4) memory.copy(to, from, <usize>depth << 2);
    else for (let i: u32 = 0; i < depth; i++, from += queryStep) store<f32>(to + (<usize>i << 2), load<f32>(from));
    if (scale != 1) scaleRow(to, depth, scale);
    to += <usize>depth << 2;
  }
}

/** Scores of row `row` and keys [first, first + count) with what hides them. */
function hide(at: usize, row: u32, first: u32, count: u32): void {
  const end = at + (<usize>count << 2);
  if (mask) {
    let from = mask + <usize>(<i32>row * maskRow) + <usize>(<i32>first * maskStep), to = at;
    if (maskStep == 4) for (; to + 16 <= end; to += 16, from += 16) v128.store(to, f32x4.add(v128.load(to), v128.load(from)));
    for (; to < end; to += 4, from += maskStep) store<f32>(to, load<f32>(to) + load<f32>(from));
  }
  if (causal) {
    const seen = max<i32>(min<i32>(<i32>row + ahead - <i32>first, count), 0);
    for (let to = at + (<usize>seen << 2); to < end; to += 4) store<f32>(to, -Infinity);
  }
}

/** The sums of rows [row, row + rows) go on over a block of keys whose panels are in scratch; `running` is that of the first row. */
function attend(row: u32, rows: u32, first: u32, count: u32, running: usize, scratch: usize): void {
  const scores = scratch + SCORES, moments = scratch + MOMENTS, pitch = <usize>count << 2, panelBytes = <usize>panelColumns() << 2;
  takeQueries(row, rows, scratch + QUERIES);
  gemm(rows, count, depth, scratch + QUERIES, <usize>depth << 2, scratch + KEY_PANELS, depth * panelBytes, scores, pitch, 1, 0, NaN, NaN);
  for (let r: u32 = 0; r < rows; r++) {
    if (mask || causal) hide(scores + r * pitch, row + r, first, count);
    store<f32>(moments + (r << 3), load<f32>(running + (r << 3)));
  }
  exponentRows(rows, count, scores, pitch, scores, pitch, moments);
  const to = target + <usize>(<i32>row * targetRow);
  for (let r: u32 = 0; r < rows; r++) {
    const before = load<f32>(running + (r << 3)), most = load<f32>(moments + (r << 3));
    let sum = load<f32>(running + (r << 3), 4);
    // A block with a larger score lowers all that came before it.
    if (first > 0 && most != before) {
      const factor = <f32>exp(<f64>before - <f64>most);
      sum *= factor;
      scaleRow(to + <usize>(<i32>r * targetRow), values, factor);
    }
    store<f32>(running + (r << 3), most);
    store<f32>(running + (r << 3), sum + load<f32>(moments + (r << 3), 4), 4);
  }
  gemm(rows, values, count, scores, pitch, scratch + VALUE_PANELS, count * panelBytes, to, targetRow, u32(first == 0), 0, NaN, NaN);
}

/** Views of the matrix of `batch`; K and V are the caller's. */
function open(program: usize, instruction: usize, frame: usize, batch: u32): void {
  const to = record(program, load<u32>(instruction, Instruction.T0)), from = record(program, load<u32>(instruction, Instruction.T1));
  const outer = rank(to) - 2;
  target = addressOf(to, frame) + offsetAt(to, outer, batch), targetRow = stride(to, outer);
  query = addressOf(from, frame) + offsetAt(from, outer, batch), queryRow = stride(from, outer), queryStep = stride(from, outer + 1);
  depth = dim(from, outer + 1), values = dim(to, outer + 1);
  mask = 0;
  if (load<u8>(instruction, Instruction.OPERANDS) > 4) {
    const added = record(program, load<u32>(instruction, Instruction.T4));
    mask = addressOf(added, frame) + offsetAt(added, outer, batch), maskRow = stride(added, outer), maskStep = stride(added, outer + 1);
  }
  scale = load<f32>(instruction, Instruction.P1);
  causal = (load<u8>(instruction, Instruction.FLAGS) & AttentionForm.CAUSAL) != 0;
  ahead = load<i32>(instruction, Instruction.P2) + 1;
}

export function runAttention(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const to = record(program, load<u32>(instruction, Instruction.T0)), perTile = load<u32>(instruction, Instruction.P0);
  const key = record(program, load<u32>(instruction, Instruction.T2)), value = record(program, load<u32>(instruction, Instruction.T3));
  const outer = rank(to) - 2, rows = dim(to, outer), parts = (rows + perTile - 1) / perTile;
  let batches: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) batches *= dim(to, i);
  if (batches == 0 || rows == 0 || dim(to, outer + 1) == 0) return;
  const batch = tile / parts, begin = tile % parts * perTile, end = min<u32>(begin + perTile, rows);
  open(program, instruction, frame, batch);
  const keys = addressOf(key, frame) + offsetAt(key, outer, batch), keyRow = stride(key, outer), keyStep = stride(key, outer + 1);
  const from = addressOf(value, frame) + offsetAt(value, outer, batch), valueRow = stride(value, outer), valueStep = stride(value, outer + 1);
  const running = scratch + RUNNING;
  for (let r = begin; r < end; r++) {
    store<f32>(running + ((r - begin) << 3), LOWEST);
    store<f32>(running + ((r - begin) << 3), 0, 4);
  }
  // Blocks behind the last key that the last row sees are left out. They are not cut there: where a block ends decides the order of its sum.
  const all = dim(key, outer), last = causal ? min<i32>(<i32>end - 1 + ahead, all) : <i32>all;
  let first: u32 = 0;
  do {
    const count = min<u32>(KEYS, all - first);
    packPanels(scratch + KEY_PANELS, keys + <usize>(<i32>first * keyRow), keyStep, keyRow, depth, count);
    packPanels(scratch + VALUE_PANELS, from + <usize>(<i32>first * valueRow), valueRow, valueStep, count, values);
    for (let r = begin; r < end; r += ROWS) {
      const height = min<u32>(ROWS, end - r);
      // Nothing is left to see; sums begin with the first block all the same.
      if (causal && first > 0 && <i32>(r + height - 1) + ahead <= <i32>first) continue;
      attend(r, height, first, count, running + ((r - begin) << 3), scratch);
    }
    first += KEYS;
  } while (<i32>first < last);
  const zeros = (load<u8>(instruction, Instruction.FLAGS) & AttentionForm.ZEROS) != 0;
  for (let r = begin; r < end; r++) {
    const sum = load<f32>(running + ((r - begin) << 3), 4), at = target + <usize>(<i32>r * targetRow);
    scaleRow(at, values, zeros && sum == 0 ? 0 : 1 / sum);
    canonicalF32(at, values);
  }
}
