/** Nodes in an order in which every value is produced before it is read. Files should come sorted; not all do. */
import { AclError } from "../../errors/acl-error";
import type { Node, Value } from "../../graph/ir";

/** Keeps the file's order wherever it is possible. @throws AclError 100013 that names the nodes of a cycle */
export function sortNodes(nodes: readonly Node[], inputs: readonly Value[]): Node[] {
  const producers = new Map<Value, Node>();
  for (const node of nodes) {
    for (const output of node.outputs) {
      if (output) {
        producers.set(output, node);
      }
    }
  }
  for (const input of inputs) {
    producers.delete(input);
  }
  const sorted: Node[] = [];
  const state = new Map<Node, "open" | "done">();
  for (const root of nodes) {
    // An explicit stack: a chain may be longer than the call stack is deep.
    const stack: Node[] = [root];
    while (stack.length > 0) {
      const node = stack[stack.length - 1]!;
      if (state.get(node) === "done") {
        stack.pop();
        continue;
      }
      state.set(node, "open");
      const waiting = node.inputs
        .map((input) => input && producers.get(input))
        .filter((each): each is Node => each !== undefined && state.get(each) !== "done");
      const open = waiting.find((each) => state.get(each) === "open");
      if (open) {
        const cycle = stack.slice(stack.indexOf(open)).filter((each) => state.get(each) === "open");
        throw new AclError(
          100013,
          `the graph has a cycle through ${cycle.map((each) => `"${each.name}"`).join(", ")}; nodes must not depend on themselves`,
        );
      }
      if (waiting.length > 0) {
        stack.push(...waiting.reverse());
      } else {
        stack.pop();
        state.set(node, "done");
        sorted.push(node);
      }
    }
  }
  return sorted;
}
