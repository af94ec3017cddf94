/** What an instruction reads and writes: the only thing that fusing, scheduling and planning look at. */
import { DTYPES } from "../graph/dtype";
import { extentOf } from "../ops/views";
import { collapse } from "../program/views";
import type { Blob, Instruction, Strip, View } from "../program/types";

const stripInputs = (strip: Strip | undefined): View[] => strip?.values.flatMap((value) => (value.kind === "input" ? [value.view] : [])) ?? [];

export function readsOf(instruction: Instruction): View[] {
  switch (instruction.op) {
    case "copy":
    case "pack_integer":
    case "pool":
    case "softmax":
    case "cumulate":
      return [instruction.source];
    case "norm":
      return [instruction.source, instruction.scale, instruction.shift];
    case "map":
      return stripInputs(instruction.strip);
    case "reduce":
      return [instruction.source, ...stripInputs(instruction.after)];
    case "matmul":
      return [instruction.a, instruction.b, ...stripInputs(instruction.epilogue)];
    case "matmul_integer":
      return [instruction.a, instruction.b, instruction.zeroA, instruction.zeroB, ...stripInputs(instruction.epilogue)];
    case "conv":
      return [instruction.source, instruction.weights, ...stripInputs(instruction.epilogue)];
    case "attention": {
      const { q, k, v, mask } = instruction;
      return [q, k, v, ...(mask ? [mask] : [])];
    }
    case "gather":
    case "gather_elements":
      return [instruction.source, instruction.indices];
    case "scatter_elements":
      // What is not written stays: the target is read as well.
      return [instruction.source, instruction.indices, instruction.target];
    case "top_k":
      return [instruction.source];
    case "grid_sample":
      return [instruction.source, instruction.grid];
    case "roi_align":
      return [instruction.source, instruction.rois, instruction.pictures];
    case "rnn": {
      const { source, weights, state, cell, extra } = instruction;
      return [source, weights, state, ...(cell ? [cell] : []), ...(extra ? [extra] : [])];
    }
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
    case "matmul_integer":
    case "pack_integer":
    case "conv":
    case "softmax":
    case "norm":
    case "attention":
      return [instruction.target];
    case "gather":
    case "gather_elements":
    case "scatter_elements":
    case "cumulate":
    case "grid_sample":
    case "roi_align":
      return [instruction.target];
    case "top_k":
      return [instruction.target, instruction.positions, instruction.work];
    case "rnn":
      return [instruction.target, instruction.state, ...(instruction.cell ? [instruction.cell] : [])];
    case "loop":
      return [instruction.counter];
    case "probe":
      return instruction.target ? [instruction.target] : [];
    default:
      return [];
  }
}

/** Do two views of possibly the same blob share a byte? Says yes when it cannot tell. */
export function overlaps(a: View, b: View): boolean {
  if (a.blob !== b.blob) {
    return false;
  }
  const [one, other] = [extentOf(a), extentOf(b)];
  return one.low < other.high && other.low < one.high && !slicesApart(a, b);
}

/** Are the views different slices of one array along one axis (as the parts of a Concat are)? Then they interleave in memory and still share nothing. */
function slicesApart(a: View, b: View): boolean {
  const [low, high] = a.offsetBytes <= b.offsetBytes ? [a, b] : [b, a];
  const size = Math.max(DTYPES[a.dtype].bytes, DTYPES[b.dtype].bytes);
  const distance = high.offsetBytes - low.offsetBytes;
  const merged = ({ dims, strides }: View): Slice => {
    const shape = collapse({ dims, strides: [strides] });
    return { dims: shape.dims, strides: shape.strides[0]! };
  };
  // One of them may be seen with an axis split in two.
  return areApart(low, high, distance, size) || areApart(merged(low), merged(high), distance, size);
}

type Slice = Pick<View, "dims" | "strides">;

/** The array is taken to be the smallest that holds both; its elements have addresses of their own if every stride reaches past all smaller ones. */
function areApart(low: Slice, high: Slice, distance: number, size: number): boolean {
  if (low.strides.length !== high.strides.length || low.strides.some((stride, axis) => stride !== high.strides[axis] || stride <= 0)) {
    return false;
  }
  return low.strides.some((step, axis) => {
    const shift = distance / step;
    if (!Number.isInteger(shift) || shift < low.dims[axis]!) {
      return false;
    }
    const dims = low.dims.map((dim, i) => (i === axis ? shift + high.dims[i]! : Math.max(dim, high.dims[i]!)));
    const order = dims.map((_, i) => i).sort((i, j) => low.strides[i]! - low.strides[j]!);
    let reach = size;
    return order.every((i) => {
      const apart = dims[i] === 1 || low.strides[i]! >= reach;
      reach += (dims[i]! - 1) * low.strides[i]!;
      return apart;
    });
  });
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
