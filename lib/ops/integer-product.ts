/**
 * Products of 8-bit integers by way of float32, which holds every whole number up to 2^24: runs of k whose sums cannot pass it are multiplied as floats,
 * exactly and at the speed of floats, and added up in int32.
 */
import type { DtypeName } from "../graph/dtype";
import { decode, type Stored } from "../graph/tensor";
import { packedMatmulSize, packMatmul } from "../program/pack";
import type { View } from "../program/types";
import { keyOf, type Lowering, type Operand } from "./lowering";
import { broadcastView, reshapeView, sliceView } from "./views";

/** Whole numbers up to it are exact in float32, in whatever order they are summed. */
export const EXACT = 2 ** 24;
/** Operands of one addition: a strip takes six. */
const TERMS = 6;

/** Zero points of rows (of a) or columns (of b) as something that broadcasts to the matrix. */
export const zeroDims = (zero: { readonly dims: readonly number[] }, rows: boolean): readonly number[] =>
  rows && zero.dims.length === 1 && zero.dims[0] !== 1 ? [zero.dims[0]!, 1] : zero.dims;

/** Greatest distance of an 8-bit element from its zero point; `points` undefined: it may be any. */
export function reach(dtype: DtypeName, points: readonly number[] | undefined): number {
  const [low, high] = dtype === "int8" ? [-128, 127] : [0, 255];
  return (points ?? [low, high]).reduce((most, point) => Math.max(most, point - low, high - point), 1);
}

const pointsOf = (zero: Operand | undefined): readonly number[] | undefined =>
  zero === undefined ? [0] : zero.constant && Array.from(zero.constant.data as ArrayLike<number>, Number);

/** The elements less their zero points. */
function centred(b: Lowering, of: Operand, zero: Operand | undefined, rows: boolean): View {
  const floats = b.temporary("float32", of.dims, undefined, `${of.value.name}.floats`);
  const point = zero && reshapeView(b.arranged(zero.view), zeroDims(zero, rows))!;
  b.map(floats, [of.view, ...(point ? [point] : [])], (s, v, z) =>
    s.cast(z === undefined ? v! : s.op("sub", s.cast(v!, "i32"), s.cast(z, "i32")), "f32"),
  );
  return floats;
}

/** As `centred`, for rows [from, from + count) of a constant matrix, packed. */
function packedRun(b: Lowering, weights: Operand, zero: Operand | undefined, from: number, count: number): View {
  const n = weights.dims[1]!;
  const { panel } = b.program;
  const pack = (): Uint8Array => {
    const points = zero ? Array.from(zero.constant!.data as ArrayLike<number>, Number) : [0];
    const { data } = decode({
      dtype: weights.dtype,
      dims: [count, n],
      bytes: weights.stored!.bytes.subarray(from * n, (from + count) * n),
    } as Stored);
    const floats = Float32Array.from(data as ArrayLike<number>, (value, i) => value - points[points.length === 1 ? 0 : i % n]!);
    const packed = packMatmul(floats, count, n, panel);
    return new Uint8Array(packed.buffer, 0, packedMatmulSize(count, n, panel) * 4);
  };
  return b.derived(weights.value, `integer:${from}:${count}:${panel}:${zero ? keyOf(zero.value) : ""}`, "float32", [count, n], pack);
}

export function lowerIntegerProduct(b: Lowering, a: Operand, right: Operand, aZero: Operand | undefined, bZero: Operand | undefined): void {
  const target = b.target();
  const batch = target.dims.slice(0, -2);
  const spread = (view: View): View => broadcastView(view, [...batch, ...view.dims.slice(-2)]);
  const k = a.dims[a.dims.length - 1]!;
  const most = Math.floor(EXACT / (reach(a.dtype, pointsOf(aZero)) * reach(right.dtype, pointsOf(bZero))));
  const packed =
    right.stored !== undefined && right.dims.length === 2 && (bZero === undefined || (bZero.stored !== undefined && bZero.dims.length < 2));
  const left = centred(b, a, aZero, true);
  const other = packed ? undefined : centred(b, right, bZero, false);
  let terms: View[] = [];
  for (let from = 0; from === 0 || from < k; from += most) {
    const count = Math.min(most, k - from);
    const product = b.temporary("float32", target.dims, undefined, `${b.node.name}.${from}`);
    const run = other ? spread(sliceView(other, right.dims.length - 2, from, count)) : packedRun(b, right, bZero, from, count);
    b.matmul(product, spread(sliceView(left, a.dims.length - 1, from, count)), run, packed);
    terms.push(product);
  }
  while (terms.length > 0) {
    const now = terms.slice(0, TERMS);
    terms = terms.slice(TERMS);
    const sum = terms.length === 0 ? target : b.temporary("int32", target.dims, undefined, `${b.node.name}.sum`);
    b.map(sum, now, (s, ...values) => values.map((value) => s.cast(value, "i32")).reduce((one, two) => s.op("add", one, two)));
    if (terms.length > 0) {
      terms.unshift(sum);
    }
  }
}
