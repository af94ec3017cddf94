/**
 * KERNEL: blocks of a user's kernel. The JavaScript of the core holds the instances of loaded modules (lib/host/user-kernel.ts);
 * a trap inside unwinds through there and here like one of our own.
 */
import { STACK_BYTES, Launch } from "../abi/kernel";
import { Instruction } from "../abi/program";
import { nextBlock } from "../core/tiles";
import { poisonWord } from "./probe";

// @ts-ignore: decorator
@external("env", "kernel")
declare function runBlock(launch: usize, block: u32, poison: usize, stack: usize): void;

/**
 * P0: offset of the Launch from the program. The core's scratch serves as the block's stack. A tile runs block `tile` and every TILES-th one behind it:
 * a launch that may use few cores has few tiles.
 */
export function runUserKernel(program: usize, instruction: usize, tile: u32, scratch: usize): void {
  const launch = program + load<u32>(instruction, Instruction.P0);
  const tiles = load<u32>(instruction, Instruction.TILES), blocks = load<u32>(launch, Launch.BLOCKS);
  for (let block = tile; block < blocks; block += tiles) {
    if (block != tile) nextBlock(block);
    runBlock(launch, block, poisonWord(), scratch + STACK_BYTES);
  }
}
