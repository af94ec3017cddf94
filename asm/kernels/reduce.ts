/**
 * REDUCE: folds each row of a view (its innermost axes) to one value, then runs a strip program over the values. One tile = a run of rows.
 * A row is folded in an order that its length alone decides, so the number of cores never changes a bit.
 * Float sums: runs of 128 in f32 lanes, then f64: error <= 10 units of 2^-24 of the sum of magnitudes.
 */
import { Instruction } from "../abi/program";
import { Fold, ReduceMode } from "../abi/isa";
import { StripBlock, StripType } from "../abi/strip";
import { isRegister, loadElements, sizeShift } from "../micro/load";
import { exp, log } from "../micro/math";
import { maxRows } from "../micro/module";
import { runColumns } from "./reduce-columns";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, dtypeOf, rank, record, stride, walk } from "./view";

/** Above the strip program: folded values, raw elements, widened elements. */
export const FOLDED: usize = STRIP_SCRATCH;
const RAW: usize = FOLDED + 8192;
const WIDE: usize = RAW + 8192;
/** Elements that one load brings in. */
const LOAD: u32 = 1024;

/** What the loop over rows needs of its source; core-local, set per tile. */
let tensor: usize = 0;
let first: usize = 0;
let dtype: u32 = 0;
let flat: bool = false;
let buffer: usize = 0;

/** `count` elements from linear index `at` as register elements; padding is not needed. */
function bring(at: u32, count: u32): usize {
  const size = sizeShift(dtype);
  if (flat && isRegister(dtype)) return first + (<usize>at << size);
  const raw = buffer + RAW;
  if (flat) memory.copy(raw, first + (<usize>at << size), <usize>count << size);
  else walk(tensor, first, at, count, raw, true);
  if (isRegister(dtype)) return raw;
  loadElements(dtype, buffer + WIDE, raw, count);
  return buffer + WIDE;
}

/** Sum of f(x) over f32; f is the identity, the square or the magnitude. */
@inline
function sumLanes(fold: u32, p: usize, count: u32): f64 {
  let low = f64x2.splat(0), high = f64x2.splat(0);
  let left = count;
  while (left >= 16) {
    const run = min<u32>(left >> 4, 8);
    let a = f32x4.splat(0), b = f32x4.splat(0), c = f32x4.splat(0), d = f32x4.splat(0);
    for (let i: u32 = 0; i < run; i++, p += 64) {
      a = f32x4.add(a, shaped(fold, v128.load(p)));
      b = f32x4.add(b, shaped(fold, v128.load(p, 16)));
      c = f32x4.add(c, shaped(fold, v128.load(p, 32)));
      d = f32x4.add(d, shaped(fold, v128.load(p, 48)));
    }
    const sum = f32x4.add(f32x4.add(a, b), f32x4.add(c, d));
    low = f64x2.add(low, f64x2.promote_low_f32x4(sum));
    high = f64x2.add(high, f64x2.promote_low_f32x4(v128.shuffle<i32>(sum, sum, 2, 3, 2, 3)));
    left -= run << 4;
  }
  const both = f64x2.add(low, high);
  let total = f64x2.extract_lane(both, 0) + f64x2.extract_lane(both, 1);
  for (; left != 0; left--, p += 4) {
    const x = <f64>load<f32>(p);
    total += fold == Fold.SUM_SQUARE ? x * x : fold == Fold.L1 ? abs<f64>(x) : x;
  }
  return total;
}

@inline
function shaped(fold: u32, x: v128): v128 {
  return fold == Fold.SUM_SQUARE ? f32x4.mul(x, x) : fold == Fold.L1 ? f32x4.abs(x) : x;
}

/** Largest (or least) of `start` and `count` f32; NaN wins. Four at a time: one after the other would wait for each comparison. */
@inline
function extremeLanes(largest: bool, p: usize, count: u32, start: f32): f32 {
  let m0 = f32x4.splat(start), m1 = m0, m2 = m0, m3 = m0;
  for (; count >= 16; count -= 16, p += 64) {
    m0 = extreme4(largest, m0, v128.load(p));
    m1 = extreme4(largest, m1, v128.load(p, 16));
    m2 = extreme4(largest, m2, v128.load(p, 32));
    m3 = extreme4(largest, m3, v128.load(p, 48));
  }
  const m = extreme4(largest, extreme4(largest, m0, m1), extreme4(largest, m2, m3));
  let result = extreme(largest, extreme(largest, f32x4.extract_lane(m, 0), f32x4.extract_lane(m, 1)), extreme(largest, f32x4.extract_lane(m, 2), f32x4.extract_lane(m, 3)));
  for (; count != 0; count--, p += 4) result = extreme(largest, result, load<f32>(p));
  return result;
}

