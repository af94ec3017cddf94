/** Runs a typed graph by the references of its operators: float64 and exact integers, no device. For tests, diagnosis and folding by hand. */
import { AclError } from "../errors/acl-error";
import { isConcrete } from "../graph/dims";
import { describeNode, type Graph, type Node, type Value } from "../graph/ir";
import { decode, type Tensor } from "../graph/tensor";
import { type AnyOp, type ConcreteType, nameInputs, readAttributes, type Type } from "./define";
import { findOp } from "./registry";

/** Types of all outputs, also of those that the node leaves out. */
function inferredTypes(node: Node, op: AnyOp, what: string): readonly Type[] {
  const types = node.inputs.map((input): Type | undefined => input && { dtype: input.dtype!, dims: input.dims! });
  return op.infer(nameInputs(op, types, what), readAttributes(op, node.attributes, what), { node: what, outputs: node.outputs.length });
}

/** The value of each graph output. The graph must have passed inference with concrete dims. */
export function evaluateGraph(graph: Graph, feeds: Readonly<Record<string, Tensor>>): Tensor[] {
  const known = new Map<Value, Tensor>();
  const read = (value: Value): Tensor => {
    const found = known.get(value) ?? (value.constant ? decode(value.constant) : undefined);
    if (!found) {
      throw new AclError(100017, `evaluate: "${value.name}" has no value; feed every graph input`);
    }
    return found;
  };
  for (const input of graph.inputs) {
    const feed = feeds[input.name];
    if (feed) {
      known.set(input, feed);
    }
  }
  evaluateNodes(graph.nodes, known, read);
  return graph.outputs.map(read);
}

function evaluateNodes(nodes: readonly Node[], known: Map<Value, Tensor>, read: (value: Value) => Tensor): void {
  for (const node of nodes) {
    if (node.op === "If" && node.domain === "") {
      const chosen = node.attributes.get(Number(read(node.inputs[0]!).data[0]) ? "then_branch" : "else_branch") as Graph;
      evaluateNodes(chosen.nodes, known, read);
      node.outputs.forEach((output, index) => output && known.set(output, read(chosen.outputs[index]!)));
      continue;
    }
    const what = describeNode(node);
    const op = findOp(node);
    if (!op) {
      throw new AclError(100024, `evaluate: ${what} has no reference; loops run on a device only`);
    }
    const inferred = node.outputs.includes(undefined) ? inferredTypes(node, op, what) : [];
    const types = node.outputs.map((output, index): ConcreteType => {
      const absent = inferred[index];
      if (!output && absent && isConcrete(absent.dims)) {
        return { dtype: absent.dtype, dims: absent.dims };
      }
      if (!output?.dtype || !output.dims || !isConcrete(output.dims)) {
        throw new AclError(100013, `evaluate: ${what} has no concrete types; run inference first`);
      }
      return { dtype: output.dtype, dims: output.dims };
    });
    const inputs = nameInputs(
      op,
      node.inputs.map((input) => input && read(input)),
      what,
    );
    const results = op.reference(inputs, readAttributes(op, node.attributes, what), types);
    node.outputs.forEach((output, index) => {
      if (output && results[index]) {
        known.set(output, { ...results[index], dims: types[index]!.dims });
      }
    });
  }
}
