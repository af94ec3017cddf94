/** A loop written out turn by turn, where the number of turns is known: every turn may have shapes of its own. */
import type { AclError } from "../errors/acl-error";
import { normalizeAxis } from "../graph/dims";
import { type Attribute, describeNode, type Graph, type Node, type Value } from "../graph/ir";
import { decode, encode, tensor } from "../graph/tensor";
import { cloneGraph, type InferNodes, type Parts, partsOf, turnsOf } from "./loop-parts";

/** Nodes that a loop may become. */
const MOST_UNROLLED = 4096;

const call = (
  name: string,
  op: string,
  inputs: (Value | undefined)[],
  outputs: (Value | undefined)[],
  attributes: [string, Attribute][] = [],
): Node => ({
  name,
  op,
  domain: "",
  opset: 25,
  inputs,
  outputs,
  attributes: new Map(attributes),
});
const constantOf = (name: string, dtype: "int64" | "bool", dims: readonly number[], numbers: readonly number[]): Value => ({
  name,
  dtype,
  dims,
  constant: encode(tensor(dtype, dims, numbers)),
});

/** Turn after turn, while the number of turns is known. */
export function* unroll(node: Node, original: Graph, failure: AclError, inferNodes: InferNodes): Generator<void, Node[]> {
  const nodes: Node[] = [];
  const first = partsOf(node, original);
  let states: Value[] = [...first.initial];
  const collected: Value[][] = first.results.map(() => []);
  const limit =
    node.op === "Scan" ? turnsOf(first)! : first.trip ? (first.trip.constant ? Number(decode(first.trip.constant).data[0]) : undefined) : Infinity;
  const begins = !first.condition || (first.condition.constant && Number(decode(first.condition.constant).data[0]) !== 0);
  if (limit === undefined || (first.condition && !first.condition.constant)) {
    throw failure;
  }
  let going = begins;
  for (let turn = 0; going && turn < limit; turn++) {
    const prefix = `${node.name}.${turn}`;
    const body = cloneGraph(original, `@${turn}`);
    const parts = partsOf(node, body);
    const feeds: Node[] = [];
    const alias = (to: Value | undefined, from: Value): void => {
      to && feeds.push(call(`${prefix}.${to.name}`, "Identity", [from], [to]));
    };
    alias(parts.index, constantOf(`@${prefix}.index`, "int64", [], [turn]));
    alias(parts.conditionIn, constantOf(`@${prefix}.condition`, "bool", [], [1]));
    parts.states.forEach((state, i) => alias(state, states[i]!));
    for (const { of, slice, axis, reversed } of parts.sources) {
      const at = constantOf(`@${prefix}.${slice.name}.at`, "int64", [], [reversed ? limit - 1 - turn : turn]);
      feeds.push(call(`${prefix}.${slice.name}`, "Gather", [of, at], [slice], [["axis", BigInt(axis)]]));
    }
    nodes.push(...(yield* inferNodes([...feeds, ...body.nodes])));
    states = [...parts.next];
    parts.results.forEach(({ slice }, i) => collected[i]!.push(slice));
    const { conditionOut } = parts;
    if (conditionOut && !conditionOut.constant) {
      throw failure;
    }
    going = !conditionOut || Number(decode(conditionOut.constant!).data[0]) !== 0;
    if (nodes.length > MOST_UNROLLED || turn > MOST_UNROLLED) {
      throw failure;
    }
  }
  return [...nodes, ...(yield* inferNodes(outputsOf(node, first, states, collected, failure)))];
}

function outputsOf(node: Node, { results }: Parts, states: readonly Value[], collected: readonly (readonly Value[])[], failure: AclError): Node[] {
  const nodes: Node[] = [];
  states.forEach((state, i) => node.outputs[i] && nodes.push(call(`${node.name}.output.${i}`, "Identity", [state], [node.outputs[i]])));
  results.forEach(({ axis, reversed }, i) => {
    const output = node.outputs[states.length + i];
    if (!output) {
      return;
    }
    const slices = collected[i]!;
    if (slices.length === 0) {
      throw failure; // no turn says what a slice would have been
    }
    const rank = slices[0]!.dims!.length + 1;
    const at = normalizeAxis(axis, rank, describeNode(node));
    const parts = slices.map((slice, turn): Value => {
      const part: Value = { name: `@${node.name}.${i}.${turn}` };
      nodes.push(call(`${node.name}.${i}.${turn}`, "Unsqueeze", [slice, constantOf(`@${node.name}.${i}.${turn}.axis`, "int64", [1], [at])], [part]));
      return part;
    });
    nodes.push(call(`${node.name}.output.${states.length + i}`, "Concat", reversed ? parts.reverse() : parts, [output], [["axis", BigInt(at)]]));
  });
  return nodes;
}
