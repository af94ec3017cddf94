/** A model file in pieces that can be put together anew: nodes and initializers as they are written, beside what has to be known of them. */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { readSparseTensorProto } from "../import/onnx/generated/read";
import { importSparse, sparseName } from "../import/onnx/sparse";
import { readMessage } from "../import/onnx/wire";
import { initializer } from "./specialize";
import { runtimeTensor } from "./storage";
import { DTYPES, type DtypeName, dtypeName } from "../graph/dtype";

export interface RawNode {
  readonly bytes: Uint8Array;
  readonly name: string;
  readonly op: string;
  readonly domain: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly numbers: ReadonlyMap<string, number>;
  readonly graphs: ReadonlyMap<string, RawGraph>;
}
export interface RawInfo {
  readonly name: string;
  readonly kind: "tensor" | "sequence" | "optional";
  readonly dtype: DtypeName;
  /** Of any rank: the file declares no shape. */
  readonly anyRank: boolean;
  readonly dims: readonly (number | string)[];
}
export interface RawGraph {
  readonly nodes: readonly RawNode[];
  /** TensorProto by name. */
  readonly initializers: ReadonlyMap<string, Uint8Array>;
  readonly inputs: readonly RawInfo[];
  readonly outputs: readonly RawInfo[];
}
export interface RawModel {
  readonly graph: RawGraph;
  /** All fields of the model but its graph: operator sets, functions, metadata. */
  readonly rest: readonly Uint8Array[];
  readonly opsets: ReadonlyMap<string, number>;
}

/** Every node of a graph and of those inside. */
export const allNodes = (graph: RawGraph): RawNode[] => graph.nodes.flatMap((node) => [node, ...[...node.graphs.values()].flatMap(allNodes)]);

/** Names that a node reads from around it, also in the graphs inside. */
export function readBy(node: RawNode): string[] {
  const inside = [...node.graphs.values()].flatMap((graph) => {
    const own = new Set([...graph.inputs.map(({ name }) => name), ...graph.initializers.keys(), ...graph.nodes.flatMap(({ outputs }) => outputs)]);
    return [...graph.nodes.flatMap(readBy), ...graph.outputs.map(({ name }) => name)].filter((name) => !own.has(name));
  });
  return [...node.inputs, ...inside].filter((name) => name !== "");
}

type Fields = Readonly<Record<number, (reader: BinaryReader, wire: WireType) => void>>;

function walk(bytes: Uint8Array, fields: Fields, other?: (field: Uint8Array) => void): void {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) {
    const start = reader.pos;
    const [field, wire] = reader.tag();
    const read = fields[field];
    if (read) {
      read(reader, wire);
    } else {
      reader.skip(wire, field);
      other?.(bytes.subarray(start, reader.pos));
    }
  }
}

export function parseModel(bytes: Uint8Array): RawModel {
  const rest: Uint8Array[] = [];
  const opsets = new Map<string, number>();
  let graph: RawGraph = { nodes: [], initializers: new Map(), inputs: [], outputs: [] };
  walk(bytes, { 7: (r) => (graph = parseGraph(r.bytes())) }, (field) => {
    rest.push(field);
    const reader = new BinaryReader(field);
    if (reader.tag()[0] === 8) {
      let [domain, version] = ["", 0];
      walk(reader.bytes(), { 1: (r) => (domain = r.string()), 2: (r) => (version = Number(r.int64())) });
      opsets.set(domain === "ai.onnx" ? "" : domain, version);
    }
  });
  return { graph, rest, opsets };
}

function parseGraph(bytes: Uint8Array): RawGraph {
  const nodes: RawNode[] = [];
  const initializers = new Map<string, Uint8Array>();
  const [inputs, outputs]: [RawInfo[], RawInfo[]] = [[], []];
  walk(bytes, {
    1: (r) => nodes.push(parseNode(r.bytes(), nodes.length)),
    5: (r) => {
      const tensor = r.bytes();
      walk(tensor, { 8: (t) => initializers.set(t.string(), tensor) });
    },
    15: (r) => {
      const [name, tensor] = denseOf(r.bytes());
      initializers.set(name, tensor);
    },
    11: (r) => inputs.push(parseInfo(r.bytes())),
    12: (r) => outputs.push(parseInfo(r.bytes())),
  });
  return { nodes, initializers, inputs: inputs.filter(({ name }) => !initializers.has(name)), outputs };
}

/** A sparse initializer as the TensorProto that it stands for. */
function denseOf(sparse: Uint8Array): [string, Uint8Array] {
  const proto = readMessage(sparse, readSparseTensorProto);
  const name = sparseName(proto);
  const { dtype, dims, bytes } = importSparse(proto, undefined, `initializer "${name}"`);
  return [name, initializer(name, runtimeTensor(dtype, dims, bytes))];
}

