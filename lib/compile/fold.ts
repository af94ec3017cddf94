/** fold: a BatchNormalization behind a Conv with known weights becomes part of them: a factor for each filter, worked out in float64. */
import { type Graph, type Node, usersOf, type Value } from "../graph/ir";
import { decode, encode, type Stored } from "../graph/tensor";
import { isControl } from "./control";
import { resolve } from "./infer";
import type { CompileState } from "./state";

export function foldNormalizations({ graph }: CompileState): void {
  const users = usersOf(graph);
  const outputs = new Set(graph.outputs);
  const producers = new Map<Value, Node>(graph.nodes.flatMap((node) => node.outputs.flatMap((output) => (output ? [[output, node] as const] : []))));
  const folded = new Map<Node, Node>();
  const gone = new Set<Node>();
  for (const node of graph.nodes) {
    const conv = node.op === "BatchNormalization" && node.domain === "" && producers.get(node.inputs[0]!);
    if (conv === undefined || conv === false || conv.op !== "Conv" || conv.domain !== "" || gone.has(conv) || folded.has(conv)) {
      continue;
    }
    const between = conv.outputs[0]!;
    const alone = users.get(between)?.length === 1 && !outputs.has(between) && !readInside(graph, between);
    const constant =
      [conv.inputs[1], ...node.inputs.slice(1)].every((value) => value?.constant?.dtype === "float32") &&
      !(conv.inputs[2] && !conv.inputs[2].constant);
    if (alone && constant) {
      folded.set(conv, merged(conv, node));
      gone.add(node);
    }
  }
  graph.nodes = graph.nodes.filter((node) => !gone.has(node)).map((node) => folded.get(node) ?? node);
}

/** Read by a graph inside a node: those are listed behind the node's own inputs. */
const readInside = (graph: Graph, value: Value): boolean => graph.nodes.some((node) => isControl(node) && node.inputs.includes(value));

/** The filters, one after the other, each times its factor. */
function scaled({ dtype, dims, bytes }: Stored, factors: Float64Array): Stored {
  const copy = new Uint8Array(bytes);
  const values = new Float32Array(copy.buffer);
  const perFilter = values.length / Math.max(1, factors.length);
  let at = 0;
  for (const factor of factors) {
    for (const end = at + perFilter; at < end; at++) {
      values[at]! *= factor;
    }
  }
  return { dtype, dims, bytes: copy };
}

function merged(conv: Node, norm: Node): Node {
  const [x, weights, bias] = conv.inputs as [Value, Value, Value | undefined];
  const [scale, shift, mean, variance] = norm.inputs.slice(1).map((value) => decode(value!.constant!).data as Float64Array) as [
    Float64Array,
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const { epsilon } = resolve(norm).attributes as { readonly epsilon: number };
  const factor = scale.map((each, c) => each / Math.sqrt(variance[c]! + epsilon));
  const before = bias ? (decode(bias.constant!).data as Float64Array) : new Float64Array(factor.length);
  const moved = factor.map((each, c) => (before[c]! - mean[c]!) * each + shift[c]!);
  // The names say where the numbers come from: with them, data that an executor holds is found without reading it.
  const named = (name: string, of: readonly (Value | undefined)[], constant: Stored): Value => {
    const sources = of.map((value) => value?.source ?? "");
    const source = of.every((value) => !value || value.source !== undefined) ? { source: `${name}${JSON.stringify([...sources, epsilon])}` } : {};
    return { name: `@${norm.name}.${name}`, dtype: "float32", dims: constant.dims, constant, ...source };
  };
  const inputs = [
    x,
    named("weights", [weights, ...norm.inputs.slice(1)], scaled(weights.constant!, factor)),
    named("bias", [bias, ...norm.inputs.slice(1)], encode({ dtype: "float32", dims: [factor.length], data: moved })),
  ];
  return { ...conv, inputs, outputs: [norm.outputs[0]] };
}
