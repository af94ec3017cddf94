/**
 * COPY between views of one element size: bytes move as they are. Shared by the instruction and the DMA tasks (asm/mem/dma.ts).
 * A block of a view = rows (all dims but the innermost, numbered row-major) x columns (the innermost dim).
 */
import { Instruction } from "../abi/program";
import { sizeShift } from "../micro/load";
import { addressOf, dim, dtypeOf, elementCount, moveRun, offsetAt, rank, record, stride } from "./view";

/** Columns of a transpose at a time: their source lines stay in the first-level cache while the rows go by, and a row gets whole cache lines. */
const TRANSPOSE_COLUMNS: u32 = 32;

/** Transposes 4-byte elements: target row r takes source column r. `targetPitch` and `sourcePitch` are bytes between rows. */
export function transpose4(target: usize, targetPitch: i32, source: usize, sourcePitch: i32, rows: u32, columns: u32): void {
  for (let column: u32 = 0; column < columns; column += TRANSPOSE_COLUMNS) {
    const width = min<u32>(TRANSPOSE_COLUMNS, columns - column);
    let s = source + <usize>(<i32>column * sourcePitch);
    let t = target + (<usize>column << 2);
    let left = rows;
    for (; left >= 4; left -= 4) {
      transposeRows(t, targetPitch, s, sourcePitch, width);
      s += 16;
      t += 4 * targetPitch;
    }
    for (; left > 0; left--) {
      moveRun(2, t, 4, s, sourcePitch, width);
      s += 4;
      t += targetPitch;
    }
  }
}

/** Four rows of a transpose. */
function transposeRows(t: usize, targetPitch: i32, s: usize, sourcePitch: i32, columns: u32): void {
  for (; columns >= 4; columns -= 4) {
    const a = v128.load(s), b = v128.load(s + sourcePitch), c = v128.load(s + 2 * sourcePitch), d = v128.load(s + 3 * sourcePitch);
    const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5), cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
    const ef = v128.shuffle<i32>(a, b, 2, 6, 3, 7), gh = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
    v128.store(t, v128.shuffle<i64>(ab, cd, 0, 2));
    v128.store(t + targetPitch, v128.shuffle<i64>(ab, cd, 1, 3));
    v128.store(t + 2 * targetPitch, v128.shuffle<i64>(ef, gh, 0, 2));
    v128.store(t + 3 * targetPitch, v128.shuffle<i64>(ef, gh, 1, 3));
    s += 4 * sourcePitch;
    t += 16;
  }
  for (; columns > 0; columns--) {
    store<u32>(t, load<u32>(s));
    store<u32>(t + targetPitch, load<u32>(s, 4));
    store<u32>(t + 2 * targetPitch, load<u32>(s, 8));
    store<u32>(t + 3 * targetPitch, load<u32>(s, 12));
    s += sourcePitch;
    t += 4;
  }
}

/** Other element sizes: columns in blocks whose source lines stay in L1 while the rows go by. */
function transposeAny(shift: u32, target: usize, targetPitch: i32, source: usize, sourcePitch: i32, rows: u32, columns: u32): void {
  const size: i32 = 1 << shift;
  for (let column: u32 = 0; column < columns; column += 128) {
    const width = min<u32>(128, columns - column);
    for (let row: u32 = 0; row < rows; row++) {
      const t = target + <usize>(<i32>row * targetPitch) + (<usize>column << shift);
      moveRun(shift, t, size, source + (<usize>row << shift) + <usize>(<i32>column * sourcePitch), sourcePitch, width);
    }
  }
}

/** Columns [column, column + columns) of rows [row, end). Both views have the same dims. */
export function copyBlock(target: usize, targetFirst: usize, source: usize, sourceFirst: usize, row: u32, end: u32, column: u32, columns: u32): void {
  const shift = sizeShift(dtypeOf(target));
  const size: i32 = 1 << shift;
  const n = rank(target);
  if (n == 0) {
    moveRun(shift, targetFirst, size, sourceFirst, size, 1);
    return;
  }
  const step = stride(target, n - 1), sourceStep = stride(source, n - 1);
  const targetColumn = <usize>(<i32>column * step), sourceColumn = <usize>(<i32>column * sourceStep);
  // Runs of rows along dim n - 2 whose neighbours touch in the source: a transpose, done in blocks.
  const blocked = n >= 2 && step == size && sourceStep != size && stride(source, n - 2) == size;
  const middle = n >= 2 ? dim(target, n - 2) : 1;
  while (row < end) {
    const t = targetFirst + offsetAt(target, n - 1, row) + targetColumn;
    const s = sourceFirst + offsetAt(source, n - 1, row) + sourceColumn;
    const rows = min<u32>(end - row, middle - row % middle);
    const pitch = n >= 2 ? stride(target, n - 2) : 0, sourcePitch = n >= 2 ? stride(source, n - 2) : 0;
    if (blocked) {
      if (shift == 2) transpose4(t, pitch, s, sourceStep, rows, columns);
      else transposeAny(shift, t, pitch, s, sourceStep, rows, columns);
    } else {
      for (let i: u32 = 0; i < rows; i++) {
        moveRun(shift, t + <usize>(<i32>i * pitch), step, s + <usize>(<i32>i * sourcePitch), sourceStep, columns);
      }
    }
    row += rows;
  }
}

/** COPY: P0 rows and P1 columns per tile; tiles go through the columns first. */
export function runCopy(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0));
  const source = record(program, load<u32>(instruction, Instruction.T1));
  const count = elementCount(target);
  if (count == 0) return;
  const n = rank(target);
  const width: u32 = n == 0 ? 1 : dim(target, n - 1);
  const rowsPerTile = load<u32>(instruction, Instruction.P0), columnsPerTile = load<u32>(instruction, Instruction.P1);
  const across = (width + columnsPerTile - 1) / columnsPerTile;
  const row = tile / across * rowsPerTile, column = tile % across * columnsPerTile;
  const end = min<u32>(row + rowsPerTile, count / width);
  copyBlock(target, addressOf(target, frame), source, addressOf(source, frame), row, end, column, min<u32>(columnsPerTile, width - column));
}
