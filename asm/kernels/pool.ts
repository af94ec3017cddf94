/** POOL over views [N, D, H, W, C]: maximum or average of each window. Dense f32 channels go side by side; anything else element by element. */
import { Dtype, Instruction } from "../abi/program";
import { ConvBlock, PoolKind } from "../abi/isa";
import { canonicalF32, canonicalF64 } from "../micro/load";
import { addressOf, dim, dtypeOf, record, stride } from "./view";
import { evenPitch, kernelSize, listInside, movePixel, nextPixel, openWindow, paddedTaps, tapAddress } from "./window";
import { STRIP_SCRATCH } from "./strip";

/** Taps of the window at hand that lie in the source; above what a strip program uses, though none runs here. */
const TAPS: usize = (STRIP_SCRATCH + 63) & ~63;

/**
 * `vectors` vectors of channels from byte `at` on, over `count` taps listed at `list`. The fast maximum passes over a NaN in its second argument, so
 * NaN is remembered apart.
 */
@inline
function poolVectors(maximum: bool, vectors: u32, list: usize, count: u32, at: usize, place: usize, divisor: v128): void {
  const start = f32x4.splat(maximum ? -Infinity : 0), none = i32x4.splat(0);
  let s0 = start, s1 = start, s2 = start, s3 = start;
  let n0 = none, n1 = none, n2 = none, n3 = none;
  const end = list + (<usize>count << 2);
  while (list < end) {
    const tap = <usize>load<u32>(list) + at;
    const x0 = v128.load(tap);
    s0 = maximum ? f32x4.pmax(s0, x0) : f32x4.add(s0, x0);
    if (maximum) n0 = v128.or(n0, f32x4.ne(x0, x0));
    if (vectors > 1) {
      const x1 = v128.load(tap, 16), x2 = v128.load(tap, 32), x3 = v128.load(tap, 48);
      s1 = maximum ? f32x4.pmax(s1, x1) : f32x4.add(s1, x1);
      s2 = maximum ? f32x4.pmax(s2, x2) : f32x4.add(s2, x2);
      s3 = maximum ? f32x4.pmax(s3, x3) : f32x4.add(s3, x3);
      if (maximum) {
        n1 = v128.or(n1, f32x4.ne(x1, x1));
        n2 = v128.or(n2, f32x4.ne(x2, x2));
        n3 = v128.or(n3, f32x4.ne(x3, x3));
      }
    }
    list += 4;
  }
  v128.store(place + at, maximum ? v128.or(s0, n0) : f32x4.div(s0, divisor));
  if (vectors > 1) {
    v128.store(place + at, maximum ? v128.or(s1, n1) : f32x4.div(s1, divisor), 16);
    v128.store(place + at, maximum ? v128.or(s2, n2) : f32x4.div(s2, divisor), 32);
    v128.store(place + at, maximum ? v128.or(s3, n3) : f32x4.div(s3, divisor), 48);
  }
}

/** All channels, at least four; the last vector overlaps the one before. */
@inline
function poolChannels(maximum: bool, list: usize, count: u32, place: usize, channels: u32, divisor: v128): void {
  const end = <usize>channels << 2;
  let at: usize = 0;
  for (; at + 64 <= end; at += 64) poolVectors(maximum, 4, list, count, at, place, divisor);
  for (; at + 16 <= end; at += 16) poolVectors(maximum, 1, list, count, at, place, divisor);
  if (at < end) poolVectors(maximum, 1, list, count, end - 16, place, divisor);
}

/** The window at hand; without a source pixel in it a maximum is -Infinity and an average 0. */
function poolWindow(place: usize, channels: u32, kind: u32, list: usize): void {
  const count = listInside(list);
  if (kind == PoolKind.MAX) poolChannels(true, list, count, place, channels, i32x4.splat(0));
  else {
    const divisor = kind == PoolKind.AVERAGE_INCLUDE_PAD ? paddedTaps() : count;
    poolChannels(false, list, count, place, channels, f32x4.splat(<f32>max<u32>(divisor, 1)));
  }
}

/** One channel of the current pixel, at byte offset `at` of each source pixel. */
@inline
function poolOne<T>(place: usize, at: i32, kind: u32, least: T): void {
  let best = least;
  let total: f64 = 0;
  let seen: u32 = 0;
  for (let i: u32 = 0; i < kernelSize(0); i++) {
    for (let j: u32 = 0; j < kernelSize(1); j++) {
      for (let k: u32 = 0; k < kernelSize(2); k++) {
        const source = tapAddress(i, j, k);
        if (source == 0) continue;
        seen++;
        const x = load<T>(source + at);
        if (kind != PoolKind.MAX) total += <f64>x;
        else if (isFloat<T>()) best = max<T>(best, x);
        else if (x > best) best = x;
      }
    }
  }
  if (kind == PoolKind.MAX) store<T>(place, best);
  else {
    const divisor = kind == PoolKind.AVERAGE_INCLUDE_PAD ? paddedTaps() : seen;
    store<T>(place, divisor == 0 ? 0 : <T>(total / <f64>divisor));
  }
  if (isFloat<T>()) sizeof<T>() == 8 ? canonicalF64(place, 1) : canonicalF32(place, 1);
}

function poolElement(dtype: u32, place: usize, at: i32, kind: u32): void {
  switch (<i32>dtype) {
    case Dtype.FLOAT32: poolOne<f32>(place, at, kind, -Infinity); break;
    case Dtype.FLOAT64: poolOne<f64>(place, at, kind, -Infinity); break;
    case Dtype.INT8: poolOne<i8>(place, at, kind, i8.MIN_VALUE); break;
    case Dtype.UINT8: poolOne<u8>(place, at, kind, 0); break;
    case Dtype.INT32: poolOne<i32>(place, at, kind, i32.MIN_VALUE); break;
    case Dtype.INT64: poolOne<i64>(place, at, kind, i64.MIN_VALUE); break;
    default: unreachable();
  }
}

export function runPool(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0));
  const source = record(program, load<u32>(instruction, Instruction.T1));
  const block = program + load<u32>(instruction, Instruction.P0);
  const kind = load<u32>(instruction, Instruction.P1);
  const pixels = dim(target, 0) * dim(target, 1) * dim(target, 2) * dim(target, 3);
  const channels = dim(target, 4);
  const from = tile * load<u32>(block, ConvBlock.ROWS);
  const to = min<u32>(from + load<u32>(block, ConvBlock.ROWS), pixels);
  const dtype = dtypeOf(target);
  const step = stride(target, 4), sourceStep = stride(source, 4);
  const lines = dtype == Dtype.FLOAT32 && channels >= 4 && step == 4 && sourceStep == 4;
  openWindow(block, source, addressOf(source, frame));
  const first = addressOf(target, frame), even = evenPitch(target);
  const dense = even == <i32>(channels << 2);
  movePixel(target, from);
  for (let pixel = from; pixel < to; pixel++) {
    const place = first + (even != 0 ? <usize>(<i32>pixel * even) : <usize>movePixel(target, pixel));
    if (lines) {
      poolWindow(place, channels, kind, scratch + TAPS);
      if (!dense) canonicalF32(place, channels);
    }
    else for (let c: u32 = 0; c < channels; c++) poolElement(dtype, place + <usize>(<i32>c * step), <i32>c * sourceStep, kind);
    if (even != 0) nextPixel();
  }
  if (lines && dense) canonicalF32(first + <usize>from * even, (to - from) * channels);
}
