/** ONNX file -> graph. Checks everything that a file can get wrong; what it returns satisfies verifyGraph. */
import { AclError } from "../../errors/acl-error";
import { type DtypeName, dtypeName } from "../../graph/dtype";
import type { Attribute, Dim, Graph, Node, Value } from "../../graph/ir";
import { importAttribute } from "./attribute";
import { type Expanded, Functions } from "./functions";
import type { Stored } from "../../graph/tensor";
import type { GraphProto, ModelProto, NodeProto, ValueInfoProto } from "./generated/messages";
import { readModelProto } from "./generated/read";
import { sortNodes } from "./sort";
import { importSparse, sparseName } from "./sparse";
import { importTensor } from "./tensor";
import { readMessage } from "./wire";

export interface ImportedModel {
  readonly graph: Graph;
  readonly name: string;
  readonly producer: string;
  readonly irVersion: number;
  readonly opsets: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * @throws AclError 100006 when the bytes are no protobuf message, 100012 when a tensor is damaged, 100013 when the graph is not well formed,
 *   100003 when external data is refused, 100026 for element types without a device form
 */
export function importOnnx(bytes: Uint8Array, folder?: string): ImportedModel {
  const model = parse(bytes);
  if (!model.graph) {
    throw new AclError(100013, "the file holds no graph: it is not an ONNX model, or it is cut off");
  }
  const opsets: Record<string, number> = {};
  for (const { domain, version } of model.opsetImport) {
    opsets[domain === "ai.onnx" ? "" : domain] = Number(version);
  }
  if (model.opsetImport.length === 0) {
    opsets[""] = 1; // IR version 1 and 2 had no imports
  }
  return {
    graph: new GraphImporter(model.graph, opsets, folder, new Functions(model.functions)).run(),
    name: model.graph.name,
    producer: [model.producerName, model.producerVersion].filter((part) => part !== "").join(" "),
    irVersion: Number(model.irVersion),
    opsets,
    metadata: Object.fromEntries(model.metadataProps.map(({ key, value }) => [key, value])),
  };
}

/** How files begin that are often taken for a model (from which byte on), and what to do with them. */
const OTHER_FORMATS: readonly (readonly [at: number, start: string, text: string])[] = [
  [0, "\x1f\x8b", "it is gzip data; unpack it first"],
  [0, "PK\x03\x04", "it is a zip archive or a PyTorch file; unpack it, or export the model to ONNX"],
  [0, "version https://git-lfs", "it is a pointer of Git LFS; fetch the file itself with `git lfs pull`"],
  [0, "<", "it is a page or XML, not what was to be downloaded"],
  [4, "ORTM", "it is in onnxruntime's own format; take the .onnx file that it was made from"],
  [4, "TFL3", "it is a TensorFlow Lite model; convert it to ONNX"],
];

/** What `bytes`, which are no ONNX model, look like; else `why` they are none. */
function otherFormat(bytes: Uint8Array, why: string): string {
  const head = String.fromCharCode(...bytes.subarray(0, 64)).trimStart();
  return OTHER_FORMATS.find(([at, start]) => head.startsWith(start, at))?.[2] ?? `${why}; it may be cut off or of another format`;
}

function parse(bytes: Uint8Array): ModelProto {
  if (bytes.byteLength === 0) {
    throw new AclError(100006, "the model is empty (0 bytes)");
  }
  try {
    return readMessage(bytes, readModelProto);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new AclError(100006, `the model (${bytes.byteLength} bytes) is not a valid ONNX file: ${otherFormat(bytes, why)}`, { cause });
  }
}

class GraphImporter {
  readonly #values = new Map<string, Value>();
  readonly #produced = new Set<Value>();
  readonly #names: Map<string, number>;
  /** Names that this graph defines itself; in a graph inside a node all others are those of the graph around it. */
  readonly #own: ReadonlySet<string>;
  readonly #expanded: readonly Expanded[];
  /** Values of graphs around this one that it reads. */
  readonly captured = new Set<Value>();

