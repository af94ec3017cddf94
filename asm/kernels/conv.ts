/**
 * CONV f32 over views [N, D, H, W, C] with dense channels: an implicit matrix product, output pixels x (taps x channels) x output channels.
 * POINTERS reads the source in place through a table of tap addresses (a zero row stands for the padding); GATHER copies a pixel's taps side by side
 * first, for few channels; DEPTHWISE has one channel per group. Weights: per group panels [columns / 8][taps x channels][8], or [taps][C] (depthwise).
 */
import { Instruction } from "../abi/program";
import { ConvBlock, ConvMode, MICRO_ROWS, PANEL } from "../abi/isa";
import { moveTile, multiply } from "../micro/gemm";
import { canonicalF32 } from "../micro/load";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, record } from "./view";
import { listTaps, movePixel, openWindow, tapCount } from "./window";

/** Output pixels worked on at once: a panel of weights is read from L1 for all of them. */
const PIXELS: u32 = 60;
/** Channels that the zero row covers; more go in pieces. */
const ZEROS: u32 = 4096;
/** Taps in the table for PIXELS pixels, or fewer pixels for larger windows. */
const TABLE_ENTRIES: u32 = 15360;
const GATHER_BYTES: u32 = 61440;

const TILE: usize = STRIP_SCRATCH;
const PLACES: usize = TILE + 256;
const ZERO: usize = PLACES + <usize>PIXELS * 4;
const TABLE: usize = ZERO + <usize>ZEROS * 4;
const GATHERED: usize = TABLE + <usize>TABLE_ENTRIES * 4;

@inline
function word(at: usize, index: u32): usize {
  return load<u32>(at + (<usize>index << 2));
}

/** Fills the table [pixel][tap] and the places of the output pixels; in mode GATHER copies the taps of each pixel side by side. */
function prepare(target: usize, targetFirst: usize, from: u32, pixels: u32, taps: u32, scratch: usize): void {
  for (let p: u32 = 0; p < pixels; p++) {
    store<u32>(scratch + PLACES + (<usize>p << 2), <u32>(targetFirst + movePixel(target, from + p)));
    listTaps(scratch + TABLE + (<usize>(p * taps) << 2), 4, scratch + ZERO);
  }
}

function gather(pixels: u32, taps: u32, channels: u32, offset: usize, scratch: usize): void {
  let out = scratch + GATHERED;
  const bytes = <usize>channels << 2;
  for (let i: u32 = 0; i < pixels * taps; i++) {
    const tap = word(scratch + TABLE, i);
    const source = tap == scratch + ZERO ? tap : tap + offset;
    if (channels == 1) store<u32>(out, load<u32>(source));
    else for (let x: usize = 0; x < bytes; x += 4) store<u32>(out + x, load<u32>(source + x));
    out += bytes;
  }
}

/** Bytes between the places of `rows` output pixels from `p`, or -1 where they are not evenly spaced. */
function evenPitch(p: u32, rows: u32, scratch: usize): i32 {
  if (rows == 1) return 0;
  const places = scratch + PLACES;
  const pitch = <i32>(word(places, p + 1) - word(places, p));
  for (let r: u32 = 2; r < rows; r++) if (<i32>(word(places, p + r) - word(places, p + r - 1)) != pitch) return -1;
  return pitch > 0 ? pitch : -1;
}

