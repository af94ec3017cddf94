/**
 * Operators of models that onnxruntime's quantizer wrote (domain com.microsoft): operands in 8 bits with a scale and a zero point each. All but the products
 * of integers are what they are in floats between DequantizeLinear and QuantizeLinear, which the compiler fuses to one pass.
 */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { sizeOf, type Tensor } from "../graph/tensor";
import { mapTensors } from "./arithmetic";
import { CLOSE, CONTRIB } from "./contrib";
import { type AnyOp, type ConcreteType, defineOp, float, int, type Tolerance, type Type } from "./define";
import type { Expansion } from "./expansion";
import { MatMul, multiply } from "./matmul";
import { halfEven, saturate } from "./quantization";
import { fixed, noise, rejects, sample, scalar, values } from "./sample";

export const ONE_STEP: Tolerance = { relative: 0, absolute: 1, why: "a number on the boundary between two steps may round either way" };

const first = (of: Tensor | undefined): number => Number(of?.data[0] ?? 0);
export const wide = (of: { readonly dims: readonly number[] }): ConcreteType => ({ dtype: "float64", dims: of.dims });
/** The real numbers that an operand stands for. */
export const real = (x: Tensor, scale: Tensor, zero: Tensor | undefined): Tensor =>
  mapTensors({ real: (v) => (v - first(zero)) * first(scale) }, [x], wide(x));
export const stored = (x: Tensor, scale: Tensor, zero: Tensor | undefined, out: ConcreteType): Tensor =>
  mapTensors({ real: (v) => saturate(out.dtype, halfEven(v / first(scale)) + first(zero)) }, [x], out);
export const dequantized = (g: Expansion, x: Value, scale: Value, zero: Value | undefined): Value => g.call("DequantizeLinear", [x, scale, zero]);
export const quantized = (g: Expansion, x: Value, scale: Value, zero: Value | undefined): Value => g.call("QuantizeLinear", [x, scale, zero]);

export function requireBytes({ dtype, dims }: Type, node: string): void {
  if (dtype !== "int8" && dtype !== "uint8") {
    throw shapeError(`${node}: takes int8 and uint8, not ${dtype}${formatDims(dims)}`);
  }
}
export const bytes = (...dims: number[]) =>
  values(
    "uint8",
    dims,
    Array.from({ length: sizeOf(dims) }, (_, i) => (i * 37) % 256),
  );

function binary(name: string, op: "Add" | "Mul", f: (a: number, b: number) => number): AnyOp {
  return defineOp({
    names: { onnx: [name, 1, CONTRIB] },
    inputs: ["a", "aScale", "aZero?", "b", "bScale", "bZero?", "yScale", "yZero?"],
    infer: ({ a, b }, _, context) => {
      requireBytes(a, context.node);
      const { Add } = require("./binary") as typeof import("./binary");
      return Add.infer({ a: { dtype: "float32", dims: a.dims }, b: { dtype: "float32", dims: b.dims } } as never, {}, context).map(({ dims }) => ({
        dtype: a.dtype,
        dims,
      }));
    },
    reference: ({ a, aScale, aZero, b, bScale, bZero, yScale, yZero }, _, [out]) => [
      stored(mapTensors({ real: f }, [real(a, aScale, aZero), real(b, bScale, bZero)], wide(out!)), yScale, yZero, out!),
    ],
    expand: (g, { a, aScale, aZero, b, bScale, bZero, yScale, yZero }) => [
      quantized(g, g.call(op, [dequantized(g, a, aScale, aZero), dequantized(g, b, bScale, bZero)]), yScale, zeroOf(g, yZero, a)),
    ],
    tolerance: ONE_STEP,
    samples: () => [
      sample("a row", {
        ...{ a: bytes(3, 5), aScale: scalar(0.1), aZero: scalar(100, "uint8"), b: bytes(5), bScale: scalar(0.05), bZero: scalar(7, "uint8") },
        ...{ yScale: scalar(0.15), yZero: scalar(90, "uint8") },
      }),
      sample("no zero points", { a: bytes(4), aScale: scalar(0.1), b: bytes(2, 4), bScale: scalar(0.2), yScale: scalar(0.5) }),
      rejects("floats", { a: noise([2]), aScale: scalar(1), b: noise([2]), bScale: scalar(1), yScale: scalar(1) }, 100021, /int8 and uint8/),
    ],
  });
}
/** Without a zero point the result has the type of the data. */
export const zeroOf = (g: Expansion, zero: Value | undefined, like: Value): Value => zero ?? g.scalar(0, like.dtype!);

