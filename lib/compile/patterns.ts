/**
 * patterns: groups of nodes that exporters write for one operator become that operator: layer normalization (exports before opset 17), softmax and
 * attention in parts. Activations in parts are found later, in strips (lib/program/strip-fold.ts). Needs types; keeps what the outputs are, within rounding.
 */
import { type Graph, isGraph, type Node, usersOf, type Value } from "../graph/ir";
import { decode, encode, sizeOf } from "../graph/tensor";
import { findAttention, scalarOf } from "./attention";
import type { CompileState } from "./state";

export function replacePatterns({ graph }: CompileState): void {
  // Softmax in parts has to be found before the attention that it belongs to.
  for (const attention of [false, true]) {
    const found = new Patterns(graph, attention);
    for (const node of graph.nodes) {
      found.look(node);
    }
    graph.nodes = graph.nodes.filter((node) => !found.gone.has(node)).flatMap((node) => found.replaced.get(node) ?? node);
  }
}

interface Match {
  /** Its place is taken. */
  readonly last: Node;
  /** They go. */
  readonly inner: readonly Node[];
  readonly nodes: readonly Node[];
}

interface Normalized {
  readonly x: Value;
  readonly inner: readonly Node[];
  readonly epsilon: number;
  readonly axis: number;
}

class Patterns {
  readonly replaced = new Map<Node, readonly Node[]>();
  readonly gone = new Set<Node>();
  readonly #users: Map<Value, Node[]>;
  readonly #producers = new Map<Value, Node>();
  /** Values that others than plain nodes read: outputs, and what graphs inside of nodes see. */
  readonly #kept: Set<Value>;

  constructor(
    graph: Graph,
    private readonly attention: boolean,
  ) {
    this.#users = usersOf(graph);
    const withGraphs = graph.nodes.filter(({ attributes }) => [...attributes.values()].some(isGraph));
    this.#kept = new Set([...graph.outputs, ...withGraphs.flatMap(({ inputs }) => inputs.filter((input) => input !== undefined))]);
    for (const node of graph.nodes) {
      for (const output of node.outputs) {
        output && this.#producers.set(output, node);
      }
    }
  }

  look(node: Node): void {
    if (node.domain !== "" || node.outputs[0]?.dtype !== "float32") {
      return;
    }
    const match = this.attention ? this.#attention(node) : this.#parts(node);
    if (match && this.#standsAlone(match)) {
      match.inner.forEach((each) => this.gone.add(each));
      this.replaced.set(match.last, match.nodes);
    }
  }

