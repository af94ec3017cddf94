/** Elementwise operators of one operand: each is one line of a strip program. */
import { roundTo, type Tensor } from "../graph/tensor";
import type { StripOpName } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, float, int, type Tolerance } from "./define";
import { noise, positive, ramp, rejects, type Sample, type SampleInput, sample, values } from "./sample";

const EXACT: Tolerance = { relative: 0, absolute: 0, why: "one correctly rounded operation" };
const POLYNOMIAL: Tolerance = { relative: 2e-6, absolute: 1e-7, why: "f32 polynomial against float64" };

interface Unary {
  readonly name: string;
  readonly newest: number;
  readonly strip: StripOpName;
  readonly real: (x: number) => number;
  readonly whole?: (x: bigint) => bigint;
  readonly takes: "float" | "number" | "bool";
  readonly tolerance?: Tolerance;
  readonly samples?: () => readonly Sample[];
}

const none = (): readonly Sample[] => [];

export function unary({ name, newest, strip, real, whole, takes, tolerance = EXACT, samples = none }: Unary): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["x"],
    layout: "follow",
    infer: ({ x }, _, { node }) => {
      requireDtype(x.dtype, takes, node);
      return [{ dtype: x.dtype, dims: x.dims }];
    },
    reference: ({ x }, _, [out]) => [mapTensors({ real, ...(whole ? { whole } : {}) }, [x], out!)],
    lower: (b, { x }) => b.elementwise([x], (s, value) => s.op(strip, value)),
    tolerance,
    samples: () =>
      takes === "bool"
        ? samples()
        : [sample("both signs", { x: ramp([3, 5]) }), sample("longer than a strip", { x: noise([2, 1031]) }), ...samples()],
  });
}

const abs = (x: bigint): bigint => (x < 0n ? -x : x);
const integers = (): SampleInput => values("int32", [5], [-3, 0, 7, -2147483648, 2147483647]);

