/** expand: operators that are said in other operators give way to those. Needs types; what becomes constant on the way is folded. */
import { describeNode, forNode, type Graph, type Node } from "../graph/ir";
import { nameInputs } from "../ops/define";
import { Expansion } from "../ops/expansion";
import { graphsOf, isControl } from "./control";
import { inferNode, resolve } from "./infer";

export function* expandGraph({ graph }: { readonly graph: Graph }): Generator<void> {
  graph.nodes = yield* expandNodes(graph.nodes);
}

function* expandNodes(nodes: readonly Node[]): Generator<void, Node[]> {
  const result: Node[] = [];
  for (const node of nodes) {
    if (isControl(node)) {
      for (const inner of graphsOf(node)) {
        inner.nodes = yield* expandNodes(inner.nodes);
      }
      result.push(node);
      continue;
    }
    const { op, attributes } = resolve(node);
    const expansion = new Expansion(node, inferNode);
    const values = forNode(node, () => op.expand?.(expansion, nameInputs(op, node.inputs, describeNode(node)), attributes));
    if (!values) {
      result.push(node);
      continue;
    }
    values.forEach((value, index) => {
      if (value) {
        expansion.give(index, value);
      }
    });
    result.push(...(yield* expandNodes(expansion.nodes)));
    yield;
  }
  return result;
}
