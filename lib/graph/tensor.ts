/**
 * Tensor values on the host. `Stored` is what a file or the device holds: little-endian bytes, never copied if it can be a view.
 * `Tensor` is what references compute with: float64 for every type of at most 53 bits, BigInt arrays for 64-bit integers.
 */
import { AclError } from "../errors/acl-error";
import { DTYPES, type DtypeName } from "./dtype";
import { fromSmall, isSmallFloat, toSmall } from "./small-float";

export interface Stored {
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  readonly bytes: Uint8Array;
}

export type Elements = Float64Array | BigInt64Array | BigUint64Array;

export interface Tensor {
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  readonly data: Elements;
}

const FLOATS: ReadonlySet<DtypeName> = new Set(["float32", "float16", "float64", "bfloat16"]);
const SIGNED: ReadonlySet<DtypeName> = new Set(["int8", "int16", "int32", "int64"]);
/** Two's complement in less than a byte: no arithmetic of their own, only conversions. */
const SMALL_SIGNED: ReadonlySet<DtypeName> = new Set(["int4", "int2"]);
const UNSIGNED: ReadonlySet<DtypeName> = new Set(["uint8", "uint16", "uint32", "uint64"]);

export const isFloat = (dtype: DtypeName): boolean => FLOATS.has(dtype);
export const isSigned = (dtype: DtypeName): boolean => SIGNED.has(dtype) || SMALL_SIGNED.has(dtype);
export const isInteger = (dtype: DtypeName): boolean => SIGNED.has(dtype) || UNSIGNED.has(dtype);

export function sizeOf(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1);
}

/** Row-major strides in elements. */
export function rowMajor(dims: readonly number[]): number[] {
  const strides = new Array<number>(dims.length);
  let step = 1;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= dims[axis]!;
  }
  return strides;
}

export function elements(dtype: DtypeName, count: number): Elements {
  if (dtype === "int64") {
    return new BigInt64Array(count);
  }
  return dtype === "uint64" ? new BigUint64Array(count) : new Float64Array(count);
}

export function tensor(dtype: DtypeName, dims: readonly number[], values: ArrayLike<number | bigint>): Tensor {
  const data = elements(dtype, sizeOf(dims));
  for (let i = 0; i < data.length; i++) {
    data[i] = data instanceof Float64Array ? Number(values[i]) : BigInt(values[i]!);
  }
  return { dtype, dims, data };
}

/** The nearest value that `dtype` can hold: integers wrap (what is no whole number of 53 bits saturates, NaN gives 0), floats round to nearest even. */
export function roundTo(dtype: DtypeName, value: number): number {
  switch (dtype) {
    case "float64":
      return value;
    case "float32":
      return Math.fround(value);
    case "float16":
      return fromHalf(toHalf(value));
    case "bfloat16":
      return fromBrain(toBrain(value));
    case "bool":
      return value !== 0 ? 1 : 0;
    default:
      return isSmallFloat(dtype) ? fromSmall(dtype, toSmall(dtype, value)) : wrap(dtype, value);
  }
}

function wrap(dtype: DtypeName, value: number): number {
  const { bits } = DTYPES[dtype];
  if (Number.isSafeInteger(value) && bits === 32) {
    return isSigned(dtype) ? value | 0 : value >>> 0;
  }
  if (!(Math.abs(value) <= Number.MAX_SAFE_INTEGER)) {
    return Number(saturated(dtype, value));
  }
  const whole = BigInt(Math.trunc(value));
  return Number(isSigned(dtype) ? BigInt.asIntN(bits, whole) : BigInt.asUintN(bits, whole));
}

/** A float as the nearest integer towards zero that `dtype` has; NaN gives 0. */
export function saturated(dtype: DtypeName, value: number): bigint {
  const bits = BigInt(DTYPES[dtype].bits);
  const low = isSigned(dtype) ? -(1n << (bits - 1n)) : 0n;
  const high = low + (1n << bits) - 1n;
  return Number.isNaN(value) ? 0n : value >= Number(high) ? high : value <= Number(low) ? low : BigInt(Math.trunc(value));
}

