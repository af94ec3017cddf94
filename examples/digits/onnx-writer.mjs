/** Writes small ONNX models with the protobuf wire writer: just the fields that a model of dense tensors needs (onnx.proto, IR 8). */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

const ELEMENT_TYPE = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, bool: 9, float64: 11 };
const ATTRIBUTE_TYPE = { float: 1, int: 2, string: 3, floats: 6, ints: 7 };

/** A nested message: `fill` writes its fields. */
function message(writer, field, fill) {
  writer.tag(field, WireType.LengthDelimited).fork();
  fill(writer);
  writer.join();
}

const text = (writer, field, value) => writer.tag(field, WireType.LengthDelimited).string(value);
const integer = (writer, field, value) => writer.tag(field, WireType.Varint).int64(value);
const bytes = (writer, field, value) => writer.tag(field, WireType.LengthDelimited).bytes(value);

function writeAttribute(writer, name, value) {
  text(writer, 1, name);
  if (typeof value === "string") {
    bytes(writer, 4, new TextEncoder().encode(value));
    integer(writer, 20, ATTRIBUTE_TYPE.string);
  } else if (Array.isArray(value)) {
    for (const item of value) integer(writer, 8, item);
    integer(writer, 20, ATTRIBUTE_TYPE.ints);
  } else if (typeof value === "object") {
    writer.tag(2, WireType.Bit32).float(value.float);
    integer(writer, 20, ATTRIBUTE_TYPE.float);
  } else {
    integer(writer, 3, value);
    integer(writer, 20, ATTRIBUTE_TYPE.int);
  }
}

function writeNode(writer, node, index) {
  for (const name of node.inputs) text(writer, 1, name);
  for (const name of node.outputs) text(writer, 2, name);
  text(writer, 3, node.name ?? `${node.op.toLowerCase()}_${index}`);
  text(writer, 4, node.op);
  for (const [name, value] of Object.entries(node.attributes ?? {})) {
    message(writer, 5, (w) => writeAttribute(w, name, value));
  }
}

function writeTensor(writer, { name, dtype, dims, data }) {
  for (const dim of dims) integer(writer, 1, dim);
  integer(writer, 2, ELEMENT_TYPE[dtype]);
  text(writer, 8, name);
  bytes(writer, 9, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
}

function writeValue(writer, { name, dtype, dims }) {
  text(writer, 1, name);
  message(writer, 2, (type) =>
    message(type, 1, (tensor) => {
      integer(tensor, 1, ELEMENT_TYPE[dtype]);
      message(tensor, 2, (shape) => {
        for (const dim of dims) {
          message(shape, 1, (d) => (typeof dim === "string" ? text(d, 2, dim) : integer(d, 1, dim)));
        }
      });
    }),
  );
}

/**
 * The bytes of a model. `nodes`: {op, inputs, outputs, attributes?}; an attribute is an integer, an array of integers, a string, or {float}.
 * `inputs`, `outputs`: {name, dtype, dims} where a string dim is symbolic. `initializers`: {name, dtype, dims, data}.
 */
export function encodeModel({ name, opset = 13, producer = "npurt", nodes, inputs, outputs, initializers = [] }) {
  const writer = new BinaryWriter();
  integer(writer, 1, 8);
  text(writer, 2, producer);
  message(writer, 7, (graph) => {
    for (const [index, node] of nodes.entries()) message(graph, 1, (w) => writeNode(w, node, index));
    text(graph, 2, name);
    for (const tensor of initializers) message(graph, 5, (w) => writeTensor(w, tensor));
    for (const value of inputs) message(graph, 11, (w) => writeValue(w, value));
    for (const value of outputs) message(graph, 12, (w) => writeValue(w, value));
  });
  message(writer, 8, (w) => integer(text(w, 1, ""), 2, opset));
  return writer.finish();
}
