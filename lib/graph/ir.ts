/**
 * The graph between importers and lowering: single assignment, logical shapes, no addresses. Passes edit it in place; `verify.ts` says what must hold
 * after each of them. Nothing here knows a model format or an instruction.
 */
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "./dtype";
import type { Dim } from "./dims";
import type { Stored } from "./tensor";

export type { Dim } from "./dims";

export interface Value {
  readonly name: string;
  dtype?: DtypeName;
  /** Logical dims; undefined until inference. */
  dims?: readonly Dim[];
  /**
   * Order of the logical axes in memory, outermost first; undefined = row-major. A preference for the blob that the lowering makes,
   * not a promise about views.
   */
  layout?: readonly number[];
  /** Set for initializers and folded values. */
  constant?: Stored;
  /** Identifies the bytes of the constant without looking: the name of an initializer, or of what nodes of the file make of initializers alone. */
  source?: string;
}

export type Attribute =
  | number
  | bigint
  | string
  | Uint8Array
  | Stored
  | Graph
  | readonly number[]
  | readonly bigint[]
  | readonly string[]
  | readonly Stored[];

export interface Node {
  /** Unique in its graph; shows in errors, faults and traces. */
  readonly name: string;
  readonly op: string;
  readonly domain: string;
  readonly opset: number;
  /** undefined = an optional input that is absent. */
  readonly inputs: (Value | undefined)[];
  readonly outputs: (Value | undefined)[];
  readonly attributes: ReadonlyMap<string, Attribute>;
}

export interface Graph {
  readonly name: string;
  readonly inputs: Value[];
  readonly outputs: Value[];
  nodes: Node[];
}

/** Nodes that read each value, once per use. */
export function usersOf(graph: Graph): Map<Value, Node[]> {
  const users = new Map<Value, Node[]>();
  for (const node of graph.nodes) {
    for (const input of node.inputs) {
      if (input) {
        const list = users.get(input);
        list ? list.push(node) : users.set(input, [node]);
      }
    }
  }
  return users;
}

/** Every value of the graph in the order in which it first appears: inputs, constants and node outputs. */
export function valuesOf(graph: Graph): Set<Value> {
  const values = new Set<Value>(graph.inputs);
  for (const node of graph.nodes) {
    for (const value of [...node.inputs, ...node.outputs]) {
      if (value) {
        values.add(value);
      }
    }
  }
  for (const output of graph.outputs) {
    values.add(output);
  }
  return values;
}

export const isStored = (attribute: Attribute | undefined): attribute is Stored =>
  typeof attribute === "object" && "bytes" in attribute && "dtype" in attribute;
export const isGraph = (attribute: Attribute | undefined): attribute is Graph => typeof attribute === "object" && "nodes" in attribute;

/** What ends the name of a branch for which a program has no form: it gives other shapes than the branch beside it. */
export const UNFIT_BRANCH = "does not fit these shapes)";

/** `work` for a node: what it throws says which node it is about, also where the words of the operator do not. */
export function forNode<T>(node: Node, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof AclError) || error.message.includes(`"${node.name}"`)) {
      throw error;
    }
    const { code, message, reason, solution, failures } = error;
    throw new AclError(code, `${describeNode(node)}: ${message}`, {
      reason,
      solution,
      failures,
      node: error.node ?? node.name,
      cause: error.cause ?? error,
    });
  }
}

/** "Conv "conv1" (opset 10)": how messages name a node. */
export function describeNode(node: Node): string {
  const domain = node.domain === "" ? "" : `${node.domain}.`;
  return `node "${node.name}" (${domain}${node.op}, opset ${node.opset})`;
}