/** One panel for `rows` pixels from `p`: the sum over all taps (or the gathered row) lands at `place`. */
function sumPanel(p: u32, rows: u32, taps: u32, channels: u32, offset: usize, panel: usize, place: usize, pitch: usize, mode: u32, scratch: usize): void {
  if (mode == ConvMode.GATHER) {
    const k = taps * channels;
    const bytes = <usize>k << 2;
    const row = scratch + GATHERED + <usize>p * bytes;
    multiply(rows, false, k, row, row + bytes, row + 2 * bytes, row + 3 * bytes, row + 4 * bytes, panel, place, pitch);
    return;
  }
  const zero = scratch + ZERO;
  for (let t: u32 = 0; t < taps; t++) {
    for (let from: u32 = 0; from < channels; from += ZEROS) {
      const count = min<u32>(ZEROS, channels - from);
      const skip = offset + (<usize>from << 2);
      const table = scratch + TABLE + (<usize>(p * taps + t) << 2);
      const step = <usize>taps << 2;
      // Table entries of rows past `rows` are stale but never read through.
      let a0 = <usize>load<u32>(table), a1 = <usize>load<u32>(table + step), a2 = <usize>load<u32>(table + 2 * step);
      let a3 = <usize>load<u32>(table + 3 * step), a4 = <usize>load<u32>(table + 4 * step);
      a0 += a0 == zero ? 0 : skip;
      a1 += a1 == zero ? 0 : skip;
      a2 += a2 == zero ? 0 : skip;
      a3 += a3 == zero ? 0 : skip;
      a4 += a4 == zero ? 0 : skip;
      multiply(rows, t != 0 || from != 0, count, a0, a1, a2, a3, a4, panel, place, pitch);
      panel += <usize>count << 5;
    }
  }
}

/** Columns [j, last) of one group for the prepared pixels. `weights` is the group's first panel, `column` its first output channel. */
function groupColumns(
  pixels: u32, taps: u32, channels: u32, offset: usize, weights: usize, column: u32, j: u32, last: u32, mode: u32, scratch: usize,
): void {
  const panelBytes = <usize>(taps * channels) << 5;
  const tile = scratch + TILE;
  for (; j < last; j += PANEL) {
    const width = min<u32>(PANEL, last - j);
    const panel = weights + <usize>(j / PANEL) * panelBytes;
    const skip = <usize>(column + j) << 2;
    for (let p: u32 = 0; p < pixels; p += MICRO_ROWS) {
      const rows = min<u32>(MICRO_ROWS, pixels - p);
      const pitch = width == PANEL ? evenPitch(p, rows, scratch) : -1;
      if (pitch >= 0) {
        sumPanel(p, rows, taps, channels, offset, panel, word(scratch + PLACES, p) + skip, pitch, mode, scratch);
        continue;
      }
      sumPanel(p, rows, taps, channels, offset, panel, tile, 32, mode, scratch);
      for (let r: u32 = 0; r < rows; r++) moveTile(tile + (<usize>r << 5), word(scratch + PLACES, p + r) + skip, 0, 1, width, true);
    }
  }
}

/** One pixel, depthwise: channels in blocks of 16, 4 and 1, all taps in order for each. */
function depthwisePixel(taps: u32, table: usize, weights: usize, channels: u32, place: usize, j: u32, last: u32, zero: usize): void {
  const pitch = <usize>channels << 2;
  let c = <usize>j << 2;
  const end = <usize>last << 2;
  for (; c + 64 <= end; c += 64) {
    let s0 = f32x4.splat(0), s1 = f32x4.splat(0), s2 = f32x4.splat(0), s3 = f32x4.splat(0);
    let w = weights + c;
    for (let t: u32 = 0; t < taps; t++, w += pitch) {
      const tap = word(table, t);
      if (tap == zero) continue;
      const s = tap + c;
      s0 = f32x4.add(s0, f32x4.mul(v128.load(s), v128.load(w)));
      s1 = f32x4.add(s1, f32x4.mul(v128.load(s, 16), v128.load(w, 16)));
      s2 = f32x4.add(s2, f32x4.mul(v128.load(s, 32), v128.load(w, 32)));
      s3 = f32x4.add(s3, f32x4.mul(v128.load(s, 48), v128.load(w, 48)));
    }
    v128.store(place + c, s0);
    v128.store(place + c, s1, 16);
    v128.store(place + c, s2, 32);
    v128.store(place + c, s3, 48);
  }
  for (; c + 16 <= end; c += 16) {
    let s = f32x4.splat(0);
    for (let t: u32 = 0; t < taps; t++) {
      if (word(table, t) != zero) s = f32x4.add(s, f32x4.mul(v128.load(word(table, t) + c), v128.load(weights + <usize>t * pitch + c)));
    }
    v128.store(place + c, s);
  }
  for (; c < end; c += 4) {
    let s: f32 = 0;
    for (let t: u32 = 0; t < taps; t++) if (word(table, t) != zero) s += load<f32>(word(table, t) + c) * load<f32>(weights + <usize>t * pitch + c);
    store<f32>(place + c, s);
  }
}