export const QLinearAdd = binary("QLinearAdd", "Add", (a, b) => a + b);
export const QLinearMul = binary("QLinearMul", "Mul", (a, b) => a * b);

interface Single {
  readonly name: string;
  readonly alpha?: number;
  readonly real: (x: number, alpha: number) => number;
  readonly expand: (g: Expansion, x: Value, alpha: number) => Value;
}
function unary({ name, alpha, real: f, expand }: Single): AnyOp {
  return defineOp({
    names: { onnx: [name, 1, CONTRIB] },
    inputs: ["x", "xScale", "xZero?", "yScale", "yZero?"],
    attributes: (alpha === undefined ? {} : { alpha: float(alpha) }) as { alpha: ReturnType<typeof float> },
    infer: ({ x }, _, { node }) => {
      requireBytes(x, node);
      return [{ dtype: x.dtype, dims: x.dims }];
    },
    reference: ({ x, xScale, xZero, yScale, yZero }, given, [out]) => [
      stored(mapTensors({ real: (v) => f(v, Number(given.alpha ?? alpha)) }, [real(x, xScale, xZero)], wide(x)), yScale, yZero, out!),
    ],
    expand: (g, { x, xScale, xZero, yScale, yZero }, given) => [
      quantized(g, expand(g, dequantized(g, x, xScale, xZero), Number(given.alpha ?? alpha)), yScale, zeroOf(g, yZero, x)),
    ],
    tolerance: ONE_STEP,
    samples: () => [
      sample("uint8", { x: bytes(3, 7), xScale: scalar(0.05), xZero: scalar(128, "uint8"), yScale: scalar(1 / 256), yZero: scalar(3, "uint8") }),
      sample("no zero points", { x: bytes(9), xScale: scalar(0.02), yScale: scalar(0.02) }),
    ],
  });
}
export const QLinearSigmoid = unary({ name: "QLinearSigmoid", real: (x) => 1 / (1 + Math.exp(-x)), expand: (g, x) => g.call("Sigmoid", [x]) });
export const QLinearLeakyRelu = unary({
  name: "QLinearLeakyRelu",
  alpha: 0.01,
  real: (x, alpha) => (x < 0 ? alpha * x : x),
  expand: (g, x, alpha) => g.call("LeakyRelu", [x], { alpha }),
});

export const QLinearGlobalAveragePool = defineOp({
  names: { onnx: ["QLinearGlobalAveragePool", 1, CONTRIB] },
  inputs: ["x", "xScale", "xZero", "yScale", "yZero"],
  attributes: { channels_last: int(0) },
  infer: ({ x }, { channels_last }, { node }) => {
    requireBytes(x, node);
    if (x.dims.length < 3) {
      throw shapeError(`${node}: data ${formatDims(x.dims)} has no spatial dims`);
    }
    const channel = channels_last ? x.dims.length - 1 : 1;
    return [{ dtype: x.dtype, dims: x.dims.map((dim, axis) => (axis === 0 || axis === channel ? dim : 1)) }];
  },
  reference: ({ x, xScale, xZero, yScale, yZero }, { channels_last }, [out]) => {
    const [size, channels] = [sizeOf(x.dims) / sizeOf(out!.dims), x.dims[channels_last ? x.dims.length - 1 : 1]!];
    const sums = new Float64Array(sizeOf(out!.dims));
    real(x, xScale, xZero).data.forEach((value, i) => {
      const at = channels_last ? Math.floor(i / (size * channels)) * channels + (i % channels) : Math.floor(i / size);
      sums[at]! += Number(value) / size;
    });
    return [stored({ dtype: "float64", dims: out!.dims, data: sums }, yScale, yZero, out!)];
  },
  expand: (g, { x, xScale, xZero, yScale, yZero }, { channels_last }) => {
    const axes = x.dims!.map((_, axis) => axis).slice(channels_last ? 1 : 2, channels_last ? -1 : undefined);
    const mean = g.call("ReduceMean", [dequantized(g, x, xScale, xZero), g.list(...axes)], { keepdims: 1 });
    return [quantized(g, mean, yScale, yZero)];
  },
  tolerance: ONE_STEP,
  samples: () => [
    sample("planes", { x: bytes(2, 3, 4, 5), xScale: scalar(0.1), xZero: scalar(9, "uint8"), yScale: scalar(0.07), yZero: scalar(1, "uint8") }),
    sample(
      "channels last",
      { x: bytes(2, 4, 5, 3), xScale: scalar(0.1), xZero: scalar(9, "uint8"), yScale: scalar(0.07), yZero: scalar(1, "uint8") },
      { attributes: { channels_last: 1 } },
    ),
  ],
});