function parseNode(bytes: Uint8Array, index: number): RawNode {
  const [inputs, outputs]: [string[], string[]] = [[], []];
  const numbers = new Map<string, number>();
  const graphs = new Map<string, RawGraph>();
  let [name, op, domain] = ["", "", ""];
  walk(bytes, {
    1: (r) => inputs.push(r.string()),
    2: (r) => outputs.push(r.string()),
    3: (r) => (name = r.string()),
    4: (r) => (op = r.string()),
    5: (r) => {
      let key = "";
      let [number, graph]: [number | undefined, RawGraph | undefined] = [undefined, undefined];
      walk(r.bytes(), { 1: (a) => (key = a.string()), 3: (a) => (number = Number(a.int64())), 6: (a) => (graph = parseGraph(a.bytes())) });
      number === undefined || numbers.set(key, number);
      graph === undefined || graphs.set(key, graph);
    },
    7: (r) => (domain = r.string()),
  });
  return { bytes, name: name || `${op}_${index}`, op, domain: domain === "ai.onnx" ? "" : domain, inputs, outputs, numbers, graphs };
}

function parseInfo(bytes: Uint8Array): RawInfo {
  let name = "";
  let type: Omit<RawInfo, "name"> = { kind: "tensor", dtype: "float32", anyRank: true, dims: [] };
  walk(bytes, { 1: (r) => (name = r.string()), 2: (r) => (type = parseType(r.bytes())) });
  return { ...type, name, dims: type.dims.map((dim, axis) => (dim === "" ? `${name}.${axis}` : dim)) };
}

function parseType(bytes: Uint8Array): Omit<RawInfo, "name"> {
  let dtype: DtypeName = "float32";
  let kind: RawInfo["kind"] = "tensor";
  let anyRank = true;
  const dims: (number | string)[] = [];
  const element = (r: BinaryReader): void => walk(r.bytes(), { 1: (e) => (dtype = parseType(e.bytes()).dtype) });
  walk(bytes, {
    1: (r) =>
      walk(r.bytes(), {
        1: (t) => (dtype = dtypeName(t.int32()) ?? "float32"),
        2: (t) => {
          anyRank = false;
          walk(t.bytes(), {
            1: (s) => {
              let dim: number | string = "";
              walk(s.bytes(), { 1: (d) => (dim = Number(d.int64())), 2: (d) => (dim = d.string()) });
              dims.push(dim);
            },
          });
        },
      }),
    4: (r) => {
      kind = "sequence";
      element(r);
    },
    9: (r) => {
      kind = "optional";
      element(r);
    },
  });
  return { kind, dtype, anyRank, dims };
}

export interface Port {
  readonly name: string;
  readonly dtype: DtypeName;
  readonly dims: readonly (number | string)[];
}

function infoBytes({ name, dtype, dims }: Port): Uint8Array {
  const shape = new BinaryWriter();
  for (const dim of dims) {
    const one = new BinaryWriter();
    typeof dim === "number" ? one.tag(1, WireType.Varint).int64(dim) : one.tag(2, WireType.LengthDelimited).string(dim);
    shape.tag(1, WireType.LengthDelimited).bytes(one.finish());
  }
  const tensor = new BinaryWriter().tag(1, WireType.Varint).int32(DTYPES[dtype].code).tag(2, WireType.LengthDelimited).bytes(shape.finish()).finish();
  const type = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(tensor).finish();
  return new BinaryWriter().tag(1, WireType.LengthDelimited).string(name).tag(2, WireType.LengthDelimited).bytes(type).finish();
}

/** A model of some nodes of another; outputs are typed by inference. */
export function assemble(
  { rest }: RawModel,
  nodes: readonly RawNode[],
  initializers: readonly Uint8Array[],
  inputs: readonly Port[],
  outputs: readonly string[],
): Uint8Array {
  const graph = new BinaryWriter();
  const put = (field: number, bytes: Uint8Array): void => {
    graph.tag(field, WireType.LengthDelimited).bytes(bytes);
  };
  nodes.forEach(({ bytes }) => put(1, bytes));
  graph.tag(2, WireType.LengthDelimited).string("stage");
  initializers.forEach((bytes) => put(5, bytes));
  inputs.forEach((port) => put(11, infoBytes(port)));
  outputs.forEach((name) => put(12, new BinaryWriter().tag(1, WireType.LengthDelimited).string(name).finish()));
  return Buffer.concat([...rest, new BinaryWriter().tag(7, WireType.LengthDelimited).bytes(graph.finish()).finish()]);
}
