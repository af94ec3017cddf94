/**
 * KERNEL: one block of a user's kernel. The JavaScript of the core holds the instances of loaded modules (lib/host/user-kernel.ts);
 * a trap inside unwinds through there and here like one of our own.
 */
import { STACK_BYTES } from "../abi/kernel";
import { Instruction } from "../abi/program";
import { poisonWord } from "./probe";

// @ts-ignore: decorator
@external("env", "kernel")
declare function runBlock(launch: usize, block: u32, poison: usize, stack: usize): void;

/** P0: offset of the Launch from the program. The core's scratch serves as the block's stack. */
export function runUserKernel(program: usize, instruction: usize, tile: u32, scratch: usize): void {
  runBlock(program + load<u32>(instruction, Instruction.P0), tile, poisonWord(), scratch + STACK_BYTES);
}