const scratch = new DataView(new ArrayBuffer(8));

export function fromHalf(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) {
    return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  }
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function toHalf(value: number): number {
  if (Number.isNaN(value)) {
    return 0x7e00;
  }
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= 65520) {
    return sign | 0x7c00;
  }
  if (size < 2 ** -14) {
    return sign | roundEven(size * 2 ** 24); // subnormal; 1024 carries into the exponent, which is right
  }
  const exponent = Math.floor(Math.log2(size));
  const fixed = size < 2 ** exponent ? exponent - 1 : size >= 2 ** (exponent + 1) ? exponent + 1 : exponent;
  return sign | (((fixed + 15) << 10) + roundEven((size / 2 ** fixed - 1) * 1024));
}

function roundEven(value: number): number {
  const low = Math.floor(value);
  const rest = value - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}

function fromBrain(bits: number): number {
  scratch.setUint32(0, (bits << 16) >>> 0);
  return scratch.getFloat32(0);
}

function toBrain(value: number): number {
  if (Number.isNaN(value)) {
    return 0x7fc0;
  }
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

type Access = readonly [read: (view: DataView, at: number) => number | bigint, write: (view: DataView, at: number, value: number | bigint) => void];
const ACCESS: Partial<Record<DtypeName, Access>> = {
  float32: [(v, p) => v.getFloat32(p, true), (v, p, x) => v.setFloat32(p, Number(x), true)],
  float64: [(v, p) => v.getFloat64(p, true), (v, p, x) => v.setFloat64(p, Number(x), true)],
  float16: [(v, p) => fromHalf(v.getUint16(p, true)), (v, p, x) => v.setUint16(p, toHalf(Number(x)), true)],
  bfloat16: [(v, p) => fromBrain(v.getUint16(p, true)), (v, p, x) => v.setUint16(p, toBrain(Number(x)), true)],
  uint8: [(v, p) => v.getUint8(p), (v, p, x) => v.setUint8(p, Number(x))],
  int8: [(v, p) => v.getInt8(p), (v, p, x) => v.setInt8(p, Number(x))],
  bool: [(v, p) => (v.getUint8(p) ? 1 : 0), (v, p, x) => v.setUint8(p, x ? 1 : 0)],
  uint16: [(v, p) => v.getUint16(p, true), (v, p, x) => v.setUint16(p, Number(x), true)],
  int16: [(v, p) => v.getInt16(p, true), (v, p, x) => v.setInt16(p, Number(x), true)],
  uint32: [(v, p) => v.getUint32(p, true), (v, p, x) => v.setUint32(p, Number(x), true)],
  int32: [(v, p) => v.getInt32(p, true), (v, p, x) => v.setInt32(p, Number(x), true)],
  int64: [(v, p) => v.getBigInt64(p, true), (v, p, x) => v.setBigInt64(p, BigInt(x), true)],
  uint64: [(v, p) => v.getBigUint64(p, true), (v, p, x) => v.setBigUint64(p, BigInt(x), true)],
};

/** Types of at most a byte that are not in the table: 2- and 4-bit integers lie (sign-extended) in a byte of their own. */
function narrowAccess(dtype: DtypeName): Access | undefined {
  if (isSmallFloat(dtype)) {
    return [(v, p) => fromSmall(dtype, v.getUint8(p)), (v, p, x) => v.setUint8(p, toSmall(dtype, Number(x)))];
  }
  if (SMALL_SIGNED.has(dtype)) {
    return ACCESS.int8;
  }
  return dtype === "uint4" || dtype === "uint2" ? ACCESS.uint8 : undefined;
}

function access(dtype: DtypeName): Access {
  const found = ACCESS[dtype] ?? narrowAccess(dtype);
  if (!found) {
    throw new AclError(100026, `element type ${dtype} has no host arithmetic yet; convert the tensor to float32 or an integer type`);
  }
  return found;
}

/** The types that models are made of, a whole array at a time. Bytes of a file may start at any address: then they are copied first. */
function typed({ dtype, bytes }: Stored): Elements | undefined {
  if (dtype !== "float32" && dtype !== "int64" && dtype !== "int32") {
    return undefined;
  }
  const size = DTYPES[dtype].bytes;
  const { buffer, byteOffset, byteLength } = byteAligned(bytes, size);
  const count = byteLength / size;
  if (dtype === "int64") {
    return new BigInt64Array(buffer, byteOffset, count).slice();
  }
  return new Float64Array(dtype === "float32" ? new Float32Array(buffer, byteOffset, count) : new Int32Array(buffer, byteOffset, count));
}
const byteAligned = (bytes: Uint8Array, size: number): Uint8Array => (bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes));