function columnsOf(
  pixels: u32, taps: u32, sourceChannels: u32, targetChannels: u32, groups: u32, mode: u32, weights: usize, j0: u32, j1: u32, scratch: usize,
): void {
  if (mode == ConvMode.DEPTHWISE) {
    for (let p: u32 = 0; p < pixels; p++) {
      depthwisePixel(taps, scratch + TABLE + (<usize>(p * taps) << 2), weights, sourceChannels, word(scratch + PLACES, p), j0, j1, scratch + ZERO);
    }
    return;
  }
  const channels = sourceChannels / groups, columns = targetChannels / groups;
  const groupBytes = (<usize>((columns + PANEL - 1) / PANEL) * (taps * channels)) << 5;
  // With several groups a tile has all columns (the encoder sees to it).
  for (let g: u32 = 0; g < groups; g++) {
    const offset = <usize>(g * channels) << 2;
    if (mode == ConvMode.GATHER) gather(pixels, taps, channels, offset, scratch);
    const last = groups == 1 ? j1 : columns;
    groupColumns(pixels, taps, channels, offset, weights + <usize>g * groupBytes, g * columns, groups == 1 ? j0 : 0, last, mode, scratch);
  }
}

export function runConv(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0));
  const source = record(program, load<u32>(instruction, Instruction.T1));
  const weights = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const block = program + load<u32>(instruction, Instruction.P0);
  const groups = load<u32>(block, ConvBlock.GROUPS), mode = load<u32>(block, ConvBlock.MODE);
  const pixelsPerTile = load<u32>(block, ConvBlock.ROWS), columnsPerTile = load<u32>(block, ConvBlock.COLUMNS);
  const pixels = dim(target, 0) * dim(target, 1) * dim(target, 2) * dim(target, 3);
  const n = dim(target, 4), channels = dim(source, 4);
  if (pixels == 0 || n == 0) return;
  const across = (n + columnsPerTile - 1) / columnsPerTile;
  const from = tile / across * pixelsPerTile, j0 = tile % across * columnsPerTile;
  const to = min<u32>(from + pixelsPerTile, pixels), j1 = min<u32>(j0 + columnsPerTile, n);
  openWindow(block, source, addressOf(source, frame));
  memory.fill(scratch + ZERO, 0, <usize>min<u32>(channels, ZEROS) << 2);
  const taps = tapCount();
  let together = min<u32>(PIXELS, TABLE_ENTRIES / taps);
  if (mode == ConvMode.GATHER) together = min<u32>(together, GATHER_BYTES / (taps * (channels / groups) * 4));
  if (together > MICRO_ROWS) together -= together % MICRO_ROWS;
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  for (let p = from; p < to; p += together) {
    const count = min<u32>(together, to - p);
    prepare(target, addressOf(target, frame), p, count, taps, scratch);
    columnsOf(count, taps, channels, n, groups, mode, weights, j0, j1, scratch);
    for (let r: u32 = 0; r < count; r++) canonicalF32(word(scratch + PLACES, r) + (<usize>j0 << 2), j1 - j0);
    if (epilogue == 0) continue;
    if (j0 == 0 && j1 == n) runStrip(program, program + epilogue, frame, p * n, (p + count) * n, 0, scratch);
    else for (let r = p; r < p + count; r++) runStrip(program, program + epilogue, frame, r * n + j0, r * n + j1, 0, scratch);
  }
}
