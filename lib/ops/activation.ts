/** Activations: one strip program each, of the operations that strips have. */
import { broadcast, formatDims, shapeError } from "../graph/dims";
import { mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, type Attributes, type AttributeSpecs, defineOp, float, string, type Tolerance } from "./define";
import { fixed, noise, positive, ramp, rejects, type Sample, sample, values } from "./sample";
import { type StripBuilder, stripType } from "./strip-builder";
import { erf } from "./unary";

const CLOSE: Tolerance = { relative: 4e-6, absolute: 1e-6, why: "a chain of f32 steps against float64" };

interface Activation<A extends AttributeSpecs> {
  readonly name: string;
  readonly newest: number;
  readonly attributes: A;
  readonly real: (x: number, attributes: Attributes<A>) => number;
  /** `constant` makes a number of x's register type. */
  readonly strip: (s: StripBuilder, x: number, constant: (value: number) => number, attributes: Attributes<A>) => number;
  readonly samples?: () => readonly Sample[];
}

function activation<A extends AttributeSpecs>({ name, newest, attributes, real, strip, samples }: Activation<A>): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["x"],
    attributes,
    layout: "follow",
    infer: ({ x }, _, { node }) => {
      requireDtype(x.dtype, "float", node);
      return [{ dtype: x.dtype, dims: x.dims }];
    },
    reference: ({ x }, given, [out]) => [mapTensors({ real: (v) => real(v, given) }, [x], out!)],
    lower: (b, { x }, given) => b.elementwise([x], (s, v) => strip(s, v!, (value) => s.constant(stripType(x.dtype), value), given)),
    tolerance: CLOSE,
    samples: () => [sample("both signs", { x: ramp([3, 7], 0.5) }), sample("longer than a strip", { x: noise([2, 1031]) }), ...(samples?.() ?? [])],
  });
}

const clamp = (x: number): number => (Number.isNaN(x) ? x : Math.min(1, Math.max(0, x)));

export const HardSigmoid = activation({
  name: "HardSigmoid",
  newest: 22,
  attributes: { alpha: float(0.2), beta: float(0.5) },
  real: (x, { alpha, beta }) => clamp(alpha * x + beta),
  strip: (s, x, c, { alpha, beta }) => s.op("min", s.op("max", s.op("muladd", x, c(alpha), c(beta)), c(0)), c(1)),
  samples: () => [sample("slope", { x: ramp([9]) }, { attributes: { alpha: 0.25, beta: 0.125 } })],
});

export const HardSwish = activation({
  name: "HardSwish",
  newest: 22,
  attributes: {},
  real: (x) => x * clamp(x / 6 + 0.5),
  strip: (s, x, c) => s.op("mul", x, s.op("min", s.op("max", s.op("muladd", x, c(1 / 6), c(0.5)), c(0)), c(1))),
});

export const Elu = activation({
  name: "Elu",
  newest: 22,
  attributes: { alpha: float(1) },
  real: (x, { alpha }) => (x < 0 ? alpha * Math.expm1(x) : x),
  strip: (s, x, c, { alpha }) => s.op("select", s.op("lt", x, c(0)), s.op("mul", s.op("sub", s.op("exp", x), c(1)), c(alpha)), x),
  samples: () => [sample("alpha 2", { x: ramp([9]) }, { attributes: { alpha: 2 }, floats: ["alpha"] })],
});

export const Selu = activation({
  name: "Selu",
  newest: 22,
  attributes: { alpha: float(1.6732631921768188), gamma: float(1.0507010221481323) },
  real: (x, { alpha, gamma }) => gamma * (x > 0 ? x : alpha * Math.expm1(x)),
  strip: (s, x, c, { alpha, gamma }) =>
    s.op("mul", s.op("select", s.op("gt", x, c(0)), x, s.op("mul", s.op("sub", s.op("exp", x), c(1)), c(alpha))), c(gamma)),
});

export const Celu = activation({
  name: "Celu",
  newest: 12,
  attributes: { alpha: float(1) },
  real: (x, { alpha }) => Math.max(0, x) + Math.min(0, alpha * Math.expm1(x / alpha)),
  strip: (s, x, c, { alpha }) =>
    s.op("add", s.op("max", x, c(0)), s.op("min", c(0), s.op("mul", s.op("sub", s.op("exp", s.op("div", x, c(alpha))), c(1)), c(alpha)))),
  samples: () => [sample("alpha 2", { x: ramp([9]) }, { attributes: { alpha: 2 }, floats: ["alpha"] })],
});

/** log(1 + e^x) without overflow. */
const softplus = (s: StripBuilder, x: number, c: (value: number) => number): number =>
  s.op("add", s.op("max", x, c(0)), s.op("log", s.op("add", s.op("exp", s.op("neg", s.op("abs", x))), c(1))));
const softplusOf = (x: number): number => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

export const Softplus = activation({ name: "Softplus", newest: 22, attributes: {}, real: softplusOf, strip: softplus });

