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

/** One element after the other: target and indices move by their steps, the base in the source by `sourceStep`, and `axisStep` counts from there. */
function gatherLane(shift: u32, dtype: u32, size: u32, count: u32, target: usize, step: i32, source: usize, sourceStep: i32, axisStep: i32, at: usize, indexStep: i32): void {
  for (let i: u32 = 0; i < count; i++) {
    const from = source + <i32>indexAt(dtype, at, size) * axisStep;
    if (shift == 2) store<u32>(target, load<u32>(from));
    else moveRun(shift, target, step, from, axisStep, 1);
    target += step;
    source += sourceStep;
    at += indexStep;
  }
}

/** Do neighbouring rows lie closer together than neighbours in a row? Then the loop across rows is the inner one. */
@inline
function isAcross(view: usize, outer: u32): bool {
  return outer > 0 && abs<i32>(stride(view, outer - 1)) < abs<i32>(stride(view, outer));
}

/** Rows from `row` on that are numbered by the last outer dim alone. */
@inline
function evenRows(view: usize, outer: u32, row: u32, to: u32): u32 {
  const width = dim(view, outer - 1);
  return min<u32>(to - row, width - row % width);
}

/** T0 [rows..., n] = elements of T1 [rows..., size] at T2 [rows..., n]; P0 rows per tile. */
export function runGatherElements(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const indices = record(program, load<u32>(instruction, Instruction.T2));
  const outer = rank(target) - 1, count = dim(target, outer), size = dim(source, outer);
  let rows: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) rows *= dim(target, i);
  const perTile = load<u32>(instruction, Instruction.P0), to = min<u32>(tile * perTile + perTile, rows);
  const shift = sizeShift(dtypeOf(target)), dtype = dtypeOf(indices), across = isAcross(target, outer);
  const step = stride(target, outer), axisStep = stride(source, outer), indexStep = stride(indices, outer);
  for (let row = tile * perTile; row < to; ) {
    let t = addressOf(target, frame) + offsetAt(target, outer, row), at = addressOf(indices, frame) + offsetAt(indices, outer, row);
    const s = addressOf(source, frame) + offsetAt(source, outer, row);
    if (!across) {
      gatherLane(shift, dtype, size, count, t, step, s, 0, axisStep, at, indexStep);
      row++;
      continue;
    }
    const run = evenRows(target, outer, row, to);
    for (let i: u32 = 0; i < count; i++, t += step, at += indexStep) {
      gatherLane(shift, dtype, size, run, t, stride(target, outer - 1), s, stride(source, outer - 1), axisStep, at, stride(indices, outer - 1));
    }
    row += run;
  }
}

/** As gatherLane, the other way round. */
function scatterLane(merge: u32, dtype: u32, type: u32, size: u32, count: u32, target: usize, step: i32, axisStep: i32, source: usize, sourceStep: i32, at: usize, indexStep: i32): void {
  const shift = sizeShift(dtype);
  for (let i: u32 = 0; i < count; i++) {
    const place = target + <i32>indexAt(type, at, size) * axisStep;
    if (merge != Merge.NONE) mergeElement(merge, dtype, place, source);
    else if (shift == 2) store<u32>(place, load<u32>(source));
    else moveRun(shift, place, axisStep, source, sourceStep, 1);
    target += step;
    source += sourceStep;
    at += indexStep;
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
  const dtype = dtypeOf(target), type = dtypeOf(indices), shift = sizeShift(dtype), across = isAcross(source, outer);
  const bytes: i32 = 1 << shift;
  const shared = across && merge == Merge.NONE && stride(indices, outer - 1) == 0 && stride(target, outer - 1) == bytes && stride(source, outer - 1) == bytes;
  const axisStep = stride(target, outer), step = stride(source, outer), indexStep = stride(indices, outer);
  for (let row = tile * perTile; row < to; ) {
    const t = addressOf(target, frame) + offsetAt(target, outer, row);
    let s = addressOf(source, frame) + offsetAt(source, outer, row), at = addressOf(indices, frame) + offsetAt(indices, outer, row);
    if (!across) {
      scatterLane(merge, dtype, type, size, count, t, 0, axisStep, s, step, at, indexStep);
      row++;
      continue;
    }
    const run = evenRows(source, outer, row, to);
    for (let i: u32 = 0; i < count; i++, s += step, at += indexStep) {
      // Rows that share their indices move as one run.
      if (shared) memory.copy(t + <i32>indexAt(type, at, size) * axisStep, s, <usize>run << shift);
      else scatterLane(merge, dtype, type, size, run, t, stride(target, outer - 1), axisStep, s, stride(source, outer - 1), at, stride(indices, outer - 1));
    }
    row += run;
  }
}
