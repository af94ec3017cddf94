/**
 * MATMUL: C[batch..., m, n] = A[batch..., m, k] x B[batch..., k, n]. A tile is a block of rows and columns of one matrix, or several small matrices.
 * f32 goes through panels of B, packed ahead or here, and the micro module; other types multiply element by element.
 */
import { Dtype, Instruction } from "../abi/program";
import { canonicalF32, canonicalF64 } from "../micro/load";
import { biasOf, greatestOf, leastOf, UNFINISHED } from "./closing";
import { transpose4 } from "./copy";
import { gemm, panelColumns } from "../micro/module";
import { packPanels } from "./panels";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, dtypeOf, offsetAt, rank, record, stride } from "./view";

/** Rows between two runs of the epilogue: their part of C stays in the second-level cache. */
const ROWS: u32 = 128;
/** Depth and columns of B that are packed at a time. */
const DEPTH: u32 = 512;
const COLUMNS: u32 = 192;

const PANELS: usize = (STRIP_SCRATCH + 63) & ~63;
const ROWS_OF_A: usize = PANELS + <usize>DEPTH * COLUMNS * 4;

/** Rows of parts of equal height, at most ROWS: a short last one would read all panels again for little. */
@inline
function evenRows(rows: u32): u32 {
  const parts = (rows + ROWS - 1) / ROWS;
  return parts > 1 ? (rows + parts - 1) / parts : rows;
}

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
/** What f32 sums start from and end between: see closing.ts. */
let bias: usize = 0;
let least: f32 = NaN;
let greatest: f32 = NaN;

/** Rows of A that are not dense along k -> dense rows of `count`. */
function packRows(target: usize, i: u32, rows: u32, from: u32, count: u32): void {
  const source = a + <usize>(<i32>i * aRow) + <usize>(<i32>from * aStep);
  if (aRow == 4) {
    // Target row r takes source column r: the source's lines are steps of k.
    transpose4(target, count << 2, source, aStep, rows, count);
    return;
  }
  for (let r: u32 = 0; r < rows; r++) {
    let s = source + <usize>(<i32>r * aRow);
    for (let x: u32 = 0; x < count; x++) {
      store<f32>(target, load<f32>(s));
      target += 4;
      s += aStep;
    }
  }
}

/** Rows [i, end) x columns [j, last) of one matrix. */
function productF32(i: u32, end: u32, j: u32, last: u32, scratch: usize): void {
  const panel = panelColumns(), panelBytes = <usize>panel << 2;
  const place = c + <usize>(<i32>i * cRow), height = evenRows(end - i);
  if (packed && aStep == 4) {
    const panels = b + <usize>(j / panel) * depth * panelBytes, start = bias != 0 ? bias + (<usize>j << 2) : 0;
    gemm(
      end - i, last - j, depth, a + <usize>(<i32>i * aRow), aRow, panels, depth * panelBytes, place + (<usize>j << 2), cRow, 1, start, least, greatest,
    );
    return;
  }
  for (let column = j; column < last; column += COLUMNS) {
    const stop = min<u32>(column + COLUMNS, last), start = bias != 0 ? bias + (<usize>column << 2) : 0;
    let from: u32 = 0;
    do {
      const count = min<u32>(DEPTH, depth - from), whole = from + count == depth;
      const low = whole ? least : UNFINISHED, high = whole ? greatest : NaN;
      const panels = packed ? b + (<usize>(column / panel) * depth + from) * panelBytes : scratch + PANELS;
      const pitch = (packed ? depth : count) * panelBytes;
      if (!packed) packPanels(panels, b + <usize>(<i32>from * bRow) + <usize>(<i32>column * bStep), bRow, bStep, count, stop - column);
      for (let r = i; r < end; r += height) {
        const rows = min<u32>(height, end - r);
        const to = c + <usize>(<i32>r * cRow) + (<usize>column << 2);
        if (aStep == 4) {
          gemm(
            rows, stop - column, count, a + <usize>(<i32>r * aRow) + (<usize>from << 2), aRow, panels, pitch, to, cRow, u32(from == 0), start, low, high,
          );
          continue;
        }
        packRows(scratch + ROWS_OF_A, r, rows, from, count);
        gemm(rows, stop - column, count, scratch + ROWS_OF_A, <usize>count << 2, panels, pitch, to, cRow, u32(from == 0), start, low, high);
      }
      from += DEPTH;
    } while (from < depth);
  }
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
    case Dtype.FLOAT32: packed || cStep == 4 ? productF32(i, end, j, last, scratch) : blockPlain<f32>(i, end, j, last); break;
    case Dtype.FLOAT64: blockPlain<f64>(i, end, j, last); break;
    case Dtype.INT32: case Dtype.UINT32: blockPlain<i32>(i, end, j, last); break;
    default: blockPlain<i64>(i, end, j, last);
  }
}

/** The epilogue over rows [i, end) x columns [j, last). */
function finish(program: usize, epilogue: u32, frame: usize, row: u32, n: u32, i: u32, end: u32, j: u32, last: u32, scratch: usize): void {
  if (j == 0 && last == n) runStrip(program, program + epilogue, frame, (row + i) * n, (row + end) * n, 0, scratch);
  else for (let r = row + i; r < row + end; r++) runStrip(program, program + epilogue, frame, r * n + j, r * n + last, 0, scratch);
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
  bias = biasOf(program, instruction, frame), least = leastOf(instruction), greatest = greatestOf(instruction);
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  // With panels from the model and a strip program behind, C goes through the caches by ROWS; B that is packed here is packed once for all rows.
  const height = packed && epilogue != 0 ? evenRows(i1 - i0) : i1 - i0;
  for (let batch = begin; batch < min<u32>(begin + together, batches); batch++) {
    a = addressOf(left, frame) + offsetAt(left, outer, batch);
    b = addressOf(right, frame) + (packed ? 0 : offsetAt(right, outer, batch));
    c = addressOf(target, frame) + offsetAt(target, outer, batch);
    for (let i = i0; i < i1; i += height) {
      const end = min<u32>(i + height, i1);
      block(dtypeOf(target), i, end, j0, j1, scratch);
      if (epilogue != 0) finish(program, epilogue, frame, batch * m, n, i, end, j0, j1, scratch);
    }
  }
}
