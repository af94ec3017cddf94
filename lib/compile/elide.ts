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

/** Who touches a blob, and where an instruction stands; kept up to date while copies go. */
interface Places {
  readonly readers: Map<Blob, Instruction[]>;
  readonly writers: Map<Blob, Instruction[]>;
  readonly order: Map<Instruction, number>;
}

export function elideCopies({ program }: CompileState): void {
  const { instructions } = program!;
  if (instructions.some(({ op }) => CONTROL.has(op))) {
    return;
  }
  const places: Places = { ...accesses(instructions), order: new Map(instructions.map((instruction, at) => [instruction, at])) };
  const gone = new Set<Instruction>();
  for (let at = 0; at < instructions.length; at++) {
    const copy = instructions[at]!;
    const move = copy.op === "copy" ? moveOf(copy, places) : undefined;
    if (move) {
      for (const [index, moved] of moveUsers(copy as Copy, move, places)) {
        instructions[index] = moved;
      }
      gone.add(copy);
    }
  }
  instructions.splice(0, instructions.length, ...instructions.filter((instruction) => !gone.has(instruction)));
}

/** What looked at the source of the copy looks at its target: the new instructions and their places. */
function moveUsers(copy: Copy, move: Move, { readers, writers, order }: Places): [number, Instruction][] {
  const { source, target } = copy;
  const users = new Set([...readers.get(source.blob)!, ...writers.get(source.blob)!]);
  users.delete(copy);
  writers.set(
    target.blob,
    writers.get(target.blob)!.filter((instruction) => instruction !== copy),
  );
  readers.delete(source.blob);
  writers.delete(source.blob);
  return [...users].map((user) => {
    const moved = withViews(user, (view) => (view.blob === source.blob ? move(view) : view));
    const at = order.get(user)!;
    order.set(moved, at);
    replace(readers, readsOf(moved), user, moved);
    replace(writers, writesOf(moved), user, moved);
    return [at, moved];
  });
}

/** Under each blob of `views`, `by` in the place of `old`. */
function replace(map: Map<Blob, Instruction[]>, views: readonly View[], old: Instruction, by: Instruction): void {
  for (const blob of new Set(views.map((view) => view.blob))) {
    map.set(blob, [...(map.get(blob) ?? []).filter((instruction) => instruction !== old), by]);
  }
}

function moveOf(copy: Copy, places: Places): Move | undefined {
  const { readers, writers, order } = places;
  const { source, target } = copy;
  if (source.blob.binding !== "arena" || source.blob === target.blob) {
    return undefined;
  }
  const [writer, ...others] = writers.get(source.blob) ?? [];
  if (!writer || others.length > 0 || order.get(writer)! > order.get(copy)! || !isUntouched(copy, places)) {
    return undefined;
  }
  const users = new Set([writer, ...readers.get(source.blob)!]);
  users.delete(copy);
  const views = [...users].flatMap((user) => [...readsOf(user), ...writesOf(user)].filter(({ blob }) => blob === source.blob));
  return shift(source, target, views) ?? restride(source, target, views, writer, readers.get(source.blob)!, copy);
}

/** The place of the copy is its alone, and nobody reads it before the copy. */
function isUntouched(copy: Copy, { readers, writers, order }: Places): boolean {
  const { target } = copy;
  const touches = (views: readonly View[]): boolean => views.some((view) => overlaps(view, target));
  return (
    (writers.get(target.blob) ?? []).every((other) => other === copy || !touches(writesOf(other))) &&
    (readers.get(target.blob) ?? []).every((other) => order.get(other)! > order.get(copy)! || !touches(readsOf(other)))
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
    case "attention":
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
