/** Products of 8-bit integers less their zero points, exactly, in int32. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, shapeError } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import { sizeOf } from "../graph/tensor";
import { packedIntegerSize, packInteger } from "../program/pack-integer";
import type { View } from "../program/types";
import type { Type } from "./define";
import type { Lowering, Operand } from "./lowering";
import { broadcastView, reshapeView } from "./views";

/** Zero points of rows (of a) or columns (of b) as something that broadcasts to the matrix. */
export const zeroDims = (zero: { readonly dims: readonly number[] }, rows: boolean): readonly number[] =>
  rows && zero.dims.length === 1 && zero.dims[0] !== 1 ? [zero.dims[0]!, 1] : zero.dims;

/**
 * A zero point is of the type of what it belongs to: one number, `count` numbers, or one for each row (column) of each matrix of `of`.
 * @throws AclError 100026, 100021
 */
export function requireZeros(zero: Type | undefined, of: Type, count: Dim, what: string, each?: "row" | "column"): void {
  if (!zero) {
    return;
  }
  if (zero.dtype !== of.dtype) {
    throw new AclError(100026, `${what} of ${zero.dtype} belongs to ${of.dtype}; a zero point has the type of what it is subtracted from`);
  }
  const matches = (dim: Dim, wanted: Dim | undefined): boolean =>
    dim === 1 || dim === wanted || typeof dim === "string" || typeof wanted === "string";
  const fits = (wanted: readonly Dim[]): boolean =>
    zero.dims.length <= wanted.length && zero.dims.every((dim, i) => matches(dim, wanted[wanted.length - zero.dims.length + i]));
  const whole = each && [...of.dims.slice(0, -2), ...(each === "row" ? [count, 1] : [1, count])];
  if (!fits([count]) && !(whole && zero.dims.length > 1 && fits(whole))) {
    throw shapeError(
      `${what} has dims ${formatDims(zero.dims)}; it takes one number, ${formatDims([count])}${whole ? ` or ${formatDims(whole)}` : ""}`,
    );
  }
}

/** The zero point of each row (column) of each matrix; without `zero` it is 0. */
export function zeroPoints(b: Lowering, zero: Operand | undefined, dtype: DtypeName, dims: readonly number[], rows: boolean): View {
  if (!zero) {
    return broadcastView(b.computed({ dtype, dims: [1], data: Float64Array.of(0) }), dims);
  }
  const axis = rows ? zero.dims.length - 1 : zero.dims.length - 2;
  const one = zero.dims.length > 1 ? zero.dims.toSpliced(axis, 1) : zero.dims;
  return broadcastView(reshapeView(b.arranged(zero.view), one)!, dims);
}

/** B as the kernel takes it, [batch..., bytes]: constants are packed once, when the model is compiled. */
function packedMatrices(b: Lowering, right: Operand): View {
  const [lead, [k, n]] = [right.dims.slice(0, -2), right.dims.slice(-2) as [number, number]];
  const [batches, { panel }] = [sizeOf(lead), b.program];
  const size = packedIntegerSize(k, n, panel);
  if (!right.stored) {
    return reshapeView(b.packInteger(right.view, batches, 1), [...lead, size])!;
  }
  const { bytes } = right.stored;
  const pack = (): Uint8Array => {
    const all = new Uint8Array(batches * size);
    for (let i = 0; i < batches; i++) {
      const matrix = bytes.subarray(i * k * n, (i + 1) * k * n);
      const typed = right.dtype === "int8" ? new Int8Array(matrix.buffer, matrix.byteOffset, matrix.length) : matrix;
      all.set(packInteger(typed, k, n, panel), i * size);
    }
    return all;
  };
  return b.derived(right.value, `integer:${panel}`, "int8", [...lead, size], pack);
}

export function lowerIntegerProduct(b: Lowering, a: Operand, right: Operand, aZero: Operand | undefined, bZero: Operand | undefined): void {
  const target = b.target();
  const batch = target.dims.slice(0, -2);
  const [m, n] = target.dims.slice(-2) as [number, number];
  const spread = (view: View, inner: number): View => broadcastView(view, [...batch, ...view.dims.slice(view.dims.length - inner)]);
  b.matmulInteger(
    target,
    spread(a.view, 2),
    spread(packedMatrices(b, right), 1),
    zeroPoints(b, aZero, a.dtype, [...batch, m], true),
    zeroPoints(b, bZero, right.dtype, [...batch, n], false),
  );
}
