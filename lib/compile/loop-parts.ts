/** A Loop or a Scan taken apart: both are a body with state, a number of turns, and slices that go in and out. */
import { AclError } from "../errors/acl-error";
import { normalizeAxis, shapeError } from "../graph/dims";
import { type Attribute, describeNode, type Graph, isGraph, type Node, type Value } from "../graph/ir";
import { decode } from "../graph/tensor";

export type InferNodes = (nodes: readonly Node[]) => Generator<void, Node[]>;
export type LowerNodes = (nodes: readonly Node[]) => Generator<void>;

/** Values from outside that a graph reads; constants need no order. */
export function capturedBy(graph: Graph): Value[] {
  const inside = new Set<Value | undefined>([...graph.inputs, ...graph.nodes.flatMap((node) => node.outputs)]);
  const read = [...graph.nodes.flatMap((node) => node.inputs), ...graph.outputs];
  return read.filter((value): value is Value => value !== undefined && !value.constant && !inside.has(value));
}

/** A Loop or Scan with the parts of its body by name. */
export interface Parts {
  readonly node: Node;
  readonly body: Graph;
  readonly trip: Value | undefined;
  readonly condition: Value | undefined;
  /** Values before the first turn, the body's inputs for them, and what a turn makes of them. */
  readonly initial: readonly Value[];
  readonly states: readonly Value[];
  readonly next: readonly Value[];
  readonly index: Value | undefined;
  readonly conditionIn: Value | undefined;
  readonly conditionOut: Value | undefined;
  readonly sources: readonly { readonly of: Value; readonly slice: Value; readonly axis: number; readonly reversed: boolean }[];
  readonly results: readonly { readonly slice: Value; readonly axis: number; readonly reversed: boolean }[];
}

export function bodyOf(node: Node): Graph {
  const body = node.attributes.get("body");
  if (!isGraph(body)) {
    throw new AclError(100023, `${describeNode(node)} lacks its attribute "body"`);
  }
  return body;
}

const list = (node: Node, name: string): number[] => ((node.attributes.get(name) as readonly bigint[] | undefined) ?? []).map(Number);

export function partsOf(node: Node, body: Graph): Parts {
  const what = describeNode(node);
  const given = node.inputs.slice(0, body.inputs.length);
  const common = { node, body };
  if (node.op === "Loop") {
    const count = body.inputs.length - 2;
    if (count < 0 || body.outputs.length < count + 1 || node.outputs.length > body.outputs.length - 1 || given.slice(2).includes(undefined)) {
      throw new AclError(100021, `${what}: its body takes ${body.inputs.length} values and gives ${body.outputs.length}, which do not fit the node`);
    }
    return {
      ...common,
      trip: given[0],
      condition: given[1],
      initial: given.slice(2) as Value[],
      states: body.inputs.slice(2),
      next: body.outputs.slice(1, count + 1),
      index: body.inputs[0],
      conditionIn: body.inputs[1],
      conditionOut: body.outputs[0],
      sources: [],
      results: body.outputs.slice(count + 1).map((slice) => ({ slice, axis: 0, reversed: false })),
    };
  }
  const scanned = Number(node.attributes.get("num_scan_inputs") ?? 0n);
  const count = body.inputs.length - scanned;
  if (node.opset < 9) {
    throw new AclError(100024, `${what}: the form with a batch, before opset 9, is not supported; convert the model to opset 9 or later`);
  }
  if (scanned < 1 || count < 0 || body.outputs.length < count || node.outputs.length > body.outputs.length || given.includes(undefined)) {
    throw new AclError(100021, `${what}: its body takes ${body.inputs.length} values and gives ${body.outputs.length}, which do not fit the node`);
  }
  const [axes, directions] = [list(node, "scan_input_axes"), list(node, "scan_input_directions")];
  const [outAxes, outDirections] = [list(node, "scan_output_axes"), list(node, "scan_output_directions")];
  return {
    ...common,
    trip: undefined,
    condition: undefined,
    initial: given.slice(0, count) as Value[],
    states: body.inputs.slice(0, count),
    next: body.outputs.slice(0, count),
    index: undefined,
    conditionIn: undefined,
    conditionOut: undefined,
    sources: body.inputs.slice(count).map((slice, i) => {
      const of = given[count + i]!;
      return { of, slice, axis: normalizeAxis(axes[i] ?? 0, of.dims!.length, what), reversed: directions[i] === 1 };
    }),
    results: body.outputs.slice(count).map((slice, i) => ({ slice, axis: outAxes[i] ?? 0, reversed: outDirections[i] === 1 })),
  };
}

/** A body of its own: inference writes into the values of a graph. Values from outside stay what they are. */
export function cloneGraph(graph: Graph, suffix: string): Graph {
  const copies = new Map<Value, Value>();
  const define = (value: Value): Value => {
    const copy: Value = { ...value, name: `${value.name}${suffix}` };
    copies.set(value, copy);
    return copy;
  };
  const use = (value: Value): Value => copies.get(value) ?? value;
  const cloneNodes = (nodes: readonly Node[]): Node[] =>
    nodes.map((node) => ({
      ...node,
      name: `${node.name}${suffix}`,
      inputs: node.inputs.map((input) => input && use(input)),
      attributes: new Map(
        [...node.attributes].map(([name, attribute]): [string, Attribute] => [name, isGraph(attribute) ? cloneInner(attribute) : attribute]),
      ),
      outputs: node.outputs.map((output) => output && define(output)),
    }));
  const cloneInner = (inner: Graph): Graph => {
    const inputs = inner.inputs.map(define);
    return { name: inner.name, inputs, nodes: cloneNodes(inner.nodes), outputs: inner.outputs.map(use) };
  };
  return cloneInner(graph);
}

export const typed = (value: Value, { dtype, dims }: Value): void => {
  value.dtype = dtype!;
  value.dims = [...dims!];
};

/** Follows copies to where a value of the body comes from. */
function originOf(value: Value, body: Graph): Value {
  const from = body.nodes.find((node) => node.op === "Identity" && node.domain === "" && node.outputs[0] === value);
  return from ? originOf(from.inputs[0]!, body) : value;
}

/** Is the condition true for ever once it is true? */
export function runsOn({ conditionOut, conditionIn, body }: Parts): boolean {
  if (!conditionOut) {
    return true;
  }
  const origin = originOf(conditionOut, body);
  return origin === conditionIn || (origin.constant !== undefined && Number(decode(origin.constant).data[0]) !== 0);
}

/** Number of turns where it is known before the program runs. */
export function turnsOf(parts: Parts): number | undefined {
  const { trip, condition, sources, node } = parts;
  if (node.op === "Scan") {
    const lengths = new Set(sources.map(({ of, axis }) => of.dims![axis]));
    const [length] = lengths;
    if (lengths.size !== 1 || typeof length !== "number") {
      throw shapeError(`${describeNode(node)}: its scan inputs have ${[...lengths].join(" and ")} slices; they need the same number`);
    }
    return length;
  }
  if (condition && !condition.constant) {
    return undefined;
  }
  if (condition && Number(decode(condition.constant!).data[0]) === 0) {
    return 0;
  }
  return trip?.constant && runsOn(parts) ? Math.max(0, Number(decode(trip.constant).data[0])) : undefined;
}
