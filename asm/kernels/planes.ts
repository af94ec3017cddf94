/**
 * CONV in mode PLANES: a depthwise convolution of row-major planes. A band of source rows is copied into scratch with its padding around it, so that
 * every window lies inside; the band is small enough for the first-level cache.
 */
import { Instruction } from "../abi/program";
import { ConvBlock, PLANE_BYTES, PLANE_SLACK } from "../abi/isa";
import { canonicalF32 } from "../micro/load";
import { depthwisePlane } from "../micro/module";
import { biasOf, greatestOf, leastOf } from "./closing";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, record, stride } from "./view";
import { copyRun, zeroRun } from "./window";

/** Bytes of a band, or as many as one row of the target needs (at most PLANE_BYTES). */
const BAND_BYTES: u32 = 24576;
const BAND: usize = (STRIP_SCRATCH + 63) & ~63;

/** The tile at hand; core-local. */
let band: usize = 0;
let pitch: usize = 0;
/** Elements of a row of the band that windows touch, and those of them before the source begins. */
let reach: i32 = 0;
let before: i32 = 0;
let sourceHeight: i32 = 0;
let sourceWidth: i32 = 0;
let sourcePitch: i32 = 0;

/** Rows [y, y + rows) of the plane at `plane`, which may lie outside of it, with their padding. */
function fillBand(plane: usize, y: i32, rows: i32): void {
  const given = max<i32>(0, min<i32>(sourceWidth, reach - before)), left = min<i32>(before, reach);
  let row = band;
  for (const end = y + rows; y < end; y++) {
    if (<u32>y >= <u32>sourceHeight) zeroRun(row, <usize>reach << 2);
    else {
      zeroRun(row, <usize>left << 2);
      copyRun(row + (<usize>left << 2), plane + <usize>(y * sourcePitch), <usize>given << 2);
      zeroRun(row + (<usize>(left + given) << 2), <usize>(reach - left - given) << 2);
    }
    row += pitch;
  }
}

export function runPlanes(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const weights = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const block = program + load<u32>(instruction, Instruction.P0);
  const height = load<u32>(block + ConvBlock.KERNEL, 4), width = load<u32>(block + ConvBlock.KERNEL, 8);
  const stepY = load<u32>(block + ConvBlock.STRIDES, 4), stepX = load<u32>(block + ConvBlock.STRIDES, 8);
  const dilationY = load<u32>(block + ConvBlock.DILATIONS, 4), dilationX = load<u32>(block + ConvBlock.DILATIONS, 8);
  const channels = dim(target, 4), outHeight = dim(target, 2), outWidth = dim(target, 3);
  const from = tile * load<u32>(block, ConvBlock.ROWS);
  const to = min<u32>(from + load<u32>(block, ConvBlock.ROWS), dim(target, 0) * channels * outHeight);
  const bias = biasOf(program, instruction, frame), least = leastOf(instruction), greatest = greatestOf(instruction);
  const first = addressOf(source, frame), place = addressOf(target, frame);
  band = scratch + BAND;
  reach = <i32>((outWidth - 1) * stepX + (width - 1) * dilationX + 1);
  before = load<i32>(block + ConvBlock.PADS, 8);
  pitch = <usize>(<u32>reach + PLANE_SLACK) << 2;
  sourceHeight = <i32>dim(source, 2), sourceWidth = <i32>dim(source, 3), sourcePitch = stride(source, 2);
  const tall = (height - 1) * dilationY + 1, fit = max<u32>(BAND_BYTES / <u32>pitch, tall), most = (fit - tall) / stepY + 1;
  let count: u32 = 0;
  for (let row = from; row < to; row += count) {
    const plane = row / outHeight, y = row - plane * outHeight, sample = plane / channels, channel = plane - sample * channels;
    count = min<u32>(min<u32>(most, outHeight - y), to - row);
    const top = <i32>(y * stepY) - load<i32>(block + ConvBlock.PADS, 4);
    fillBand(first + <usize>(<i32>sample * stride(source, 0) + <i32>channel * stride(source, 4)), top, <i32>((count - 1) * stepY + tall));
    const at = place + <usize>(<i32>sample * stride(target, 0) + <i32>channel * stride(target, 4) + <i32>y * stride(target, 2));
    const start: f32 = bias != 0 ? load<f32>(bias + (<usize>channel << 2)) : 0;
    const found = depthwisePlane(
      height, width, stepY, stepX, dilationY * pitch, <usize>dilationX << 2, count, outWidth, band, pitch, weights + (<usize>(channel * height * width) << 2),
      start, at, stride(target, 2), least, greatest,
    );
    if (found) for (let r: u32 = 0; r < count; r++) canonicalF32(at + <usize>(<i32>r * stride(target, 2)), outWidth);
  }
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  if (epilogue != 0) runStrip(program, program + epilogue, frame, from * outWidth, to * outWidth, 0, scratch);
}
