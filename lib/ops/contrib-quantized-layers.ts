/** More operators of onnxruntime's quantizer (domain com.microsoft): the product with a bias, and ONNX's own operators on dequantized numbers. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, normalizeAxis, shapeError } from "../graph/dims";
import { sizeOf, type Tensor } from "../graph/tensor";
import { mapTensors } from "./arithmetic";
import { CONTRIB } from "./contrib";
import { make, read } from "./contrib-attention";
import { bytes, dequantized, ONE_STEP, quantized, real, requireBytes, stored, wide, zeroOf } from "./contrib-quantized";
import { defineOp, float, int, ints, required, string, type Type } from "./define";
import { multiply } from "./matmul";
import { rescaled } from "./quantized";
import { FOLDS, foldAxes } from "./reduction";
import { fixed, noise, rejects, sample, scalar, values } from "./sample";

const turnedType = ({ dtype, dims: [rows, columns] }: Type): Type => ({ dtype, dims: [columns!, rows!] });
function turned(x: Tensor): Tensor {
  const [rows, columns] = x.dims as [number, number];
  const at = (i: number): number => (i % rows) * columns + Math.floor(i / rows);
  return { ...x, dims: [columns, rows], data: (x.data as Float64Array).map((_, i) => Number(x.data[at(i)])) };
}

export const QGemm = defineOp({
  names: { onnx: ["QGemm", 1, CONTRIB] },
  inputs: ["a", "aScale", "aZero", "b", "bScale", "bZero", "c?", "yScale?", "yZero?"],
  attributes: { alpha: float(1), transA: int(0), transB: int(0) },
  infer: ({ a, b, c, yScale, yZero }, { transA, transB }, { node }) => {
    for (const each of [a, b, ...(yZero ? [yZero] : [])]) requireBytes(each, node);
    if (a.dims.length !== 2 || b.dims.length !== 2) {
      throw shapeError(`${node}: ${formatDims(a.dims)} and ${formatDims(b.dims)} are not both matrices`);
    }
    const [m, k] = (transA ? turnedType(a) : a).dims as [Dim, Dim];
    const [depth, n] = (transB ? turnedType(b) : b).dims as [Dim, Dim];
    if (typeof k === "number" && typeof depth === "number" && k !== depth) {
      throw shapeError(`${node}: matrices ${formatDims([m, k])} and ${formatDims([depth, n])} have no product`);
    }
    if (c && c.dtype !== "int32") {
      throw new AclError(100026, `${node}: the bias is ${c.dtype}; it is int32, in steps of both scales together`);
    }
    return [{ dtype: yScale ? (yZero?.dtype ?? a.dtype) : "float32", dims: [m, n] }];
  },
  reference: ({ a, aScale, aZero, b, bScale, bZero, c, yScale, yZero }, { alpha, transA, transB }, [out]) => {
    const [left, right] = [transA ? turned(a) : a, transB ? turned(b) : b];
    const scaled = { real: (v: number, scale: number, zero: number) => (v - zero) * scale };
    const product = multiply(
      mapTensors(scaled as never, [left, aScale, aZero], wide(left)),
      mapTensors(scaled as never, [right, bScale, bZero], wide(right)),
      "float64",
    );
    const bias = { real: (v: number, scale: number, by: number, shift = 0) => alpha * (v + shift * scale * by) };
    const y = mapTensors(bias as never, [product, aScale, bScale, ...(c ? [c] : [])], yScale ? wide(out!) : out!);
    return [yScale ? stored(y, yScale, yZero, out!) : y];
  },
  expand: (g, { a, aScale, aZero, b, bScale, bZero, c, yScale, yZero }, { alpha, transA, transB }) => {
    const [left, right] = [transA ? g.transpose(a, [1, 0]) : a, transB ? g.transpose(b, [1, 0]) : b];
    const product = g.call("MatMulInteger", [left, right, aZero, bZero]);
    const sums = g.cast(c ? g.call("Add", [product, c]) : product, "float32");
    const scale = g.call("Mul", [g.call("Mul", [g.reshape(aScale, []), bScale]), g.scalar(alpha)]);
    return [yScale ? rescaled(g, sums, scale, g.reshape(yScale, []), g.reshape(zeroOf(g, yZero, a), [])) : g.call("Mul", [sums, scale])];
  },
  tolerance: { ...ONE_STEP, relative: 1e-6 },
  samples: () => {
    const matrix = fixed(values("int8", [3, 2], [1, -2, 3, -4, 127, -128]));
    const left = { a: bytes(4, 3), aScale: scalar(0.1), aZero: scalar(128, "uint8") };
    const perColumn = { bScale: fixed(values("float32", [2], [0.2, 0.3])), bZero: fixed(values("int8", [2], [1, -1])) };
    const result = { yScale: scalar(4), yZero: scalar(100, "uint8") };
    return [
      sample("a bias, a scale for each column", { ...left, b: matrix, ...perColumn, c: fixed(values("int32", [2], [500, -700])), ...result }),
      sample(
        "both turned, alpha",
        {
          ...left,
          a: bytes(3, 4),
          b: fixed(values("int8", [2, 3], [1, -2, 3, -4, 127, -128])),
          ...perColumn,
          ...result,
        },
        { attributes: { transA: 1, transB: 1, alpha: 0.5 } },
      ),
      // Steps of 2,000: one of them is far more than the tolerance.
      sample("float32", { ...left, aScale: scalar(40), b: matrix, bScale: scalar(50), bZero: scalar(0, "int8") }),
      rejects("a float bias", { ...left, b: matrix, ...perColumn, c: noise([2]), ...result }, 100026, /the bias is float32/),
      rejects("no product", { ...left, a: bytes(2, 4), b: matrix, ...perColumn, ...result }, 100021, /have no product/),
    ];
  },
});

const ONE = ["x", "xScale", "xZero?", "yScale", "yZero?"] as const;
/** A sample's numbers around `x`. */
const around = (x: ReturnType<typeof bytes>) => ({
  ...{ x, xScale: scalar(0.1), xZero: scalar(9, "uint8"), yScale: scalar(0.07), yZero: scalar(1, "uint8") },
});
/** Of an image with channels last: where they stand otherwise, and back. */
const channelsFirst = (rank: number): number[] => [0, rank - 1, ...Array.from({ length: rank - 2 }, (_, i) => i + 1)];
const channelsLast = (rank: number): number[] => [0, ...Array.from({ length: rank - 2 }, (_, i) => i + 2), 1];