/** Stored bytes as numbers. */
export function decode(stored: Stored): Tensor {
  const fast = typed(stored);
  if (fast) {
    return { dtype: stored.dtype, dims: stored.dims, data: fast };
  }
  const [read] = access(stored.dtype);
  const step = DTYPES[stored.dtype].bytes;
  const data = elements(stored.dtype, sizeOf(stored.dims));
  const view = new DataView(stored.bytes.buffer, stored.bytes.byteOffset, stored.bytes.byteLength);
  for (let i = 0; i < data.length; i++) {
    data[i] = read(view, i * step);
  }
  return { dtype: stored.dtype, dims: stored.dims, data };
}

/** Numbers as the device stores them. */
export function encode(value: Tensor): Stored {
  if (value.dtype === "float32" && value.data instanceof Float64Array) {
    return { dtype: value.dtype, dims: value.dims, bytes: new Uint8Array(new Float32Array(value.data).buffer) };
  }
  const [, write] = access(value.dtype);
  const step = DTYPES[value.dtype].bytes;
  const bytes = new Uint8Array(value.data.length * step);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < value.data.length; i++) {
    write(view, i * step, value.data[i]!);
  }
  return { dtype: value.dtype, dims: value.dims, bytes };
}

/** The first element of `element` all over `dims`. */
export function filled({ dtype, bytes: pattern }: Stored, dims: readonly number[]): Stored {
  const size = DTYPES[dtype].bytes;
  const bytes = new Uint8Array(sizeOf(dims) * size);
  const first = pattern.subarray(0, Math.min(size, bytes.length));
  // Fresh memory is zero, and costs nothing until it is touched.
  if (first.some((byte) => byte !== 0)) {
    bytes.set(first);
    for (let done = size; done < bytes.length; done *= 2) {
      bytes.copyWithin(done, 0, Math.min(done, bytes.length - done));
    }
  }
  return { dtype, dims, bytes };
}

/** Calls `visit` with the row-major index of every element of `dims` and the offset that `strides` give it. */
export function walk(dims: readonly number[], strides: readonly number[], visit: (index: number, offset: number) => void, start = 0): void {
  const count = sizeOf(dims);
  const at = new Array<number>(dims.length).fill(0);
  let offset = start;
  for (let index = 0; index < count; index++) {
    visit(index, offset);
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      offset += strides[axis]!;
      if (++at[axis]! < dims[axis]!) {
        break;
      }
      offset -= strides[axis]! * dims[axis]!;
      at[axis] = 0;
    }
  }
}

/** A strided read of `source` as a new row-major tensor: transpose, slice and expand are all this. */
export function gatherView(source: Tensor, dims: readonly number[], strides: readonly number[], start = 0): Tensor {
  const data = elements(source.dtype, sizeOf(dims));
  walk(dims, strides, (index, offset) => (data[index] = source.data[offset]!), start);
  return { dtype: source.dtype, dims, data };
}