export const Mish = activation({
  name: "Mish",
  newest: 22,
  attributes: {},
  real: (x) => x * Math.tanh(softplusOf(x)),
  strip: (s, x, c) => s.op("mul", x, s.op("tanh", softplus(s, x, c))),
});

export const Softsign = activation({
  name: "Softsign",
  newest: 22,
  attributes: {},
  real: (x) => x / (1 + Math.abs(x)),
  strip: (s, x, c) => s.op("div", x, s.op("add", s.op("abs", x), c(1))),
});

export const ThresholdedRelu = activation({
  name: "ThresholdedRelu",
  newest: 22,
  attributes: { alpha: float(1) },
  real: (x, { alpha }) => (x > alpha ? x : 0),
  strip: (s, x, c, { alpha }) => s.op("select", s.op("gt", x, c(alpha)), x, c(0)),
});

export const Shrink = activation({
  name: "Shrink",
  newest: 9,
  attributes: { lambd: float(0.5), bias: float(0) },
  real: (x, { lambd, bias }) => (x < -lambd ? x + bias : x > lambd ? x - bias : 0),
  strip: (s, x, c, { lambd, bias }) =>
    s.op("select", s.op("lt", x, c(-lambd)), s.op("add", x, c(bias)), s.op("select", s.op("gt", x, c(lambd)), s.op("sub", x, c(bias)), c(0))),
});

export const Swish = activation({
  name: "Swish",
  newest: 24,
  attributes: { alpha: float(1) },
  real: (x, { alpha }) => x / (1 + Math.exp(-alpha * x)),
  strip: (s, x, c, { alpha }) => s.op("mul", x, s.op("sigmoid", s.op("mul", x, c(alpha)))),
});

const SPREAD = Math.sqrt(2 / Math.PI);

export const Gelu = activation({
  name: "Gelu",
  newest: 20,
  attributes: { approximate: string("none") },
  real: (x, { approximate }) => 0.5 * x * (1 + (approximate === "tanh" ? Math.tanh(SPREAD * (x + 0.044715 * x ** 3)) : erf(x * Math.SQRT1_2))),
  strip: (s, x, c, { approximate }) => {
    const bent =
      approximate === "tanh"
        ? s.op("tanh", s.op("mul", s.op("mul", x, c(SPREAD)), s.op("muladd", s.op("mul", x, x), c(0.044715), c(1))))
        : s.op("erf", s.op("mul", x, c(Math.SQRT1_2)));
    return s.op("mul", s.op("mul", x, c(0.5)), s.op("add", bent, c(1)));
  },
  samples: () => [
    sample("by tanh", { x: ramp([9]) }, { attributes: { approximate: "tanh" as never } }),
    sample("float16", { x: values("float16", [4], [-1.5, 0.5, 2, 3.5]) }),
  ],
});

/** A slope of its own for each channel or element; it broadcasts to the data, never the data to it. */
export const PRelu = defineOp({
  names: { onnx: ["PRelu", 16] },
  inputs: ["x", "slope"],
  upgrades: {
    7: (form) => {
      // Before opset 7 a slope of [C] belonged to axis 1.
      const [x, slope] = form.inputs;
      const rank = x?.dims?.length ?? 0;
      if (!slope?.constant || slope.dims?.length !== 1 || slope.dims[0] === 1 || rank < 3) {
        return form;
      }
      const dims = [slope.constant.dims[0]!, ...new Array<number>(rank - 2).fill(1)];
      return { ...form, inputs: [x, { name: `${slope.name}@channels`, dtype: slope.constant.dtype, dims, constant: { ...slope.constant, dims } }] };
    },
  },
  layout: "follow",
  infer: ({ x, slope }, _, { node }) => {
    requireDtype(x.dtype, "number", node);
    if (broadcast([x.dims, slope.dims], node).join() !== x.dims.join()) {
      throw shapeError(`${node}: slope ${formatDims(slope.dims)} does not broadcast to data ${formatDims(x.dims)}`);
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, slope }, _, [out]) => [
    mapTensors({ real: (v, k) => (v! < 0 ? v! * k! : v!), whole: (v, k) => (v! < 0n ? v! * k! : v!) }, [x, slope], out!),
  ],
  lower: (b, { x, slope }) =>
    b.elementwise([x, slope], (s, v, k) => s.op("select", s.op("lt", v!, s.constant(stripType(x.dtype), 0)), s.op("mul", v!, k!), v!)),
  samples: () => [
    sample("per channel", { x: noise([2, 3, 4, 5]), slope: fixed(positive([3, 1, 1], 0.125)) }),
    sample("per element", { x: ramp([3, 4]), slope: positive([3, 4], 0.125) }),
    sample("int32", { x: values("int32", [3], [-3, 4, -5]), slope: values("int32", [1], [2]) }),
    rejects("slope larger than data", { x: ramp([4]), slope: ramp([3, 4]) }, 100021, /does not broadcast/),
  ],
});