@inline
function extreme4(largest: bool, x: v128, y: v128): v128 {
  return largest ? f32x4.max(x, y) : f32x4.min(x, y);
}

@inline
function extreme(largest: bool, x: f32, y: f32): f32 {
  return largest ? max<f32>(x, y) : min<f32>(x, y);
}

function extremeF32(largest: bool, p: usize, count: u32, start: f32): f32 {
  return largest ? extremeLanes(true, p, count, start) : extremeLanes(false, p, count, start);
}

@inline
function lowest<T>(): T {
  if (isFloat<T>()) return <T>-Infinity;
  return isSigned<T>() ? <T>1 << <T>(sizeof<T>() * 8 - 1) : 0;
}

@inline
function highest<T>(): T {
  if (isFloat<T>()) return <T>Infinity;
  return <T>-1 ^ (isSigned<T>() ? <T>1 << <T>(sizeof<T>() * 8 - 1) : 0);
}

@inline
function start<T, S>(fold: u32): S {
  switch (<i32>fold) {
    case Fold.MAX: return <S>lowest<T>();
    case Fold.MIN: return <S>highest<T>();
    case Fold.PROD: case Fold.ALL: return 1;
    default: return 0;
  }
}

/** Folds `count` elements of T into `state`, one after the other. */
@inline
function more<T, S>(fold: u32, p: usize, count: u32, state: S): S {
  const end = p + <usize>count * sizeof<T>();
  switch (<i32>fold) {
    case Fold.MAX:
      for (; p < end; p += sizeof<T>()) state = isFloat<T>() ? max<S>(state, <S>load<T>(p)) : <S>load<T>(p) > state ? <S>load<T>(p) : state;
      break;
    case Fold.MIN:
      for (; p < end; p += sizeof<T>()) state = isFloat<T>() ? min<S>(state, <S>load<T>(p)) : <S>load<T>(p) < state ? <S>load<T>(p) : state;
      break;
    case Fold.PROD: for (; p < end; p += sizeof<T>()) state *= <S>load<T>(p); break;
    case Fold.SUM_SQUARE: for (; p < end; p += sizeof<T>()) state += <S>load<T>(p) * <S>load<T>(p); break;
    case Fold.L1:
      for (; p < end; p += sizeof<T>()) {
        const x = <S>load<T>(p);
        state += isFloat<T>() ? abs<S>(x) : isSigned<T>() && x < 0 ? <S>0 - x : x;
      }
      break;
    case Fold.ALL: for (; p < end; p += sizeof<T>()) if (load<T>(p) == 0) state = 0; break;
    case Fold.ANY: for (; p < end; p += sizeof<T>()) if (load<T>(p) != 0) state = 1; break;
    default: for (; p < end; p += sizeof<T>()) state += <S>load<T>(p);
  }
  return state;
}

function moreF32(fold: u32, p: usize, count: u32, state: f64): f64 {
  switch (<i32>fold) {
    case Fold.SUM: case Fold.MEAN: return state + sumLanes(Fold.SUM, p, count);
    case Fold.SUM_SQUARE: return state + sumLanes(Fold.SUM_SQUARE, p, count);
    case Fold.L1: return state + sumLanes(Fold.L1, p, count);
    case Fold.MAX: return <f64>extremeF32(true, p, count, <f32>state);
    case Fold.MIN: return <f64>extremeF32(false, p, count, <f32>state);
    default: return more<f32, f64>(fold, p, count, state);
  }
}

/** One row of `length` elements from linear index `at`; `ready` is where they lie already, or 0. */
@inline
function foldRow<T, S>(fold: u32, at: u32, length: u32, ready: usize): S {
  let state = start<T, S>(fold);
  for (let done: u32 = 0; done < length; done += LOAD) {
    const count = min<u32>(LOAD, length - done);
    const p = ready != 0 ? ready : bring(at + done, count);
    if (isFloat<T>() && sizeof<T>() == 4) state = <S>moreF32(fold, p, count, <f64>state);
    else state = more<T, S>(fold, p, count, state);
  }
  if (fold == Fold.MEAN) {
    if (isFloat<T>()) state = state / <S>length;
    else state = length == 0 ? 0 : state / <S>length;
  }
  return state;
}

/** log of the sum of exponentials, against the largest element so that nothing overflows. */
@inline
function logSumExp<T>(at: u32, length: u32, ready: usize): f64 {
  const peak = foldRow<T, f64>(Fold.MAX, at, length, ready);
  if (peak == -Infinity || peak == Infinity || peak != peak) return peak;
  let total: f64 = 0;
  for (let done: u32 = 0; done < length; done += LOAD) {
    const count = min<u32>(LOAD, length - done);
    const p = ready != 0 ? ready : bring(at + done, count);
    for (let i: usize = 0; i < <usize>count; i++) total += exp(<f64>load<T>(p + i * sizeof<T>()) - peak);
  }
  return peak + log(total);
}

