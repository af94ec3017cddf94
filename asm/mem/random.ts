/**
 * RANDOM: numbers from Philox 4x32-10 (Salmon et al., 2011). Element i depends on seed, counter and i alone, so neither cores nor chunks show in the result.
 * Block b of the task is philox(counter + b, key = seed): four 32-bit numbers. A mask takes one per bit, uniform floats and 32-bit integers one, 64-bit
 * integers two, normals two for two (Box-Muller). A truncated normal beyond two deviations is drawn again from philox(counter + b, try, lane).
 */
import { Core } from "../abi/device";
import { Dtype } from "../abi/program";
import { REGISTER_BYTES } from "../abi/strip";
import { Distribution, Random, Task } from "../abi/task";
import { me, scratch } from "../core/local";
import { loadElements, sizeShift, storeElements } from "../micro/load";
import { cos, log, sin } from "../micro/math";
import { placeOf } from "./indirect";

/** Elements at a time; a multiple of 8, so that masks end on bytes. */
const CHUNK: u32 = REGISTER_BYTES / 8;
const UNIT: f64 = 1.0 / 4294967296.0;
const TAU: f64 = 6.283185307179586;
const TRIES: u32 = 64;
const CUT: f64 = 2;

let seed: u64 = 0;
let x0: u32 = 0, x1: u32 = 0, x2: u32 = 0, x3: u32 = 0;

