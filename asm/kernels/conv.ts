/**
 * CONV f32 over views [N, D, H, W, C] with dense channels: an implicit matrix product, output pixels x (taps x channels) x output channels, over
 * weights packed in panels ([panel][taps x channels][panel columns], per group), or [taps][C] (depthwise), or transformed ones (winograd.ts).
 * Whatever the mode, an output adds its products in the order of taps and then channels.
 */
import { Instruction } from "../abi/program";
import { ConvBlock, ConvMode } from "../abi/isa";
import { convolve, depthwise, depthwiseRow, gemm, panelColumns } from "../micro/module";
import { biasOf, greatestOf, leastOf } from "./closing";
import { runPlanes } from "./planes";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, record, stride } from "./view";
import {
  edgePixels, endRow, evenPitch, firstRow, gatherWindows, insidePixels, kernelSize, listRuns, listWindows, movePixel, nextPixel, openWindow, restOfRow, tapCount,
  windowStart,
} from "./window";
import { runWinograd } from "./winograd";

/** Output pixels worked on at once: a panel of weights is read from L1 for all of them, and their part of C stays there too. */
const PIXELS: u32 = 60;
/** Entries of the table of tap addresses: PIXELS, or fewer for larger windows. */
const TABLE_ENTRIES: u32 = 15360;
/** Zeros that stand for padding: the longest run, or all channels (lib/program/encode-matrix.ts keeps below). */
const ZERO_BYTES: u32 = 65536;
/** Gathered windows, or runs that cross the padding; room behind them for a vector that is written whole. */
const GATHER_BYTES: u32 = 262144;

/** Gathered windows that leave room for C in the first-level cache, and the most pixels of a round in units of PIXELS. */
const GATHER_NEAR: u32 = 24576;
const GATHER_ROUNDS: u32 = 8;

const TABLE: usize = (STRIP_SCRATCH + 63) & ~63;
const ZERO: usize = TABLE + <usize>TABLE_ENTRIES * 4;
const GATHERED: usize = ZERO + <usize>ZERO_BYTES;

/** What every block of pixels needs; core-local, set per tile. */
let target: usize = 0;
let source: usize = 0;
let block: usize = 0;
let weights: usize = 0;
let groups: u32 = 0;
let mode: u32 = 0;
let inputs: u32 = 0;
let outputs: u32 = 0;
let taps: u32 = 0;
/** A kernel row is one run of the source. */
let dense: bool = false;
let buffer: usize = 0;
/** What sums start from and end between: see closing.ts. */
let bias: usize = 0;
let least: f32 = NaN;
let greatest: f32 = NaN;

/** Adds `bytes` to every entry of the table that is no padding. */
function shiftTable(pixels: u32, bytes: usize): void {
  const zero = <u32>(buffer + ZERO);
  const end = buffer + TABLE + (<usize>(pixels * taps) << 2);
  for (let entry = buffer + TABLE; entry < end; entry += 4) {
    const at = load<u32>(entry);
    if (at != zero) store<u32>(entry, at + <u32>bytes);
  }
}

/** Columns [j, last) of group `group` for `pixels` pixels from `first` on. `place`: the first pixel of the target. */
function groupColumns(group: u32, j: u32, last: u32, first: u32, pixels: u32, place: usize, pitch: usize): void {
  const channels = inputs / groups, columns = outputs / groups;
  const panel = panelColumns();
  const depth = taps * channels;
  const panelPitch = <usize>(depth * panel) << 2;
  const panels = weights + ((columns + panel - 1) / panel * group + j / panel) * panelPitch;
  const c = place + (<usize>(group * columns + j) << 2);
  const start = bias != 0 ? bias + (<usize>(group * columns + j) << 2) : 0;
  const bytes = <usize>channels << 2;
  const table = buffer + TABLE, tablePitch = <usize>pixels << 2;
  if (mode == ConvMode.GATHER) {
    movePixel(target, first);
    gatherWindows(buffer + GATHERED, pixels, bytes, group * bytes, dense);
    gemm(pixels, last - j, depth, buffer + GATHERED, <usize>depth << 2, panels, panelPitch, c, pitch, 1, start, least, greatest);
  } else if (mode == ConvMode.RUNS) {
    const width = kernelSize(2);
    movePixel(target, first);
    listRuns(pixels, table, tablePitch, width * bytes, buffer + ZERO, buffer + GATHERED);
    convolve(pixels, last - j, taps / width, width * channels, table, tablePitch, panels, panelPitch, c, pitch, 1, start, least, greatest);
  } else {
    if (group == 0) {
      movePixel(target, first);
      listWindows(pixels, table, tablePitch, buffer + ZERO, 0, kernelSize(1));
    } else shiftTable(pixels, bytes);
    convolve(pixels, last - j, taps, channels, table, tablePitch, panels, panelPitch, c, pitch, 1, start, least, greatest);
  }
}

/** Depthwise, any window, pixels that see the same kernel rows: through the table of taps, without the rows that lie in the padding. */
function depthwiseTaps(pixels: u32, place: usize, pitch: usize): void {
  const table = buffer + TABLE, tablePitch = <usize>pixels << 2;
  const low = firstRow(), high = endRow(), width = kernelSize(2);
  listWindows(pixels, table, tablePitch, buffer + ZERO, low, high);
  const seen = kernelSize(0) * <u32>(high - low) * width;
  depthwise(pixels, inputs, seen, table, tablePitch, weights + (<usize>(<u32>low * width * inputs) << 2), bias, place, pitch, least, greatest);
}