/** Position of the first extreme element of a row. */
@inline
function argRow<T>(largest: bool, at: u32, length: u32, ready: usize): i64 {
  let best: T = 0;
  let where: i64 = 0;
  for (let done: u32 = 0; done < length; done += LOAD) {
    const count = min<u32>(LOAD, length - done);
    const p = ready != 0 ? ready : bring(at + done, count);
    if (done == 0) best = load<T>(p);
    for (let i: u32 = 0; i < count; i++) {
      const x = load<T>(p + <usize>i * sizeof<T>());
      if (largest ? x > best : x < best) {
        best = x;
        where = <i64>(done + i);
      }
    }
  }
  return where;
}

/** Rows [row, row + rows) -> values at `target`. Short rows are brought in several at a time. */
@inline
function foldRows<T, S>(fold: u32, row: u32, rows: u32, length: u32, target: usize): void {
  const together = length == 0 || length > LOAD ? 1 : LOAD / length;
  for (let i: u32 = 0; i < rows; i += together) {
    const group = min<u32>(together, rows - i);
    const base = length == 0 || length > LOAD ? 0 : bring((row + i) * length, group * length);
    for (let j: u32 = 0; j < group; j++) {
      const ready = base == 0 ? 0 : base + <usize>(j * length) * sizeof<T>();
      const at = (row + i + j) * length;
      const place = <usize>(i + j);
      if (fold == Fold.ARG_MAX || fold == Fold.ARG_MIN) store<i64>(target + (place << 3), argRow<T>(fold == Fold.ARG_MAX, at, length, ready));
      else if (fold == Fold.ALL || fold == Fold.ANY) store<i32>(target + (place << 2), <i32>foldRow<T, S>(fold, at, length, ready));
      else if (isFloat<T>() && fold == Fold.LOG_SUM_EXP) store<T>(target + place * sizeof<T>(), <T>logSumExp<T>(at, length, ready));
      else store<T>(target + place * sizeof<T>(), <T>foldRow<T, S>(fold, at, length, ready));
    }
  }
}

function foldTyped(type: u32, fold: u32, row: u32, rows: u32, length: u32, target: usize): void {
  switch (<i32>type) {
    case StripType.F32:
      if (fold == Fold.MAX && flat && isRegister(dtype)) maxRows(rows, length, first + (<usize>(row * length) << 2), <usize>length << 2, target);
      else foldRows<f32, f64>(fold, row, rows, length, target);
      break;
    case StripType.F64: foldRows<f64, f64>(fold, row, rows, length, target); break;
    case StripType.I32: foldRows<i32, i64>(fold, row, rows, length, target); break;
    case StripType.U32: foldRows<u32, i64>(fold, row, rows, length, target); break;
    case StripType.I64: foldRows<i64, i64>(fold, row, rows, length, target); break;
    default: foldRows<u64, u64>(fold, row, rows, length, target);
  }
}

/** Whether the view's elements lie one after the other in the order of their numbers. */
function dense(view: usize): bool {
  let expected = <i32>1 << sizeShift(dtypeOf(view));
  for (let i = <i32>rank(view) - 1; i >= 0; i--) {
    if (dim(view, i) != 1 && stride(view, i) != expected) return false;
    expected *= <i32>dim(view, i);
  }
  return true;
}

export function runReduce(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const block = program + load<u32>(instruction, Instruction.BLOCK);
  const rowsPerTile = load<u32>(instruction, Instruction.P2);
  const fold = load<u32>(instruction, Instruction.P0);
  const type = load<u32>(instruction, Instruction.P3);
  const length = load<u32>(instruction, Instruction.P5);
  const from = tile * rowsPerTile;
  const to = min<u32>(from + rowsPerTile, load<u32>(block, StripBlock.ELEMENTS));
  tensor = record(program, load<u32>(instruction, Instruction.T1));
  first = addressOf(tensor, frame);
  dtype = dtypeOf(tensor);
  buffer = scratch;
  flat = dense(tensor);
  const columns = load<u32>(instruction, Instruction.P4) == ReduceMode.COLUMNS;
  // The values of one strip at a time: runStrip then finds them all in FOLDED, padded to its groups.
  const step = load<u32>(block, StripBlock.STEP);
  for (let row = from; row < to; row += step) {
    const rows = min<u32>(step, to - row);
    if (columns) runColumns(tensor, first, fold, load<u32>(instruction, Instruction.P1), row, rows, length, scratch + FOLDED, scratch + RAW);
    else foldTyped(type, fold, row, rows, length, scratch + FOLDED);
    runStrip(program, block, frame, row, row + rows, scratch + FOLDED, scratch);
  }
}
