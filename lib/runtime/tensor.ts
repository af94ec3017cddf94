/** A tensor in host memory: what a run takes and gives. */
import { invalidParam } from "../errors/make";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { make } from "./internals";

/** Elements in row-major order. float16 and bfloat16 are their bits; bool is 0 or 1; 2- and 4-bit types are one byte per element. */
export type TensorData =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

export interface TensorDataConstructor {
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
  new (length: number): TensorData;
  new (source: TensorData): TensorData;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): TensorData;
}

const BY_DTYPE: Partial<Record<DtypeName, unknown>> = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  int16: Int16Array,
  int32: Int32Array,
  int4: Int8Array,
  int2: Int8Array,
  int64: BigInt64Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  complex64: Float32Array,
  complex128: Float64Array,
};

/** The array that holds elements of `dtype`. */
export function arrayOf(dtype: DtypeName): TensorDataConstructor {
  return (BY_DTYPE[dtype] ?? Uint8Array) as TensorDataConstructor;
}

/** Array elements of `dtype` per tensor element: 2 for complex types. */
export function lanesOf(dtype: DtypeName): number {
  return dtype === "complex64" || dtype === "complex128" ? 2 : 1;
}

const BY_ARRAY: Readonly<Record<string, DtypeName>> = {
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

/** Elements in `dims`. */
export function countOf(dims: readonly number[]): number {
  let count = 1;
  for (const dim of dims) {
    count *= dim;
  }
  return count;
}

/** Data of a tensor that the runtime itself makes: no need to check it. */
let trusted: TensorData | undefined;

function checkTensor(dtype: DtypeName, dims: readonly number[], data: TensorData): void {
  const entry = DTYPES[dtype];
  if (entry === undefined || entry.bytes === 0) {
    throw invalidParam(`Tensor: dtype "${String(dtype)}" cannot be held on a device; use one of ${Object.keys(DTYPES).join(", ")} except string`);
  }
  const wanted = countOf(dims) * lanesOf(dtype);
  const name = data?.constructor?.name;
  const fits =
    name === arrayOf(dtype).name || (name === "Float16Array" && dtype === "float16") || (name === "Buffer" && arrayOf(dtype) === Uint8Array);
  if (!fits) {
    throw invalidParam(`Tensor: ${dtype} is held in a ${arrayOf(dtype).name}, not in ${name ?? String(data)}`);
  }
  if (!dims.every((dim) => Number.isInteger(dim) && dim >= 0) || data.length !== wanted) {
    throw invalidParam(`Tensor: dims [${dims.join(", ")}] of ${dtype} need ${wanted} elements and data has ${data.length}`);
  }
}

/**
 * Data with its element type and dims. `data` is used as it is, not copied; a tensor that a run returns owns its data.
 * @example new Tensor("float32", [1, 3], Float32Array.of(1, 2, 3))
 */
export class Tensor {
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  readonly data: TensorData;

  static {
    make.tensor = (dtype, dims, data) => {
      trusted = data;
      return new Tensor(dtype, dims, data);
    };
  }

  /** @throws AclError 107000 if `data` is not the array of `dtype`, or does not have as many elements as `dims` */
  constructor(dtype: DtypeName, dims: readonly number[], data: TensorData) {
    if (data !== trusted) {
      checkTensor(dtype, dims, data);
    }
    trusted = undefined;
    this.dtype = dtype;
    this.dims = dims;
    this.data = data;
  }

  /** A tensor of zeros. */
  static zeros(dtype: DtypeName, dims: readonly number[]): Tensor {
    return new Tensor(dtype, dims, new (arrayOf(dtype))(countOf(dims) * lanesOf(dtype)));
  }

  /** A tensor whose dtype follows from its array: Float32Array is float32, BigInt64Array int64, Uint8Array uint8. */
  static from(data: TensorData, dims: readonly number[] = [data.length]): Tensor {
    const dtype = BY_ARRAY[data?.constructor?.name];
    if (dtype === undefined) {
      throw invalidParam(`Tensor.from: pass a typed array, not ${data?.constructor?.name ?? String(data)}`);
    }
    return new Tensor(dtype, dims, data);
  }
}
