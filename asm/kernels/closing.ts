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

/** NaN is no limit. */
@inline
export function leastOf(instruction: usize): f32 {
  return load<u8>(instruction, Instruction.FLAGS) & Closing.RELU ? 0 : NaN;
}

@inline
export function greatestOf(instruction: usize): f32 {
  return load<u8>(instruction, Instruction.FLAGS) & Closing.CAPPED ? load<f32>(instruction, Instruction.P5) : NaN;
}