function draw(block: u64, attempt: u32, lane: u32): void {
  let c0 = <u32>block, c1 = <u32>(block >> 32), c2 = attempt, c3 = lane;
  let k0 = <u32>seed, k1 = <u32>(seed >> 32);
  for (let round = 0; round < 10; round++) {
    const p0 = <u64>0xd2511f53 * <u64>c0, p1 = <u64>0xcd9e8d57 * <u64>c2;
    c0 = <u32>(p1 >> 32) ^ c1 ^ k0;
    c1 = <u32>p1;
    c2 = <u32>(p0 >> 32) ^ c3 ^ k1;
    c3 = <u32>p0;
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  x0 = c0;
  x1 = c1;
  x2 = c2;
  x3 = c3;
}

// @ts-ignore: decorator
@inline
function word(lane: u32): u32 {
  return lane == 0 ? x0 : lane == 1 ? x1 : lane == 2 ? x2 : x3;
}

/** Number `index` of the task. Call in rising order: a block is drawn when its first number is asked for. */
// @ts-ignore: decorator
@inline
function next(first: u64, index: u64): u32 {
  const lane = <u32>index & 3;
  if (lane == 0) draw(first + (index >> 2), 0, 0);
  return word(lane);
}

/** Normal number `lane` of the block that was drawn last: cosine and sine of each pair. */
function normal(lane: u32): f64 {
  const radius = sqrt(-2 * log((<f64>word(lane & 2) + 1) * UNIT));
  const angle = TAU * <f64>word((lane & 2) + 1) * UNIT;
  return radius * (lane & 1 ? sin(angle) : cos(angle));
}

function truncated(block: u64, lane: u32): f64 {
  draw(block, 0, 0);
  let value = normal(lane);
  for (let attempt: u32 = 1; abs(value) > CUT; attempt++) {
    if (attempt == TRIES) return value > 0 ? CUT : -CUT; // 1 of 10^85
    draw(block, attempt, lane);
    value = normal(0);
  }
  return value;
}

function fillMask(target: usize, first: u64, start: u64, count: u32, zeros: f64): void {
  const limit = <u64>(zeros * 4294967296.0);
  for (let i: u32 = 0; i < count; i += 8) {
    let bits: u32 = 0;
    for (let bit: u32 = 0; bit < 8 && i + bit < count; bit++) if (<u64>next(first, start + i + bit) >= limit) bits |= 1 << bit;
    store<u8>(target + (i >> 3), <u8>bits);
  }
}

function fillWhole(dtype: u32, target: usize, first: u64, start: u64, count: u32, low: f64, high: f64): void {
  const wide = sizeShift(dtype) == 3;
  const base = dtype == Dtype.UINT64 ? <u64>low : <u64><i64>low;
  const range = (dtype == Dtype.UINT64 ? <u64>high : <u64><i64>high) - base;
  for (let i: u32 = 0; i < count; i++) {
    if (!wide) {
      store<u32>(target + (<usize>i << 2), <u32>base + <u32>((<u64>next(first, start + i) * range) >> 32));
      continue;
    }
    const lower = <u64>next(first, 2 * (start + i));
    const value = lower | (<u64>next(first, 2 * (start + i) + 1) << 32);
    store<u64>(target + (<usize>i << 3), base + value % range);
  }
}

function fillReal(record: usize, target: usize, first: u64, start: u64, count: u32, a: f64, b: f64): void {
  const distribution = load<u32>(record, Random.DISTRIBUTION);
  for (let i: u32 = 0; i < count; i++) {
    const index = start + i;
    let value: f64;
    if (distribution == Distribution.UNIFORM) {
      value = a + (b - a) * (<f64>(next(first, index) >> 8) * (1.0 / 16777216.0));
      if (<f64><f32>value >= b) value = a; // rounded up to the end, which is no value
    } else if (distribution == Distribution.NORMAL) {
      next(first, index);
      value = a + b * normal(<u32>index & 3);
    } else {
      value = a + b * truncated(first + (index >> 2), <u32>index & 3);
    }
    store<f32>(target + (<usize>i << 2), <f32>value);
  }
}

function wordAt(record: usize, field: usize, bit: u32): u64 {
  const value = load<u64>(record + field);
  return load<u32>(record, Random.INDIRECT) & bit ? load<u64>(placeOf(value, 8)) : value;
}

function realAt(record: usize, field: usize, bit: u32, dtype: u32): f64 {
  if (!(load<u32>(record, Random.INDIRECT) & bit)) return load<f64>(record + field);
  const bytes = <usize>1 << sizeShift(dtype);
  memory.copy(scratch, placeOf(load<u64>(record + field), bytes), bytes);
  switch (<i32>dtype) {
    case Dtype.INT32: return <f64>load<i32>(scratch);
    case Dtype.UINT32: return <f64>load<u32>(scratch);
    case Dtype.INT64: return <f64>load<i64>(scratch);
    case Dtype.UINT64: return <f64>load<u64>(scratch);
    default:
      loadElements(dtype, scratch + 64, scratch, 1);
      return <f64>load<f32>(scratch + 64);
  }
}

function isWhole(dtype: u32): bool {
  return dtype == Dtype.INT32 || dtype == Dtype.UINT32 || dtype == Dtype.INT64 || dtype == Dtype.UINT64;
}

/** What was updated on the device may be anything: what makes no sense traps before a byte is written. */
function check(distribution: u32, dtype: u32, a: f64, b: f64): void {
  const real = dtype == Dtype.FLOAT32 || dtype == Dtype.FLOAT16 || dtype == Dtype.BFLOAT16;
  const known = distribution == Distribution.DROPOUT_MASK ? a >= 0 && a <= 1 : distribution == Distribution.UNIFORM ? (real || isWhole(dtype)) && a < b : real && b >= 0;
  if (distribution > <u32>Distribution.TRUNCATED_NORMAL || !known) unreachable();
}

export function randomTask(task: usize): void {
  const record = <usize>load<u32>(task, Task.P0);
  const distribution = load<u32>(record, Random.DISTRIBUTION), dtype = load<u32>(record, Random.DTYPE);
  const count = wordAt(record, Random.COUNT, 2);
  const a = realAt(record, Random.FIRST, 4, dtype), b = realAt(record, Random.SECOND, 8, dtype);
  check(distribution, dtype, a, b);
  seed = wordAt(record, Random.SEED, 1);
  const mask = distribution == Distribution.DROPOUT_MASK;
  if (count >> 40) unreachable();
  const bytes = mask ? (count + 7) >> 3 : count << sizeShift(dtype);
  let target = placeOf(load<u64>(record, Random.TARGET), bytes);
  const counter = load<u64>(record, Random.COUNTER);
  const counterAt = counter ? placeOf(counter, 8) : 0;
  const first = counterAt ? load<u64>(counterAt) : 0;
  for (let start: u64 = 0; start < count; start += CHUNK) {
    const part = <u32>min<u64>(CHUNK, count - start);
    if (mask) {
      fillMask(target, first, start, part, a);
      target += (part + 7) >> 3;
    } else {
      if (isWhole(dtype)) fillWhole(dtype, target, first, start, part, a, b);
      else {
        fillReal(record, scratch, first, start, part, a, b);
        storeElements(dtype, target, scratch, part);
      }
      target += <usize>part << sizeShift(dtype);
    }
    // Progress, for the watchdog: the task is bounded, however long it takes.
    store<u32>(me, load<u32>(me, Core.BEAT) + 1, Core.BEAT);
  }
  const numbers = isWhole(dtype) && sizeShift(dtype) == 3 && !mask ? 2 * count : count;
  if (counterAt) store<u64>(counterAt, first + ((numbers + 3) >> 2));
}
