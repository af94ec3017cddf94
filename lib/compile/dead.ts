/** dead: removes nodes that no output depends on, and forgets outputs that nobody reads. */
import type { Graph, Value } from "../graph/ir";
import { graphsOf, isControl } from "./control";
import type { CompileState } from "./state";

export function removeDeadNodes({ graph }: CompileState): void {
  prune(graph);
}

export function prune(graph: Graph): void {
  const live = new Set<Value>(graph.outputs);
  graph.nodes = graph.nodes
    .toReversed()
    .filter((node) => {
      if (!node.outputs.some((output) => output && live.has(output))) {
        return false;
      }
      for (const input of node.inputs) {
        if (input) {
          live.add(input);
        }
      }
      return true;
    })
    .toReversed();
  for (const node of graph.nodes) {
    if (isControl(node)) {
      graphsOf(node).forEach(prune);
      continue;
    }
    while (node.outputs.length > 1 && !live.has(node.outputs[node.outputs.length - 1]!)) {
      node.outputs.pop();
    }
  }
}
