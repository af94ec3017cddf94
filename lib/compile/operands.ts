/** What an instruction reads and writes: the only thing that fusing, scheduling and planning look at. */
import { extentOf } from "../ops/views";
import type { Blob, Instruction, Strip, View } from "../program/types";

const stripInputs = (strip: Strip | undefined): View[] => strip?.values.flatMap((value) => (value.kind === "input" ? [value.view] : [])) ?? [];

export function readsOf(instruction: Instruction): View[] {
  switch (instruction.op) {
    case "copy":
    case "pool":
      return [instruction.source];
    case "map":
      return stripInputs(instruction.strip);
    case "reduce":
      return [instruction.source, ...stripInputs(instruction.after)];
    case "matmul":
      return [instruction.a, instruction.b, ...stripInputs(instruction.epilogue)];
    case "conv":
      return [instruction.source, instruction.weights, ...stripInputs(instruction.epilogue)];
    case "branch":
      return instruction.condition ? [instruction.condition] : [];
    case "loop":
      return [instruction.trip, instruction.counter, ...(instruction.condition ? [instruction.condition] : [])];
    default:
      return [];
  }
}

export function writesOf(instruction: Instruction): View[] {
  switch (instruction.op) {
    case "map":
      return instruction.strip.outputs.map(({ view }) => view);
    case "copy":
    case "pool":
    case "reduce":
    case "matmul":
    case "conv":
      return [instruction.target];
    case "loop":
      return [instruction.counter];
    case "probe":
      return instruction.target ? [instruction.target] : [];
    default:
      return [];
  }
}

/** Do two views of possibly the same blob share a byte? Conservative for interleaved views. */
export function overlaps(a: View, b: View): boolean {
  if (a.blob !== b.blob) {
    return false;
  }
  const [one, other] = [extentOf(a), extentOf(b)];
  return one.low < other.high && other.low < one.high;
}

/** Instructions by blob, in program order. */
export function accesses(instructions: readonly Instruction[]): { readers: Map<Blob, Instruction[]>; writers: Map<Blob, Instruction[]> } {
  const readers = new Map<Blob, Instruction[]>();
  const writers = new Map<Blob, Instruction[]>();
  const note = (map: Map<Blob, Instruction[]>, views: readonly View[], instruction: Instruction): void => {
    for (const { blob } of views) {
      const list = map.get(blob) ?? [];
      if (list[list.length - 1] !== instruction) {
        list.push(instruction);
      }
      map.set(blob, list);
    }
  };
  for (const instruction of instructions) {
    note(readers, readsOf(instruction), instruction);
    note(writers, writesOf(instruction), instruction);
  }
  return { readers, writers };
}
