/** dead: removes nodes that no output depends on, and forgets outputs that nobody reads. */
import type { Value } from "../graph/ir";
import type { CompileState } from "./pipeline";

export function removeDeadNodes({ graph }: CompileState): void {
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
    while (node.outputs.length > 1 && !live.has(node.outputs[node.outputs.length - 1]!)) {
      node.outputs.pop();
    }
  }
}
