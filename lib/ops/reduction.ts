/** Folds over axes, and softmax, which is two of them around a strip. */
import { normalizeAxis } from "../graph/dims";
import { elements, isFloat, rowMajor, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { FoldName, Strip, View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, type ConcreteType, defineOp, int, type Tolerance } from "./define";
import type { Lowering } from "./lowering";
import { numbersOf } from "./reshape";
import { axesOf, noise, positive, ramp, rejects, type Sample, sample, values } from "./sample";
import { StripBuilder, stripType } from "./strip-builder";
import { attributeToInput, chain, setAttribute } from "./upgrade";
import { broadcastView, permuteView } from "./views";

interface Fold {
  readonly start: number;
  readonly step: (total: number, value: number) => number;
  readonly whole: {
    readonly start: bigint;
    readonly step: (total: bigint, value: bigint) => bigint;
    readonly finish?: (total: bigint, count: number) => bigint;
  };
  readonly finish?: (total: number, count: number) => number;
}

/** Folds `axes` of a tensor in float64; the result keeps them as 1. */
export function foldAxes(data: Tensor, axes: readonly number[], { start, step, whole, finish = (total) => total }: Fold): Tensor {
  const dims = data.dims.map((dim, axis) => (axes.includes(axis) ? 1 : dim));
  const count = sizeOf(data.dims) / Math.max(1, sizeOf(dims));
  const strides = rowMajor(dims).map((stride, axis) => (axes.includes(axis) ? 0 : stride));
  if (!(data.data instanceof Float64Array)) {
    const totals = elements(data.dtype, sizeOf(dims)) as BigInt64Array;
    totals.fill(whole.start);
    walk(data.dims, strides, (index, offset) => (totals[offset] = whole.step(totals[offset]!, data.data[index] as bigint)));
    return { dtype: data.dtype, dims, data: whole.finish ? totals.map((total) => whole.finish!(total, count)) : totals };
  }
  const totals = new Float64Array(sizeOf(dims)).fill(start);
  walk(data.dims, strides, (index, offset) => (totals[offset] = step(totals[offset]!, data.data[index] as number)));
  return { dtype: data.dtype, dims, data: totals.map((total) => (isFloat(data.dtype) ? finish(total, count) : Math.trunc(finish(total, count)))) };
}

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
export const FOLDS = {
  sum: { start: 0, step: (a, b) => a + b, whole: { start: 0n, step: (a, b) => a + b } },
  mean: {
    start: 0,
    step: (a, b) => a + b,
    whole: { start: 0n, step: (a, b) => a + b, finish: (total, count) => (count > 0 ? total / BigInt(count) : 0n) },
    finish: (total, count) => total / count,
  },
  prod: { start: 1, step: (a, b) => a * b, whole: { start: 1n, step: (a, b) => a * b } },
  max: {
    start: Number.NEGATIVE_INFINITY,
    step: (a, b) => (b > a || Number.isNaN(b) ? b : a),
    whole: { start: INT64_MIN, step: (a, b) => (b > a ? b : a) },
  },
  min: {
    start: Number.POSITIVE_INFINITY,
    step: (a, b) => (b < a || Number.isNaN(b) ? b : a),
    whole: { start: INT64_MAX, step: (a, b) => (b < a ? b : a) },
  },
  sum_square: { start: 0, step: (a, b) => a + b * b, whole: { start: 0n, step: (a, b) => a + b * b } },
  l1: { start: 0, step: (a, b) => a + Math.abs(b), whole: { start: 0n, step: (a, b) => a + (b < 0n ? -b : b) } },
} satisfies Partial<Record<FoldName, Fold>>;

/** What is done with the folded value. */
interface Finish {
  readonly strip: "sqrt" | "log";
  readonly real: (total: number) => number;
}

/** Folds of truth values. */
const BOOLEAN = { max: "any", min: "all" } as const;

/** No axes listed means all, unless the node says it means none. */
export function axesFor(axes: readonly number[] | undefined, noop: number, rank: number, node: string): number[] {
  if (!axes || axes.length === 0) {
    return noop ? [] : Array.from({ length: rank }, (_, axis) => axis);
  }
  return [...new Set(axes.map((axis) => normalizeAxis(axis, rank, node)))].sort((a, b) => a - b);
}
export const listed = (axes: Tensor | undefined): number[] | undefined => axes && Array.from(axes.data as ArrayLike<number | bigint>, Number);
export const rounded = (value: Tensor, out: ConcreteType): Tensor =>
  mapTensors({ real: (x) => x, whole: (x) => x }, [{ ...value, dims: out.dims }], out);

function reduction(
  name: string,
  fold: keyof typeof FOLDS,
  tolerance: Tolerance,
  samples: () => readonly Sample[] = () => [],
  finish?: Finish,
): AnyOp {
  return defineOp({
    names: { onnx: [name, 18] },
    inputs: ["data", "axes?"],
    attributes: { keepdims: int(1), noop_with_empty_axes: int(0) },
    upgrades: { [name === "ReduceSum" ? 13 : 18]: attributeToInput("axes", 1) },
    needs: ["axes"],
    infer: ({ data, axes }, { keepdims, noop_with_empty_axes }, { node }) => {
      if (!(data.dtype === "bool" && fold in BOOLEAN)) {
        requireDtype(data.dtype, finish?.strip === "log" ? "float" : "number", node);
      }
      const folded = axesFor(numbersOf(axes, "axes", node), noop_with_empty_axes, data.dims.length, node);
      const dims = keepdims ? data.dims.map((dim, axis) => (folded.includes(axis) ? 1 : dim)) : data.dims.filter((_, axis) => !folded.includes(axis));
      return [{ dtype: data.dtype, dims }];
    },
    reference: ({ data, axes }, { noop_with_empty_axes }, [out]) => [
      finished(foldAxes(data, axesFor(listed(axes), noop_with_empty_axes, data.dims.length, name), FOLDS[fold]), out!, finish),
    ],
    lower: (b, { data, axes }, { noop_with_empty_axes }) => {
      const folded = axesFor(listed(axes?.constant), noop_with_empty_axes, data.dims.length, b.what);
      if (folded.length === 0 && !finish && fold !== "l1" && fold !== "sum_square") {
        b.alias(data.view);
        return;
      }
      const kind = (data.dtype === "bool" && BOOLEAN[fold as keyof typeof BOOLEAN]) || fold;
      const place = foldedTarget(b, data.dims, folded);
      if (fold === "mean" && !isFloat(data.dtype)) {
        lowerWholeMean(b, place, data.view, folded);
        return;
      }
      // Folding no axis is folding one of a single element.
      const source = folded.length > 0 ? data.view : { ...data.view, dims: [...data.dims, 1], strides: [...data.view.strides, 0] };
      b.reduce(kind, place, source, folded.length > 0 ? folded : [data.dims.length], finish && finishStrip(place, finish.strip));
    },
    tolerance,
    samples: () => [
      sample("rows", { data: positive([3, 5], 0.125), axes: axesOf(1) }),
      sample("columns", { data: ramp([3, 5]), axes: axesOf(0) }),
      sample("middle, dims dropped", { data: ramp([2, 3, 4]), axes: axesOf(1) }, { attributes: { keepdims: 0 } }),
      sample("all", { data: ramp([2, 3, 4], 0.5) }),
      sample("long rows", { data: noise([2, 1031]), axes: axesOf(-1) }),
      sample("attribute of opset 11", { data: ramp([2, 3]) }, { attributes: { axes: [0] }, opset: 11 }),
      rejects("axis outside", { data: ramp([2, 3]), axes: axesOf(2) }, 100021, /axis 2 .* rank 2/),
      ...samples(),
    ],
  });
}

/** The mean of integers is their sum, divided towards zero. */
function lowerWholeMean(b: Lowering, target: View, source: View, axes: readonly number[]): void {
  const wide = source.dtype === "uint64" ? "uint64" : "int64";
  const sum = b.temporary(wide, target.dims);
  const count = sizeOf(axes.map((axis) => source.dims[axis]!));
  b.reduce("sum", sum, b.converted(source, wide), axes);
  b.map(target, [sum], (s, total) => s.op("div", total!, s.constant(stripType(wide), count)));
}
const finished = (value: Tensor, out: ConcreteType, finish: Finish | undefined): Tensor =>
  finish ? mapTensors({ real: finish.real }, [{ ...asFloats(value), dims: out.dims }], out) : rounded(value, out);
const asFloats = (value: Tensor): Tensor => ({
  ...value,
  dtype: "float64",
  data: Float64Array.from(value.data as ArrayLike<number | bigint>, Number),
});

function finishStrip(target: View, op: Finish["strip"]): Strip {
  const strip = new StripBuilder(target.dims);
  const type = stripType(target.dtype);
  const value = strip.accumulator(type);
  // Whole numbers take the way through f64.
  strip.output(target, strip.op(op, type.startsWith("f") ? value : strip.cast(value, "f64")));
  return strip.strip();
}

/** The output without the axes that were folded, whether the node keeps them as 1 or not. */
export function foldedTarget(b: Lowering, dims: readonly number[], folded: readonly number[]): View {
  const target = b.target();
  const kept = dims.filter((_, axis) => !folded.includes(axis));
  return { ...target, dims: kept, strides: rowMajor(kept).map((stride) => stride * strideUnit(target)) };
}

/** Targets of reductions are dense, so the innermost stride is the element. */
const strideUnit = (target: {
  readonly strides: readonly number[];
  readonly dims: readonly number[];
  readonly blob: { readonly sizeBytes: number };
}): number => target.blob.sizeBytes / Math.max(1, sizeOf(target.dims));

const SUMMED: Tolerance = { relative: 2e-6, absolute: 2e-5, why: "lane-wise f32 sums against float64" };
const bools = (): Sample => sample("bool", { data: values("bool", [2, 2], [1, 0, 1, 1]), axes: axesOf(1) });
const EXACT: Tolerance = { relative: 0, absolute: 0, why: "picks an element" };
const int64 = (): Sample => sample("int64", { data: values("int64", [2, 2], [9007199254740993n, -2n, 3n, 4n]), axes: axesOf(1) });
export const ReduceSum = reduction("ReduceSum", "sum", SUMMED, () => [
  sample("empty axis sums to zero", { data: ramp([2, 0]), axes: axesOf(1) }),
  int64(),
]);
export const ReduceMean = reduction("ReduceMean", "mean", SUMMED, () => [
  int64(),
  sample("uint8", { data: values("uint8", [2, 3], [255, 254, 255, 1, 0, 1]), axes: axesOf(1) }),
]);
export const ReduceProd = reduction("ReduceProd", "prod", { ...SUMMED, relative: 1e-5 });
export const ReduceMax = reduction("ReduceMax", "max", EXACT, () => [int64(), bools()]);
export const ReduceMin = reduction("ReduceMin", "min", EXACT, () => [int64(), bools()]);
export const ReduceSumSquare = reduction("ReduceSumSquare", "sum_square", SUMMED, () => [int64()]);
export const ReduceL1 = reduction("ReduceL1", "l1", SUMMED);
export const ReduceL2 = reduction("ReduceL2", "sum_square", SUMMED, () => [], { strip: "sqrt", real: Math.sqrt });

/** Before opset 13 softmax worked on the flattened rest of the shape, from `axis` (default 1) on. */
const flattened = chain(setAttribute("$flattened", 1n), (form) => ({ ...form, attributes: new Map([["axis", 1n], ...form.attributes]) }));

/** One instruction: `axes` go innermost in memory, where the output does not have them there already. */
function softmaxOfRows(b: Lowering, view: View, axes: readonly number[]): void {
  const kept = view.dims.map((_, i) => i).filter((i) => !axes.includes(i));
  const order = [...kept, ...axes];
  const rows = (dense: View): View => {
    const { dims, strides } = permuteView(dense, order);
    return { ...dense, dims: [...dims.slice(0, kept.length), sizeOf(dims.slice(kept.length))], strides: [...strides.slice(0, kept.length), 4] };
  };
  const source = b.arranged(b.converted(view, "float32"), order);
  b.through("float32", order, (target) => b.softmax(rows(target), rows(source)));
}

function softmax(name: string, logarithm: boolean): AnyOp {
  const axesFrom = (axis: number, whole: number, rank: number, node: string): number[] => {
    const first = normalizeAxis(axis, rank, node);
    return whole ? Array.from({ length: rank - first }, (_, i) => first + i) : [first];
  };
  return defineOp({
    names: { onnx: [name, 13] },
    inputs: ["x"],
    attributes: { axis: int(-1), $flattened: int(0) },
    upgrades: { 13: flattened },
    layout: "follow",
    infer: ({ x }, { axis, $flattened }, { node }) => {
      requireDtype(x.dtype, "float", node);
      axesFrom(axis, $flattened, x.dims.length, node);
      return [{ dtype: x.dtype, dims: x.dims }];
    },
    reference: ({ x }, { axis, $flattened }, [out]) => {
      const axes = axesFrom(axis, $flattened, x.dims.length, name);
      const wide = { dtype: "float64" as const, dims: x.dims };
      const largest = foldAxes(x, axes, FOLDS.max);
      const shifted = mapTensors({ real: (v, m) => v! - m! }, [x, largest], wide);
      const total = foldAxes(mapTensors({ real: Math.exp }, [shifted], wide), axes, FOLDS.sum);
      const real = logarithm ? (v: number, sum: number) => v - Math.log(sum) : (v: number, sum: number) => Math.exp(v) / sum;
      return [mapTensors({ real }, [shifted, total], out!)];
    },
    lower: (b, { x }, { axis, $flattened }) => {
      const view = x.view;
      const axes = axesFrom(axis, $flattened, x.dims.length, b.what);
      if (!logarithm && x.dtype !== "float64") {
        softmaxOfRows(b, view, axes);
        return;
      }
      const dims = view.dims.filter((_, i) => !axes.includes(i));
      const type = isFloat(x.dtype) && x.dtype !== "float64" ? "float32" : x.dtype;
      // Folded results seen with the full shape again: stride 0 along the folded axes.
      const spread = (folded: typeof view): typeof view => {
        const one = { ...folded, dims: view.dims.map((dim, i) => (axes.includes(i) ? 1 : dim)), strides: [] as number[] };
        const rest = [...folded.strides];
        one.strides.push(...view.dims.map((_, i) => (axes.includes(i) ? 0 : rest.shift()!)));
        return broadcastView(one, view.dims);
      };
      const largest = b.temporary(x.dtype, dims);
      b.reduce("max", largest, view, axes);
      const target = b.target();
      const order = b.node.outputs[0]!.layout;
      const powers = b.temporary(type, view.dims, order);
      b.map(powers, [view, spread(largest)], (s, v, m) => s.op("exp", s.op("sub", v, m)));
      const total = b.temporary(type, dims);
      b.reduce("sum", total, powers, axes);
      if (logarithm) {
        b.map(target, [view, spread(largest), spread(total)], (s, v, m, sum) => s.op("sub", s.op("sub", v, m), s.op("log", sum)));
      } else {
        b.map(target, [powers, spread(total)], (s, v, sum) => s.op("div", v, sum));
      }
    },
    tolerance: { relative: 5e-6, absolute: 2e-6, why: "f32 exponential and sum" },
    samples: () => [
      sample("last axis", { x: ramp([3, 7], 0.5) }),
      sample("axis 1 of 3", { x: ramp([2, 5, 3], 0.5) }, { attributes: { axis: 1 } }),
      sample("flattened rest of opset 11", { x: ramp([2, 3, 4], 0.25) }, { opset: 11 }),
      sample("large values", { x: ramp([2, 64], 40) }),
      rejects("axis outside", { x: ramp([2, 3]) }, 100021, /axis 2/, { attributes: { axis: 2 } }),
    ],
  });
}
export const Softmax = softmax("Softmax", false);
export const LogSoftmax = softmax("LogSoftmax", true);