const WINDOW = { kernel_shape: required(ints()), strides: ints(), pads: ints(), auto_pad: string("NOTSET"), ceil_mode: int(0) };
const pooling = (): typeof import("./pooling") => require("./pooling") as typeof import("./pooling");

export const QLinearAveragePool = defineOp({
  names: { onnx: ["QLinearAveragePool", 1, CONTRIB] },
  inputs: ONE,
  attributes: { ...WINDOW, count_include_pad: int(0), channels_last: int(0) },
  infer: ({ x }, { channels_last, ...window }, context) => {
    requireBytes(x, context.node);
    const order = (dims: readonly Dim[], perm: readonly number[]): Dim[] => (channels_last ? perm.map((axis) => dims[axis]!) : [...dims]);
    const type = { dtype: "float32" as const, dims: order(x.dims, channelsFirst(x.dims.length)) };
    const [{ dims }] = pooling().AveragePool.infer({ x: type } as never, window as never, context) as [Type];
    return [{ dtype: x.dtype, dims: order(dims, channelsLast(dims.length)) }];
  },
  reference: ({ x, xScale, xZero, yScale, yZero }, { channels_last, ...window }, [out]) => {
    const rank = x.dims.length;
    const [source, target] = [real(x, xScale, xZero), wide(out!)];
    if (!channels_last) return [stored(pooling().AveragePool.reference({ x: source } as never, window as never, [target])[0]!, yScale, yZero, out!)];
    const dims = channelsFirst(rank).map((axis) => out!.dims[axis]!);
    const [pooled] = pooling().AveragePool.reference({ x: permuted(source, channelsFirst(rank)) } as never, window as never, [{ ...target, dims }]);
    return [stored(permuted(pooled!, channelsLast(rank)), yScale, yZero, out!)];
  },
  expand: (g, { x, xScale, xZero, yScale, yZero }, { channels_last, ...window }) => {
    const rank = x.dims!.length;
    const source = dequantized(g, channels_last ? g.transpose(x, channelsFirst(rank)) : x, xScale, xZero);
    const pooled = quantized(g, g.call("AveragePool", [source], window as never), yScale, zeroOf(g, yZero, x));
    return [channels_last ? g.transpose(pooled, channelsLast(rank)) : pooled];
  },
  tolerance: ONE_STEP,
  samples: () => [
    sample("pads", around(bytes(2, 3, 5, 4)), { attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1], strides: [2, 2] } }),
    sample("pads counted", around(bytes(1, 2, 5, 5)), { attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1], count_include_pad: 1 } }),
    sample("channels last", around(bytes(1, 5, 4, 3)), { attributes: { kernel_shape: [2, 2], channels_last: 1 } }),
    rejects("floats", { ...around(bytes(1)), x: noise([1, 1, 2, 2]) }, 100021, /int8 and uint8/, { attributes: { kernel_shape: [2, 2] } }),
  ],
});

