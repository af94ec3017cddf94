/** A tensor in host memory: what a run takes and gives. */
import { AclError } from "../errors/acl-error";
import { invalidParam, kindOf, nearestName } from "../errors/make";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { make } from "./internals";

/** Elements in row-major order. float16 and bfloat16 are their bits (a Float16Array is taken as its bits); bool is 0 or 1; 2- and 4-bit types are one byte per element. */
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

const typeTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)?.get as () => string | undefined;

/** As every method of typed arrays, it throws for one whose buffer is gone. */
const keysOf = Uint8Array.prototype.keys as (this: unknown) => unknown;

/** Name of the typed array that `data` is, of whatever realm or subclass; undefined if it is none. */
export function arrayNameOf(data: unknown): string | undefined {
  return typeTag.call(data);
}

/** What is known of a dtype; undefined if `dtype` names none. */
export function dtypeEntry(dtype: unknown): (typeof DTYPES)[DtypeName] | undefined {
  return typeof dtype === "string" && Object.hasOwn(DTYPES, dtype) ? DTYPES[dtype as DtypeName] : undefined;
}

/** Whether the buffer of `data` was transferred elsewhere, or shrunk to less than the view: then its length, 0, says nothing. */
export function isDetached(data: ArrayBufferView): boolean {
  try {
    if (arrayNameOf(data) === undefined) {
      return (data as DataView).byteLength < 0; // throws for a view of nothing
    }
    keysOf.call(data);
    return false;
  } catch {
    return true;
  }
}

function checkDims(where: string, dtype: DtypeName, dims: readonly number[]): void {
  const entry = dtypeEntry(dtype);
  if (entry === undefined || entry.bytes === 0) {
    const held = Object.keys(DTYPES).filter((name) => name !== "string");
    const nearest = typeof dtype === "string" && entry === undefined ? `did you mean "${nearestName(dtype, held)}"? Valid` : "use one of";
    throw invalidParam(`${where}: dtype ${kindOf(dtype)} cannot be held on a device; ${nearest}: ${held.join(", ")}`);
  }
  if (!Array.isArray(dims) || !dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
    throw invalidParam(
      `${where}: dims are ${Array.isArray(dims) ? `[${dims.map(kindOf).join(", ")}]` : kindOf(dims)}; pass an array of whole numbers from 0 up`,
    );
  }
}

/** Data of a tensor that the runtime itself makes: no need to check it. */
let trusted: TensorData | undefined;

function checkTensor(dtype: DtypeName, dims: readonly number[], data: TensorData): void {
  checkDims("Tensor", dtype, dims);
  const wanted = countOf(dims) * lanesOf(dtype);
  const name = arrayNameOf(data);
  if (name !== arrayOf(dtype).name && !(name === "Float16Array" && dtype === "float16")) {
    throw invalidParam(`Tensor: ${dtype} is held in a ${arrayOf(dtype).name}, not in ${name ?? kindOf(data)}`);
  }
  if (data.length !== wanted) {
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
    if (trusted !== undefined && data === trusted) {
      this.dims = dims;
      this.data = data;
    } else {
      checkTensor(dtype, dims, data);
      // Copied and frozen: what was checked stays so.
      this.dims = Object.freeze([...dims]);
      this.data = arrayNameOf(data) === "Float16Array" ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data;
    }
    trusted = undefined;
    this.dtype = dtype;
  }

  /** A tensor of zeros. */
  static zeros(dtype: DtypeName, dims: readonly number[]): Tensor {
    checkDims("Tensor.zeros", dtype, dims);
    const count = countOf(dims) * lanesOf(dtype);
    let data: TensorData;
    try {
      data = new (arrayOf(dtype))(count);
    } catch (error) {
      throw new AclError(207001, `Tensor.zeros: ${dtype} [${dims.join(", ")}] has ${count} elements, more than an array can have here`, {
        cause: error,
      });
    }
    return new Tensor(dtype, dims, data);
  }

  /** A tensor whose dtype follows from its array: Float32Array is float32, BigInt64Array int64, Uint8Array uint8. */
  static from(data: TensorData, dims?: readonly number[]): Tensor {
    const dtype = BY_ARRAY[arrayNameOf(data) ?? ""];
    if (dtype === undefined) {
      throw invalidParam(`Tensor.from: pass a typed array of numbers, not ${kindOf(data)}`);
    }
    return new Tensor(dtype, dims ?? [data.length], data);
  }
}
