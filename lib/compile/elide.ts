/**
 * elide: a value that is only computed to be copied is computed where the copy would put it: into its part of a Concat, or into the caller's output.
 * Works on instructions before they are scheduled; what is computed does not change.
 */
import { DTYPES } from "../graph/dtype";
import { extentOf, reshapeView, sameLayout } from "../ops/views";
import type { Blob, Instruction, View } from "../program/types";
import { accesses, overlaps, readsOf, writesOf } from "./operands";
import type { CompileState } from "./state";

type Copy = Extract<Instruction, { readonly op: "copy" }>;
/** Where a view of the copied blob lies in the target. */
type Move = (view: View) => View;

/** Where instructions are repeated, what stands before another may run after it. */
const CONTROL: ReadonlySet<Instruction["op"]> = new Set(["label", "branch", "loop", "call", "return"]);

export function elideCopies({ program }: CompileState): void {
  const { instructions } = program!;
  if (instructions.some(({ op }) => CONTROL.has(op))) {
    return;
  }
  for (let at = 0; at < instructions.length; at++) {
    const copy = instructions[at]!;
    const move = copy.op === "copy" ? moveOf(copy, at, instructions) : undefined;
    if (move) {
      const { blob } = (copy as Copy).source;
      instructions.splice(at--, 1);
      instructions.forEach((instruction, index) => {
        if ([...readsOf(instruction), ...writesOf(instruction)].some((view) => view.blob === blob)) {
          instructions[index] = withViews(instruction, (view) => (view.blob === blob ? move(view) : view));
        }
      });
    }
  }
}

function moveOf(copy: Copy, at: number, instructions: readonly Instruction[]): Move | undefined {
  const { source, target } = copy;
  if (source.blob.binding !== "arena" || source.blob === target.blob) {
    return undefined;
  }
  const { readers, writers } = accesses(instructions);
  const [writer, ...others] = writers.get(source.blob) ?? [];
  if (!writer || others.length > 0 || instructions.indexOf(writer) > at || !isUntouched(target, copy, at, instructions, readers, writers)) {
    return undefined;
  }
  const views = instructions
    .filter((instruction) => instruction !== copy)
    .flatMap((instruction) => [...readsOf(instruction), ...writesOf(instruction)].filter(({ blob }) => blob === source.blob));
  return shift(source, target, views) ?? restride(source, target, views, writer, readers.get(source.blob)!, copy);
}

/** The place of the copy is its alone, and nobody reads it before the copy. */
function isUntouched(
  target: View,
  copy: Copy,
  at: number,
  instructions: readonly Instruction[],
  readers: ReadonlyMap<Blob, Instruction[]>,
  writers: ReadonlyMap<Blob, Instruction[]>,
): boolean {
  const touches = (views: readonly View[]): boolean => views.some((view) => overlaps(view, target));
  return (
    (writers.get(target.blob) ?? []).every((other) => other === copy || !touches(writesOf(other))) &&
    (readers.get(target.blob) ?? []).every((other) => instructions.indexOf(other) > at || !touches(readsOf(other)))
  );
}

/** Both lie alike in memory: whatever looks at the source sees the same bytes at a constant distance. */
function shift(source: View, target: View, views: readonly View[]): Move | undefined {
  const whole = extentOf(source);
  const bytes = source.dims.reduce((product, dim) => product * dim, DTYPES[source.dtype].bytes);
  const inside = (view: View): boolean => {
    const { low, high } = extentOf(view);
    return low >= whole.low && high <= whole.high;
  };
  // Without gaps: a gap of the source might be somebody else's bytes in the target.
  if (!sameLayout(source, target) || whole.high - whole.low !== bytes || !views.every(inside)) {
    return undefined;
  }
  const distance = target.offsetBytes - source.offsetBytes;
  return (view) => ({ ...view, blob: target.blob, offsetBytes: view.offsetBytes + distance });
}

/**
 * All look at the whole source, under whatever dims: they look at the target as the copy does, if those dims can be seen there. For writers and
 * readers that take any strides.
 */
function restride(
  source: View,
  target: View,
  views: readonly View[],
  writer: Instruction,
  readers: readonly Instruction[],
  copy: Copy,
): Move | undefined {
  const moved = (view: View): View | undefined => {
    const whole = view.offsetBytes === source.offsetBytes && view.dtype === source.dtype ? reshapeView(source, view.dims) : undefined;
    return whole && sameLayout(whole, view) ? reshapeView(target, view.dims) : undefined;
  };
  const reads = readers.every((reader) => reader === copy || reader.op === "copy" || reader.op === "map");
  const written = writesOf(writer).map(moved);
  if (!reads || !views.every(moved) || !written.every((view) => view && writesStrided(writer, view))) {
    return undefined;
  }
  return (view) => moved(view)!;
}

/** Does `writer` work as well on a target with the strides of `view`? */
function writesStrided(writer: Instruction, { dims, strides, dtype }: View): boolean {
  const dense = (axis: number): boolean => dims[axis] === 1 || strides[axis] === DTYPES[dtype].bytes;
  switch (writer.op) {
    case "matmul":
    case "softmax":
    case "norm":
      return dense(dims.length - 1);
    case "conv":
      return writer.form !== "winograd" && dense(1);
    case "pool":
      return dense(1);
    case "copy":
      return true;
    default:
      return false;
  }
}

/** The instruction with every view replaced. */
function withViews(instruction: Instruction, move: Move): Instruction {
  const replaced = (part: unknown): unknown => {
    if (Array.isArray(part)) {
      return part.map(replaced);
    }
    if (typeof part !== "object" || part === null) {
      return part;
    }
    return "blob" in part ? move(part as View) : Object.fromEntries(Object.entries(part).map(([key, value]) => [key, replaced(value)]));
  };
  return replaced(instruction) as Instruction;
}
