/**
 * REDUCE of f32 where neighbours in memory belong to different rows (a sum over all but the last axis, a pool over NHWC pixels):
 * lines of up to LINE rows are folded side by side. Per row the order is that of its elements: sums go in f32 over RUN elements, one after the other, then in f64.
 * That plain order is what other runtimes have, and models depend on it: where a variance is mean(x^2) - mean(x)^2 of nearly equal numbers
 * (Magika's normalization over positions), its rounding is larger than the variance, and another order gives other scores in the third digit.
 */
import { Fold } from "../abi/isa";
import { dim, dimAt, offsetAt, rank, stride } from "./view";

/** Rows side by side; their sums and f64 totals stay in L1. */
const LINE: u32 = 512;
const RUN: u32 = 512;

@inline
function extreme(fold: u32, x: v128, y: v128): v128 {
  return fold == Fold.MAX ? f32x4.max(x, y) : f32x4.min(x, y);
}

@inline
function extremeLine(fold: u32, target: usize, source: usize, width: u32): void {
  const end = target + (<usize>width << 2);
  for (; target + 16 <= end; target += 16, source += 16) v128.store(target, extreme(fold, v128.load(target), v128.load(source)));
  for (; target < end; target += 4, source += 4) {
    const x = load<f32>(target);
    const y = load<f32>(source);
    store<f32>(target, fold == Fold.MAX ? max<f32>(x, y) : min<f32>(x, y));
  }
}

@inline
function term4(fold: u32, at: usize): v128 {
  const x = v128.load(at);
  return fold == Fold.SUM_SQUARE ? f32x4.mul(x, x) : x;
}

@inline
function term(fold: u32, at: usize): f32 {
  const x = load<f32>(at);
  return fold == Fold.SUM_SQUARE ? x * x : x;
}

/** Offset of element `index` of a row: over the inner axes [outer, rank). */
function innerOffset(tensor: usize, outer: u32, index: u32): i32 {
  let offset: i32 = 0;
  for (let i = rank(tensor) - 1; i >= outer; i--) {
    const size = dim(tensor, i);
    const quotient = index / size;
    offset += <i32>(index - quotient * size) * stride(tensor, i);
    index = quotient;
  }
  return offset;
}

/** sums += elements [at, at + 8) of each row, one after the other. */
@inline
function addEight(fold: u32, tensor: usize, place: usize, outer: u32, at: u32, width: u32, sums: usize): void {
  const a = place + innerOffset(tensor, outer, at);
  const b = place + innerOffset(tensor, outer, at + 1);
  const c = place + innerOffset(tensor, outer, at + 2);
  const d = place + innerOffset(tensor, outer, at + 3);
  const e = place + innerOffset(tensor, outer, at + 4);
  const f = place + innerOffset(tensor, outer, at + 5);
  const g = place + innerOffset(tensor, outer, at + 6);
  const h = place + innerOffset(tensor, outer, at + 7);
  const end = <usize>width << 2;
  let i: usize = 0;
  for (; i + 16 <= end; i += 16) {
    let sum = f32x4.add(v128.load(sums + i), term4(fold, a + i));
    sum = f32x4.add(sum, term4(fold, b + i));
    sum = f32x4.add(sum, term4(fold, c + i));
    sum = f32x4.add(sum, term4(fold, d + i));
    sum = f32x4.add(sum, term4(fold, e + i));
    sum = f32x4.add(sum, term4(fold, f + i));
    sum = f32x4.add(sum, term4(fold, g + i));
    v128.store(sums + i, f32x4.add(sum, term4(fold, h + i)));
  }
  for (; i < end; i += 4) {
    const low: f32 = load<f32>(sums + i) + term(fold, a + i) + term(fold, b + i) + term(fold, c + i) + term(fold, d + i);
    store<f32>(sums + i, low + term(fold, e + i) + term(fold, f + i) + term(fold, g + i) + term(fold, h + i));
  }
}

@inline
function addOne(fold: u32, source: usize, width: u32, sums: usize): void {
  for (let i: usize = 0; i < <usize>width << 2; i += 4) store<f32>(sums + i, load<f32>(sums + i) + term(fold, source + i));
}

function extremeWidth(tensor: usize, place: usize, fold: u32, outer: u32, width: u32, length: u32, target: usize): void {
  const fresh: f32 = fold == Fold.MAX ? -Infinity : Infinity;
  for (let i: usize = 0; i < <usize>width; i++) store<f32>(target + (i << 2), fresh);
  for (let e: u32 = 0; e < length; e++) {
    const source = place + innerOffset(tensor, outer, e);
    if (fold == Fold.MAX) extremeLine(Fold.MAX, target, source, width);
    else extremeLine(Fold.MIN, target, source, width);
  }
}

function sumWidth(tensor: usize, place: usize, fold: u32, outer: u32, width: u32, length: u32, target: usize, totals: usize): void {
  const bytes = <usize>width << 2;
  memory.fill(target, 0, bytes);
  memory.fill(totals, 0, bytes << 1);
  for (let at: u32 = 0; at < length; ) {
    const end = min<u32>(at + RUN, length);
    for (; at + 8 <= end; at += 8) {
      if (fold == Fold.SUM_SQUARE) addEight(Fold.SUM_SQUARE, tensor, place, outer, at, width, target);
      else addEight(Fold.SUM, tensor, place, outer, at, width, target);
    }
    for (; at < end; at++) addOne(fold, place + innerOffset(tensor, outer, at), width, target);
    for (let i: usize = 0; i < bytes; i += 4) {
      const total = totals + (i << 1);
      store<f64>(total, load<f64>(total) + <f64>load<f32>(target + i));
      store<f32>(target + i, 0);
    }
  }
  const divisor: f64 = fold == Fold.MEAN ? <f64>length : 1;
  for (let i: usize = 0; i < bytes; i += 4) store<f32>(target + i, <f32>(load<f64>(totals + (i << 1)) / divisor));
}

/** Rows [row, row + rows) -> f32 values at `target`. The innermost outer axis is dense; `work` holds LINE f64. */
export function runColumns(tensor: usize, first: usize, fold: u32, outer: u32, row: u32, rows: u32, length: u32, target: usize, work: usize): void {
  const size = load<u32>(dimAt(tensor, outer - 1));
  while (rows > 0) {
    const width = min<u32>(min<u32>(rows, LINE), size - row % size);
    const place = first + offsetAt(tensor, outer, row);
    if (fold == Fold.MAX || fold == Fold.MIN) extremeWidth(tensor, place, fold, outer, width, length, target);
    else sumWidth(tensor, place, fold, outer, width, length, target, work);
    target += <usize>width << 2;
    row += width;
    rows -= width;
  }
}