  /** @param inside the graph around this one and what its values are prefixed with: names are unique in the whole model */
  constructor(
    private readonly proto: GraphProto,
    opsets: Readonly<Record<string, number>>,
    private readonly folder: string | undefined,
    private readonly functions: Functions,
    private readonly inside?: { readonly graph: GraphImporter; readonly prefix: string },
  ) {
    this.#names = inside ? inside.graph.#names : new Map();
    this.#expanded = functions.expand(proto.node, opsets);
    this.#own = new Set([
      ...proto.initializer.map(({ name }) => name),
      ...proto.sparseInitializer.map(sparseName),
      ...proto.input.map(({ name }) => name),
      ...this.#expanded.flatMap(({ node }) => node.output),
    ]);
  }

  run(): Graph {
    for (const tensor of this.proto.initializer) {
      this.#initializer(tensor.name, (what) => importTensor(tensor, this.folder, what));
    }
    for (const tensor of this.proto.sparseInitializer) {
      this.#initializer(sparseName(tensor), (what) => importSparse(tensor, this.folder, what));
    }
    const inputs = this.proto.input.flatMap((info) => this.#input(info));
    const nodes = this.#expanded.map(({ node, opsets }, index) => this.#node(node, index, opsets));
    const outputs = this.proto.output.map((info) => this.#output(info));
    this.#checkReads(nodes, outputs);
    return { name: this.proto.name, inputs, outputs, nodes: sortNodes(nodes, [...inputs]) };
  }

  #initializer(name: string, read: (what: string) => Stored): void {
    const what = `initializer "${name}"`;
    const constant = read(what);
    const value = this.#define(name, what);
    Object.assign(value, { constant, source: value.name, dtype: constant.dtype, dims: constant.dims } satisfies Partial<Value>);
  }

  /** Graph inputs that have an initializer are constants (before IR version 4 every initializer had to be listed as an input). */
  #input(info: ValueInfoProto): Value[] {
    if (this.#values.get(info.name)?.constant) {
      return [];
    }
    const value = this.#define(info.name, `input "${info.name}"`);
    Object.assign(value, readType(info, `input "${info.name}"`));
    return [value];
  }

  #output(info: ValueInfoProto): Value {
    const value = this.#outside(info.name) ?? this.#values.get(info.name);
    if (value && this.captured.has(value)) {
      return value;
    }
    if (!value || (!value.constant && !this.#produced.has(value))) {
      throw new AclError(100013, `graph output "${info.name}" is produced by no node, input or initializer`);
    }
    const { dtype, dims } = readType(info, `output "${info.name}"`);
    value.dtype ??= dtype;
    value.dims ??= dims; // declared dims give the names of open dims; inference checks them
    return value;
  }

  #node(proto: NodeProto, index: number, opsets: Readonly<Record<string, number>>): Node {
    const domain = proto.domain === "ai.onnx" ? "" : proto.domain;
    const name = this.#unique(proto.name === "" ? `${proto.opType}_${index}` : proto.name);
    const what = `node "${name}" (${proto.opType})`;
    const opset = opsets[domain];
    if (opset === undefined) {
      throw new AclError(100013, `${what} is of domain "${domain}", for which the model imports no operator set`);
    }
    const attributes = new Map<string, Attribute>();
    const captured = new Set<Value>();
    const importGraph = (graph: GraphProto, attribute: string): Graph => {
      const importer = new GraphImporter(graph, opsets, this.folder, this.functions, { graph: this, prefix: `${name}.${attribute}/` });
      const result = importer.run();
      for (const value of importer.captured) {
        captured.add(value);
      }
      return result;
    };
    for (const attribute of proto.attribute) {
      if (attributes.has(attribute.name)) {
        throw new AclError(100013, `${what} has attribute "${attribute.name}" twice`);
      }
      const value = importAttribute(attribute, this.folder, what, importGraph);
      if (value !== undefined) {
        attributes.set(attribute.name, value);
      }
    }
    return {
      name,
      op: proto.opType,
      domain,
      opset,
      inputs: [...proto.input.map((input) => (input === "" ? undefined : this.#value(input))), ...captured],
      outputs: proto.output.map((output) => (output === "" ? undefined : this.#define(output, what))),
      attributes,
    };
  }

  /** The value of a graph around this one, if this one does not define the name. */
  #outside(name: string): Value | undefined {
    if (!this.inside || this.#own.has(name)) {
      return undefined;
    }
    const value = this.inside.graph.#value(name);
    if (!value.constant) {
      this.captured.add(value);
    }
    return value;
  }

  #value(name: string): Value {
    const outside = this.#outside(name);
    if (outside) {
      return outside;
    }
    const known = this.#values.get(name) ?? { name: `${this.inside?.prefix ?? ""}${name}` };
    this.#values.set(name, known);
    return known;
  }

  #define(name: string, by: string): Value {
    const value = this.#value(name);
    // A name of every JavaScript object: feeds and results are objects by name.
    if (name === "" || name === "__proto__" || this.#produced.has(value)) {
      throw new AclError(
        100013,
        name === ""
          ? `${by} has no name`
          : name === "__proto__"
            ? `${by} may not have the name "__proto__"; rename it`
            : `"${name}" is defined twice, the second time by ${by}; every value has one source`,
      );
    }
    this.#produced.add(value);
    return value;
  }

  #unique(name: string): string {
    const times = this.#names.get(name) ?? 0;
    this.#names.set(name, times + 1);
    return times === 0 ? name : this.#unique(`${name}#${times + 1}`);
  }

  #checkReads(nodes: readonly Node[], outputs: readonly Value[]): void {
    if (outputs.length === 0) {
      throw new AclError(100013, `graph "${this.proto.name}" has no outputs`);
    }
    const missing = nodes.flatMap((node) =>
      node.inputs
        .filter((input) => input && !input.constant && !this.captured.has(input) && !this.#produced.has(input))
        .map((input) => `"${input!.name}" (read by node "${node.name}")`),
    );
    if (missing.length > 0) {
      throw new AclError(100013, `the graph reads values that nothing produces: ${missing.join(", ")}`);
    }
  }
}

function readType(info: ValueInfoProto, what: string): { dtype: DtypeName | undefined; dims: Dim[] | undefined } {
  const type = info.type?.value;
  if (type === undefined || type.case === undefined) {
    return { dtype: undefined, dims: undefined };
  }
  if (type.case !== "tensorType") {
    throw new AclError(100026, `${what} is no tensor (${type.case.replace("Type", "")}); sequences, maps and optionals are not supported`);
  }
  const dtype = dtypeName(type.value.elemType);
  if (dtype === undefined) {
    throw new AclError(100013, `${what} has element type ${type.value.elemType}, which ONNX does not define`);
  }
  const dims = type.value.shape?.dim.map((dim, axis): Dim => {
    if (dim.value.case === "dimValue") {
      const size = Number(dim.value.value);
      if (!Number.isSafeInteger(size) || size > 2 ** 32) {
        throw new AclError(100013, `${what} has a dim of ${dim.value.value}`);
      }
      return size < 0 ? `${info.name}.${axis}` : size; // some exporters write -1 for an open dim
    }
    return dim.value.case === "dimParam" && dim.value.value !== "" ? dim.value.value : `${info.name}.${axis}`;
  });
  return { dtype, dims };
}
