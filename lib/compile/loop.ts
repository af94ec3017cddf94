/**
 * Loop and Scan: the body is lowered once behind a LOOP, its state lies in memory that is written at the end of each turn. Shapes must not change from
 * turn to turn; where they do and the number of turns is known, the body is written out turn by turn instead. Scan is a Loop that picks a slice of its
 * scan inputs at the beginning of each turn.
 */
import { AclError } from "../errors/acl-error";
import { formatDims, normalizeAxis } from "../graph/dims";
import { describeNode, type Node, type Value } from "../graph/ir";
import { sizeOf, tensor } from "../graph/tensor";
import { type LoweredProgram, Lowering } from "../ops/lowering";
import { reshapeView } from "../ops/views";
import type { View } from "../program/types";
import { bodyOf, capturedBy, cloneGraph, type InferNodes, type LowerNodes, type Parts, partsOf, runsOn, turnsOf, typed } from "./loop-parts";
import { unroll } from "./unroll";

/** What stands for the node from now on. */
export function* inferLoop(node: Node, inferNodes: InferNodes): Generator<void, Node[]> {
  const original = bodyOf(node);
  const body = cloneGraph(original, "");
  const parts = partsOf(node, body);
  let failure: AclError | undefined;
  try {
    yield* inferBody(parts, inferNodes);
    const turns = turnsOf(parts);
    const changed = parts.next.findIndex(
      (value, i) => value.dtype !== parts.states[i]!.dtype || value.dims?.join() !== parts.states[i]!.dims?.join(),
    );
    if (changed >= 0) {
      const [before, after] = [parts.states[changed]!, parts.next[changed]!];
      const change = `${before.dtype}${formatDims(before.dims!)} into ${after.dtype}${formatDims(after.dims!)}`;
      failure = new AclError(100024, `${describeNode(node)}: a turn changes "${before.name}" from ${change}; a program has one shape for each value`);
    } else if (turns === undefined && !parts.trip && runsOn(parts)) {
      throw new AclError(100021, `${describeNode(node)} never ends: it has no trip count, and its condition stays what it is`);
    } else if (turns === undefined && parts.results.length > 0) {
      failure = new AclError(
        100024,
        `${describeNode(node)}: the number of its turns is computed at run time, and with it the size of what it collects`,
      );
    } else {
      return [finish(parts, turns)];
    }
  } catch (error) {
    if (!(error instanceof AclError)) {
      throw error;
    }
    failure = error;
  }
  return yield* unroll(node, original, failure, inferNodes);
}

function* inferBody(parts: Parts, inferNodes: InferNodes): Generator<void> {
  const { body, index, conditionIn, states, initial, sources } = parts;
  for (const [value, dtype] of [
    [index, "int64"],
    [conditionIn, "bool"],
  ] as const) {
    if (value) {
      value.dtype = dtype;
      value.dims = [];
    }
  }
  states.forEach((state, i) => typed(state, initial[i]!));
  for (const { of, slice, axis } of sources) {
    slice.dtype = of.dtype!;
    slice.dims = of.dims!.toSpliced(axis, 1);
  }
  body.nodes = yield* inferNodes(body.nodes);
}

/** The node with its typed body and its outputs typed. */
function finish(parts: Parts, turns: number | undefined): Node {
  const { node, body, next, results } = parts;
  next.forEach((value, i) => node.outputs[i] && typed(node.outputs[i], value));
  results.forEach(({ slice, axis }, i) => {
    const output = node.outputs[next.length + i];
    if (output) {
      const at = normalizeAxis(axis, slice.dims!.length + 1, describeNode(node));
      typed(output, { ...slice, dims: slice.dims!.toSpliced(at, 0, turns!) });
    }
  });
  const explicit = node.inputs.slice(0, body.inputs.length);
  while (explicit.length < body.inputs.length) {
    explicit.push(undefined);
  }
  return { ...node, inputs: [...explicit, ...new Set(capturedBy(body))], attributes: new Map([...node.attributes, ["body", body]]) };
}

/** [before, axis, behind] of a dense view. */
function byAxis(view: View, axis: number): View {
  return reshapeView(view, [sizeOf(view.dims.slice(0, axis)), view.dims[axis]!, sizeOf(view.dims.slice(axis + 1))])!;
}

