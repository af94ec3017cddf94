/** How elements lie in the arrays of npurt/ort, and the way from there to the arrays of the runtime and back. */
import { invalidParam, notSupported } from "../errors/make";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { make } from "../runtime/internals";
import { arrayOf, countOf, lanesOf, type Tensor, type TensorData } from "../runtime/tensor";

/** What no device holds: only the host stages of a model (strings.ts) take and give it. */
export interface StringTensor {
  readonly dtype: "string";
  readonly dims: readonly number[];
  readonly data: readonly string[];
}
export const isStrings = (value: unknown): value is StringTensor => (value as StringTensor | null | undefined)?.dtype === "string";

/** Where the engine has it, float16 is held in one; both are the same bytes. */
export const Float16 = (globalThis as { Float16Array?: new (buffer: ArrayBufferLike, byteOffset: number, length: number) => TensorData })
  .Float16Array;

/** Elements per byte; 1 for types of a byte or more. */
function perByte(dtype: DtypeName): number {
  const { bits } = DTYPES[dtype];
  return bits > 0 && bits < 8 ? 8 / bits : 1;
}

export const isPacked = (dtype: DtypeName): boolean => perByte(dtype) > 1;

/** Array elements that hold `size` tensor elements. */
export function lengthFor(dtype: DtypeName, size: number): number {
  return Math.ceil(size / perByte(dtype)) * lanesOf(dtype);
}

/** Names of the arrays that may hold `dtype`, the one that we make first. */
export function arraysFor(dtype: DtypeName): readonly string[] {
  switch (dtype) {
    case "float16":
      return Float16 === undefined ? ["Uint16Array"] : ["Float16Array", "Uint16Array"];
    case "int4":
    case "int2":
      return ["Int8Array", "Uint8Array", "Buffer"];
    default:
      return arrayOf(dtype) === Uint8Array ? ["Uint8Array", "Buffer"] : [arrayOf(dtype).name];
  }
}

const SIGNED = new Set<DtypeName>(["int4", "int2"]);

/** One element per byte, as the runtime has them. */
function unpack(dtype: DtypeName, packed: TensorData, size: number): TensorData {
  const per = perByte(dtype);
  const { bits } = DTYPES[dtype];
  const elements = new (arrayOf(dtype))(size) as Uint8Array | Int8Array;
  const unused = 32 - bits;
  for (let i = 0; i < size; i++) {
    const raw = Number(packed[Math.floor(i / per)]) >> ((i % per) * bits);
    // The bits of one element, moved to the top and back: with their sign if they have one.
    elements[i] = SIGNED.has(dtype) ? (raw << unused) >> unused : (raw << unused) >>> unused;
  }
  return elements;
}

function pack(dtype: DtypeName, elements: TensorData): Uint8Array | Int8Array {
  const per = perByte(dtype);
  const { bits } = DTYPES[dtype];
  const packed = new Uint8Array(lengthFor(dtype, elements.length));
  for (let i = 0; i < elements.length; i++) {
    packed[Math.floor(i / per)]! |= (Number(elements[i]) & (2 ** bits - 1)) << ((i % per) * bits);
  }
  return SIGNED.has(dtype) ? new Int8Array(packed.buffer) : packed;
}

/** The runtime's array for `data`: the same memory wherever the layouts agree. */
export function toRuntime(dtype: DtypeName, data: TensorData | readonly string[], size: number, what: string): TensorData {
  if (dtype === "string" || !ArrayBuffer.isView(data)) {
    throw notSupported(`${what} is a string tensor: npurt has no strings on the device; convert them to numbers before the model`);
  }
  if (isPacked(dtype)) {
    return unpack(dtype, data, size);
  }
  if (data.constructor.name === "Float16Array") {
    return new Uint16Array(data.buffer, data.byteOffset, data.length);
  }
  return data;
}

/** Bytes as the array of their type, at an address of their own. */
export function runtimeTensor(dtype: DtypeName, dims: readonly number[], bytes: Uint8Array): Tensor {
  const data = new (arrayOf(dtype))(countOf(dims) * lanesOf(dtype));
  new Uint8Array(data.buffer).set(bytes);
  return make.tensor(dtype, dims, data);
}

/** The array that users of npurt/ort see for a result of the runtime. */
export function fromRuntime(dtype: DtypeName, data: TensorData): TensorData {
  if (isPacked(dtype)) {
    return pack(dtype, data);
  }
  return dtype === "float16" && Float16 !== undefined ? new Float16(data.buffer, data.byteOffset, data.length) : data;
}

/** The dtype that a bare array stands for. */
export function dtypeOfArray(data: object): DtypeName {
  const name = data.constructor?.name;
  const found = name === "Buffer" ? "uint8" : BARE[name ?? ""];
  if (found === undefined) {
    throw invalidParam(`Tensor: an array of ${name ?? "no class"} has no type of its own; pass the type first: new Tensor("float32", data, dims)`);
  }
  return found;
}

const BARE: Readonly<Record<string, DtypeName>> = {
  Float32Array: "float32",
  Float64Array: "float64",
  Int8Array: "int8",
  Uint8Array: "uint8",
  Int16Array: "int16",
  Uint16Array: "uint16",
  Int32Array: "int32",
  Uint32Array: "uint32",
  BigInt64Array: "int64",
  BigUint64Array: "uint64",
  Float16Array: "float16",
};
