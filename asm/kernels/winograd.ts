/**
 * CONV in mode WINOGRAD: 3 x 3, step 1, one group, through F(4 x 4, 3 x 3) of the micro module. One tile = some rows of 4 x 4 tiles of one sample, for all
 * outputs or, where no strip program follows, for some.
 */
import { KERNEL_SCRATCH_BYTES } from "../abi/device";
import { Instruction } from "../abi/program";
import { ConvBlock, WINOGRAD_BAND_BYTES } from "../abi/isa";
import { panelColumns, winogradConvolve } from "../micro/module";
import { biasOf, greatestOf, leastOf } from "./closing";
import { transpose4 } from "./copy";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, record, stride } from "./view";
import { zeroRun } from "./window";

const WORK: usize = (STRIP_SCRATCH + 63) & ~63;
/** 36 planes of inputs and of outputs, and the gap behind each plane. */
const PLANES: u32 = 36;
const GAP: u32 = 64;

/** Tiles of 4 x 4 whose transforms fit `bytes` of scratch at once. */
function tilesTogether(inputs: u32, outputs: u32, bytes: u32): u32 {
  const room = (bytes - <u32>WORK) / PLANES - 2 * GAP;
  return max<u32>(1, room / ((inputs + outputs) << 2));
}

/** The instruction at hand; core-local. */
let target: usize = 0;
let source: usize = 0;
let padTop: u32 = 0;
let padLeft: u32 = 0;

/** Whether the channels of a view are planes. */
@inline
function isPlanar(tensor: usize): bool {
  return stride(tensor, 4) != 4 && dim(tensor, 4) > 1;
}

/** Rows [y, y + rows) of the source at `plane`, pixels [-padLeft, columns - padLeft), channels side by side and zeros outside -> `band`. */
function fillBand(plane: usize, y: i32, rows: u32, columns: u32, band: usize): void {
  const inputs = dim(source, 4), pixel = <usize>inputs << 2;
  const left = min<u32>(padLeft, columns), given = min<u32>(columns - left, dim(source, 3));
  for (const end = y + <i32>rows; y < end; y++) {
    if (<u32>y >= dim(source, 2)) memory.fill(band, 0, columns * pixel);
    else {
      zeroRun(band, left * pixel);
      transpose4(band + left * pixel, <i32>pixel, plane + <usize>(y * stride(source, 2)), stride(source, 4), given, inputs);
      zeroRun(band + (left + given) * pixel, (columns - left - given) * pixel);
    }
    band += columns * pixel;
  }
}

/** Rows [y, y + rows) of `outputs` planes of the target from `plane` on <- `band`. */
function emptyBand(plane: usize, y: u32, rows: u32, outputs: u32, band: usize): void {
  const width = dim(target, 3);
  for (const end = y + rows; y < end; y++) {
    transpose4(plane + <usize>(<i32>y * stride(target, 2)), stride(target, 4), band, <i32>(outputs << 2), outputs, width);
    band += <usize>(width * outputs) << 2;
  }
}

/** The strip over rows [y, y + rows) of a sample: of each plane where there are planes. */
function runEpilogue(program: usize, epilogue: usize, frame: usize, sample: u32, y: u32, rows: u32, scratch: usize): void {
  const height = dim(target, 2), width = dim(target, 3), outputs = dim(target, 4);
  if (isPlanar(target)) {
    for (let plane = sample * outputs, last = plane + outputs; plane < last; plane++) {
      const at = (plane * height + y) * width;
      runStrip(program, epilogue, frame, at, at + rows * width, 0, scratch);
    }
    return;
  }
  const at = (sample * height + y) * width * outputs;
  runStrip(program, epilogue, frame, at, at + rows * width * outputs, 0, scratch);
}

export function runWinograd(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const weights = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const block = program + load<u32>(instruction, Instruction.P0);
  const height = dim(target, 2), width = dim(target, 3), outputs = dim(target, 4), inputs = dim(source, 4);
  const down = (height + 3) / 4, across = (width + 3) / 4, columns = across * 4 + 2;
  const rowsPerTile = load<u32>(block, ConvBlock.ROWS);
  const perSample = (down + rowsPerTile - 1) / rowsPerTile;
  const columnsPerTile = load<u32>(block, ConvBlock.COLUMNS);
  const slices = (outputs + columnsPerTile - 1) / columnsPerTile;
  const j0 = tile % slices * columnsPerTile, n = min<u32>(columnsPerTile, outputs - j0), part = tile / slices % perSample;
  const sample = tile / slices / perSample;
  const last = min<u32>((part + 1) * rowsPerTile, down);
  padTop = load<u32>(block + ConvBlock.PADS, 4), padLeft = load<u32>(block + ConvBlock.PADS, 8);
  const from = addressOf(source, frame) + <usize>(<i32>sample * stride(source, 0));
  const to = addressOf(target, frame) + <usize>(<i32>sample * stride(target, 0)) + <usize>(<i32>j0 * (outputs > 1 ? stride(target, 4) : 4));
  const planesIn = isPlanar(source), planesOut = isPlanar(target);
  const work = KERNEL_SCRATCH_BYTES - (planesIn || planesOut ? WINOGRAD_BAND_BYTES : 0);
  const bandIn = scratch + <usize>work;
  const together = tilesTogether(inputs, n, work);
  // Bytes of the bands of r rows of patches: r * each + extra.
  const each = (planesIn ? columns * inputs << 4 : 0) + (planesOut ? width * n << 4 : 0), extra = planesIn ? columns * inputs << 3 : 0;
  const rows = max<u32>(1, min<u32>(together / across, each > 0 ? (WINOGRAD_BAND_BYTES - extra) / each : together));
  const pitch = <usize>(width > 1 && !planesOut ? stride(target, 3) : <i32>((planesOut ? n : outputs) << 2));
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  const start = biasOf(program, instruction, frame), bias = start != 0 ? start + (<usize>j0 << 2) : 0;
  const least = leastOf(instruction), greatest = greatestOf(instruction);
  const panels = weights + <usize>(j0 / panelColumns()) * inputs * panelColumns() * 4;
  for (let row = part * rowsPerTile; row < last; row += rows) {
    const end = min<u32>(row + rows, last), tall = min<u32>(end * 4, height) - row * 4, deep = (end - row) * 4 + 2;
    const bandOut = bandIn + (planesIn ? <usize>(deep * columns * inputs) << 2 : 0);
    if (planesIn) fillBand(from, <i32>(row * 4) - <i32>padTop, deep, columns, bandIn);
    // Tile 0 is the first of these rows.
    const place = planesOut ? bandOut : to + row * 4 * width * pitch;
    for (let first = row * across; first < end * across; first += together) {
      const count = min<u32>(together, end * across - first);
      winogradConvolve(
        planesIn ? bandIn : from, planesIn ? deep : dim(source, 2), planesIn ? columns : dim(source, 3), inputs, planesIn ? 0 : padTop - row * 4,
        planesIn ? 0 : padLeft, panels, place, tall, width, n, pitch, first - row * across, count, scratch + WORK, bias, least, greatest, outputs,
      );
    }
    if (planesOut) emptyBand(to, row * 4, tall, n, bandOut);
    if (epilogue != 0) runEpilogue(program, program + epilogue, frame, sample, row * 4, tall, scratch);
  }
}