/** Inputs of a concatenation: tensor, scale and zero point, one after the other. */
const triples = <T>(list: readonly T[]): [T, T, T][] =>
  Array.from({ length: Math.floor(list.length / 3) }, (_, i) => list.slice(3 * i, 3 * i + 3) as [T, T, T]);

export const QLinearConcat = defineOp({
  names: { onnx: ["QLinearConcat", 1, CONTRIB] },
  inputs: ["yScale", "yZero", "...inputs"],
  attributes: { axis: int(0) },
  infer: ({ yZero, inputs }, { axis }, context) => {
    if (inputs.length === 0 || inputs.length % 3 !== 0) {
      throw shapeError(`${context.node}: ${inputs.length} inputs; each tensor needs a scale and a zero point`);
    }
    const { Concat } = require("./movement") as typeof import("./movement");
    const [type] = Concat.infer({ inputs: triples(inputs).map(([x]) => x) } as never, { axis } as never, context);
    return [{ dtype: yZero.dtype, dims: type!.dims }];
  },
  reference: ({ yScale, yZero, inputs }, { axis }, [out]) => {
    const at = axis < 0 ? axis + out!.dims.length : axis;
    const [inner, outer] = [sizeOf(out!.dims.slice(at + 1)), sizeOf(out!.dims.slice(0, at))];
    const parts = triples(inputs).map(([x, scale, zero]) => real(x, scale, zero));
    const data = Array.from({ length: outer }, (_, row) =>
      parts.flatMap((part) => Array.from((part.data as Float64Array).subarray(row * part.dims[at]! * inner, (row + 1) * part.dims[at]! * inner))),
    ).flat();
    return [stored({ dtype: "float64", dims: out!.dims, data: Float64Array.from(data) }, yScale, yZero, out!)];
  },
  expand: (g, { yScale, yZero, inputs }, { axis }) => {
    // Each by itself: then what has the scale of the result stays bytes once the compiler sees both.
    const parts = triples(inputs).map(([x, scale, zero]) => quantized(g, dequantized(g, x, scale, zero), yScale, yZero));
    return [g.call("Concat", parts, { axis })];
  },
  tolerance: ONE_STEP,
  samples: () => [
    sample(
      "two scales",
      {
        ...{ yScale: scalar(0.1), yZero: scalar(10, "uint8") },
        inputs: [bytes(2, 3), scalar(0.1), scalar(10, "uint8"), bytes(2, 2), scalar(0.05), scalar(0, "uint8")],
      },
      { attributes: { axis: 1 } },
    ),
    rejects("a scale is missing", { yScale: scalar(0.1), yZero: scalar(10, "uint8"), inputs: [bytes(2, 3), scalar(0.1)] }, 100021, /2 inputs/),
  ],
});