export function* lowerLoop(program: LoweredProgram, node: Node, lowerNodes: LowerNodes): Generator<void> {
  const parts = partsOf(node, bodyOf(node));
  const b = new Lowering(program, node);
  const { body, trip, condition, initial, states, next, sources, results } = parts;
  const turns = turnsOf(parts);
  const scalar = (dtype: "int64" | "bool", name: string): View => b.temporary(dtype, [], undefined, `${node.name}.${name}`);
  const [begin, end] = [program.label(), program.label()];
  const counter = scalar("int64", "counter");
  b.map(counter, [], (s) => s.constant("i64", 0));
  const limit = turns === undefined && trip ? program.viewOf(trip) : b.computed(tensor("int64", [], [turns ?? 2n ** 62n]));
  const goes = runsOn(parts) ? undefined : scalar("bool", "condition");
  const held = states.map((state, i) => {
    const view = b.has(i) ? b.target(i) : b.temporary(state.dtype!, state.dims as number[], undefined, state.name);
    b.copy(view, program.viewOf(initial[i]!));
    program.views.set(state, view);
    return view;
  });
  const collected = results.map((_, i) => (b.has(states.length + i) ? b.target(states.length + i) : undefined));
  if (turns === undefined) {
    const enters = scalar("bool", "enters");
    const given = condition && program.viewOf(condition);
    b.map(enters, [limit, ...(given ? [given] : [])], (s, most, first) => {
      const some = s.op("gt", most!, s.constant("i64", 0));
      return first === undefined ? some : s.op("and", some, first);
    });
    program.instructions.push({ op: "branch", condition: enters, to: end, node: node.name });
  } else if (turns === 0) {
    return;
  }
  program.instructions.push({ op: "label", label: begin, node: node.name });
  if (parts.index) {
    program.views.set(parts.index, counter);
  }
  if (parts.conditionIn) {
    program.views.set(parts.conditionIn, b.computed(tensor("bool", [], [1])));
  }
  const turn = (reversed: boolean): View => {
    if (!reversed) {
      return counter;
    }
    const from = scalar("int64", "from");
    b.map(from, [counter], (s, at) => s.op("sub", s.constant("i64", turns! - 1), at!));
    return from;
  };
  for (const { of, slice, axis, reversed } of sources) {
    const part = b.temporary(slice.dtype!, slice.dims as number[], undefined, slice.name);
    const source = byAxis(b.arranged(program.viewOf(of)), axis);
    b.gather(reshapeView(part, [source.dims[0]!, 1, source.dims[2]!])!, source, { ...turn(reversed), dims: [1], strides: [8] });
    program.views.set(slice, part);
  }
  yield* lowerNodes(body.nodes);
  results.forEach(({ slice, axis, reversed }, i) => {
    const whole = collected[i];
    if (whole && sizeOf(whole.dims) > 0) {
      const target = byAxis(whole, normalizeAxis(axis, whole.dims.length, b.what));
      const [before, size, behind] = target.dims as [number, number, number];
      const source = reshapeView(b.arranged(program.viewOf(slice)), [before, behind, 1])!;
      const [step, , inner] = target.strides as [number, number, number];
      const rows: View = { ...target, dims: [before, behind, size], strides: [step, inner, target.strides[1]!] };
      b.scatterElements("none", rows, source, { ...turn(reversed), dims: [before, behind, 1], strides: [0, 0, 8] });
    }
  });
  moveStates(b, next, held, program);
  if (goes) {
    b.copy(goes, program.viewOf(parts.conditionOut!));
  }
  program.instructions.push({ op: "loop", trip: limit, counter, ...(goes ? { condition: goes } : {}), to: begin, node: node.name });
  program.instructions.push({ op: "label", label: end, node: node.name });
}

/** All states change at once: what lies in a state's memory, its own or another's, is moved aside first. */
function moveStates(b: Lowering, next: readonly Value[], held: readonly View[], program: LoweredProgram): void {
  const blobs = new Set(held.map(({ blob }) => blob));
  const views = next.map((value) => program.viewOf(value));
  const aside = views.map((view, i) => {
    if (
      !blobs.has(view.blob) ||
      (view.blob === held[i]!.blob && view.offsetBytes === held[i]!.offsetBytes && view.strides.join() === held[i]!.strides.join())
    ) {
      return view;
    }
    const copy = b.temporary(view.dtype, view.dims, undefined, `${next[i]!.name}.aside`);
    b.copy(copy, view);
    return copy;
  });
  aside.forEach((view, i) => view.blob !== held[i]!.blob && b.copy(held[i]!, view));
}