  /** Does it share no node with another match, and does what takes its place read nothing that goes with it? */
  #standsAlone({ last, inner, nodes }: Match): boolean {
    const lost = new Set(inner.flatMap(({ outputs }) => outputs));
    return (
      ![last, ...inner].some((node) => this.gone.has(node) || this.replaced.has(node)) &&
      !nodes.some(({ inputs }) => inputs.some((input) => input && lost.has(input)))
    );
  }

  #parts(node: Node): Match | undefined {
    return node.op === "Div" ? (this.#softmax(node) ?? this.#layerNorm(node)) : node.op === "Mul" ? this.#layerNorm(node) : undefined;
  }

  #attention(last: Node): Match | undefined {
    const found = last.op === "MatMul" ? findAttention(last, (value, ...ops) => this.#producer(value, ...ops)) : undefined;
    return found && this.#private(found.inner, last) ? { last, ...found } : undefined;
  }

  #producer(value: Value | undefined, ...ops: string[]): Node | undefined {
    const node = value && this.#producers.get(value);
    return node?.domain === "" && ops.includes(node.op) ? node : undefined;
  }

  /** Do only the other nodes of the match read what its inner nodes give? */
  #private(inner: readonly Node[], last: Node): boolean {
    const nodes = new Set([...inner, last]);
    return inner.every((node) =>
      node.outputs.every((output) => !output || (!this.#kept.has(output) && (this.#users.get(output) ?? []).every((user) => nodes.has(user)))),
    );
  }

  /** The one reader of a value that nobody else sees. */
  #reader(value: Value, op: string): Node | undefined {
    const users = this.#users.get(value) ?? [];
    return users.length === 1 && !this.#kept.has(value) && users[0]!.op === op && users[0]!.domain === "" ? users[0] : undefined;
  }

  /** e / sum(e) with e = exp(x - max(x)), all along one axis. */
  #softmax(div: Node): Match | undefined {
    const exp = this.#producer(div.inputs[0], "Exp");
    const sum = this.#producer(div.inputs[1], "ReduceSum");
    const sub = this.#producer(exp?.inputs[0], "Sub");
    const max = this.#producer(sub?.inputs[1], "ReduceMax");
    if (!exp || !sum || !sub || !max || sum.inputs[0] !== exp.outputs[0] || max.inputs[0] !== sub.inputs[0]) {
      return undefined;
    }
    const [axes, others] = [foldedAxes(sum), foldedAxes(max)];
    const inner = [exp, sum, sub, max];
    if (axes?.length !== 1 || others?.join() !== axes.join() || !this.#private(inner, div)) {
      return undefined;
    }
    const node = { ...div, op: "Softmax", opset: 13, inputs: [sub.inputs[0]], attributes: new Map([["axis", BigInt(axes[0]!)]]) };
    return { last: div, inner, nodes: [node] };
  }

  /** (x - mean) / sqrt(variance + epsilon), or times the inverse; behind it a factor and a term if they are there. */
  #layerNorm(core: Node): Match | undefined {
    for (const [centred, deviation] of core.op === "Div"
      ? [[0, 1]]
      : [
          [0, 1],
          [1, 0],
        ]) {
      const match = this.#normalized(core, core.inputs[centred!], core.inputs[deviation!]);
      if (match) {
        return this.#finish(core, match);
      }
    }
    return undefined;
  }

  #normalized(core: Node, centred: Value | undefined, deviation: Value | undefined): Normalized | undefined {
    const inner: Node[] = [];
    const through = (value: Value | undefined, ...ops: string[]): Node | undefined => {
      const node = this.#producer(value, ...ops);
      node && inner.push(node);
      return node;
    };
    const root = core.op === "Div" ? through(deviation, "Sqrt", "Pow") : this.#inverseRoot(deviation, inner);
    if (!root || (root.op === "Pow" && scalarOf(root.inputs[1]) !== (core.op === "Div" ? 0.5 : -0.5))) {
      return undefined;
    }
    const sum = through(root.inputs[0], "Add");
    const which = sum && (scalarOf(sum.inputs[1]) === undefined ? 1 : 0);
    const epsilon = sum && scalarOf(sum.inputs[1 - which!]);
    const variance = through(sum?.inputs[which!], "ReduceMean");
    const square = through(variance?.inputs[0], "Pow", "Mul");
    const squared = square && (square.op === "Pow" ? scalarOf(square.inputs[1]) === 2 : square.inputs[0] === square.inputs[1]);
    const axes = variance && foldedAxes(variance);
    const [one, other] = [this.#centred(centred, inner), squared ? this.#centred(square.inputs[0], inner) : undefined];
    if (!one || !other || !axes || epsilon === undefined || one.x !== other.x || [one, other].some((each) => each.axes.join() !== axes.join())) {
      return undefined;
    }
    // The innermost axes, all of them from `axis` on.
    const rank = one.x.dims!.length;
    const trailing = axes.length > 0 && axes.every((axis, i) => axis === rank - axes.length + i);
    return trailing && this.#private(inner, core) ? { x: one.x, inner, epsilon, axis: rank - axes.length } : undefined;
  }

  /** 1 / sqrt(v) in its spellings: the node whose input is v. */
  #inverseRoot(value: Value | undefined, inner: Node[]): Node | undefined {
    const outer = this.#producer(value, "Reciprocal", "Div", "Pow");
    if (!outer || (outer.op === "Div" && scalarOf(outer.inputs[0]) !== 1)) {
      return undefined;
    }
    inner.push(outer);
    if (outer.op === "Pow") {
      return outer;
    }
    const root = this.#producer(outer.inputs[outer.op === "Div" ? 1 : 0], "Sqrt");
    root && inner.push(root);
    return root;
  }

  /** x - mean(x). */
  #centred(value: Value | undefined, inner: Node[]): { readonly x: Value; readonly axes: readonly number[] } | undefined {
    const sub = this.#producer(value, "Sub");
    const mean = this.#producer(sub?.inputs[1], "ReduceMean");
    const axes = mean && foldedAxes(mean);
    if (!sub || !mean || !axes || mean.inputs[0] !== sub.inputs[0]) {
      return undefined;
    }
    inner.push(sub, mean);
    return { x: sub.inputs[0]!, axes };
  }

  #finish(core: Node, { x, inner, epsilon, axis }: Normalized): Match {
    const row = (x.dims as number[]).slice(axis);
    let last = core;
    const passed: Node[] = [];
    /** What the only reader of the value so far combines it with, if that is a constant row. */
    const next = (op: string): Value | undefined => {
      const reader = this.#reader(last.outputs[0]!, op);
      const operand = reader?.inputs.find((input) => input !== last.outputs[0]);
      if (!reader || !operand?.constant || operand.dtype !== "float32" || !isRow(operand.dims as number[], row)) {
        return undefined;
      }
      passed.push(last);
      last = reader;
      return operand;
    };
    const factor = next("Mul");
    const term = next("Add");
    const ones = (): Value => {
      const constant = encode({ dtype: "float32", dims: row, data: new Float64Array(sizeOf(row)).fill(1) });
      return { name: `@${core.name}.ones`, dtype: "float32", dims: row, constant };
    };
    const attributes = new Map<string, bigint | number>([
      ["axis", BigInt(axis)],
      ["epsilon", epsilon],
    ]);
    const operands = [x, factor ? shaped(factor, row) : ones(), ...(term ? [shaped(term, row)] : [])];
    const node: Node = { ...last, op: "LayerNormalization", opset: 17, inputs: operands, attributes };
    return { last, inner: [...inner, ...passed], nodes: [node] };
  }
}

/** The same constant as a row, without the ones in front. */
const shaped = (value: Value, row: readonly number[]): Value =>
  value.dims!.length === row.length ? value : { ...value, dims: row, constant: { ...value.constant!, dims: row } };

const isRow = (dims: readonly number[], row: readonly number[]): boolean =>
  dims.length >= row.length && sizeOf(dims) === sizeOf(row) && dims.slice(dims.length - row.length).join() === row.join();

/** Axes of a fold that keeps its dims, counted from 0, ascending; undefined if they are not known or dims are dropped. */
function foldedAxes({ inputs: [data, axes], attributes }: Node): number[] | undefined {
  if (attributes.get("keepdims") === 0n || !axes?.constant) {
    return undefined;
  }
  const rank = data!.dims!.length;
  return Array.from(decode(axes.constant).data as ArrayLike<number | bigint>, (axis) => (Number(axis) + rank) % rank).sort((a, b) => a - b);
}
