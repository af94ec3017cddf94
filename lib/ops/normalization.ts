/** BatchNormalization in inference form: a scale and a shift per channel. LRN: a scale from the squares of neighbouring channels. */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import { isFloat, rowMajor, roundTo, type Tensor } from "../graph/tensor";
import { mapTensors, requireDtype } from "./arithmetic";
import { defineOp, float, int, required } from "./define";
import { fixed, noise, positive, ramp, rejects, sample } from "./sample";
import { stripType } from "./strip-builder";
import { reshapeView, sliceView } from "./views";

/** [channels] seen as [channels, 1, 1...]: broadcasts along dim 1 of data. */
const perChannel = (rank: number, channels: number): number[] => [channels, ...new Array<number>(Math.max(0, rank - 2)).fill(1)];

export const BatchNormalization = defineOp({
  names: { onnx: ["BatchNormalization", 15] },
  inputs: ["x", "scale", "shift", "mean", "variance"],
  attributes: { epsilon: float(1e-5), momentum: float(0.9), training_mode: int(0), spatial: int(1), is_test: int(1) },
  layout: "follow",
  infer: ({ x, scale, shift, mean, variance }, { training_mode, spatial }, { node, outputs }) => {
    requireDtype(x.dtype, "float", node);
    if (training_mode || outputs > 1 || !spatial) {
      throw new AclError(
        100024,
        `${node}: only the inference form with one output and per-channel statistics is supported; export the model for inference`,
      );
    }
    for (const each of [scale, shift, mean, variance]) {
      if (each.dims.length !== 1 || (typeof x.dims[1] === "number" && each.dims[0] !== x.dims[1])) {
        throw shapeError(`${node}: statistics ${formatDims(each.dims)} do not fit the channels of ${formatDims(x.dims)}`);
      }
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, scale, shift, mean, variance }, { epsilon }, [out]) => {
    const dims = perChannel(x.dims.length, scale.dims[0]!);
    const spread = [scale, shift, mean, variance].map((each): Tensor => ({ ...each, dims }));
    return [mapTensors({ real: (v, s, b, m, d) => ((v! - m!) / Math.sqrt(d! + epsilon)) * s! + b! }, [x, ...spread], out!)];
  },
  lower: (b, { x, scale, shift, mean, variance }, { epsilon }) => {
    const dims = perChannel(x.dims.length, scale.dims[0]!);
    const [s0, b0, m0, v0] = [scale, shift, mean, variance].map((each) => (each.stored ? each.constant?.data : undefined));
    if (s0 && b0 && m0 && v0) {
      // Known statistics become one factor and one term, worked out in float64.
      const type = isFloat(x.dtype) && x.dtype !== "float64" ? "float32" : x.dtype;
      const factor = Float64Array.from(s0 as Float64Array, (s, c) => s / Math.sqrt(Number(v0[c]) + epsilon));
      const term = factor.map((f, c) => Number(b0[c]) - Number(m0[c]) * f);
      b.elementwise([x.view, b.computed({ dtype: type, dims, data: factor }), b.computed({ dtype: type, dims, data: term })], (s, v, f, t) =>
        s.op("muladd", v, f, t),
      );
      return;
    }
    const spread = [scale, shift, mean, variance].map((each) => reshapeView(each.view, dims)!);
    b.elementwise([x.view, ...spread], (s, v, factor, term, centre, spreadOf) => {
      const deviation = s.op("sqrt", s.op("add", spreadOf!, s.constant(stripType(x.dtype), epsilon)));
      return s.op("muladd", s.op("div", s.op("sub", v!, centre!), deviation), factor!, term!);
    });
  },
  tolerance: { relative: 1e-5, absolute: 1e-5, why: "statistics folded to two f32 numbers" },
  samples: () => [
    sample("constants", {
      x: noise([2, 3, 4, 5]),
      scale: fixed(positive([3])),
      shift: fixed(ramp([3])),
      mean: fixed(ramp([3], 0.5)),
      variance: fixed(positive([3], 0.5)),
    }),
    sample("at run time", { x: noise([2, 3, 4]), scale: positive([3]), shift: ramp([3]), mean: ramp([3], 0.5), variance: positive([3], 0.5) }),
    rejects(
      "channels do not fit",
      { x: noise([2, 3, 4]), scale: positive([2]), shift: ramp([2]), mean: ramp([2]), variance: positive([2]) },
      100021,
      /do not fit the channels/,
    ),
  ],
});

