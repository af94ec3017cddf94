/** Control regions: one BRANCH, LOOP, CALL or RETURN, evaluated by the core that completed the region before. */
import { Dtype, Instruction, Program, Region } from "../abi/program";
import { Opcode } from "../abi/isa";
import { CALL_DEPTH, Frame } from "../abi/stream";
import { sizeShift } from "../micro/load";
import { addressOf, dtypeOf, record } from "./view";

/** The scalar at operand field `operand`: an integer or bool of any width. */
function truth(program: usize, operand: u32, frame: usize): bool {
  const tensor = record(program, operand);
  const place = addressOf(tensor, frame);
  switch (<i32>sizeShift(dtypeOf(tensor))) {
    case 0: return load<u8>(place) != 0;
    case 1: return load<u16>(place) != 0;
    case 2: return (dtypeOf(tensor) == Dtype.FLOAT32 ? load<u32>(place) << 1 : load<u32>(place)) != 0;
    default: return load<u64>(place) != 0;
  }
}

/** Index of the region that follows control region `region`; u32.MAX_VALUE when CALL is too deep or RETURN has no caller. */
export function nextRegion(program: usize, frame: usize, region: u32): u32 {
  const regions = program + load<u32>(program, Program.REGIONS);
  const first = load<u32>(regions + <usize>region * Region.SIZE, Region.FIRST);
  const instruction = program + load<u32>(program, Program.INSTRUCTIONS) + <usize>first * Instruction.SIZE;
  const to = load<u32>(instruction, Instruction.P0);
  const depth = load<u32>(frame, Frame.DEPTH);
  switch (<i32>load<u8>(instruction, Instruction.OP)) {
    case Opcode.BRANCH:
      if (load<u8>(instruction, Instruction.FLAGS) != 0) return to;
      return truth(program, load<u32>(instruction, Instruction.T0), frame) ? region + 1 : to;
    case Opcode.LOOP: {
      const trip = load<i64>(addressOf(record(program, load<u32>(instruction, Instruction.T0)), frame));
      const counter = addressOf(record(program, load<u32>(instruction, Instruction.T1)), frame);
      const next = load<i64>(counter) + 1;
      store<i64>(counter, next);
      if (next >= trip) return region + 1;
      if (load<u32>(instruction, Instruction.P1) != 0 && !truth(program, load<u32>(instruction, Instruction.T2), frame)) return region + 1;
      return to;
    }
    case Opcode.CALL:
      if (depth >= CALL_DEPTH) return u32.MAX_VALUE;
      store<u32>(frame + (<usize>depth << 2), region + 1, Frame.STACK);
      store<u32>(frame, depth + 1, Frame.DEPTH);
      return to;
    case Opcode.RETURN:
      if (depth == 0 || depth > CALL_DEPTH) return u32.MAX_VALUE;
      store<u32>(frame, depth - 1, Frame.DEPTH);
      return load<u32>(frame + (<usize>(depth - 1) << 2), Frame.STACK);
    default:
      return u32.MAX_VALUE;
  }
}