/** |error| < 1e-15: the series near 0, the continued fraction far from it. */
export function erf(x: number): number {
  const size = Math.abs(x);
  if (size > 6) {
    return Math.sign(x);
  }
  if (size < 2.5) {
    let term = x;
    let total = x;
    for (let n = 1; Math.abs(term) > 1e-18; n++) {
      term *= (-x * x) / n;
      total += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * total;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) {
    fraction = n / 2 / (size + fraction);
  }
  return Math.sign(x) * (1 - Math.exp(-x * x) / ((size + fraction) * Math.sqrt(Math.PI)));
}

export const Relu = unary({
  name: "Relu",
  newest: 14,
  strip: "relu",
  real: (x) => (x > 0 ? x : x === x ? 0 : x),
  whole: (x) => (x > 0n ? x : 0n),
  takes: "number",
});
export const Sigmoid = unary({
  name: "Sigmoid",
  newest: 13,
  strip: "sigmoid",
  real: (x) => 1 / (1 + Math.exp(-x)),
  takes: "float",
  tolerance: POLYNOMIAL,
});
export const Tanh = unary({ name: "Tanh", newest: 13, strip: "tanh", real: Math.tanh, takes: "float", tolerance: POLYNOMIAL });
export const Exp = unary({ name: "Exp", newest: 13, strip: "exp", real: Math.exp, takes: "float", tolerance: { ...POLYNOMIAL, relative: 4e-6 } });
export const Log = unary({
  name: "Log",
  newest: 13,
  strip: "log",
  real: Math.log,
  takes: "float",
  tolerance: POLYNOMIAL,
  samples: () => [sample("positive", { x: positive([4, 7]) })],
});
export const Sqrt = unary({
  name: "Sqrt",
  newest: 13,
  strip: "sqrt",
  real: Math.sqrt,
  takes: "float",
  samples: () => [sample("positive", { x: positive([4, 7]) }), rejects("integers", { x: integers() }, 100026, /int32/)],
});
export const Erf = unary({ name: "Erf", newest: 13, strip: "erf", real: erf, takes: "float", tolerance: { ...POLYNOMIAL, absolute: 5e-7 } });
export const Abs = unary({
  name: "Abs",
  newest: 13,
  strip: "abs",
  real: Math.abs,
  whole: abs,
  takes: "number",
  samples: () => [sample("int32", { x: integers() })],
});
export const Neg = unary({
  name: "Neg",
  newest: 13,
  strip: "neg",
  real: (x) => -x,
  whole: (x) => -x,
  takes: "number",
  samples: () => [sample("int32", { x: integers() })],
});
export const Floor = unary({ name: "Floor", newest: 13, strip: "floor", real: Math.floor, takes: "float" });
export const Ceil = unary({ name: "Ceil", newest: 13, strip: "ceil", real: Math.ceil, takes: "float" });
export const Reciprocal = unary({
  name: "Reciprocal",
  newest: 13,
  strip: "reciprocal",
  real: (x) => 1 / x,
  takes: "float",
  samples: () => [sample("positive", { x: positive([4, 7]) })],
});
export const Not = unary({
  name: "Not",
  newest: 1,
  strip: "not",
  real: (x) => (x ? 0 : 1),
  takes: "bool",
  samples: () => [sample("bool", { x: values("bool", [3], [1, 0, 1]) }), rejects("floats", { x: ramp([2]) }, 100026, /float32/)],
});

export const LeakyRelu = defineOp({
  names: { onnx: ["LeakyRelu", 16] },
  inputs: ["x"],
  attributes: { alpha: float(0.01) },
  layout: "follow",
  infer: ({ x }, _, { node }) => {
    requireDtype(x.dtype, "float", node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, { alpha }, [out]) => [mapTensors({ real: (v) => (v < 0 ? alpha * v : v) }, [x], out!)],
  lower: (b, { x }, { alpha }) =>
    b.elementwise([x], (s, v) => {
      const type = x.dtype === "float64" ? "f64" : "f32";
      return s.op("select", s.op("lt", v, s.constant(type, 0)), s.op("mul", v, s.constant(type, alpha)), v);
    }),
  tolerance: { relative: 1e-6, absolute: 0, why: "alpha is rounded to f32" },
  samples: () => [sample("default slope", { x: ramp([3, 4]) }), sample("slope 0.3", { x: ramp([7]) }, { attributes: { alpha: 0.3 } })],
});

export const Identity = defineOp({
  names: { onnx: ["Identity", 24] },
  inputs: ["x"],
  layout: "follow",
  infer: ({ x }) => [{ dtype: x.dtype, dims: x.dims }],
  sameBytes: true,
  reference: ({ x }) => [x],
  lower: (b, { x }) => b.alias(x.view),
  samples: () => [sample("floats", { x: ramp([2, 3]) }), sample("int64", { x: values("int64", [2], [1n, -1n]) })],
});

/** Inference form: the data passes, and the mask (if anybody asks) is all true. */
export const Dropout = defineOp({
  names: { onnx: ["Dropout", 22] },
  inputs: ["data", "ratio?", "training_mode?"],
  outputs: 2,
  attributes: { seed: int() },
  upgrades: {
    12: (form) => ({ ...form, attributes: new Map() }), // ratio, is_test and seed mean nothing in inference
  },
  layout: "follow",
  infer: ({ data }, _, { outputs }) => [
    { dtype: data.dtype, dims: data.dims },
    ...(outputs > 1 ? [{ dtype: "bool" as const, dims: data.dims }] : []),
  ],
  reference: ({ data }, _, types) => [data, ...types.slice(1).map((type): Tensor => mapTensors({ real: () => roundTo("bool", 1) }, [data], type))],
  lower: (b, { data, ratio, training_mode }) => {
    const dropsNothing = ratio?.scalar !== undefined && Number(ratio.scalar) === 0;
    if (training_mode && !dropsNothing && (training_mode.scalar === undefined || Number(training_mode.scalar) !== 0)) {
      b.unsupported("training mode is not supported; export the model for inference");
    }
    b.alias(data.view);
    if (b.has(1)) {
      b.map(b.target(1), [], (s) => s.constant("i32", 1));
    }
  },
  samples: () => [sample("passes", { data: ramp([2, 3]) }), sample("mask", { data: ramp([2, 3]) }, { outputs: 2 })],
});
