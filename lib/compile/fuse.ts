/**
 * fuse: a MAP takes in the MAP that produces its operand, and CONV, MATMUL or REDUCE take the MAP that follows them as their epilogue. Blobs are written
 * once, so a producer may move down to its only reader: nothing that it reads can have changed.
 */
import { stripType, typeOf } from "../ops/strip-builder";
import { DTYPES } from "../graph/dtype";
import { reshapeView, sameLayout } from "../ops/views";
import type { Blob, Instruction, Strip, StripValue, View } from "../program/types";
import { accesses, readsOf, writesOf } from "./operands";
import type { CompileState } from "./state";

/** Bounds of one strip program: its operands and temporaries have to share the registers of a core. */
const MOST_INPUTS = 6;
const MOST_VALUES = 32;
/** A matrix kernel keeps its block of C in cache beside the panels: its epilogue reads less. */
const MOST_EPILOGUE_INPUTS = 3;

type MapInstruction = Extract<Instruction, { readonly op: "map" }>;
type Copy = Extract<Instruction, { readonly op: "copy" }>;
type Reduce = Extract<Instruction, { readonly op: "reduce" }>;
type IntegerProduct = Extract<Instruction, { readonly op: "matmul_integer" }>;
type Product = Extract<Instruction, { readonly op: "matmul" | "conv" }>;

export function fuseInstructions({ program }: CompileState): void {
  const fused = fuse(program!.instructions);
  program!.instructions.splice(0, program!.instructions.length, ...fused);
}

export function fuse(instructions: readonly Instruction[]): Instruction[] {
  const { readers, writers } = accesses(instructions);
  const readerCount = new Map<Blob, number>([...readers].map(([blob, list]) => [blob, list.length]));
  const out: (Instruction | undefined)[] = [];
  const writtenAt = new Map<Blob, number>();
  const taken: Taking = {
    single: (blob) => readerCount.get(blob) === 1 && writers.get(blob)?.length === 1,
    steady: (blob) => (writers.get(blob)?.length ?? 0) <= 1,
  };
  for (const original of instructions) {
    let instruction = original;
    for (let next: Taken | undefined; (next = takeProducer(instruction, out, writtenAt, taken)); ) {
      // A blob that both read is read once from now on.
      const own = new Set(readsOf(instruction).map(({ blob }) => blob));
      for (const blob of new Set(readsOf(out[next.at]!).map((view) => view.blob))) {
        if (own.has(blob)) {
          readerCount.set(blob, readerCount.get(blob)! - 1);
        }
      }
      out[next.at] = undefined;
      instruction = next.merged;
    }
    out.push(instruction);
    if (isControl(instruction)) {
      // Nothing moves into a branch or a loop, where it would run more often, or out of one, where its operands may have changed.
      writtenAt.clear();
    }
    for (const { blob } of writesOf(instruction)) {
      writtenAt.set(blob, out.length - 1);
    }
  }
  return out.filter((instruction) => instruction !== undefined);
}

const isControl = ({ op }: Instruction): boolean => op === "label" || op === "branch" || op === "loop";

interface Taken {
  readonly at: number;
  readonly merged: Instruction;
}

interface Taking {
  /** Written once and read by one instruction. */
  readonly single: (blob: Blob) => boolean;
  /** Never written again: it may be read later. */
  readonly steady: (blob: Blob) => boolean;
}

function takeProducer(
  reader: Instruction,
  out: readonly (Instruction | undefined)[],
  writtenAt: ReadonlyMap<Blob, number>,
  { single, steady }: Taking,
): Taken | undefined {
  if (reader.op !== "map" || reader.strip.outputs.length !== 1) {
    return undefined;
  }
  for (const view of readsOf(reader)) {
    const at = writtenAt.get(view.blob);
    const producer = at === undefined ? undefined : out[at];
    if (at === undefined || !producer || view.blob.binding !== "arena" || !single(view.blob)) {
      continue;
    }
    const merged =
      producer.op === "map"
        ? mergeMaps(producer, reader, view)
        : producer.op === "conv" || producer.op === "matmul"
          ? mergeEpilogue(producer, reader, view)
          : producer.op === "matmul_integer"
            ? mergeInteger(producer, reader, view)
            : producer.op === "reduce"
              ? mergeAfter(producer, reader, view)
              : producer.op === "copy" && steady(producer.source.blob)
                ? mergeCopy(producer, reader, view.blob)
                : undefined;
    if (merged) {
      return { at, merged };
    }
  }
  return undefined;
}

