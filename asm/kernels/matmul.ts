/**
 * MATMUL: C[batch..., m, n] = A[batch..., m, k] x B[batch..., k, n]. A tile is a block of rows and columns of one matrix, or several small matrices.
 * f32 goes through panels of B ([columns / 8][k][8], packed ahead or here); other types multiply element by element.
 */
import { Dtype, Instruction } from "../abi/program";
import { MICRO_ROWS, PANEL } from "../abi/isa";
import { add5, addRow, moveTile, multiply, set5, setRow } from "../micro/gemm";
import { canonicalF32, canonicalF64 } from "../micro/load";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, dtypeOf, offsetAt, rank, record, stride } from "./view";

/** k and rows that are worked on at once: a panel of B stays in L1, the block of A in L2. */
const DEPTH: u32 = 512;
const ROWS: u32 = 60;

const TILE: usize = STRIP_SCRATCH;
const PANELS: usize = TILE + 256;
const ROWS_OF_A: usize = PANELS + <usize>DEPTH * PANEL * 4;

/** One matrix product as the loops below see it; core-local, set per matrix. */
let a: usize = 0;
let aRow: i32 = 0;
let aStep: i32 = 0;
let b: usize = 0;
let bRow: i32 = 0;
let bStep: i32 = 0;
let packed: bool = false;
let depth: u32 = 0;
let c: usize = 0;
let cRow: i32 = 0;
let cStep: i32 = 0;

/** Panel of `width` columns from column `j` over k [from, from + count), zeros behind the last column. */
function packPanel(target: usize, j: u32, width: u32, from: u32, count: u32): void {
  let source = b + <usize>(<i32>from * bRow) + <usize>(<i32>j * bStep);
  if (width == PANEL && bStep == 4) {
    for (let i: u32 = 0; i < count; i++) {
      v128.store(target, v128.load(source));
      v128.store(target, v128.load(source, 16), 16);
      target += 32;
      source += bRow;
    }
    return;
  }
  for (let i: u32 = 0; i < count; i++) {
    let s = source;
    for (let x: u32 = 0; x < PANEL; x++) {
      store<f32>(target + (x << 2), x < width ? load<f32>(s) : 0);
      if (x + 1 < width) s += bStep;
    }
    target += 32;
    source += bRow;
  }
}

/** Rows of A that the micro-kernel cannot read in place (k not dense) -> dense rows of `count`. */
function packRows(target: usize, i: u32, rows: u32, from: u32, count: u32): void {
  for (let r: u32 = 0; r < rows; r++) {
    let s = a + <usize>(<i32>(i + r) * aRow) + <usize>(<i32>from * aStep);
    for (let x: u32 = 0; x < count; x++) {
      store<f32>(target, load<f32>(s));
      target += 4;
      s += aStep;
    }
  }
}

/** Rows [i, i + rows) x columns [j, j + width): one panel, one block of k. */
function panelRows(rowsOfA: usize, pitch: i32, rows: u32, first: bool, count: u32, panel: usize, place: usize, width: u32, scratch: usize): void {
  const tile = scratch + TILE;
  for (let r: u32 = 0; r < rows; r += MICRO_ROWS) {
    const h = min<u32>(MICRO_ROWS, rows - r);
    const a0 = rowsOfA, a1 = a0 + pitch, a2 = a1 + pitch, a3 = a2 + pitch, a4 = a3 + pitch;
    if (width == PANEL && h == MICRO_ROWS) first ? set5(count, a0, a1, a2, a3, a4, panel, place, cRow) : add5(count, a0, a1, a2, a3, a4, panel, place, cRow);
    else if (width == PANEL) multiply(h, !first, count, a0, a1, a2, a3, a4, panel, place, cRow);
    else {
      if (!first) moveTile(tile, place, cRow, h, width, false);
      multiply(h, !first, count, a0, a1, a2, a3, a4, panel, tile, 32);
      moveTile(tile, place, cRow, h, width, true);
    }
    rowsOfA = a4 + pitch;
    place += <usize>(<i32>h * cRow);
  }
}

