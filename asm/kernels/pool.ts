/** POOL over views [N, D, H, W, C]: maximum or average of each window. Dense f32 channels go side by side; anything else element by element. */
import { Dtype, Instruction } from "../abi/program";
import { ConvBlock, PoolKind } from "../abi/isa";
import { canonicalF32, canonicalF64 } from "../micro/load";
import { addressOf, dim, dtypeOf, record, stride } from "./view";
import { kernelSize, movePixel, openWindow, paddedTaps, tapAddress } from "./window";

@inline
function mergeLine(maximum: bool, place: usize, source: usize, channels: u32): void {
  const end = place + (<usize>channels << 2);
  for (; place + 16 <= end; place += 16, source += 16) {
    const x = v128.load(place), y = v128.load(source);
    v128.store(place, maximum ? f32x4.max(x, y) : f32x4.add(x, y));
  }
  for (; place < end; place += 4, source += 4) {
    const x = load<f32>(place), y = load<f32>(source);
    store<f32>(place, maximum ? max<f32>(x, y) : x + y);
  }
}

function fillLine(place: usize, channels: u32, value: f32): void {
  for (let c: usize = 0; c < <usize>channels; c++) store<f32>(place + (c << 2), value);
}

/** All channels of the current pixel; windows without a source pixel give the fold's neutral value (average: 0). */
function poolLine(place: usize, channels: u32, kind: u32): void {
  const maximum = kind == PoolKind.MAX;
  let seen: u32 = 0;
  for (let i: u32 = 0; i < kernelSize(0); i++) {
    for (let j: u32 = 0; j < kernelSize(1); j++) {
      for (let k: u32 = 0; k < kernelSize(2); k++) {
        const source = tapAddress(i, j, k);
        if (source == 0) continue;
        if (seen++ == 0) memory.copy(place, source, <usize>channels << 2);
        else if (maximum) mergeLine(true, place, source, channels);
        else mergeLine(false, place, source, channels);
      }
    }
  }
  if (seen == 0) fillLine(place, channels, maximum ? -Infinity : 0);
  else if (!maximum) {
    const divisor = <f32>(kind == PoolKind.AVERAGE_INCLUDE_PAD ? paddedTaps() : seen);
    for (let c: usize = 0; c < <usize>channels; c++) store<f32>(place + (c << 2), load<f32>(place + (c << 2)) / divisor);
  }
  canonicalF32(place, channels);
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

export function runPool(program: usize, instruction: usize, tile: u32, frame: usize): void {
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
  for (let pixel = from; pixel < to; pixel++) {
    const place = addressOf(target, frame) + movePixel(target, pixel);
    if (lines) poolLine(place, channels, kind);
    else for (let c: u32 = 0; c < channels; c++) poolElement(dtype, place + <usize>(<i32>c * step), <i32>c * sourceStep, kind);
  }
}
