/** Functions that a model brings along: each call is replaced by the function's nodes, so that nothing behind the importer knows of them. */
import { AclError } from "../../errors/acl-error";
import type { AttributeProto, FunctionProto, GraphProto, NodeProto } from "./generated/messages";

/** Calls inside calls; deeper than this is a function that calls itself. */
const DEEPEST = 32;
/** Functions that call each other twice grow without a bound that depth gives. */
const MOST_CALLS = 50000;

export interface Expanded {
  readonly node: NodeProto;
  /** Operator sets that the function imports, where they differ from the model's. */
  readonly opsets: Readonly<Record<string, number>>;
}

const domainOf = (domain: string): string => (domain === "ai.onnx" ? "" : domain);
const keyOf = ({ domain, name, overload }: { domain: string; name: string; overload: string }): string => `${domainOf(domain)}:${name}:${overload}`;

export class Functions {
  readonly #known: ReadonlyMap<string, FunctionProto>;
  #calls = 0;

  constructor(functions: readonly FunctionProto[]) {
    this.#known = new Map(functions.map((each) => [keyOf(each), each]));
  }

  /** The nodes of a graph without calls. */
  expand(nodes: readonly NodeProto[], opsets: Readonly<Record<string, number>>, depth = 0): Expanded[] {
    return nodes.flatMap((node) => {
      const called = this.#known.get(keyOf({ domain: node.domain, name: node.opType, overload: node.overload }));
      return called ? this.#call(node, called, depth + 1) : [{ node, opsets }];
    });
  }

  #call(call: NodeProto, body: FunctionProto, depth: number): Expanded[] {
    if (depth > DEEPEST) {
      throw new AclError(100013, `function "${body.name}" calls itself; functions of a model must end`);
    }
    if (this.#calls >= MOST_CALLS) {
      throw new AclError(100013, `the functions of the model are called more than ${MOST_CALLS} times; inline them before export`);
    }
    const prefix = `${call.name === "" ? body.name : call.name}#${++this.#calls}/`;
    const names = new Map<string, string>();
    body.input.forEach((name, i) => names.set(name, call.input[i] ?? ""));
    body.output.forEach((name, i) => names.set(name, call.output[i] || `${prefix}${name}`));
    const rename = (name: string): string => (name === "" ? "" : (names.get(name) ?? `${prefix}${name}`));
    const given = new Map<string, AttributeProto>(body.attributeProto.map((each) => [each.name, each]));
    for (const each of call.attribute) {
      given.set(each.name, each);
    }
    const opsets = Object.fromEntries(body.opsetImport.map(({ domain, version }) => [domainOf(domain), Number(version)]));
    return this.expand(
      body.node.map((node) => renamed(node, prefix, rename, given)),
      opsets,
      depth,
    );
  }
}

/** A copy of a message; fields keep their defaults on the prototype. */
const copied = <T extends object>(message: T, changes: Partial<T>): T =>
  Object.assign(Object.create(Object.getPrototypeOf(message)) as T, message, changes);

function renamed(node: NodeProto, prefix: string, rename: (name: string) => string, given: ReadonlyMap<string, AttributeProto>): NodeProto {
  return copied(node, {
    name: `${prefix}${node.name === "" ? node.opType : node.name}`,
    input: node.input.map(rename),
    output: node.output.map(rename),
    attribute: node.attribute.flatMap((each): AttributeProto[] => {
      if (each.refAttrName !== "") {
        // A reference to an attribute that the call leaves out leaves it out here too.
        const value = given.get(each.refAttrName);
        return value ? [copied(value, { name: each.name })] : [];
      }
      return [each.g ? copied(each, { g: renamedGraph(each.g, prefix, rename, given) }) : each];
    }),
  });
}

/** A graph inside a node of the function: what it does not define itself belongs to the function. */
function renamedGraph(graph: GraphProto, prefix: string, rename: (name: string) => string, given: ReadonlyMap<string, AttributeProto>): GraphProto {
  const own = new Set([
    ...graph.initializer.map(({ name }) => name),
    ...graph.input.map(({ name }) => name),
    ...graph.node.flatMap(({ output }) => output),
  ]);
  const inside = (name: string): string => (own.has(name) ? name : rename(name));
  return copied(graph, {
    node: graph.node.map((node) => renamed(node, prefix, inside, given)),
    output: graph.output.map((info) => copied(info, { name: inside(info.name) })),
  });
}