/** Neighbours that one strip sums. */
const MOST_NEIGHBOURS = 15;

export const LRN = defineOp({
  names: { onnx: ["LRN", 13] },
  inputs: ["x"],
  attributes: { size: required(int()), alpha: float(0.0001), beta: float(0.75), bias: float(1) },
  layout: "follow",
  infer: ({ x }, { size }, { node }) => {
    requireDtype(x.dtype, "float", node);
    if (x.dims.length < 2 || size < 1) {
      throw shapeError(`${node}: data ${formatDims(x.dims)} needs channels and size ${size} must be at least 1`);
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, { size, alpha, beta, bias }, [out]) => {
    const [channels, inner] = [x.dims[1]!, rowMajor(x.dims)[1]!];
    const numbers = x.data as Float64Array;
    const data = numbers.map((value, at) => {
      const channel = Math.floor(at / inner) % channels;
      let squares = 0;
      for (let c = Math.max(0, channel - Math.floor((size - 1) / 2)); c <= Math.min(channels - 1, channel + Math.ceil((size - 1) / 2)); c++) {
        squares += numbers[at + (c - channel) * inner]! ** 2;
      }
      return roundTo(out!.dtype, value / (bias + (alpha / size) * squares) ** beta);
    });
    return [{ ...out!, data }];
  },
  lower: (b, { x }, { size, alpha, beta, bias }) => {
    if (size > MOST_NEIGHBOURS) {
      b.unsupported(`a size of ${size} is not supported; at most ${MOST_NEIGHBOURS} is`);
    }
    const type = x.dtype === "float64" ? "float64" : "float32";
    const register = stripType(type);
    const [before, channels] = [Math.floor((size - 1) / 2), x.dims[1]!];
    // Squares between zeros: every sum then has the same number of terms.
    const squares = b.temporary(type, x.dims.with(1, channels + size - 1), b.node.outputs[0]!.layout);
    for (const [start, count] of [
      [0, before],
      [before + channels, size - 1 - before],
    ] as const) {
      b.map(sliceView(squares, 1, start, count), [], (s) => s.constant(register, 0));
    }
    b.map(sliceView(squares, 1, before, channels), [x], (s, v) => s.op("mul", v!, v!));
    const shifted = Array.from({ length: size }, (_, i) => sliceView(squares, 1, i, channels));
    b.elementwise([x, ...shifted], (s, v, ...terms) => {
      const sum = terms.reduce((total, term) => s.op("add", total, term));
      const base = s.op("muladd", sum, s.constant(register, alpha / size), s.constant(register, bias));
      // The usual exponent is two roots.
      const root = beta === 0.75 ? s.op("sqrt", base) : base;
      return s.op("div", v!, beta === 0.75 ? s.op("mul", root, s.op("sqrt", root)) : s.op("pow", base, s.constant(register, beta)));
    });
  },
  tolerance: { relative: 1e-5, absolute: 1e-6, why: "f32 sum, roots and division" },
  samples: () => [
    sample("three", { x: noise([2, 5, 3, 4]) }, { attributes: { size: 3, alpha: 0.5, bias: 2 }, floats: ["bias"] }),
    sample("even size, other exponent", { x: ramp([1, 6, 2]) }, { attributes: { size: 4, beta: 0.5, alpha: 1 }, floats: ["alpha"] }),
    rejects("no channels", { x: ramp([4]) }, 100021, /needs channels/, { attributes: { size: 3 } }),
  ],
});
