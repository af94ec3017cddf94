/**
 * CONV in mode WINOGRAD: 3 x 3, step 1, one group, through F(4 x 4, 3 x 3) of the micro module. One tile = some rows of 4 x 4 tiles of one sample, for all
 * outputs or, where no strip program follows, for some.
 */
import { KERNEL_SCRATCH_BYTES } from "../abi/device";
import { Instruction } from "../abi/program";
import { ConvBlock } from "../abi/isa";
import { panelColumns, winogradConvolve } from "../micro/module";
import { biasOf, greatestOf, leastOf } from "./closing";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, record, stride } from "./view";

const WORK: usize = (STRIP_SCRATCH + 63) & ~63;
/** 36 planes of inputs and of outputs, and the gap behind each plane. */
const PLANES: u32 = 36;
const GAP: u32 = 64;

/** Tiles of 4 x 4 whose transforms fit the scratch at once. */
function tilesTogether(inputs: u32, outputs: u32): u32 {
  const room = (KERNEL_SCRATCH_BYTES - <u32>WORK) / PLANES - 2 * GAP;
  return max<u32>(1, room / ((inputs + outputs) << 2));
}

export function runWinograd(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0));
  const source = record(program, load<u32>(instruction, Instruction.T1));
  const weights = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const block = program + load<u32>(instruction, Instruction.P0);
  const height = dim(target, 2), width = dim(target, 3), outputs = dim(target, 4), inputs = dim(source, 4);
  const down = (height + 3) / 4, across = (width + 3) / 4;
  const rowsPerTile = load<u32>(block, ConvBlock.ROWS);
  const perSample = (down + rowsPerTile - 1) / rowsPerTile;
  const columnsPerTile = load<u32>(block, ConvBlock.COLUMNS);
  const slices = (outputs + columnsPerTile - 1) / columnsPerTile;
  const j0 = tile % slices * columnsPerTile, j1 = min<u32>(j0 + columnsPerTile, outputs), part = tile / slices % perSample;
  const sample = tile / slices / perSample;
  const last = min<u32>((part + 1) * rowsPerTile, down);
  const padTop = load<u32>(block + ConvBlock.PADS, 4), padLeft = load<u32>(block + ConvBlock.PADS, 8);
  const from = addressOf(source, frame) + <usize>(<i32>sample * stride(source, 0));
  const to = addressOf(target, frame) + <usize>(<i32>sample * stride(target, 0));
  const pitch = <usize>(width > 1 ? stride(target, 3) : <i32>(outputs << 2));
  const together = tilesTogether(inputs, j1 - j0);
  const rows = max<u32>(1, together / across);
  const epilogue = load<u32>(instruction, Instruction.BLOCK);
  const start = biasOf(program, instruction, frame), bias = start != 0 ? start + (<usize>j0 << 2) : 0;
  const least = leastOf(instruction), greatest = greatestOf(instruction);
  const panels = weights + <usize>(j0 / panelColumns()) * inputs * panelColumns() * 4;
  for (let row = part * rowsPerTile; row < last; row += rows) {
    const end = min<u32>(row + rows, last);
    for (let first = row * across; first < end * across; first += together) {
      const count = min<u32>(together, end * across - first);
      winogradConvolve(
        from, dim(source, 2), dim(source, 3), inputs, padTop, padLeft, panels, to + (<usize>j0 << 2), height, width, j1 - j0, pitch, first, count,
        scratch + WORK, bias, least, greatest, outputs,
      );
    }
    if (epilogue == 0) continue;
    const at = (sample * height + row * 4) * width, pixels = (min<u32>(end * 4, height) - row * 4) * width;
    runStrip(program, program + epilogue, frame, at * outputs, (at + pixels) * outputs, 0, scratch);
  }
}
