/** What holds for every graph between two passes. A failure here is a defect of the pass (or importer) that ran last. */
import { AclError } from "../errors/acl-error";
import { DTYPES } from "./dtype";
import { describeNode, type Graph, type Node, type Value, valuesOf } from "./ir";
import type { Dim } from "./dims";
import { sizeOf } from "./tensor";

/** @throws AclError 100013 that lists every broken rule and names `after`, the step that broke it */
export function verifyGraph(graph: Graph, after: string): void {
  const problems: string[] = [];
  const defined = new Map<Value, Node | undefined>();
  const names = new Map<string, Value>();
  const define = (value: Value, by: Node | undefined): void => {
    if (defined.has(value)) {
      problems.push(`value "${value.name}" is produced by ${describeSource(defined.get(value))} and by ${describeSource(by)}`);
    }
    defined.set(value, by);
  };
  for (const input of graph.inputs) {
    define(input, undefined);
  }
  const nodeNames = new Set<string>();
  for (const node of graph.nodes) {
    if (nodeNames.has(node.name)) {
      problems.push(`two nodes are called "${node.name}"`);
    }
    nodeNames.add(node.name);
    for (const input of node.inputs) {
      if (input && !input.constant && !defined.has(input)) {
        problems.push(`${describeNode(node)} reads "${input.name}" before anything has produced it`);
      }
    }
    for (const output of node.outputs) {
      if (output) {
        define(output, node);
      }
    }
  }
  for (const output of graph.outputs) {
    if (!output.constant && !defined.has(output)) {
      problems.push(`graph output "${output.name}" is produced by nothing`);
    }
  }
  for (const value of valuesOf(graph)) {
    const other = names.get(value.name);
    if (other && other !== value) {
      problems.push(`two values are called "${value.name}"`);
    }
    names.set(value.name, value);
    checkValue(value, defined, problems);
  }
  if (problems.length > 0) {
    throw new AclError(100013, `graph "${graph.name}" is not well formed after ${after}: ${problems.join("; ")}`, {
      failures: problems.map((text) => ({ code: 100013, text })),
    });
  }
}

const describeSource = (node: Node | undefined): string => (node ? describeNode(node) : "the graph's inputs");
const sameDims = (a: readonly Dim[], b: readonly number[]): boolean => a.length === b.length && a.every((dim, axis) => dim === b[axis]);

function checkValue(value: Value, defined: ReadonlyMap<Value, Node | undefined>, problems: string[]): void {
  if (value.layout && value.dims) {
    const axes = [...value.layout].sort((a, b) => a - b);
    if (axes.length !== value.dims.length || axes.some((axis, index) => axis !== index)) {
      problems.push(`layout [${value.layout}] of "${value.name}" is no permutation of its ${value.dims.length} axes`);
    }
  }
  const { constant } = value;
  if (constant) {
    if (defined.has(value)) {
      problems.push(`constant "${value.name}" is also produced by ${describeSource(defined.get(value))}`);
    }
    if (value.dtype !== constant.dtype || !value.dims || !sameDims(value.dims, constant.dims)) {
      problems.push(`constant "${value.name}" has type ${constant.dtype}[${constant.dims}] but is declared ${value.dtype}[${value.dims}]`);
    }
    if (constant.bytes.byteLength !== sizeOf(constant.dims) * DTYPES[constant.dtype].bytes) {
      problems.push(
        `constant "${value.name}" holds ${constant.bytes.byteLength} bytes, its shape needs ${sizeOf(constant.dims) * DTYPES[constant.dtype].bytes}`,
      );
    }
  }
}
