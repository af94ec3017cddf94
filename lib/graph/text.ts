/**
 * The text form of a graph: what `npurt inspect` and tests read. `parseGraph(printGraph(g))` is `g`.
 *
 *   graph "name"
 *   input "x": float32[N,3] layout [0,1]
 *   constant "w": float32[2] = source "w" #0000803f00000040
 *   node "add" Add@13 ("x", "w") -> ("y": float32[N,3]) {"axis": i 1}
 *   output "y"
 */
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "./dtype";
import { type Attribute, type Dim, type Graph, isGraph, isStored, type Node, type Value, valuesOf } from "./ir";
import type { Stored } from "./tensor";

/** Constants above this many bytes print as their size only, unless `whole`; such a text cannot be parsed back. */
const SHOWN_BYTES = 64;

export function printGraph(graph: Graph, options: { readonly whole?: boolean } = {}): string {
  const stored = (constant: Stored): string =>
    options.whole || constant.bytes.byteLength <= SHOWN_BYTES ? hex(constant.bytes) : `(${constant.bytes.byteLength} bytes)`;
  const lines = [`graph ${JSON.stringify(graph.name)}`];
  for (const input of graph.inputs) {
    lines.push(`input ${typed(input)}`);
  }
  for (const value of valuesOf(graph)) {
    if (value.constant) {
      lines.push(
        `constant ${typed(value)} = ${value.source === undefined ? "" : `source ${JSON.stringify(value.source)} `}${stored(value.constant)}`,
      );
    }
  }
  for (const node of graph.nodes) {
    lines.push(printNode(node, stored, options));
  }
  lines.push(...graph.outputs.map((output) => `output ${JSON.stringify(output.name)}`));
  return `${lines.join("\n")}\n`;
}

function typed(value: Value): string {
  const type = value.dtype ? `: ${value.dtype}${value.dims ? `[${value.dims.map(printDim).join(",")}]` : ""}` : "";
  return JSON.stringify(value.name) + type + (value.layout ? ` layout [${value.layout}]` : "");
}

const printDim = (dim: Dim): string => (typeof dim === "number" ? String(dim) : JSON.stringify(dim));
const hex = (bytes: Uint8Array): string => `#${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}`;

function printNode(node: Node, stored: (constant: Stored) => string, options: { readonly whole?: boolean }): string {
  const domain = node.domain === "" ? "" : `${node.domain}:`;
  const inputs = node.inputs.map((input) => (input ? JSON.stringify(input.name) : "_")).join(", ");
  const outputs = node.outputs.map((output) => (output ? typed(output) : "_")).join(", ");
  const attributes = [...node.attributes].map(([name, value]) => `${JSON.stringify(name)}: ${printAttribute(value, stored, options)}`);
  const tail = attributes.length > 0 ? ` {${attributes.join(", ")}}` : "";
  return `node ${JSON.stringify(node.name)} ${domain}${node.op}@${node.opset} (${inputs}) -> (${outputs})${tail}`;
}

function printAttribute(value: Attribute, stored: (constant: Stored) => string, options: { readonly whole?: boolean }): string {
  if (typeof value === "number") {
    return `f ${printNumber(value)}`;
  }
  if (typeof value === "bigint") {
    return `i ${value}`;
  }
  if (typeof value === "string") {
    return `s ${JSON.stringify(value)}`;
  }
  if (value instanceof Uint8Array) {
    return `b ${hex(value)}`;
  }
  if (isStored(value)) {
    return `t ${value.dtype}[${value.dims}] ${stored(value)}`;
  }
  if (isGraph(value)) {
    return `g ${JSON.stringify(printGraph(value, options))}`;
  }
  const items: readonly (number | bigint | string | Stored)[] = value;
  const kind = typeof items[0] === "bigint" ? "is" : typeof items[0] === "string" ? "ss" : typeof items[0] === "object" ? "ts" : "fs";
  const text = items.map((item) =>
    typeof item === "number"
      ? printNumber(item)
      : typeof item === "object"
        ? `${item.dtype}[${item.dims}] ${stored(item)}`
        : typeof item === "string"
          ? JSON.stringify(item)
          : String(item),
  );
  return `${kind} [${text.join(", ")}]`;
}

const printNumber = (value: number): string => (Object.is(value, -0) ? "-0" : String(value));

/** Reads what printGraph wrote. @throws AclError 100012 with line and column */
export function parseGraph(text: string): Graph {
  return new Parser(text).graph();
}

class Parser {
  #at = 0;
  readonly #values = new Map<string, Value>();

  constructor(private readonly text: string) {}