const samePlace = (a: View, b: View): boolean => a.blob === b.blob && a.offsetBytes === b.offsetBytes && a.dtype === b.dtype && sameLayout(a, b);
/** Every read of the blob goes through a view that equals what the producer wrote. */
const readsWhole = (reader: MapInstruction, written: View): boolean =>
  readsOf(reader).every((view) => view.blob !== written.blob || samePlace(view, written));

function mergeMaps(producer: MapInstruction, reader: MapInstruction, view: View): Instruction | undefined {
  const [output, ...rest] = producer.strip.outputs;
  const written = output!.view;
  if (rest.length > 0 || !samePlace(view, written) || !readsWhole(reader, written) || !keepsValue(written, reader.strip.outputs[0]!.view)) {
    return undefined;
  }
  const strip = splice(producer.strip, reader.strip, view.blob);
  return strip && fits(strip, MOST_INPUTS) ? { op: "map", strip, node: reader.node } : undefined;
}

/** A store narrows: leaving it out must not change the number. 16-bit floats stay wide inside a chain of their own kind, by the rules of the device. */
function keepsValue(stored: View, result: View): boolean {
  switch (stored.dtype) {
    case "float16":
    case "bfloat16":
      return result.dtype === stored.dtype;
    case "float32":
    case "float64":
    case "int32":
    case "uint32":
    case "int64":
    case "uint64":
    case "bool":
      return true;
    default:
      return false;
  }
}

function mergeEpilogue(producer: Product, reader: MapInstruction, view: View): Instruction | undefined {
  const result = reader.strip.outputs[0]!.view;
  const { target } = producer;
  if (
    target.dtype !== "float32" ||
    result.dtype !== "float32" ||
    !samePlace(view, target) ||
    !readsWhole(reader, target) ||
    !sameLayout(result, target)
  ) {
    return undefined;
  }
  const before = producer.epilogue ?? { values: [{ kind: "accumulator", type: "f32" } as const], outputs: [{ view: target, value: 0 }] };
  const strip = splice(before, reader.strip, view.blob);
  if (!strip || !fits(strip, MOST_EPILOGUE_INPUTS)) {
    return undefined;
  }
  // A dim of 1 may have any stride; the producer's are those that its kernel expects.
  const placed = { ...result, strides: target.strides };
  return { ...producer, target: placed, epilogue: { ...strip, outputs: [{ view: placed, value: strip.outputs[0]!.value }] } };
}

/** The sums of integers stay in the core's scratch: what is stored may have any type. */
function mergeInteger(producer: IntegerProduct, reader: MapInstruction, view: View): Instruction | undefined {
  const { target } = producer;
  const strip = seenUnder(reader.strip, target.dims);
  if (!strip) {
    return undefined;
  }
  const result = strip.outputs[0]!.view;
  const whole = strip.values.every((value) => value.kind !== "input" || value.view.blob !== view.blob || samePlace(value.view, target));
  if (!whole || !keepsValue(target, result)) {
    return undefined;
  }
  const before = producer.epilogue ?? { values: [{ kind: "accumulator", type: "i32" } as const], outputs: [{ view: target, value: 0 }] };
  const epilogue = splice(before, strip, view.blob);
  return epilogue && fits(epilogue, MOST_EPILOGUE_INPUTS) ? { ...producer, target: result, epilogue } : undefined;
}

/** The strip with all its views under `dims`. */
function seenUnder(strip: Strip, dims: readonly number[]): Strip | undefined {
  const values = strip.values.map((value) => {
    const view = value.kind === "input" ? reshapeView(value.view, dims) : undefined;
    return value.kind === "input" ? view && { ...value, view } : value;
  });
  const outputs = strip.outputs.map(({ view, value }) => ({ view: reshapeView(view, dims), value }));
  return values.every((value) => value !== undefined) && outputs.every(({ view }) => view) ? ({ values, outputs } as Strip) : undefined;
}

/** Elements of a run below which moving them one run at a time costs more than a copy that turns whole blocks. */
const SHORT_RUN = 8;

