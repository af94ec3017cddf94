/**
 * GATHER: rows of a view picked by indices that are known only when the program runs. One tile = a run of rows of the target.
 * An index outside the data is a fault: it traps, and the record names the node.
 */
import { Dtype, Instruction } from "../abi/program";
import { sizeShift } from "../micro/load";
import { addressOf, dim, dtypeOf, moveRun, record, stride } from "./view";

/** Index number `at`, counted from the end if negative. */
@inline
function indexAt(dtype: u32, indices: usize, at: u32, size: u32): u32 {
  const index: i64 = dtype == Dtype.INT64 ? load<i64>(indices + (<usize>at << 3)) : <i64>load<i32>(indices + (<usize>at << 2));
  const place = index < 0 ? index + <i64>size : index;
  if (<u64>place >= <u64>size) unreachable();
  return <u32>place;
}

/** T0 [outer, count, inner], T1 [outer, size, inner], T2 [count] dense; P0 rows of the target per tile. */
export function runGather(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const indices = record(program, load<u32>(instruction, Instruction.T2));
  const count = dim(target, 1), inner = dim(target, 2), size = dim(source, 1);
  const perTile = load<u32>(instruction, Instruction.P0);
  const from = tile * perTile, to = min<u32>(from + perTile, dim(target, 0) * count);
  const first = addressOf(target, frame), base = addressOf(source, frame), list = addressOf(indices, frame);
  const shift = sizeShift(dtypeOf(target)), dtype = dtypeOf(indices);
  for (let row = from; row < to; row++) {
    const outer = row / count, at = row - outer * count;
    const place = first + <i32>outer * stride(target, 0) + <i32>at * stride(target, 1);
    const origin = base + <i32>outer * stride(source, 0) + <i32>indexAt(dtype, list, at, size) * stride(source, 1);
    moveRun(shift, place, stride(target, 2), origin, stride(source, 2), inner);
  }
}
