/** SOFTMAX and NORM: functions of whole f32 rows. The innermost dim of every view is dense; the dims before it number the rows. One tile = a run of rows. */
import { Instruction } from "../abi/program";
import { canonicalF32 } from "../micro/load";
import { layerNormRows, softmaxRows } from "../micro/module";
import { addressOf, dim, offsetAt, rank, record, stride } from "./view";

let target: usize = 0;
let source: usize = 0;
let rows: u32 = 0;
let length: u32 = 0;
let from: u32 = 0;
let to: u32 = 0;

/** Views and the rows [from, to) of the tile. */
function open(program: usize, instruction: usize, tile: u32): void {
  target = record(program, load<u32>(instruction, Instruction.T0));
  source = record(program, load<u32>(instruction, Instruction.T1));
  const outer = rank(target) - 1;
  length = dim(target, outer);
  rows = 1;
  for (let i: u32 = 0; i < outer; i++) rows *= dim(target, i);
  from = tile * load<u32>(instruction, Instruction.P0);
  to = min<u32>(from + load<u32>(instruction, Instruction.P0), rows);
}

/** Rows from `row` on that lie evenly in both views: the rest of the last outer dim. */
function evenRows(row: u32): u32 {
  const outer = rank(target) - 1;
  if (outer == 0) return 1;
  const size = dim(target, outer - 1);
  return min<u32>(to - row, size - row % size);
}

@inline
function pitch(view: usize): usize {
  const outer = rank(view) - 1;
  return outer == 0 ? 0 : <usize>stride(view, outer - 1);
}

@inline
function place(view: usize, frame: usize, row: u32): usize {
  return addressOf(view, frame) + <usize>offsetAt(view, rank(view) - 1, row);
}

export function runSoftmax(program: usize, instruction: usize, tile: u32, frame: usize): void {
  open(program, instruction, tile);
  if (length == 0) return;
  let count: u32 = 0;
  for (let row = from; row < to; row += count) {
    count = evenRows(row);
    const at = place(target, frame, row);
    softmaxRows(count, length, place(source, frame, row), pitch(source), at, pitch(target));
    // A NaN anywhere in a row makes its sum NaN, and with that every element.
    for (let r: u32 = 0; r < count; r++) {
      const first = at + r * pitch(target);
      if (load<f32>(first) != load<f32>(first)) canonicalF32(first, length);
    }
  }
}

export function runNorm(program: usize, instruction: usize, tile: u32, frame: usize): void {
  open(program, instruction, tile);
  if (length == 0) return;
  const factor = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const term = addressOf(record(program, load<u32>(instruction, Instruction.T3)), frame);
  const epsilon = load<f32>(instruction, Instruction.P1);
  let count: u32 = 0;
  for (let row = from; row < to; row += count) {
    count = evenRows(row);
    const at = place(target, frame, row);
    layerNormRows(count, length, place(source, frame, row), pitch(source), at, pitch(target), factor, term, epsilon);
    for (let r: u32 = 0; r < count; r++) canonicalF32(at + r * pitch(target), length);
  }
}
