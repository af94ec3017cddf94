/** Programs made by hand from the layouts of asm/abi: what no compiler would write (probes), and what needs no compiler. */
import { ABI_VERSION } from "../../dist/asm/abi/device";
import { Opcode } from "../../dist/asm/abi/isa";
import { Instruction, PROGRAM_MAGIC, Program, Region, Tensor } from "../../dist/asm/abi/program";
import type { CompileResult } from "../../dist/lib/compile/types";
import { coreOf, make } from "../../dist/lib/runtime/internals";
import { Model } from "../../dist/lib/runtime/model";
import type { Device, Executor } from "npurt";

export interface Step {
  readonly op: Opcode;
  readonly tiles: number;
  readonly operands?: readonly number[];
  readonly parameters?: readonly number[];
  readonly node?: string;
}

const INT32 = 6;
/** Tensors of every program here: 0 = output, 1 = input, both int32[elements]. */
export const OUTPUT = 0;
export const INPUT = 1;

export const nop: Step = { op: Opcode.NOP, tiles: 1 };
/** Output = input; one tile takes up to 4,096 elements of the one row. */
export const copy: Step = { op: Opcode.COPY, tiles: 1, operands: [OUTPUT, INPUT], parameters: [1, 4096], node: "copy" };
export const probe = (kind: number, argument = 0, tiles = 1, node = "probe"): Step => ({
  op: Opcode.PROBE,
  tiles,
  operands: [OUTPUT],
  parameters: [kind, argument],
  node,
});

/** A program whose regions are `regions`, with one input "x" and one output "y" of `elements` int32 each. */
export function handMade(regions: readonly (readonly Step[])[], elements = 16, costNs = 1000): CompileResult {
  const steps = regions.flat();
  const names = [...new Set(steps.map((step) => step.node ?? "node"))];
  const text = Buffer.from(names.join(""));
  const at = { tensors: 64, regions: 0, instructions: 0, strips: 0, debug: 0 };
  at.regions = at.tensors + 2 * Tensor.SIZE;
  at.instructions = align(at.regions + regions.length * Region.SIZE);
  at.strips = at.instructions + steps.length * Instruction.SIZE;
  at.debug = align(at.strips);
  const debugBytes = 4 + 4 * (names.length + 1) + text.length;
  const image = new Uint8Array(align(at.debug + debugBytes));
  const view = new DataView(image.buffer);
  const put = (offset: number, value: number): void => view.setUint32(offset, value, true);
  const head: [number, number][] = [
    [Program.MAGIC, PROGRAM_MAGIC],
    [Program.VERSION, ABI_VERSION],
    [Program.BYTES, image.length],
    [Program.TENSORS, at.tensors],
    [Program.TENSOR_COUNT, 2],
    [Program.REGIONS, at.regions],
    [Program.REGION_COUNT, regions.length],
    [Program.INSTRUCTIONS, at.instructions],
    [Program.INSTRUCTION_COUNT, steps.length],
    [Program.STRIPS, at.strips],
    [Program.DEBUG, at.debug],
    [Program.DEBUG_BYTES, debugBytes],
    [Program.BINDINGS, 4],
  ];
  for (const [field, value] of head) {
    put(field, value);
  }
  for (const [index, binding] of [3, 2].entries()) {
    const record = at.tensors + index * Tensor.SIZE;
    view.setUint16(record + Tensor.BINDING, binding, true);
    image[record + Tensor.DTYPE] = INT32;
    image[record + Tensor.RANK] = 1;
    put(record + Tensor.BYTES, elements * 4);
    put(record + Tensor.DIMS, elements);
    put(record + Tensor.STRIDES, 4);
  }
  let first = 0;
  for (const [index, region] of regions.entries()) {
    const record = at.regions + index * Region.SIZE;
    put(record + Region.FIRST, first);
    put(record + Region.COUNT, region.length);
    put(
      record + Region.TILES,
      region.reduce((sum, step) => sum + step.tiles, 0),
    );
    put(record + Region.COST_NS, costNs);
    first += region.length;
  }
  for (const [index, step] of steps.entries()) {
    const record = at.instructions + index * Instruction.SIZE;
    image[record + Instruction.OP] = step.op;
    image[record + Instruction.OPERANDS] = step.operands?.length ?? 0;
    put(record + Instruction.TILES, step.tiles);
    put(record + Instruction.NODE, names.indexOf(step.node ?? "node"));
    for (const [i, operand] of (step.operands ?? []).entries()) {
      put(record + Instruction.T0 + 4 * i, operand);
    }
    for (const [i, parameter] of (step.parameters ?? []).entries()) {
      put(record + Instruction.P0 + 4 * i, parameter);
    }
  }
  put(at.debug, names.length);
  let end = 4 + 4 * (names.length + 1);
  for (const [i, name] of names.entries()) {
    put(at.debug + 4 + 4 * i, end);
    end += Buffer.byteLength(name);
  }
  put(at.debug + 4 + 4 * names.length, end);
  image.set(text, at.debug + 4 + 4 * (names.length + 1));
  const port = (name: string) => ({ name, dtype: "int32" as const, dims: [elements], offsetBytes: 0, sizeBytes: elements * 4 });
  const value = (name: string) => ({ name, dtype: "int32" as const, dims: [elements] });
  return {
    info: { name: "hand-made", producer: "test", irVersion: 10, opsets: {}, metadata: {}, inputs: [value("x")], outputs: [value("y")] },
    program: {
      image,
      inputs: [port("x")],
      outputs: [port("y")],
      arenaBytes: 0,
      costNs,
      instructionCount: steps.length,
      regionCount: regions.length,
    },
    data: [],
    dataBytes: 0,
  };
}

function align(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}

/** An executor of a hand-made program. */
export function executorOf(device: Device, result: CompileResult, frames = 4): Executor {
  return make.executor(Model.adopt(coreOf.device(device as never), result, { frames, programs: 4, disable: undefined })) as never;
}
