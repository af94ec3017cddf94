/** Quantized products and convolutions: what they are made of is exact in whole numbers, the scales come last. */
import { formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { elements, sizeOf, type Tensor } from "../graph/tensor";
import { mapTensors } from "./arithmetic";
import { type ConcreteType, defineOp, int, ints, string, type Type } from "./define";
import type { Expansion } from "./expansion";
import { multiply } from "./matmul";
import { halfEven, saturate } from "./quantization";
import { fixed, noise, rejects, sample, scalar, values } from "./sample";
import { requireZeros } from "./integer-product";
import { depthwise, lowerIntegerConv } from "./integer-convolution";
import type { Window } from "../program/types";
import { eachTap, type WindowAttributes, windowOf } from "./window";

const tolerance = { relative: 0, absolute: 1, why: "one step, where the product of the scales rounds the other way" };

const first = (of: Tensor | undefined): number => Number(of?.data[0] ?? 0);

function requireBytes(types: readonly (Type | undefined)[], node: string): void {
  const wrong = types.find((type) => type && type.dtype !== "int8" && type.dtype !== "uint8");
  if (wrong) {
    throw shapeError(`${node}: takes int8 and uint8, not ${wrong.dtype}${formatDims(wrong.dims)}`);
  }
}

/** [M] along rows of a, [N] along columns of b. */
const column = (g: Expansion, of: Value): Value => (of.dims!.length === 1 && of.dims![0] !== 1 ? g.reshape(of, [of.dims![0] as number, 1]) : of);

/** Sums in steps of `scale` -> steps of `yScale`: one factor for both, so that each element is rounded once before it becomes whole. */
export function rescaled(g: Expansion, sums: Value, scale: Value, yScale: Value, yZero: Value): Value {
  const by = g.cast(yScale, "float32");
  return sizeOf([...by.dims!, ...yZero.dims!] as number[]) > 1
    ? g.call("QuantizeLinear", [g.call("Mul", [sums, scale]), by, yZero], { axis: -1 })
    : g.call("QuantizeLinear", [g.call("Mul", [sums, g.call("Div", [scale, by])]), g.scalar(1), yZero]);
}

export const QLinearMatMul = defineOp({
  names: { onnx: ["QLinearMatMul", 21] },
  inputs: ["a", "aScale", "aZero", "b", "bScale", "bZero", "yScale", "yZero"],
  infer: ({ a, b, yZero }, _, { node }) => {
    requireBytes([a, b, yZero], node);
    const [m, k] = a.dims.slice(-2);
    if (a.dims.length < 2 || b.dims.length < 2 || k !== b.dims[b.dims.length - 2]) {
      throw shapeError(`${node}: matrices ${formatDims(a.dims)} and ${formatDims(b.dims)} have no product`);
    }
    const batch = a.dims.length >= b.dims.length ? a.dims.slice(0, -2) : b.dims.slice(0, -2);
    return [{ dtype: yZero.dtype, dims: [...batch, m!, b.dims[b.dims.length - 1]!] }];
  },
  reference: ({ a, aScale, aZero, b, bScale, bZero, yScale, yZero }, _, [out]) => {
    const rows = (of: Tensor): Tensor => (of.dims.length === 1 && of.dims[0] !== 1 ? { ...of, dims: [of.dims[0]!, 1] } : of);
    const real = (v: number, scale: number, zero: number): number => (v - zero) * scale;
    const wide = (of: Tensor): ConcreteType => ({ dtype: "float64", dims: of.dims });
    const product = multiply(
      mapTensors({ real }, [a, rows(aScale), rows(aZero)], wide(a)),
      mapTensors({ real }, [b, bScale, bZero], wide(b)),
      "float64",
    );
    const stored = { real: (v: number, scale: number, zero: number) => saturate(out!.dtype, halfEven(v / scale) + zero) };
    return [mapTensors(stored as never, [product, yScale, yZero], out!)];
  },
  expand: (g, { a, aScale, aZero, b, bScale, bZero, yScale, yZero }) => {
    const product = g.cast(g.call("MatMulInteger", [a, b, aZero, bZero]), "float32");
    const scale = g.call("Mul", [column(g, g.cast(aScale, "float32")), g.cast(bScale, "float32")]);
    return [rescaled(g, product, scale, yScale, yZero)];
  },
  tolerance,
  samples: () => [
    sample("zero points", {
      a: values("uint8", [2, 3], [1, 200, 3, 255, 0, 7]),
      aScale: scalar(0.05),
      aZero: scalar(113, "uint8"),
      b: values("uint8", [3, 2], [1, 254, 3, 128, 127, 99]),
      bScale: scalar(0.02),
      bZero: scalar(114, "uint8"),
      yScale: scalar(0.1),
      yZero: scalar(118, "uint8"),
    }),
    rejects(
      "no product",
      {
        a: values("int8", [2, 3], [1, 2, 3, 4, 5, 6]),
        aScale: scalar(1),
        aZero: scalar(0, "int8"),
        b: values("int8", [2, 2], [1, 2, 3, 4]),
        bScale: scalar(1),
        bZero: scalar(0, "int8"),
        yScale: scalar(1),
        yZero: scalar(0, "int8"),
      },
      100021,
      /no product/,
    ),
  ],
});

const CONV = { kernel_shape: ints(), strides: ints(), dilations: ints(), pads: ints(), auto_pad: string("NOTSET"), group: int(1) };
type Conv = WindowAttributes & { readonly group: number };

/** The convolution of whole numbers by its definition. */
function convReference(x: Tensor, w: Tensor, x0: number, w0: Tensor | undefined, attributes: Conv, out: ConcreteType): Tensor {
  const [spatial, places, kernel] = [x, out, w].map(({ dims }) => dims.slice(2)) as [number[], number[], number[]];
  const { window } = windowOf(spatial, kernel, attributes, "convolution");
  const [channels, filters, perGroup] = [x.dims[1]!, w.dims[0]!, w.dims[1]!];
  const [size, taps, outputs] = [sizeOf(spatial), sizeOf(kernel), sizeOf(places)];
  const data = elements(out.dtype, sizeOf(out.dims)) as Float64Array;
  eachTap(spatial, places, window, (output, tap, input) => {
    for (let row = 0; input >= 0 && row < data.length / outputs; row++) {
      const [n, m] = [Math.floor(row / filters), row % filters];
      const first = n * channels + Math.floor((m * attributes.group) / filters) * perGroup;
      const zero = Number(w0?.data[w0.data.length === 1 ? 0 : m] ?? 0);
      for (let c = 0; c < perGroup; c++) {
        data[row * outputs + output]! += (Number(x.data[(first + c) * size + input]) - x0) * (Number(w.data[(m * perGroup + c) * taps + tap]) - zero);
      }
    }
  });
  return { ...out, data };
}

/** Inference is that of Conv. */
function convType(x: Type, w: Type, attributes: Conv, context: { readonly node: string; readonly outputs: number }): Type {
  requireBytes([x, w], context.node);
  const { Conv } = require("./convolution") as typeof import("./convolution");
  return Conv.infer({ x: { ...x, dtype: "float32" }, weights: { dtype: "float32", dims: w.dims } } as never, attributes as never, context)[0]!;
}

const filter = fixed(values("int8", [2, 2, 2, 2], [1, -2, 3, -4, 5, 6, -7, 8, 127, -128, 0, 1, 2, 3, -1, -1]));
const picture = values("uint8", [1, 2, 3, 3], [0, 255, 3, 40, 5, 60, 7, 8, 90, 10, 11, 120, 13, 14, 15, 160, 17, 255]);

export const ConvInteger = defineOp({
  names: { onnx: ["ConvInteger", 10] },
  inputs: ["x", "w", "xZero?", "wZero?"],
  attributes: CONV,
  infer: ({ x, w, xZero, wZero }, attributes, context) => {
    const { dims } = convType(x, w, attributes, context);
    requireZeros(xZero, x, 1, `${context.node}: the zero point of the data`);
    requireZeros(wZero, w, w.dims[0]!, `${context.node}: the zero point of the filters`);
    return [{ dtype: "int32", dims }];
  },
  reference: ({ x, w, xZero, wZero }, attributes, [out]) => [convReference(x, w, first(xZero), wZero, attributes, out!)],
  expand: (g, { x, w, xZero, wZero }, attributes) => {
    const sums = depthwise(g, x, w, xZero, wZero, attributes);
    return sums && [sums];
  },
  lower: (b, { x, w, xZero, wZero }, attributes) => {
    const { window } = windowOf(x.dims.slice(2), w.dims.slice(2), attributes, b.what);
    lowerIntegerConv(b, x, w, xZero, wZero, window as Window, attributes.group);
  },
  samples: () => [
    sample("pads, a zero point", { x: picture, w: filter, xZero: scalar(100, "uint8") }, { attributes: { pads: [1, 1, 1, 1] } }),
    sample("same upper", { x: picture, w: filter, xZero: scalar(100, "uint8") }, { attributes: { auto_pad: "SAME_UPPER" as never } }),
    sample("a zero point for each filter", { x: picture, w: filter, wZero: fixed(values("int8", [2], [3, -5])) }),
    sample(
      "groups, filters that are fed",
      { x: picture, w: values("int8", [4, 1, 2, 2], [1, -2, 3, -4, 5, 6, -7, 8, 127, -128, 0, 1, 2, 3, -1, -1]), xZero: scalar(255, "uint8") },
      { attributes: { group: 2, pads: [1, 0, 0, 1], dilations: [1, 2] } },
    ),
    sample(
      "a channel for each group",
      {
        x: picture,
        w: fixed(values("int8", [2, 1, 2, 2], [127, -2, 3, -128, 5, 6, -7, 8])),
        xZero: scalar(7, "uint8"),
        wZero: fixed(values("int8", [2], [1, -128])),
      },
      { attributes: { group: 2, pads: [1, 1, 1, 1] } },
    ),
    sample(
      "a line, steps of two",
      {
        x: values(
          "int8",
          [1, 1, 40],
          Array.from({ length: 40 }, (_, i) => ((i * 37) % 256) - 128),
        ),
        w: fixed(values("uint8", [3, 1, 3], [0, 255, 3, 9, 200, 7, 1, 2, 128])),
      },
      { attributes: { strides: [2] } },
    ),
    sample("sums that float32 cannot hold", {
      x: values(
        "uint8",
        [1, 300, 1, 1],
        Array.from({ length: 300 }, (_, i) => 255 - (i % 7)),
      ),
      w: fixed(
        values(
          "int8",
          [1, 300, 1, 1],
          Array.from({ length: 300 }, (_, i) => 127 - (i % 5)),
        ),
      ),
    }),
    rejects("floats", { x: noise([1, 1, 2, 2]), w: fixed(noise([1, 1, 1, 1])) }, 100021, /int8 and uint8/),
    rejects("a zero point for each channel", { x: picture, w: filter, xZero: values("uint8", [2], [1, 2]) }, 100021, /the data has dims \[2\]/),
    rejects("zero points of other filters", { x: picture, w: filter, wZero: values("int8", [3], [1, 2, 3]) }, 100021, /the filters has dims \[3\]/),
    rejects("a zero point of another type", { x: picture, w: filter, xZero: scalar(1, "int8") }, 100026, /of int8 belongs to uint8/),
  ],
});

export const QLinearConv = defineOp({
  names: { onnx: ["QLinearConv", 10] },
  inputs: ["x", "xScale", "xZero", "w", "wScale", "wZero", "yScale", "yZero", "bias?"],
  attributes: CONV,
  infer: ({ x, w, yZero }, attributes, context) => {
    requireBytes([yZero], context.node);
    return [{ dtype: yZero.dtype, dims: convType(x, w, attributes, context).dims }];
  },
  reference: ({ x, xScale, xZero, w, wScale, wZero, yScale, yZero, bias }, attributes, [out]) => {
    const sums = convReference(x, w, first(xZero), wZero, attributes, { dtype: "float64", dims: out!.dims });
    const outputs = sizeOf(out!.dims.slice(2));
    const data = (sums.data as Float64Array).map((sum, i) => {
      const m = Math.floor(i / outputs) % out!.dims[1]!;
      const scale = (first(xScale) * Number(wScale.data[wScale.data.length === 1 ? 0 : m])) / first(yScale);
      return saturate(out!.dtype, halfEven((sum + Number(bias?.data[m] ?? 0)) * scale) + first(yZero));
    });
    return [{ ...out!, data }];
  },
  expand: (g, { x, xScale, xZero, w, wScale, wZero, yScale, yZero, bias }, attributes) => {
    const spatial = x.dims!.slice(2).map(() => 1);
    const perFilter = (of: Value): Value => g.reshape(of, of.dims!.length === 1 && of.dims![0] !== 1 ? [of.dims![0] as number, ...spatial] : []);
    const sums = g.call("ConvInteger", [x, w, xZero, wZero], attributes as never);
    const all = bias ? g.call("Add", [sums, perFilter(bias)]) : sums;
    const scale = g.call("Mul", [g.cast(g.reshape(xScale, []), "float32"), g.cast(perFilter(wScale), "float32")]);
    return [rescaled(g, g.cast(all, "float32"), scale, g.reshape(yScale, []), g.reshape(yZero, []))];
  },
  tolerance,
  samples: () => [
    sample(
      "strides, bias, a scale for each filter",
      {
        x: picture,
        xScale: scalar(0.02),
        xZero: scalar(120, "uint8"),
        w: filter,
        wScale: fixed(values("float32", [2], [0.01, 0.02])),
        wZero: fixed(values("int8", [2], [0, 0])),
        yScale: scalar(0.05),
        yZero: scalar(30, "uint8"),
        bias: fixed(values("int32", [2], [500, -700])),
      },
      { attributes: { pads: [1, 1, 1, 1], strides: [2, 2] } },
    ),
    rejects(
      "a float zero point",
      {
        x: picture,
        xScale: scalar(1),
        xZero: scalar(0, "uint8"),
        w: filter,
        wScale: scalar(1),
        wZero: scalar(0, "int8"),
        yScale: scalar(1),
        yZero: scalar(0),
      },
      100021,
      /int8 and uint8/,
    ),
  ],
});
