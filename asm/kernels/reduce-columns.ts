/**
 * REDUCE of f32 where neighbours in memory belong to different rows (a sum over all but the last axis, a pool over NHWC pixels):
 * lines of up to LINE rows are folded side by side. Per row the order is that of its elements: sums go in f32 over 8 elements, then in f64.
 */
import { Fold } from "../abi/isa";
import { dim, dimAt, offsetAt, rank, stride } from "./view";

/** Rows side by side; their f64 totals and f32 partial sums stay in L1. */
const LINE: u32 = 512;
const DEPTH: u32 = 8;

@inline
function combine(fold: u32, x: v128, y: v128): v128 {
  if (fold == Fold.MAX) return f32x4.max(x, y);
  if (fold == Fold.MIN) return f32x4.min(x, y);
  if (fold == Fold.SUM_SQUARE) return f32x4.add(x, f32x4.mul(y, y));
  return f32x4.add(x, y);
}

@inline
function combineOne(fold: u32, x: f32, y: f32): f32 {
  if (fold == Fold.MAX) return max<f32>(x, y);
  if (fold == Fold.MIN) return min<f32>(x, y);
  if (fold == Fold.SUM_SQUARE) return x + y * y;
  return x + y;
}

@inline
function addLine(fold: u32, target: usize, source: usize, width: u32): void {
  const end = target + (<usize>width << 2);
  while (target + 16 <= end) {
    v128.store(target, combine(fold, v128.load(target), v128.load(source)));
    target += 16;
    source += 16;
  }
  for (; target < end; target += 4, source += 4) store<f32>(target, combineOne(fold, load<f32>(target), load<f32>(source)));
}

function foldLine(fold: u32, target: usize, source: usize, width: u32): void {
  switch (<i32>fold) {
    case Fold.MAX: addLine(Fold.MAX, target, source, width); break;
    case Fold.MIN: addLine(Fold.MIN, target, source, width); break;
    case Fold.SUM_SQUARE: addLine(Fold.SUM_SQUARE, target, source, width); break;
    default: addLine(Fold.SUM, target, source, width);
  }
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

function foldWidth(tensor: usize, place: usize, fold: u32, outer: u32, width: u32, length: u32, target: usize, totals: usize): void {
  const sums = fold != Fold.MAX && fold != Fold.MIN;
  const fresh: f32 = sums ? 0 : fold == Fold.MAX ? -Infinity : Infinity;
  for (let i: usize = 0; i < <usize>width; i++) {
    store<f32>(target + (i << 2), fresh);
    store<f64>(totals + (i << 3), 0);
  }
  for (let at: u32 = 0; at < length; at += DEPTH) {
    const end = min<u32>(at + DEPTH, length);
    for (let e = at; e < end; e++) foldLine(fold, target, place + innerOffset(tensor, outer, e), width);
    if (!sums) continue;
    for (let i: usize = 0; i < <usize>width; i++) {
      store<f64>(totals + (i << 3), load<f64>(totals + (i << 3)) + <f64>load<f32>(target + (i << 2)));
      store<f32>(target + (i << 2), 0);
    }
  }
  if (!sums) return;
  const divisor: f64 = fold == Fold.MEAN ? <f64>length : 1;
  for (let i: usize = 0; i < <usize>width; i++) store<f32>(target + (i << 2), <f32>(load<f64>(totals + (i << 3)) / divisor));
}

/** Rows [row, row + rows) -> f32 values at `target`. The innermost outer axis is dense; `work` holds LINE f64. */
export function runColumns(tensor: usize, first: usize, fold: u32, outer: u32, row: u32, rows: u32, length: u32, target: usize, work: usize): void {
  const size = load<u32>(dimAt(tensor, outer - 1));
  while (rows > 0) {
    const width = min<u32>(min<u32>(rows, LINE), size - row % size);
    foldWidth(tensor, first + offsetAt(tensor, outer, row), fold, outer, width, length, target, work);
    target += <usize>width << 2;
    row += width;
    rows -= width;
  }
}