/** Depthwise: runs of pixels whose windows lie inside go row by row where the micro module has a form for them. */
function depthwisePixels(first: u32, pixels: u32, place: usize, pitch: usize): void {
  const step = load<u32>(block + ConvBlock.STRIDES, 8);
  const square = taps == 9 && kernelSize(1) == 3 && kernelSize(2) == 3;
  const plain = square && step <= 2 && load<u32>(block + ConvBlock.DILATIONS, 4) == 1 && load<u32>(block + ConvBlock.DILATIONS, 8) == 1;
  movePixel(target, first);
  while (pixels > 0) {
    let count = plain ? insidePixels(pixels) : 0;
    if (
      count == 0 ||
      depthwiseRow(3, step, count, inputs, windowStart(), stride(source, 2), stride(source, 3), weights, bias, place, pitch, least, greatest) == 0
    ) {
      if (count == 0) count = plain ? max<u32>(1, edgePixels(pixels)) : min<u32>(pixels, restOfRow());
      depthwiseTaps(count, place, pitch);
    } else for (let p: u32 = 0; p < count; p++) nextPixel();
    place += count * pitch;
    pixels -= count;
  }
}

/** Output pixels that one round takes: what the tables and buffers hold, and what an epilogue finds in the first-level cache. */
function pixelsTogether(epilogue: u32): u32 {
  if (mode == ConvMode.GATHER) {
    const bytes = max<u32>(4, taps * (inputs / groups) * 4);
    // Few taps: as many pixels as the first-level cache takes, since each round starts an epilogue.
    const most = min<u32>(GATHER_NEAR / bytes / PIXELS, GATHER_ROUNDS) * PIXELS;
    return min<u32>(max<u32>(PIXELS, most), GATHER_BYTES / bytes);
  }
  if (mode == ConvMode.RUNS) return min<u32>(PIXELS, min<u32>(TABLE_ENTRIES * kernelSize(2) / taps, GATHER_BYTES / (taps * inputs * 4)));
  return mode == ConvMode.DEPTHWISE && epilogue == 0 ? TABLE_ENTRIES / taps : min<u32>(PIXELS, TABLE_ENTRIES / taps);
}

function openConv(program: usize, instruction: usize, frame: usize, scratch: usize): void {
  buffer = scratch;
  target = record(program, load<u32>(instruction, Instruction.T0));
  source = record(program, load<u32>(instruction, Instruction.T1));
  weights = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  block = program + load<u32>(instruction, Instruction.P0);
  groups = load<u32>(block, ConvBlock.GROUPS);
  mode = load<u32>(block, ConvBlock.MODE);
  inputs = dim(source, 4);
  outputs = dim(target, 4);
  bias = biasOf(program, instruction, frame), least = leastOf(instruction), greatest = greatestOf(instruction);
  openWindow(block, source, addressOf(source, frame));
  taps = tapCount();
  dense = groups == 1 && load<u32>(block + ConvBlock.DILATIONS, 8) == 1 && (stride(source, 3) == <i32>(inputs << 2) || dim(source, 3) == 1);
}

export function runConv(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  openConv(program, instruction, frame, scratch);
  if (mode == ConvMode.PLANES) {
    runPlanes(program, instruction, tile, frame, scratch);
    return;
  }
  if (mode == ConvMode.WINOGRAD) {
    runWinograd(program, instruction, tile, frame, scratch);
    return;
  }
  const pixelsPerTile = load<u32>(block, ConvBlock.ROWS), columnsPerTile = load<u32>(block, ConvBlock.COLUMNS);
  const pixels = dim(target, 0) * dim(target, 1) * dim(target, 2) * dim(target, 3);
  const n = outputs;
  if (pixels == 0 || n == 0) return;
  const across = (n + columnsPerTile - 1) / columnsPerTile;
  const from = tile / across * pixelsPerTile, j0 = tile % across * columnsPerTile;
  const to = min<u32>(from + pixelsPerTile, pixels), j1 = min<u32>(j0 + columnsPerTile, n);
  memory.fill(scratch + ZERO, 0, min<usize>(ZERO_BYTES, (<usize>inputs << 2) * (mode == ConvMode.RUNS ? kernelSize(2) : 1)));
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  const together = pixelsTogether(epilogue);
  if (mode == ConvMode.DEPTHWISE && bias == 0) bias = scratch + ZERO;
  const even = evenPitch(target);
  const pitch = even == 0 ? stride(target, 3) : even;
  const first = addressOf(target, frame);
  let count: u32 = 0;
  for (let p = from; p < to; p += count) {
    const place = first + movePixel(target, p);
    count = min<u32>(together, to - p);
    if (even == 0) count = min<u32>(count, restOfRow());
    if (mode == ConvMode.DEPTHWISE) depthwisePixels(p, count, place, pitch);
    else if (groups == 1) groupColumns(0, j0, j1, p, count, place, pitch);
    else for (let g: u32 = 0; g < groups; g++) groupColumns(g, 0, n / groups, p, count, place, pitch);
    if (epilogue == 0) continue;
    if (j0 == 0 && j1 == n) runStrip(program, program + epilogue, frame, p * n, (p + count) * n, 0, scratch);
    else for (let r = p; r < p + count; r++) runStrip(program, program + epilogue, frame, r * n + j0, r * n + j1, 0, scratch);
  }
}
