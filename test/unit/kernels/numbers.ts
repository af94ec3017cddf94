/** Number formats by their definition: the independent truth that kernels are held to. Small floats are tables of all their values. */
import type { DtypeName } from "../../../lib/graph/dtype";

export const BYTES: Readonly<Record<DtypeName, number>> = {
  float32: 4,
  uint8: 1,
  int8: 1,
  uint16: 2,
  int16: 2,
  int32: 4,
  int64: 8,
  string: 0,
  bool: 1,
  float16: 2,
  float64: 8,
  uint32: 4,
  uint64: 8,
  complex64: 8,
  complex128: 16,
  bfloat16: 2,
  float8e4m3fn: 1,
  float8e4m3fnuz: 1,
  float8e5m2: 1,
  float8e5m2fnuz: 1,
  uint4: 1,
  int4: 1,
  float4e2m1: 1,
  float8e8m0: 1,
  uint2: 1,
  int2: 1,
};

interface Format {
  readonly bits: number;
  readonly mantissa: number;
  readonly bias: number;
  /** "ieee": infinities and NaNs in the last exponent; "fn": one NaN per sign, no infinity; "fnuz": NaN is the negative zero; "none": neither. */
  readonly special: "ieee" | "fn" | "fnuz" | "none";
}
const FORMATS: Partial<Record<DtypeName, Format>> = {
  float16: { bits: 16, mantissa: 10, bias: 15, special: "ieee" },
  bfloat16: { bits: 16, mantissa: 7, bias: 127, special: "ieee" },
  float8e4m3fn: { bits: 8, mantissa: 3, bias: 7, special: "fn" },
  float8e4m3fnuz: { bits: 8, mantissa: 3, bias: 8, special: "fnuz" },
  float8e5m2: { bits: 8, mantissa: 2, bias: 15, special: "ieee" },
  float8e5m2fnuz: { bits: 8, mantissa: 2, bias: 16, special: "fnuz" },
  float4e2m1: { bits: 4, mantissa: 1, bias: 1, special: "none" },
};

function smallFloat(code: number, { bits, mantissa, bias, special }: Format): number {
  const sign = code >> (bits - 1) ? -1 : 1;
  const exponentBits = bits - 1 - mantissa;
  const exponent = (code >> mantissa) & ((1 << exponentBits) - 1);
  const fraction = code & ((1 << mantissa) - 1);
  const top = (1 << exponentBits) - 1;
  if (special === "ieee" && exponent === top) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  if (special === "fn" && exponent === top && fraction === (1 << mantissa) - 1) return Number.NaN;
  if (special === "fnuz" && code === 1 << (bits - 1)) return Number.NaN;
  const value = exponent === 0 ? fraction * 2 ** (1 - bias - mantissa) : (1 + fraction / 2 ** mantissa) * 2 ** (exponent - bias);
  return sign * value;
}

const tables = new Map<DtypeName, number[]>();
function table(dtype: DtypeName): number[] {
  let values = tables.get(dtype);
  if (!values) {
    const format = FORMATS[dtype]!;
    values = Array.from({ length: 1 << format.bits }, (_, code) => smallFloat(code, format));
    tables.set(dtype, values);
  }
  return values;
}

/** All values of a small float (index = code). */
export const valuesOf = (dtype: DtypeName): readonly number[] =>
  dtype === "float8e8m0" ? Array.from({ length: 256 }, (_, c) => (c === 255 ? Number.NaN : 2 ** (c - 127))) : table(dtype);

const largestCodes = new Map<DtypeName, number>();
/** Code of the largest finite value. */
function largestOf(dtype: DtypeName): number {
  let code = largestCodes.get(dtype);
  if (code === undefined) {
    const values = table(dtype);
    code = (1 << (FORMATS[dtype]!.bits - 1)) - 1;
    while (!Number.isFinite(values[code])) code--;
    largestCodes.set(dtype, code);
  }
  return code;
}