function permuted(x: Tensor, perm: readonly number[]): Tensor {
  const dims = perm.map((axis) => x.dims[axis]!);
  return make(dims, (...place) => read(x, ...x.dims.map((_, axis) => place[perm.indexOf(axis)]!)));
}

/** Before opset 13, which the attribute `opset` tells, all axes from `axis` on are one. */
const softmaxAxes = (axis: number, opset: number, rank: number, node: string): number[] => {
  const first = normalizeAxis(axis, rank, node);
  return Array.from({ length: opset < 13 ? rank - first : 1 }, (_, i) => first + i);
};

export const QLinearSoftmax = defineOp({
  names: { onnx: ["QLinearSoftmax", 1, CONTRIB] },
  inputs: ["x", "xScale", "xZero?", "yScale", "yZero"],
  attributes: { axis: int(-1), opset: required(int()) },
  infer: ({ x }, { axis, opset }, { node }) => {
    requireBytes(x, node);
    softmaxAxes(axis, opset, x.dims.length, node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, xScale, xZero, yScale, yZero }, { axis, opset }, [out]) => {
    const axes = softmaxAxes(axis, opset, x.dims.length, "QLinearSoftmax");
    const source = real(x, xScale, xZero);
    const powers = mapTensors({ real: (v, m) => Math.exp(v - m!) }, [source, foldAxes(source, axes, FOLDS.max)], wide(x));
    const y = mapTensors({ real: (v, sum) => v / sum! }, [powers, foldAxes(powers, axes, FOLDS.sum)], wide(x));
    return [stored(y, yScale, yZero, out!)];
  },
  expand: (g, { x, xScale, xZero, yScale, yZero }, { axis, opset }) => {
    const axes = softmaxAxes(axis, opset, x.dims!.length, g.what);
    const kept = x.dims!.filter((_, i) => i < axes[0]! || i > axes.at(-1)!) as number[];
    const source = dequantized(g, x, xScale, xZero);
    const flat = axes.length > 1 ? g.reshape(source, [...kept, sizeOf(axes.map((i) => x.dims![i] as number))]) : source;
    const y = g.call("Softmax", [flat], { axis: axes.length > 1 ? -1 : axes[0]! });
    return [quantized(g, g.reshape(y, x.dims as number[]), yScale, yZero)];
  },
  tolerance: ONE_STEP,
  samples: () => {
    const logits = (x: ReturnType<typeof bytes>) => ({ ...around(x), yScale: scalar(1 / 256), yZero: scalar(0, "uint8") });
    return [
      sample("one axis", logits(bytes(2, 5, 3)), { attributes: { axis: 1, opset: 13 } }),
      sample("the rest as one", logits(bytes(2, 4, 3)), { attributes: { axis: 1, opset: 11 } }),
      rejects("axis outside", logits(bytes(2, 3)), 100021, /axis 2/, { attributes: { axis: 2, opset: 13 } }),
    ];
  },
});

export const QLinearWhere = defineOp({
  names: { onnx: ["QLinearWhere", 1, CONTRIB] },
  inputs: ["condition", "x", "xScale", "xZero", "y", "yScale", "yZero", "zScale", "zZero"],
  infer: ({ condition, x, y }, _, context) => {
    for (const each of [x, y]) requireBytes(each, context.node);
    const { Where } = require("./binary") as typeof import("./binary");
    return Where.infer({ condition, x, y } as never, {}, context);
  },
  reference: ({ condition, x, xScale, xZero, y, yScale, yZero, zScale, zZero }, _, [out]) => {
    const chosen = mapTensors({ real: (c, a, b) => (c ? a! : b!) }, [condition, real(x, xScale, xZero), real(y, yScale, yZero)], wide(out!));
    return [stored(chosen, zScale, zZero, out!)];
  },
  expand: (g, { condition, x, xScale, xZero, y, yScale, yZero, zScale, zZero }) => {
    const chosen = g.call("Where", [condition, dequantized(g, x, xScale, xZero), dequantized(g, y, yScale, yZero)]);
    return [quantized(g, chosen, zScale, zZero)];
  },
  tolerance: ONE_STEP,
  samples: () => {
    const scales = {
      xScale: scalar(0.1),
      xZero: scalar(9, "uint8"),
      yScale: scalar(0.2),
      yZero: scalar(3, "uint8"),
      zScale: scalar(0.15),
      zZero: scalar(7, "uint8"),
    };
    const condition = values("bool", [3, 1], [1, 0, 1]);
    return [
      sample("broadcast", { condition, x: bytes(3, 4), y: bytes(4), ...scales }),
      rejects("floats", { condition, x: noise([3, 4]), y: bytes(4), ...scales }, 100021, /int8 and uint8/),
    ];
  },
});
