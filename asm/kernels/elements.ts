/**
 * GATHER_ELEMENTS and SCATTER_ELEMENTS: single elements along the innermost dim, named by an index for each. One tile = a run of rows.
 * A row is worked through in order, and no two rows share an element of the target: where an index comes twice, the result is always the same.
 * An index outside its row is a fault: it traps, and the record names the node.
 */
import { Merge } from "../abi/isa";
import { Dtype, Instruction } from "../abi/program";
import { sizeShift } from "../micro/load";
import { addressOf, dim, dtypeOf, moveRun, offsetAt, rank, record, stride } from "./view";

/** The index at `place`, counted from the end if negative. */
@inline
export function indexAt(dtype: u32, place: usize, size: u32): u32 {
  const index: i64 = dtype == Dtype.INT64 ? load<i64>(place) : <i64>load<i32>(place);
  const wrapped = index < 0 ? index + <i64>size : index;
  if (<u64>wrapped >= <u64>size) unreachable();
  return <u32>wrapped;
}

@inline
function mergeAs<T>(merge: u32, target: usize, source: usize): void {
  const a = load<T>(target), b = load<T>(source);
  let result: T;
  switch (<i32>merge) {
    case Merge.ADD: result = <T>(a + b); break;
    case Merge.MUL: result = <T>(a * b); break;
    case Merge.MIN: result = isFloat<T>() ? min<T>(a, b) : a < b ? a : b; break;
    default: result = isFloat<T>() ? max<T>(a, b) : a > b ? a : b;
  }
  // NaN leaves in one form only.
  if (isFloat<T>() && result != result) result = <T>NaN;
  store<T>(target, result);
}

/** Combines the element at `source` into the one at `target`. */
function mergeElement(merge: u32, dtype: u32, target: usize, source: usize): void {
  switch (<i32>dtype) {
    case Dtype.FLOAT32: mergeAs<f32>(merge, target, source); break;
    case Dtype.FLOAT64: mergeAs<f64>(merge, target, source); break;
    case Dtype.INT64: mergeAs<i64>(merge, target, source); break;
    case Dtype.UINT64: mergeAs<u64>(merge, target, source); break;
    case Dtype.INT32: mergeAs<i32>(merge, target, source); break;
    case Dtype.UINT32: mergeAs<u32>(merge, target, source); break;
    case Dtype.INT16: mergeAs<i16>(merge, target, source); break;
    case Dtype.UINT16: mergeAs<u16>(merge, target, source); break;
    case Dtype.INT8: mergeAs<i8>(merge, target, source); break;
    case Dtype.UINT8: case Dtype.BOOL: mergeAs<u8>(merge, target, source); break;
    default: unreachable();
  }
}

/** T0 [rows..., n] = elements of T1 [rows..., size] at T2 [rows..., n]; P0 rows per tile. */
export function runGatherElements(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const indices = record(program, load<u32>(instruction, Instruction.T2));
  const outer = rank(target) - 1, count = dim(target, outer), size = dim(source, outer);
  let rows: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) rows *= dim(target, i);
  const perTile = load<u32>(instruction, Instruction.P0);
  const to = min<u32>(tile * perTile + perTile, rows);
  const shift = sizeShift(dtypeOf(target)), dtype = dtypeOf(indices);
  const step = stride(target, outer), sourceStep = stride(source, outer), indexStep = stride(indices, outer);
  for (let row = tile * perTile; row < to; row++) {
    let t = addressOf(target, frame) + offsetAt(target, outer, row), at = addressOf(indices, frame) + offsetAt(indices, outer, row);
    const s = addressOf(source, frame) + offsetAt(source, outer, row);
    for (let i: u32 = 0; i < count; i++) {
      const from = s + <i32>indexAt(dtype, at, size) * sourceStep;
      if (shift == 2) store<u32>(t, load<u32>(from));
      else moveRun(shift, t, step, from, sourceStep, 1);
      t += step;
      at += indexStep;
    }
  }
}

/** `rows` neighbours that share their indices and lie densely: one run for each index. */
function scatterRuns(merge: u32, target: usize, first: usize, source: usize, from: usize, indices: usize, at: usize, rows: u32): void {
  const inner = rank(target) - 1, dtype = dtypeOf(target), shift = sizeShift(dtype);
  const size = dim(target, inner), count = dim(indices, inner), type = dtypeOf(indices);
  for (let i: u32 = 0; i < count; i++) {
    const t = first + <i32>indexAt(type, at, size) * stride(target, inner);
    if (merge == Merge.NONE) memory.copy(t, from, <usize>rows << shift);
    else for (let k: usize = 0; k < <usize>rows; k++) mergeElement(merge, dtype, t + (k << shift), from + (k << shift));
    from += stride(source, inner);
    at += stride(indices, inner);
  }
}

/** Elements of T1 [rows..., n] go to T0 [rows..., size] at T2 [rows..., n]; P0 rows per tile, P1 Merge. */
export function runScatterElements(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const indices = record(program, load<u32>(instruction, Instruction.T2));
  const merge = load<u32>(instruction, Instruction.P1), perTile = load<u32>(instruction, Instruction.P0);
  const outer = rank(target) - 1, count = dim(source, outer), size = dim(target, outer);
  let rows: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) rows *= dim(target, i);
  const to = min<u32>(tile * perTile + perTile, rows);
  const dtype = dtypeOf(target), shift = sizeShift(dtype), type = dtypeOf(indices);
  const bytes: i32 = 1 << shift;
  const shared = outer > 0 && stride(indices, outer - 1) == 0 && stride(target, outer - 1) == bytes && stride(source, outer - 1) == bytes;
  const step = stride(target, outer), sourceStep = stride(source, outer), indexStep = stride(indices, outer);
  for (let row = tile * perTile; row < to; ) {
    const t = addressOf(target, frame) + offsetAt(target, outer, row);
    let s = addressOf(source, frame) + offsetAt(source, outer, row), at = addressOf(indices, frame) + offsetAt(indices, outer, row);
    if (shared) {
      const width = dim(target, outer - 1);
      const run = min<u32>(to - row, width - row % width);
      scatterRuns(merge, target, t, source, s, indices, at, run);
      row += run;
      continue;
    }
    for (let i: u32 = 0; i < count; i++) {
      const place = t + <i32>indexAt(type, at, size) * step;
      if (merge == Merge.NONE) moveRun(shift, place, step, s, sourceStep, 1);
      else mergeElement(merge, dtype, place, s);
      s += sourceStep;
      at += indexStep;
    }
    row++;
  }
}