/** Rows [i, end) x columns [j, last) of one matrix; at most ROWS rows. */
function blockF32(i: u32, end: u32, j: u32, last: u32, scratch: usize): void {
  const rows = end - i;
  for (let from: u32 = 0; from < depth; from += DEPTH) {
    const count = min<u32>(DEPTH, depth - from);
    let rowsOfA = a + <usize>(<i32>i * aRow) + (<usize>from << 2);
    let pitch = aRow;
    if (aStep != 4) {
      rowsOfA = scratch + ROWS_OF_A;
      pitch = <i32>(count << 2);
      packRows(rowsOfA, i, rows, from, count);
    }
    const panelBytes = <usize>depth << 5;
    let column = j;
    if (packed && rows == 1) {
      for (; column + 4 * PANEL <= last; column += 4 * PANEL) {
        const panel = b + <usize>(column / PANEL) * panelBytes + (<usize>from << 5);
        const place = c + <usize>(<i32>i * cRow) + (<usize>column << 2);
        from == 0 ? setRow(count, rowsOfA, panel, panelBytes, place) : addRow(count, rowsOfA, panel, panelBytes, place);
      }
    }
    for (; column < last; column += PANEL) {
      const width = min<u32>(PANEL, last - column);
      let panel = b + <usize>(column / PANEL) * panelBytes + (<usize>from << 5);
      if (!packed) {
        panel = scratch + PANELS;
        packPanel(panel, column, width, from, count);
      }
      panelRows(rowsOfA, pitch, rows, from == 0, count, panel, c + <usize>(<i32>i * cRow) + (<usize>column << 2), width, scratch);
    }
  }
  if (depth == 0) for (let r = i; r < end; r++) memory.fill(c + <usize>(<i32>r * cRow) + (<usize>j << 2), 0, <usize>(last - j) << 2);
  for (let r = i; r < end; r++) canonicalF32(c + <usize>(<i32>r * cRow) + (<usize>j << 2), last - j);
}

@inline
function blockPlain<T>(i: u32, end: u32, j: u32, last: u32): void {
  for (let r = i; r < end; r++) {
    for (let column = j; column < last; column++) {
      let p = a + <usize>(<i32>r * aRow);
      let q = b + <usize>(<i32>column * bStep);
      let sum: T = 0;
      for (let x: u32 = 0; x < depth; x++) {
        sum += load<T>(p) * load<T>(q);
        p += aStep;
        q += bRow;
      }
      const place = c + <usize>(<i32>r * cRow) + <usize>(<i32>column * cStep);
      store<T>(place, sum);
      if (isFloat<T>()) sizeof<T>() == 8 ? canonicalF64(place, 1) : canonicalF32(place, 1);
    }
  }
}

function block(dtype: u32, i: u32, end: u32, j: u32, last: u32, scratch: usize): void {
  switch (<i32>dtype) {
    case Dtype.FLOAT32: packed || cStep == 4 ? blockF32(i, end, j, last, scratch) : blockPlain<f32>(i, end, j, last); break;
    case Dtype.FLOAT64: blockPlain<f64>(i, end, j, last); break;
    case Dtype.INT32: case Dtype.UINT32: blockPlain<i32>(i, end, j, last); break;
    default: blockPlain<i64>(i, end, j, last);
  }
}

export function runMatmul(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0));
  const left = record(program, load<u32>(instruction, Instruction.T1));
  const right = record(program, load<u32>(instruction, Instruction.T2));
  const outer = rank(target) - 2;
  const m = dim(target, outer), n = dim(target, outer + 1);
  const rowsPerTile = load<u32>(instruction, Instruction.P0), columnsPerTile = load<u32>(instruction, Instruction.P1);
  const together = load<u32>(instruction, Instruction.P4);
  const down = (m + rowsPerTile - 1) / rowsPerTile, across = (n + columnsPerTile - 1) / columnsPerTile;
  let batches: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) batches *= dim(target, i);
  if (batches == 0 || m == 0 || n == 0) return;
  const part = tile % (down * across);
  const i0 = part / across * rowsPerTile, j0 = part % across * columnsPerTile;
  const i1 = min<u32>(i0 + rowsPerTile, m), j1 = min<u32>(j0 + columnsPerTile, n);
  const begin = tile / (down * across) * together;
  packed = load<u32>(instruction, Instruction.P3) != 0;
  depth = load<u32>(instruction, Instruction.P2);
  aRow = stride(left, outer), aStep = stride(left, outer + 1);
  bRow = packed ? 0 : stride(right, outer), bStep = packed ? 0 : stride(right, outer + 1);
  cRow = stride(target, outer), cStep = stride(target, outer + 1);
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  for (let batch = begin; batch < min<u32>(begin + together, batches); batch++) {
    a = addressOf(left, frame) + offsetAt(left, outer, batch);
    b = addressOf(right, frame) + (packed ? 0 : offsetAt(right, outer, batch));
    c = addressOf(target, frame) + offsetAt(target, outer, batch);
    for (let i = i0; i < i1; i += ROWS) {
      const end = min<u32>(i + ROWS, i1);
      block(dtypeOf(target), i, end, j0, j1, scratch);
      if (epilogue == 0) continue;
      const row = batch * m;
      if (j0 == 0 && j1 == n) runStrip(program, program + epilogue, frame, (row + i) * n, (row + end) * n, 0, scratch);
      else for (let r = i; r < end; r++) runStrip(program, program + epilogue, frame, (row + r) * n + j0, (row + r) * n + j1, 0, scratch);
    }
  }
}
