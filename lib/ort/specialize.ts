/** A model with the values of some inputs written into it, as initializers: what the compiler has to know to know the shapes. */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { DTYPES } from "../graph/dtype";
import type { Tensor } from "../runtime/tensor";
import { fromRuntime } from "./storage";

/** Fields of onnx.ModelProto, onnx.GraphProto and onnx.TensorProto. */
const MODEL_GRAPH = 7;
const GRAPH_INITIALIZER = 5;
const TENSOR_DIMS = 1;
const TENSOR_TYPE = 2;
const TENSOR_NAME = 8;
const TENSOR_RAW_DATA = 9;

/** A TensorProto. */
export function initializer(name: string, { dtype, dims, data }: Tensor): Uint8Array {
  const writer = new BinaryWriter();
  for (const dim of dims) {
    writer.tag(TENSOR_DIMS, WireType.Varint).int64(dim);
  }
  writer.tag(TENSOR_TYPE, WireType.Varint).int32(DTYPES[dtype].code);
  writer.tag(TENSOR_NAME, WireType.LengthDelimited).string(name);
  // A file holds 2- and 4-bit types packed, as tensors of npurt/ort do.
  const stored = fromRuntime(dtype, data);
  writer.tag(TENSOR_RAW_DATA, WireType.LengthDelimited).bytes(new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength));
  return writer.finish();
}

/** `model` (bytes that importOnnx accepts) with `values` in place of the inputs of these names. */
export function withValues(model: Uint8Array, values: Readonly<Record<string, Tensor>>): Uint8Array {
  const reader = new BinaryReader(model);
  const parts: Uint8Array[] = [];
  let graph: Uint8Array | undefined;
  while (reader.pos < reader.len) {
    const start = reader.pos;
    const [field, wire] = reader.tag();
    if (field === MODEL_GRAPH) {
      graph = reader.bytes();
    } else {
      reader.skip(wire, field);
      parts.push(model.subarray(start, reader.pos));
    }
  }
  const added = new BinaryWriter();
  for (const [name, value] of Object.entries(values)) {
    added.tag(GRAPH_INITIALIZER, WireType.LengthDelimited).bytes(initializer(name, value));
  }
  const inner = Buffer.concat([graph ?? new Uint8Array(0), added.finish()]);
  const head = new BinaryWriter().tag(MODEL_GRAPH, WireType.LengthDelimited).uint32(inner.length).finish();
  return Buffer.concat([...parts, head, inner]);
}
