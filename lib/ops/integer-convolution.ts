/**
 * Convolutions of 8-bit integers less their zero points, exactly, in int32: the product of the filters with what lies under the window at each place.
 * Windows of a padded image are a view of it, which packing reads in place; the product of a filter with all places is a plane of the result.
 */
import { encode, sizeOf, type Stored } from "../graph/tensor";
import type { Value } from "../graph/ir";
import type { View, Window } from "../program/types";
import type { Expansion } from "./expansion";
import { zeroPoints } from "./integer-product";
import type { Lowering, Operand } from "./lowering";
import { broadcastView, reshapeView, sliceView } from "./views";

/** Products of 8-bit integers that float32 adds exactly: 255 x 255 each, below 2^24 together. */
const EXACT_TAPS = 258;

/** One channel a group has too little depth for a product of matrices: float32 holds its sums, whole numbers below 2^24, exactly. */
export function depthwise(
  g: Expansion,
  x: Value,
  w: Value,
  x0: Value | undefined,
  w0: Value | undefined,
  attributes: { group: number },
): Value | undefined {
  const [filters, perGroup, ...kernel] = w.dims as number[];
  if (attributes.group === 1 || perGroup !== 1 || filters !== attributes.group || sizeOf(kernel) > EXACT_TAPS) {
    return undefined;
  }
  const moved = (of: Value, zero: Value | undefined, dims: readonly number[]): Value => {
    const wide = g.cast(of, "float32");
    return !zero || g.numbers(zero)?.every((z) => z === 0) ? wide : g.call("Sub", [wide, g.reshape(g.cast(zero, "float32"), dims)]);
  };
  const perFilter = w0 && sizeOf(w0.dims as number[]) > 1 ? [filters, ...kernel.map(() => 1), 1] : [];
  return g.cast(g.call("Conv", [moved(x, x0, []), moved(w, w0, perFilter)], attributes as never), "int32");
}

/** x with its zero point around it. */
function padded(b: Lowering, x: View, zero: View, { padsBegin, padsEnd }: Window): View {
  if ([...padsBegin, ...padsEnd].every((pad) => pad === 0)) {
    return x;
  }
  const dims = x.dims.map((dim, axis) => (axis < 2 ? dim : dim + padsBegin[axis - 2]! + padsEnd[axis - 2]!));
  const whole = b.temporary(x.dtype, dims, undefined, `${b.node.name}.padded`);
  b.copy(whole, broadcastView(zero, dims));
  b.copy(
    padsBegin.reduce((view, pad, i) => sliceView(view, i + 2, pad, x.dims[i + 2]!), whole),
    x,
  );
  return whole;
}

/** What lies under the window: [N, groups, channels of one, kernel..., places...]. */
function windows(x: View, groups: number, { kernel, strides, dilations }: Window, places: readonly number[]): View {
  const [batch, channels, ...spatial] = x.strides as [number, number, ...number[]];
  const [n, all] = x.dims as [number, number];
  return {
    ...x,
    dims: [n, groups, all / groups, ...kernel, ...places],
    strides: [batch, channels * (all / groups), channels, ...spatial.map((s, i) => s * dilations[i]!), ...spatial.map((s, i) => s * strides[i]!)],
  };
}

/** Filters and their zero points as uint8, which the kernel reads in place. */
function unsigned(b: Lowering, w: Operand, zero: Operand | undefined, dims: readonly number[]): { readonly filters: View; readonly zeros: View } {
  if (w.dtype === "uint8" || !w.stored || (zero && !zero.stored)) {
    return { filters: b.arranged(w.view), zeros: zeroPoints(b, zero, w.dtype, [w.dims[0]!], true) };
  }
  const flip = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte ^ 128);
  const points = zero?.stored ?? (encode({ dtype: "int8", dims: [1], data: Float64Array.of(0) }) as Stored);
  const data = Float64Array.from(flip(points.bytes));
  const one = b.computed({ dtype: "uint8", dims: [data.length], data });
  return { filters: b.derived(w.value, "unsigned", "uint8", w.dims, () => flip(w.stored!.bytes)), zeros: broadcastView(one, dims) };
}

export function lowerIntegerConv(
  b: Lowering,
  x: Operand,
  w: Operand,
  xZero: Operand | undefined,
  wZero: Operand | undefined,
  window: Window,
  groups: number,
): void {
  const target = b.target();
  const [n, filters, ...places] = target.dims as [number, number, ...number[]];
  const [each, k, pixels] = [filters / groups, sizeOf(w.dims.slice(1)), sizeOf(places)];
  const zero = zeroPoints(b, xZero, x.dtype, [1], false);
  const source = windows(padded(b, b.arranged(x.view), zero, window), groups, window, places);
  const panels = b.packInteger(source, n * groups, places.length);
  const { filters: left, zeros } = unsigned(b, w, wZero, [filters]);
  b.matmulInteger(
    reshapeView(target, [n, groups, each, pixels])!,
    broadcastView(reshapeView(left, [groups, each, k])!, [n, groups, each, k]),
    reshapeView(panels, [n, groups, panels.dims[1]!])!,
    broadcastView(reshapeView(zeros, [groups, each])!, [n, groups, each]),
    broadcastView(zero, [n, groups, pixels]),
  );
}