/** A product of integers with the scales of both sides, a bias behind it. */
export const MatMulIntegerToFloat = defineOp({
  names: { onnx: ["MatMulIntegerToFloat", 1, CONTRIB] },
  inputs: ["a", "b", "aScale", "bScale", "aZero?", "bZero?", "bias?"],
  infer: ({ a, b, aScale }, _, context) => {
    [a, b].forEach((each) => requireBytes(each, context.node));
    const { dims } = MatMul.infer({ a: { dtype: "int32", dims: a.dims }, b: { dtype: "int32", dims: b.dims } } as never, {}, context)[0]!;
    return [{ dtype: aScale.dtype, dims }];
  },
  reference: ({ a, b, aScale, bScale, aZero, bZero, bias }, _, [out]) => {
    const [left, right] = [
      real(a, aScale, aZero),
      mapTensors({ real: (v, s, z = 0) => (v - z) * s }, [b, bScale, ...(bZero ? [bZero] : [])], wide(b)),
    ];
    return [mapTensors({ real: (v, shift = 0) => v + shift }, [multiply(left, right, "float64"), ...(bias ? [bias] : [])], out!)];
  },
  expand: (g, { a, b, aScale, bScale, aZero, bZero, bias }) => {
    const product = g.cast(g.call("MatMulInteger", [a, b, aZero, bZero]), aScale.dtype!);
    const scaled = g.call("Mul", [product, g.call("Mul", [aScale, bScale])]);
    return [bias ? g.call("Add", [scaled, bias]) : scaled];
  },
  tolerance: CLOSE,
  samples: () => [
    sample("columns, a bias", {
      ...{
        a: bytes(2, 3),
        b: fixed(values("int8", [3, 2], [1, -2, 3, -4, 127, -128])),
        aScale: scalar(0.1),
        bScale: fixed(values("float32", [2], [0.2, 0.3])),
      },
      ...{ aZero: scalar(128, "uint8"), bZero: fixed(values("int8", [2], [1, -1])), bias: fixed(noise([2])) },
    }),
    rejects("floats", { a: noise([2, 2]), b: noise([2, 2]), aScale: scalar(1), bScale: scalar(1) }, 100021, /int8 and uint8/),
  ],
});

export const DynamicQuantizeMatMul = defineOp({
  names: { onnx: ["DynamicQuantizeMatMul", 1, CONTRIB] },
  inputs: ["a", "b", "bScale", "bZero?", "bias?"],
  infer: ({ a, b }, _, context) => {
    requireBytes(b, context.node);
    if (a.dtype !== "float32") {
      throw new AclError(100026, `${context.node} takes float32, not ${a.dtype}`);
    }
    return MatMul.infer({ a, b: { dtype: "float32", dims: b.dims } } as never, {}, context);
  },
  reference: ({ a, b, bScale, bZero, bias }, _, [out]) => {
    const { DynamicQuantizeLinear } = require("./quantization") as typeof import("./quantization");
    const types = [
      { dtype: "uint8" as const, dims: a.dims },
      { dtype: "float32" as const, dims: [] },
      { dtype: "uint8" as const, dims: [] },
    ];
    const [y, scale, zero] = DynamicQuantizeLinear.reference({ x: a } as never, {}, types) as [Tensor, Tensor, Tensor];
    const inputs = { a: y, b, aScale: scale, bScale, aZero: zero, ...(bZero ? { bZero } : {}), ...(bias ? { bias } : {}) };
    return MatMulIntegerToFloat.reference(inputs as never, {}, [out!]);
  },
  expand: (g, { a, b, bScale, bZero, bias }) => {
    const [y, scale, zero] = g.calls(3, "DynamicQuantizeLinear", [a]) as [Value, Value, Value];
    return g.calls(1, "MatMulIntegerToFloat", [y, b, scale, bScale, zero, bZero, bias], {}, CONTRIB);
  },
  tolerance: { relative: 1e-2, absolute: 1e-2, why: "a number on the boundary between two steps may round either way" },
  samples: () => [
    sample("a bias", {
      a: noise([3, 8]),
      b: fixed(values("int8", [8, 2], [1, -2, 3, -4, 5, 6, 7, 8, 9, 1, 2, 3, -4, 5, 6, 7])),
      bScale: scalar(0.02),
      bias: fixed(noise([2])),
    }),
    rejects("integers", { a: bytes(2, 2), b: bytes(2, 2), bScale: scalar(1) }, 100026, /takes float32/),
  ],
});
