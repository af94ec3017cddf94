/** Dispatch: one line per instruction. Kernels get addresses, never handles. */
import { Instruction } from "../abi/program";
import { Opcode } from "../abi/isa";
import { runAttention } from "../kernels/attention";
import { runConv } from "../kernels/conv";
import { runCopy } from "../kernels/copy";
import { runMap } from "../kernels/strip";
import { runCumulate } from "../kernels/cumulate";
import { runGather } from "../kernels/gather";
import { runGatherElements, runScatterElements } from "../kernels/elements";
import { runMatmulInteger, runPackInteger } from "../kernels/integer";
import { runMatmul } from "../kernels/matmul";
import { runPool } from "../kernels/pool";
import { runProbe } from "../kernels/probe";
import { runReduce } from "../kernels/reduce";
import { runRnn } from "../kernels/rnn";
import { runNorm, runSoftmax } from "../kernels/rows";
import { runGridSample, runRoiAlign } from "../kernels/sample";
import { runTopK } from "../kernels/top-k";
import { runUserKernel } from "../kernels/user";

/**
 * Runs tile `tile` of the instruction at `instruction` for the run described by `frame`.
 * `scratch` is SCRATCH_BYTES that nobody else touches meanwhile. Runs in phase KERNEL: holds no lock, may trap.
 */
export function executeTile(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  switch (<i32>load<u8>(instruction, Instruction.OP)) {
    case Opcode.NOP: break;
    case Opcode.COPY: runCopy(program, instruction, tile, frame); break;
    case Opcode.MAP: runMap(program, instruction, tile, frame, scratch); break;
    case Opcode.REDUCE: runReduce(program, instruction, tile, frame, scratch); break;
    case Opcode.MATMUL: runMatmul(program, instruction, tile, frame, scratch); break;
    case Opcode.CONV: runConv(program, instruction, tile, frame, scratch); break;
    case Opcode.POOL: runPool(program, instruction, tile, frame, scratch); break;
    case Opcode.SOFTMAX: runSoftmax(program, instruction, tile, frame); break;
    case Opcode.NORM: runNorm(program, instruction, tile, frame); break;
    case Opcode.PROBE: runProbe(program, instruction, tile, frame); break;
    case Opcode.KERNEL: runUserKernel(program, instruction, tile, scratch); break;
    case Opcode.GATHER: runGather(program, instruction, tile, frame); break;
    case Opcode.RNN: runRnn(program, instruction, tile, frame, scratch); break;
    case Opcode.GATHER_ELEMENTS: runGatherElements(program, instruction, tile, frame); break;
    case Opcode.SCATTER_ELEMENTS: runScatterElements(program, instruction, tile, frame); break;
    case Opcode.TOP_K: runTopK(program, instruction, tile, frame); break;
    case Opcode.CUMULATE: runCumulate(program, instruction, tile, frame); break;
    case Opcode.GRID_SAMPLE: runGridSample(program, instruction, tile, frame, scratch); break;
    case Opcode.ROI_ALIGN: runRoiAlign(program, instruction, tile, frame, scratch); break;
    case Opcode.PACK_INTEGER: runPackInteger(program, instruction, tile, frame, scratch); break;
    case Opcode.MATMUL_INTEGER: runMatmulInteger(program, instruction, tile, frame, scratch); break;
    case Opcode.ATTENTION: runAttention(program, instruction, tile, frame, scratch); break;
    default:
      unreachable();
  }
}
