/** Functions of a whole axis or window, said in reductions, pools and elementwise operators. */
import { normalizeAxis, shapeError } from "../graph/dims";
import { roundTo, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { defineOp, float, int, ints, required, string, type Tolerance } from "./define";
import { noise, ramp, rejects, sample, values } from "./sample";
import { coveringPads, eachTap, windowOf } from "./window";

const SUMMED: Tolerance = { relative: 1e-5, absolute: 1e-5, why: "f32 sums and powers" };

/** Calls `visit` with the places of each row along an axis. */
function rows({ dims }: { readonly dims: readonly number[] }, axis: number, visit: (places: readonly number[]) => void): void {
  const [size, inner] = [dims[axis]!, rowMajor(dims)[axis]!];
  for (let i = 0; i < sizeOf(dims); i++) {
    if (Math.floor(i / inner) % size === 0) {
      visit(Array.from({ length: size }, (_, k) => i + k * inner));
    }
  }
}
const numbers = ({ data }: Tensor): Float64Array => data as Float64Array;

export const LpNormalization = defineOp({
  names: { onnx: ["LpNormalization", 22] },
  inputs: ["x"],
  attributes: { axis: int(-1), p: int(2) },
  infer: ({ x }, { axis, p }, { node }) => {
    requireDtype(x.dtype, "float", node);
    normalizeAxis(axis, x.dims.length, node);
    if (p !== 1 && p !== 2) {
      throw shapeError(`${node}: p is ${p}; it can be 1 or 2`);
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, { axis, p }, [out]) => {
    const data = new Float64Array(x.data.length);
    rows(x, normalizeAxis(axis, x.dims.length, "LpNormalization"), (places) => {
      const norm = places.reduce((sum, at) => sum + Math.abs(numbers(x)[at]!) ** p, 0) ** (1 / p);
      places.forEach((at) => (data[at] = norm === 0 ? 0 : roundTo(out!.dtype, numbers(x)[at]! / norm)));
    });
    return [{ ...out!, data }];
  },
  expand: (g, { x }, { axis, p }) => {
    const norm = g.call(p === 1 ? "ReduceL1" : "ReduceL2", [x, g.list(axis)], { keepdims: 1 });
    const zero = g.scalar(0, x.dtype!);
    // A row of zeros stays one.
    return [g.call("Div", [x, g.call("Where", [g.call("Equal", [norm, zero]), g.scalar(1, x.dtype!), norm])])];
  },
  tolerance: SUMMED,
  samples: () => [
    sample("p 2, last axis", { x: noise([3, 7]) }),
    sample("p 1, first axis, a row of zeros", { x: values("float32", [2, 3], [0, 1, -2, 0, 3, 4]) }, { attributes: { axis: 0, p: 1 } }),
    rejects("p 3", { x: ramp([2]) }, 100021, /p is 3/, { attributes: { p: 3 } }),
  ],
});

export const Hardmax = defineOp({
  names: { onnx: ["Hardmax", 13] },
  inputs: ["x"],
  attributes: { axis: int(-1), $from: int(13) },
  // Before opset 13 all axes from `axis` on were one.
  upgrades: {
    13: (form) => ({ ...form, attributes: new Map([["axis", 1n], ...form.attributes, ["$from", 1n]]) }),
  },
  infer: ({ x }, { axis }, { node }) => {
    requireDtype(x.dtype, "float", node);
    normalizeAxis(axis, x.dims.length, node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, { axis, $from }, [out]) => {
    const at = normalizeAxis(axis, x.dims.length, "Hardmax");
    const flat = $from < 13 ? { dims: [sizeOf(x.dims.slice(0, at)), sizeOf(x.dims.slice(at))] } : x;
    const data = new Float64Array(x.data.length);
    rows(flat, $from < 13 ? 1 : at, (places) => {
      data[places.reduce((best, place) => (numbers(x)[place]! > numbers(x)[best]! ? place : best))] = 1;
    });
    return [{ ...out!, data }];
  },
  expand: (g, { x }, { axis, $from }) => {
    const dims = x.dims as number[];
    const at = normalizeAxis(axis, dims.length, g.what);
    const [flat, along] = $from < 13 ? [g.reshape(x, [sizeOf(dims.slice(0, at)), sizeOf(dims.slice(at))]), 1] : [x, at];
    const size = flat.dims![along] as number;
    const best = g.call("ArgMax", [flat], { axis: along, keepdims: 1 });
    const places = g.constant(
      "int64",
      [size, ...new Array<number>(flat.dims!.length - 1 - along).fill(1)],
      Array.from({ length: size }, (_, i) => i),
    );
    return [g.reshape(g.cast(g.call("Equal", [places, best]), x.dtype!), dims)];
  },
  samples: () => [
    sample("last axis, ties", { x: values("float32", [2, 4], [1, 3, 3, 2, 0, -1, 0, -2]) }),
    sample("middle", { x: noise([2, 3, 4]) }, { attributes: { axis: 1 } }),
    sample("opset 11: all axes behind", { x: noise([2, 3, 4]) }, { opset: 11 }),
    rejects("axis outside", { x: ramp([2]) }, 100021, /axis 1/, { attributes: { axis: 1 } }),
  ],
});

const POOL = {
  kernel_shape: required(ints()),
  strides: ints(),
  dilations: ints(),
  pads: ints(),
  auto_pad: string("NOTSET"),
  ceil_mode: int(0),
  p: int(2),
};

export const LpPool = defineOp({
  names: { onnx: ["LpPool", 22] },
  inputs: ["x"],
  attributes: POOL,
  infer: ({ x }, attributes, context) => {
    const { AveragePool } = require("./pooling") as typeof import("./pooling");
    return AveragePool.infer({ x } as never, { ...attributes, count_include_pad: 1 } as never, context);
  },
  reference: ({ x }, { p, ...attributes }, [out]) => {
    const [spatial, places] = [x.dims.slice(2), out!.dims.slice(2)];
    const { window } = windowOf(spatial, attributes.kernel_shape, attributes, "LpPool");
    const [inside, outputs] = [sizeOf(spatial), sizeOf(places)];
    const sums = new Float64Array(sizeOf(out!.dims));
    eachTap(spatial, places, window, (output, _, input) => {
      for (let plane = 0; input >= 0 && plane < sums.length / outputs; plane++) {
        sums[plane * outputs + output]! += Math.abs(numbers(x)[plane * inside + input]!) ** p;
      }
    });
    return [{ ...out!, data: sums.map((sum) => roundTo(out!.dtype, sum ** (1 / p))) }];
  },
  expand: (g, { x }, { p, ...attributes }) => {
    const spatial = x.dims!.slice(2) as number[];
    const { window, dims } = windowOf(spatial, attributes.kernel_shape, attributes, g.what);
    const { kernel, strides, dilations, padsBegin } = window;
    // Zeros behind the data for every window, also the last one of ceil_mode: then a mean of all taps is a sum over a constant.
    const padsEnd = coveringPads(window, spatial, dims);
    const scalar = (value: number) => g.scalar(value, x.dtype!);
    const magnitude = g.call("Abs", [x]);
    const powers = p === 1 ? magnitude : g.call("Pow", [magnitude, scalar(p)]);
    const mean = g.call("AveragePool", [powers], {
      ...{ kernel_shape: kernel, strides, dilations },
      ...{ pads: [...padsBegin, ...padsEnd], count_include_pad: 1 },
    });
    const sum = g.call("Mul", [mean, scalar(sizeOf(kernel))]);
    return [p === 1 ? sum : p === 2 ? g.call("Sqrt", [sum]) : g.call("Pow", [sum, scalar(1 / p)])];
  },
  tolerance: SUMMED,
  samples: () => [
    sample("p 2", { x: noise([1, 2, 6, 5]) }, { attributes: { kernel_shape: [2, 3], strides: [2, 1] } }),
    sample("p 3, pads", { x: noise([1, 3, 7]) }, { attributes: { kernel_shape: [3], pads: [1, 1], p: 3 } }),
    sample("p 1, same upper", { x: noise([1, 1, 4, 4]) }, { attributes: { kernel_shape: [2, 2], p: 1, auto_pad: "SAME_UPPER" as never } }),
    sample(
      "ceil mode, pads",
      { x: noise([1, 2, 6, 5]) },
      { attributes: { kernel_shape: [3, 2], strides: [2, 2], pads: [0, 1, 1, 0], ceil_mode: 1 } },
    ),
    rejects("no window", { x: noise([1, 1, 4]) }, 100023, /"kernel_shape"/),
  ],
});

export const SwiGLU = defineOp({
  names: { onnx: ["SwiGLU", 28] },
  inputs: ["a", "b"],
  attributes: { alpha: float(1) },
  infer: ({ a, b }, _, { node }) => {
    requireDtype(a.dtype, "float", node);
    if (a.dims.join() !== b.dims.join() || a.dtype !== b.dtype) {
      throw shapeError(`${node}: its operands are ${a.dtype}[${a.dims}] and ${b.dtype}[${b.dims}]; they have to be alike`);
    }
    return [{ dtype: a.dtype, dims: a.dims }];
  },
  reference: ({ a, b }, { alpha }, [out]) => [
    { ...out!, data: numbers(a).map((x, i) => roundTo(out!.dtype, (x / (1 + Math.exp(-alpha * x))) * numbers(b)[i]!)) },
  ],
  expand: (g, { a, b }, { alpha }) => [g.call("Mul", [g.call("Swish", [a], { alpha }), b])],
  tolerance: { relative: 2e-6, absolute: 1e-6, why: "f32 exponential" },
  samples: () => [sample("gate", { a: noise([3, 5]), b: noise([3, 5], 2) }), rejects("other dims", { a: ramp([2]), b: ramp([3]) }, 100021, /alike/)],
});