  graph(): Graph {
    this.#word("graph");
    const graph: Graph = { name: this.#string(), inputs: [], outputs: [], nodes: [] };
    for (;;) {
      this.#space();
      if (this.#at >= this.text.length) {
        return graph;
      }
      const kind = this.#match(/(input|constant|node|output)\b/y, "input, constant, node or output")[1];
      if (kind === "input") {
        graph.inputs.push(this.#typed());
      } else if (kind === "constant") {
        this.#constant();
      } else if (kind === "node") {
        graph.nodes.push(this.#node());
      } else {
        graph.outputs.push(this.#value(this.#string()));
      }
    }
  }

  #constant(): void {
    const value = this.#typed();
    this.#word("=");
    if (this.#try(/source\b/y)) {
      value.source = this.#string();
    }
    value.constant = { dtype: value.dtype!, dims: value.dims as number[], bytes: this.#bytes() };
  }

  #node(): Node {
    const name = this.#string();
    const [, domain, op, opset] = this.#match(/(?:([\w.]+):)?(\w+)@(\d+)/y, "operator@opset");
    this.#word("(");
    const inputs = this.#list(")", () => (this.#try(/_/y) ? undefined : this.#value(this.#string())));
    this.#word("->");
    this.#word("(");
    const outputs = this.#list(")", () => (this.#try(/_/y) ? undefined : this.#typed()));
    const attributes = new Map<string, Attribute>();
    if (this.#try(/\{/y)) {
      this.#list("}", () => {
        const key = this.#string();
        this.#word(":");
        attributes.set(key, this.#attribute());
      });
    }
    return { name, op: op!, domain: domain ?? "", opset: Number(opset), inputs, outputs, attributes };
  }

  #attribute(): Attribute {
    const kind = this.#match(/(fs|is|ss|ts|f|i|s|b|t|g)\b/y, "an attribute kind")[1]!;
    const one = (): Attribute => {
      switch (kind[0]) {
        case "f":
          return this.#number();
        case "i":
          return BigInt(this.#match(/-?\d+/y, "an integer")[0]);
        case "s":
          return this.#string();
        case "b":
          return this.#bytes();
        case "t":
          return this.#stored();
        default:
          return new Parser(this.#string()).graph();
      }
    };
    if (kind.length === 1) {
      return one();
    }
    this.#word("[");
    return this.#list("]", one) as number[];
  }

  #stored(): Stored {
    const [, dtype, dims] = this.#match(/(\w+)\[([\d,]*)\]/y, "a type");
    return { dtype: dtype as DtypeName, dims: dims === "" ? [] : dims!.split(",").map(Number), bytes: this.#bytes() };
  }

  #typed(): Value {
    const value = this.#value(this.#string());
    if (this.#try(/:/y)) {
      value.dtype = this.#match(/\w+/y, "an element type")[0] as DtypeName;
      if (this.#try(/\[/y)) {
        value.dims = this.#list("]", () => (this.#peek() === '"' ? this.#string() : Number(this.#match(/\d+/y, "a dim")[0])));
      }
    }
    if (this.#try(/layout/y)) {
      this.#word("[");
      value.layout = this.#list("]", () => Number(this.#match(/\d+/y, "an axis")[0]));
    }
    return value;
  }

  #value(name: string): Value {
    const known = this.#values.get(name) ?? { name };
    this.#values.set(name, known);
    return known;
  }

  #list<T>(close: string, item: () => T): T[] {
    const items: T[] = [];
    this.#space();
    while (this.text[this.#at] !== close) {
      items.push(item());
      this.#space();
      if (!this.#try(/,/y) && this.#peek() !== close) {
        this.#fail(`"," or "${close}"`);
      }
      this.#space();
    }
    this.#at++;
    return items;
  }

  #number(): number {
    return Number(this.#match(/-?(?:Infinity|NaN|[\d.]+(?:e[+-]?\d+)?)/y, "a number")[0]);
  }

  #bytes(): Uint8Array {
    return new Uint8Array(Buffer.from(this.#match(/#([0-9a-f]*)/y, "#bytes (print the graph with `whole`)")[1]!, "hex"));
  }

  #string(): string {
    return JSON.parse(this.#match(/"(?:[^"\\]|\\.)*"/y, "a string in quotes")[0]) as string;
  }

  #word(word: string): void {
    this.#space();
    if (!this.text.startsWith(word, this.#at)) {
      this.#fail(`"${word}"`);
    }
    this.#at += word.length;
  }

  #peek(): string | undefined {
    this.#space();
    return this.text[this.#at];
  }

  #space(): void {
    while (this.#at < this.text.length && /\s/.test(this.text[this.#at]!)) {
      this.#at++;
    }
  }

  #try(pattern: RegExp): RegExpExecArray | undefined {
    this.#space();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text);
    if (found) {
      this.#at = pattern.lastIndex;
    }
    return found ?? undefined;
  }

  #match(pattern: RegExp, what: string): RegExpExecArray {
    return this.#try(pattern) ?? this.#fail(what);
  }

  #fail(expected: string): never {
    const before = this.text.slice(0, this.#at).split("\n");
    throw new AclError(100012, `graph text, line ${before.length}, column ${before[before.length - 1]!.length + 1}: expected ${expected}`);
  }
}
