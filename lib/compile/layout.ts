/**
 * layout: the memory order of each value. Convolutions and pools work on channels innermost, save 1 x 1 and one channel per group at a model's
 * border; products and attention are written as they are turned afterwards; elementwise operators keep the order of the operand that has their shape;
 * everything else, and what the caller feeds, is row-major. An order is a preference for fresh blobs: lowering copies where an operator needs another
 * one.
 */
import { type Node, usersOf, type Value } from "../graph/ir";
import { findOp } from "../ops/registry";
import { channelsLast } from "../ops/views";
import { plainNodes } from "./control";
import type { CompileState } from "./state";

export function chooseLayouts({ graph }: CompileState): void {
  const users = usersOf(graph);
  for (const node of plainNodes(graph.nodes)) {
    const { layout } = findOp(node)!;
    if (layout === "turned") {
      setLayout(node.outputs[0], turnedOrder(node.outputs[0]!, users.get(node.outputs[0]!)));
    } else if (layout === "channels_last" && !staysPlanar(node, users)) {
      setLayout(node.outputs[0], channelsLast(node.outputs[0]!.dims!.length));
    } else if (layout === "follow") {
      follow(node);
    }
  }
}

/** A product that is only turned afterwards, its columns staying innermost, is written in the order that it is turned to: then turning it moves nothing. */
function turnedOrder(product: Value, users: readonly Node[] | undefined): readonly number[] | undefined {
  const [user] = users ?? [];
  const perm = users?.length === 1 && user!.op === "Transpose" && user!.domain === "" ? user!.attributes.get("perm") : undefined;
  const order = Array.isArray(perm) ? perm.map(Number) : [];
  const last = order.length - 1;
  return last > 1 && product.dims!.length === order.length && order[last] === last ? order : undefined;
}

/** Convolutions that need no other order than planes: 1 x 1 (a product with the weights on the left), and a filter per channel. */
function runsOnPlanes({ op, domain, inputs: [x, weights], attributes }: Node): boolean {
  if (op !== "Conv" || domain !== "" || !weights?.dims) {
    return false;
  }
  const step = (attributes.get("strides") as readonly bigint[] | undefined)?.[1] ?? 1n;
  const small = weights.dims.length === 4 && Number(weights.dims[2]) * Number(weights.dims[3]) <= 9;
  // Winograd turns a band of rows at a time.
  const plain = ["strides", "dilations"].every((name) =>
    ((attributes.get(name) as readonly bigint[] | undefined) ?? []).every((value) => value === 1n),
  );
  const winograd =
    small && plain && weights.dims.slice(2).every((size) => size === 3) && weights.dims.slice(0, 2).every((size) => Number(size) >= 16);
  const perChannel = small && weights.dims[1] === 1 && weights.dims[0] === x!.dims![1] && step <= 2n;
  return perChannel || winograd || weights.dims.slice(2).every((size) => size === 1);
}

/** One of these between two values outside. */
function staysPlanar(node: Node, users: ReadonlyMap<Value, readonly Node[]>): boolean {
  const [x] = node.inputs;
  const ends = (value: Value): boolean =>
    (users.get(value) ?? []).every((user) => findOp(user)!.layout === "follow" && user.outputs.every((output) => !output || ends(output)));
  return runsOnPlanes(node) && x!.layout === undefined && x!.dims!.length > 2 && node.outputs.every((output) => !output || ends(output));
}

function follow(node: Node): void {
  for (const output of node.outputs) {
    const like =
      node.inputs.find((input) => input && !input.constant && input.dims?.join() === output?.dims?.join()) ??
      node.inputs.find((input) => input?.layout?.length === output?.dims?.length);
    setLayout(output, like?.layout);
  }
}

function setLayout(value: Value | undefined, layout: readonly number[] | undefined): void {
  if (value && layout) {
    value.layout = layout;
  }
}