/** Code of the nearest value, ties to even code; saturating formats clamp, IEEE 16-bit ones overflow to infinity. */
function codeOf(dtype: DtypeName, x: number): number {
  const format = FORMATS[dtype]!;
  const half = 1 << (format.bits - 1);
  const values = table(dtype);
  // float4e2m1 has no NaN; ONNX's cases (test_cast_FLOAT_to_FLOAT4E2M1) give 0.
  if (Number.isNaN(x))
    return dtype === "float4e2m1"
      ? 0
      : values.findIndex(
          (value, code) => Number.isNaN(value) && (format.special !== "ieee" || format.bits === 8 || code & (1 << (format.mantissa - 1))),
        );
  const negative = x < 0 || Object.is(x, -0);
  const magnitude = Math.abs(x);
  const largest = largestOf(dtype);
  let low = 0;
  let high = largest;
  let code: number;
  if (magnitude >= values[largest]!) {
    // Half a step past the largest is where IEEE rounding reaches infinity.
    const step = values[largest]! - values[largest - 1]!;
    code = format.bits === 16 && magnitude >= values[largest]! + step / 2 ? largest + 1 : largest;
  } else {
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (values[middle]! <= magnitude) low = middle;
      else high = middle;
    }
    const below = magnitude - values[low]!;
    const above = values[high]! - magnitude;
    code = below < above || (below === above && low % 2 === 0) ? low : high;
  }
  if (format.special === "fnuz" && code === 0) return 0;
  return negative ? code | half : code;
}

const INTEGERS: Partial<Record<DtypeName, readonly [number, boolean]>> = {
  uint8: [8, false],
  int8: [8, true],
  uint16: [16, false],
  int16: [16, true],
  int32: [32, true],
  uint32: [32, false],
  uint4: [4, false],
  int4: [4, true],
  uint2: [2, false],
  int2: [2, true],
};

export const isInteger = (dtype: DtypeName): boolean => INTEGERS[dtype] !== undefined || dtype === "int64" || dtype === "uint64";
export const isWide = (dtype: DtypeName): boolean => dtype === "int64" || dtype === "uint64";

/** Least and greatest value of an integer type. */
export function limits(dtype: DtypeName): [bigint, bigint] {
  const [bits, signed] = isWide(dtype) ? ([64, dtype === "int64"] as const) : INTEGERS[dtype]!;
  return signed ? [-(1n << BigInt(bits - 1)), (1n << BigInt(bits - 1)) - 1n] : [0n, (1n << BigInt(bits)) - 1n];
}

/** `value` modulo the type, as a cast between integers does. */
export function wrap(dtype: DtypeName, value: bigint): bigint {
  const [bits, signed] = isWide(dtype) ? ([64, dtype === "int64"] as const) : INTEGERS[dtype]!;
  return signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
}

export function encode(dtype: DtypeName, values: readonly (number | bigint)[]): Uint8Array {
  const bytes = new Uint8Array(values.length * BYTES[dtype]);
  const out = new DataView(bytes.buffer);
  for (const [i, value] of values.entries()) {
    const at = i * BYTES[dtype];
    if (dtype === "float32") out.setFloat32(at, Number(value), true);
    else if (dtype === "float64") out.setFloat64(at, Number(value), true);
    else if (isWide(dtype)) out.setBigUint64(at, BigInt.asUintN(64, BigInt(value)), true);
    else if (dtype === "bool") out.setUint8(at, value ? 1 : 0);
    else if (dtype === "float8e8m0")
      out.setUint8(at, Number.isNaN(value as number) ? 255 : Math.min(254, Math.max(0, Math.ceil(Math.log2(Math.abs(Number(value)))) + 127)));
    else if (FORMATS[dtype])
      BYTES[dtype] === 2 ? out.setUint16(at, codeOf(dtype, Number(value)), true) : out.setUint8(at, codeOf(dtype, Number(value)));
    else if (BYTES[dtype] === 4) out.setUint32(at, Number(BigInt.asUintN(32, BigInt(value))), true);
    else if (BYTES[dtype] === 2) out.setUint16(at, Number(BigInt.asUintN(16, BigInt(value))), true);
    else out.setInt8(at, Number(wrap(dtype, BigInt(value))));
  }
  return bytes;
}

export function decode(dtype: DtypeName, bytes: Uint8Array): (number | bigint)[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / BYTES[dtype] }, (_, i) => {
    const at = i * BYTES[dtype];
    switch (dtype) {
      case "float32":
        return view.getFloat32(at, true);
      case "float64":
        return view.getFloat64(at, true);
      case "int64":
        return view.getBigInt64(at, true);
      case "uint64":
        return view.getBigUint64(at, true);
      case "int32":
        return view.getInt32(at, true);
      case "uint32":
        return view.getUint32(at, true);
      case "int16":
        return view.getInt16(at, true);
      case "uint16":
        return view.getUint16(at, true);
      case "int8":
      case "int4":
      case "int2":
        return view.getInt8(at);
      case "uint8":
      case "uint4":
      case "uint2":
      case "bool":
        return view.getUint8(at);
      default:
        return valuesOf(dtype)[BYTES[dtype] === 2 ? view.getUint16(at, true) : view.getUint8(at)]!;
    }
  });
}
