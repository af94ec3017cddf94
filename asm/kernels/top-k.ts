/**
 * TOP_K: the largest (or least) elements of each row and where they are. One tile = a run of rows.
 * Elements become integers of the same order; a heap of k of them, the worst on top, then gives way to what is better. Equal elements keep their order;
 * NaN counts as the largest, both zeros are equal.
 */
import { Dtype, Instruction } from "../abi/program";
import { sizeShift } from "../micro/load";
import { addressOf, dim, dtypeOf, moveRun, offsetAt, rank, record, stride } from "./view";

/** Bytes of an entry: key, then position. */
const ENTRY: usize = 16;

/** An integer that orders as the element does. */
function keyAt(dtype: u32, place: usize): i64 {
  switch (<i32>dtype) {
    case Dtype.FLOAT32: {
      const bits = load<i32>(place), magnitude = bits & 0x7fffffff;
      if (magnitude > 0x7f800000) return <i64>i32.MAX_VALUE;
      return magnitude == 0 ? 0 : <i64>(bits ^ ((bits >> 31) & 0x7fffffff));
    }
    case Dtype.FLOAT64: {
      const bits = load<i64>(place), magnitude = bits & i64.MAX_VALUE;
      if (magnitude > 0x7ff0000000000000) return i64.MAX_VALUE;
      return magnitude == 0 ? 0 : bits ^ ((bits >> 63) & i64.MAX_VALUE);
    }
    case Dtype.FLOAT16: case Dtype.BFLOAT16: {
      const bits = <i32>load<i16>(place), magnitude = bits & 0x7fff;
      if (magnitude > (dtype == Dtype.FLOAT16 ? 0x7c00 : 0x7f80)) return 0x7fff;
      return magnitude == 0 ? 0 : <i64>(bits ^ ((bits >> 31) & 0x7fff));
    }
    case Dtype.INT64: return load<i64>(place);
    case Dtype.UINT64: return load<i64>(place) ^ i64.MIN_VALUE;
    case Dtype.INT32: return <i64>load<i32>(place);
    case Dtype.UINT32: return <i64>load<u32>(place);
    case Dtype.INT16: return <i64>load<i16>(place);
    case Dtype.UINT16: return <i64>load<u16>(place);
    case Dtype.INT8: return <i64>load<i8>(place);
    default: return <i64>load<u8>(place);
  }
}

/** Is entry `a` to stand behind entry `b`? */
@inline
function worse(a: usize, b: usize): bool {
  const x = load<i64>(a), y = load<i64>(b);
  return x < y || (x == y && load<i64>(a, 8) > load<i64>(b, 8));
}

/** Lets the entry at `at` sink until nothing below it is worse. */
function sink(heap: usize, at: u32, count: u32): void {
  for (;;) {
    let child: u32 = 2 * at + 1;
    if (child >= count) return;
    if (child + 1 < count && worse(heap + <usize>(child + 1) * ENTRY, heap + <usize>child * ENTRY)) child++;
    const here = heap + <usize>at * ENTRY, there = heap + <usize>child * ENTRY;
    if (!worse(there, here)) return;
    const entry = v128.load(here);
    v128.store(here, v128.load(there));
    v128.store(there, entry);
    at = child;
  }
}

/** From element `i` on, the first group of four of which one may be better than `limit`; dense f32. */
@inline
function skip(largest: bool, source: usize, i: u32, count: u32, limit: f32): u32 {
  const bound = f32x4.splat(limit);
  for (; i + 4 <= count; i += 4) {
    const x = v128.load(source + (<usize>i << 2));
    // Not "gt": NaN must not be skipped.
    if (v128.any_true(v128.not(largest ? f32x4.le(x, bound) : f32x4.ge(x, bound)))) return i;
  }
  return i;
}

/** The k best of `count` elements at `source`, best first, in `heap`. */
function select(dtype: u32, largest: bool, source: usize, step: i32, count: u32, k: u32, heap: usize): void {
  const flip: i64 = largest ? 0 : -1;
  for (let i: u32 = 0; i < k; i++) {
    store<i64>(heap + <usize>i * ENTRY, keyAt(dtype, source + <i32>i * step) ^ flip);
    store<i64>(heap + <usize>i * ENTRY, <i64>i, 8);
  }
  for (let i = k / 2; i > 0; i--) sink(heap, i - 1, k);
  const dense = dtype == Dtype.FLOAT32 && step == 4;
  for (let i = k; i < count; i++) {
    if (dense) {
      i = skip(largest, source, i, count, load<f32>(source + (<usize>load<i64>(heap, 8) << 2)));
      if (i >= count) break;
    }
    const key = keyAt(dtype, source + <i32>i * step) ^ flip;
    if (key > load<i64>(heap)) {
      store<i64>(heap, key);
      store<i64>(heap, <i64>i, 8);
      sink(heap, 0, k);
    }
  }
  for (let left = k; left > 1; left--) {
    const last = heap + <usize>(left - 1) * ENTRY;
    const worst = v128.load(heap);
    v128.store(heap, v128.load(last));
    v128.store(last, worst);
    sink(heap, 0, left - 1);
  }
}

/** T0 values and T1 int64 positions [rows..., k] of T2 [rows..., n]; T3 int64 [all rows, k, 2] is work space; P0 rows per tile, P1 1 = the largest. */
export function runTopK(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const values = record(program, load<u32>(instruction, Instruction.T0)), positions = record(program, load<u32>(instruction, Instruction.T1));
  const source = record(program, load<u32>(instruction, Instruction.T2)), work = record(program, load<u32>(instruction, Instruction.T3));
  const outer = rank(values) - 1, k = dim(values, outer), count = dim(source, outer);
  if (k == 0) return;
  let rows: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) rows *= dim(values, i);
  const perTile = load<u32>(instruction, Instruction.P0), largest = load<u32>(instruction, Instruction.P1) != 0;
  const to = min<u32>(tile * perTile + perTile, rows);
  const dtype = dtypeOf(source), shift = sizeShift(dtype), step = stride(source, outer);
  const valueStep = stride(values, outer), positionStep = stride(positions, outer);
  for (let row = tile * perTile; row < to; row++) {
    const from = addressOf(source, frame) + offsetAt(source, outer, row);
    const heap = addressOf(work, frame) + <usize>row * k * ENTRY;
    select(dtype, largest, from, step, count, k, heap);
    let v = addressOf(values, frame) + offsetAt(values, outer, row), p = addressOf(positions, frame) + offsetAt(positions, outer, row);
    for (let i: u32 = 0; i < k; i++) {
      const at = load<i64>(heap + <usize>i * ENTRY, 8);
      moveRun(shift, v, valueStep, from + <i32>at * step, step, 1);
      store<i64>(p, at);
      v += valueStep;
      p += positionStep;
    }
  }
}
