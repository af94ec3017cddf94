/** Floats of 8 and 4 bits by tables: the value of every code, and the code nearest to a value. For references and constants; the device has arithmetic. */
import type { DtypeName } from "./dtype";

interface Format {
  readonly bits: number;
  readonly mantissa: number;
  readonly bias: number;
  /** What the codes at the top of the range mean. FNUZ has no negative zero: that code is NaN. */
  readonly top: "nan" | "inf" | "fnuz" | "finite" | "power";
}
const FORMATS: Partial<Record<DtypeName, Format>> = {
  float8e4m3fn: { bits: 8, mantissa: 3, bias: 7, top: "nan" },
  float8e4m3fnuz: { bits: 8, mantissa: 3, bias: 8, top: "fnuz" },
  float8e5m2: { bits: 8, mantissa: 2, bias: 15, top: "inf" },
  float8e5m2fnuz: { bits: 8, mantissa: 2, bias: 16, top: "fnuz" },
  float4e2m1: { bits: 4, mantissa: 1, bias: 1, top: "finite" },
  float8e8m0: { bits: 8, mantissa: 0, bias: 127, top: "power" },
};

export const isSmallFloat = (dtype: DtypeName): boolean => dtype in FORMATS;

function valueOfCode({ bits, mantissa, bias, top }: Format, code: number): number {
  if (top === "power") {
    return code === 0xff ? Number.NaN : 2 ** (code - bias);
  }
  const half = 2 ** (bits - 1);
  const [sign, magnitude] = [code >= half ? -1 : 1, code % half];
  if (top === "fnuz" && code === half) {
    return Number.NaN;
  }
  if (top === "nan" && magnitude === half - 1) {
    return Number.NaN;
  }
  const exponent = magnitude >> mantissa;
  const fraction = (magnitude % 2 ** mantissa) / 2 ** mantissa;
  if (top === "inf" && exponent === half / 2 ** mantissa - 1) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  return exponent === 0 ? sign * fraction * 2 ** (1 - bias) : sign * (1 + fraction) * 2 ** (exponent - bias);
}

interface Table {
  readonly format: Format;
  /** By code. */
  readonly values: Float64Array;
  /** Codes of the finite values from 0 up: 0, 1, 2, ... */
  readonly finite: number;
}
const tables = new Map<DtypeName, Table>();

function tableOf(dtype: DtypeName): Table {
  let table = tables.get(dtype);
  if (!table) {
    const format = FORMATS[dtype]!;
    const values = Float64Array.from({ length: 2 ** format.bits }, (_, code) => valueOfCode(format, code));
    const positive = format.top === "power" ? values : values.subarray(0, values.length / 2);
    const end = positive.findIndex((value) => !Number.isFinite(value));
    table = { format, values, finite: end < 0 ? positive.length : end };
    tables.set(dtype, table);
  }
  return table;
}

export const fromSmall = (dtype: DtypeName, code: number): number => tableOf(dtype).values[code % tableOf(dtype).values.length]!;

/**
 * The nearest code, ties to even; E8M0 takes the next power of two instead (ONNX's default). Past the largest number: that number, or with
 * `saturate` off infinity or NaN, whichever the format has.
 */
export function toSmall(dtype: DtypeName, value: number, saturate = true): number {
  const { format, values, finite } = tableOf(dtype);
  const half = values.length / 2;
  if (Number.isNaN(value)) {
    return { nan: half - 1, inf: half - 2, fnuz: half, finite: 0, power: values.length - 1 }[format.top];
  }
  const size = Math.abs(value);
  let low = 0;
  for (let high = finite; high - low > 1; ) {
    const middle = (low + high) >> 1;
    values[middle]! <= size ? (low = middle) : (high = middle);
  }
  if (format.top === "power") {
    return size > values[low]! ? Math.min(low + 1, finite - 1) : low;
  }
  // One step past the largest number lies where its successor would be.
  const next = low + 1 < finite ? values[low + 1]! : 2 * values[low]! - values[low - 1]!;
  const [below, above] = [size - values[low]!, next - size];
  const code = above < below || (above === below && low % 2 === 1) ? low + 1 : low;
  const negative = value < 0 || Object.is(value, -0);
  if (code >= finite && !saturate) {
    return format.top === "fnuz" ? half : (negative ? half : 0) + (format.top === "inf" ? finite : half - 1);
  }
  const kept = Math.min(code, finite - 1);
  return negative && !(format.top === "fnuz" && kept === 0) ? half + kept : kept;
}
