/**
 * What MATMUL and CONV do to their f32 sums on the way to memory: they start from the bias of their column and end between two limits.
 * Whatever else follows is a strip program (Instruction.BLOCK).
 */
import { Closing } from "../abi/isa";
import { Instruction } from "../abi/program";
import { addressOf, record } from "./view";

/** Address of the bias, one f32 per column side by side; 0: none. */
export function biasOf(program: usize, instruction: usize, frame: usize): usize {
  return load<u8>(instruction, Instruction.FLAGS) & Closing.BIAS ? addressOf(record(program, load<u32>(instruction, Instruction.T3)), frame) : 0;
}

/** Stands for the lower limit of sums that something else takes up: products leave them as they are, other kernels see no limit. */
export const UNFINISHED: f32 = -Infinity;

/** NaN is no limit. A strip program behind gives NaN its one form, so without limits there is nothing to do before it. */
export function leastOf(instruction: usize): f32 {
  const flags = <u32>load<u8>(instruction, Instruction.FLAGS);
  if (flags & Closing.RELU) return 0;
  return load<u32>(instruction, Instruction.BLOCK) != 0 && !(flags & Closing.CAPPED) ? UNFINISHED : NaN;
}

@inline
export function greatestOf(instruction: usize): f32 {
  return load<u8>(instruction, Instruction.FLAGS) & Closing.CAPPED ? load<f32>(instruction, Instruction.P5) : NaN;
}
