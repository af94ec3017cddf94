/** AttributeProto -> Attribute. */
import { AclError } from "../../errors/acl-error";
import type { Attribute, Graph } from "../../graph/ir";
import type { AttributeProto, GraphProto } from "./generated/messages";
import { importSparse } from "./sparse";
import { importTensor } from "./tensor";

/** ONNX's AttributeType numbers. */
enum Kind {
  UNDEFINED,
  FLOAT,
  INT,
  STRING,
  TENSOR,
  GRAPH,
  FLOATS,
  INTS,
  STRINGS,
  TENSORS,
  GRAPHS,
  SPARSE_TENSOR,
}

const utf8 = new TextDecoder();

/** undefined = a kind that only operators with subgraphs or types have; those operators are reported as a whole. */
export function importAttribute(
  proto: AttributeProto,
  folder: string | undefined,
  what: string,
  importGraph?: (graph: GraphProto, attribute: string) => Graph,
): Attribute | undefined {
  const name = `attribute "${proto.name}" of ${what}`;
  switch (proto.type === Kind.UNDEFINED ? guessKind(proto) : proto.type) {
    case Kind.FLOAT:
      return proto.f;
    case Kind.INT:
      return proto.i;
    case Kind.STRING:
      return utf8.decode(proto.s);
    case Kind.TENSOR:
      if (!proto.t) {
        throw new AclError(100013, `${name} says it is a tensor but has none; the file is damaged`);
      }
      return importTensor(proto.t, folder, name);
    case Kind.FLOATS:
      return proto.floats;
    case Kind.INTS:
      return proto.ints;
    case Kind.STRINGS:
      return proto.strings.map((each) => utf8.decode(each));
    case Kind.TENSORS:
      return proto.tensors.map((each) => importTensor(each, folder, name));
    case Kind.SPARSE_TENSOR:
      return importSparse(proto.sparseTensor, folder, name);
    case Kind.GRAPH:
      if (!proto.g) {
        throw new AclError(100013, `${name} says it is a graph but has none; the file is damaged`);
      }
      return importGraph?.(proto.g, proto.name);
    default:
      return undefined;
  }
}

/** Files of IR version 1 carry no type: the field that is set tells. */
function guessKind(proto: AttributeProto): Kind {
  const set = (key: keyof AttributeProto): boolean => Object.hasOwn(proto, key);
  if (proto.t) {
    return Kind.TENSOR;
  }
  if (proto.g) {
    return Kind.GRAPH;
  }
  if (proto.ints.length > 0) {
    return Kind.INTS;
  }
  if (proto.floats.length > 0) {
    return Kind.FLOATS;
  }
  if (proto.strings.length > 0) {
    return Kind.STRINGS;
  }
  return set("f") ? Kind.FLOAT : set("i") ? Kind.INT : set("s") ? Kind.STRING : Kind.UNDEFINED;
}