/** What was only spread out (an image enlarged, a row repeated) is read where it comes from, under the dims of the copy. */
function mergeCopy({ source, target }: Copy, reader: MapInstruction, blob: Blob): Instruction | undefined {
  const size = DTYPES[target.dtype].bytes;
  const inner = target.dims.findIndex((dim, axis) => dim > 1 && target.strides[axis] === size);
  if (inner < 0 || source.strides[inner] !== size || target.dims[inner]! < SHORT_RUN || source.dtype !== target.dtype) {
    return undefined;
  }
  const seen = (view: View): View | undefined => {
    const split = reshapeView(view, target.dims);
    return view.blob !== blob ? split : split && samePlace(split, target) ? source : undefined;
  };
  const inputs = reader.strip.values.map((value) => (value.kind === "input" ? seen(value.view) : undefined));
  const result = seen(reader.strip.outputs[0]!.view);
  if (!result || reader.strip.values.some((value, i) => value.kind === "input" && !inputs[i])) {
    return undefined;
  }
  const values = reader.strip.values.map((value, i) => (value.kind === "input" ? { ...value, view: inputs[i]! } : value));
  return { ...reader, strip: { values, outputs: [{ view: result, value: reader.strip.outputs[0]!.value }] } };
}

/** What is done with a folded value is done before it is stored. The reader may see dims of 1 where axes were folded. */
function mergeAfter(producer: Reduce, reader: MapInstruction, view: View): Instruction | undefined {
  const { target } = producer;
  const strip = withDims(reader.strip, target.dims);
  if (!strip || !ownType(producer)) {
    return undefined;
  }
  const result = strip.outputs[0]!.view;
  const whole = strip.values.every((value) => value.kind !== "input" || value.view.blob !== view.blob || samePlace(value.view, target));
  if (!whole || !keepsValue(target, result)) {
    return undefined;
  }
  const before = producer.after ?? {
    values: [{ kind: "accumulator", type: stripType(target.dtype) } as const],
    outputs: [{ view: target, value: 0 }],
  };
  const after = splice(before, strip, view.blob);
  return after && fits(after, MOST_EPILOGUE_INPUTS) ? { ...producer, target: result, after } : undefined;
}

/** The strip over `dims` that differ from its own only in axes of one element. */
function withDims(strip: Strip, dims: readonly number[]): Strip | undefined {
  const long = (of: readonly number[]): string => of.filter((dim) => dim !== 1).join();
  if (long(strip.outputs[0]!.view.dims) !== long(dims)) {
    return undefined;
  }
  const seen = (view: View): View => {
    const strides = view.strides.filter((_, axis) => view.dims[axis] !== 1);
    return { ...view, dims, strides: dims.map((dim) => (dim === 1 ? 0 : strides.shift()!)) };
  };
  return {
    values: strip.values.map((value) => (value.kind === "input" ? { ...value, view: seen(value.view) } : value)),
    outputs: strip.outputs.map(({ view, value }) => ({ view: seen(view), value })),
  };
}

/** The folded value has the type of the elements: positions and truth have types of their own. */
const ownType = ({ fold, source, target }: Reduce): boolean =>
  source.dtype === target.dtype && fold !== "arg_max" && fold !== "arg_min" && fold !== "all" && fold !== "any";

const fits = (strip: Strip, mostInputs: number): boolean =>
  strip.values.length <= MOST_VALUES && strip.values.filter(({ kind }) => kind === "input").length <= mostInputs;

/** The strip of `reader` with what it read from `hole` replaced by the result of `producer`. */
function splice(producer: Strip, reader: Strip, hole: Blob): Strip | undefined {
  const values: StripValue[] = [...producer.values];
  const result = producer.outputs[0]!.value;
  const index: number[] = [];
  for (const value of reader.values) {
    if (value.kind === "input" && value.view.blob === hole) {
      if (typeOf(values, result) !== value.type) {
        return undefined;
      }
      index.push(result);
    } else if (value.kind === "input") {
      const known = values.findIndex((other) => other.kind === "input" && other.type === value.type && samePlace(other.view, value.view));
      index.push(known >= 0 ? known : values.push(value) - 1);
    } else {
      index.push(values.push(value.kind === "op" ? { ...value, args: value.args.map((arg) => index[arg]!) } : value) - 1);
    }
  }
  return { values, outputs: reader.outputs.map(({ view, value }) => ({ view, value: index[value]! })) };
}
