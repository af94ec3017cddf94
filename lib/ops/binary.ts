/** Elementwise operators of two or more operands, with broadcasting. */
import { AclError } from "../errors/acl-error";
import { isFloat } from "../graph/tensor";
import type { StripOpName, View } from "../program/types";
import { type Arithmetic, broadcastType, mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, float, type Tolerance, type Upgrade } from "./define";
import type { Operand } from "./lowering";
import { noise, positive, ramp, rejects, type Sample, sample, scalar, values } from "./sample";
import { type StripBuilder, stripType } from "./strip-builder";
import { unsqueezeInput } from "./upgrade";

const EXACT: Tolerance = { relative: 0, absolute: 0, why: "one correctly rounded operation" };

/** Before opset 7 the second operand was aligned at `axis` and broadcast only if `broadcast` was set. */
const legacyBroadcast: Upgrade = (form, node) => {
  const axis = form.attributes.get("axis");
  const [a, b] = form.inputs;
  if (axis === undefined || !a?.dims || !b?.dims) {
    return { ...form, attributes: new Map() };
  }
  const after = a.dims.length - Number(axis) - b.dims.length;
  const aligned = after > 0 ? unsqueezeInput(b, after, node) : b;
  return { inputs: [a, aligned], attributes: new Map() };
};

interface Binary extends Arithmetic {
  readonly name: string;
  readonly newest: number;
  readonly strip: StripOpName;
  readonly takes: "float" | "number" | "bool" | "any";
  /** Comparisons and logic give bool. */
  readonly gives?: "bool";
  readonly tolerance?: Tolerance;
  readonly samples: () => readonly Sample[];
}

function binary({ name, newest, strip, takes, gives, real, whole, tolerance = EXACT, samples }: Binary): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["a", "b"],
    upgrades: { 7: legacyBroadcast },
    layout: "follow",
    infer: ({ a, b }, _, { node }) => {
      if (takes !== "any") {
        requireDtype(a.dtype, takes, node);
      }
      return [broadcastType([a, b], node, gives)];
    },
    reference: ({ a, b }, _, [out]) => [mapTensors({ real, ...(whole ? { whole } : {}) }, [a, b], out!)],
    lower: (b, { a, b: second }) => b.elementwise([a, second], (s, x, y) => s.op(strip, x, y)),
    tolerance,
    samples,
  });
}

const numbers = (): readonly Sample[] => [
  sample("same shape", { a: ramp([3, 5]), b: positive([3, 5], 0.5) }),
  sample("row", { a: ramp([3, 5]), b: positive([5]) }),
  sample("column", { a: ramp([4, 3, 5]), b: positive([3, 1]) }),
  sample("both ways", { a: ramp([4, 1, 5]), b: positive([3, 1]) }),
  sample("scalar", { a: ramp([3, 5]), b: scalar(2) }),
  sample("longer than a strip", { a: noise([3, 1031]), b: positive([1031], 0.125) }),
  sample("empty", { a: ramp([0, 3]), b: ramp([3]) }),
  rejects("shapes that do not meet", { a: ramp([3, 5]), b: ramp([4]) }, 100021, /do not broadcast/),
  rejects("mixed types", { a: ramp([3]), b: values("int32", [3], [1, 2, 3]) }, 100026, /mixes float32 and int32/),
];
const int32 = (): Sample =>
  sample("int32 wraps", { a: values("int32", [4], [2147483647, -7, 7, 100000]), b: values("int32", [4], [1, 2, -2, 100000]) });
const int64 = (): Sample => sample("int64", { a: values("int64", [3], [9007199254740993n, -7n, 7n]), b: values("int64", [3], [1n, 2n, -2n]) });

const divide = (a: bigint, b: bigint): bigint => (b === 0n ? 0n : a / b); // the device's rule for zero: nothing traps
const power = (a: bigint, b: bigint): bigint => (b < 0n ? (a === 1n ? 1n : a === -1n ? (b % 2n === 0n ? 1n : -1n) : 0n) : a ** b);

export const Add = binary({
  name: "Add",
  newest: 14,
  strip: "add",
  takes: "number",
  real: (a, b) => a + b,
  whole: (a, b) => a + b,
  samples: () => [...numbers(), int32(), int64()],
});
export const Sub = binary({
  name: "Sub",
  newest: 14,
  strip: "sub",
  takes: "number",
  real: (a, b) => a - b,
  whole: (a, b) => a - b,
  samples: () => [...numbers(), int32(), int64()],
});
export const Mul = binary({
  name: "Mul",
  newest: 14,
  strip: "mul",
  takes: "number",
  real: (a, b) => a * b,
  whole: (a, b) => a * b,
  samples: () => [...numbers(), int32(), int64()],
});
export const Div = binary({
  name: "Div",
  newest: 14,
  strip: "div",
  takes: "number",
  real: (a, b) => a / b,
  whole: divide,
  samples: () => [...numbers(), int32(), int64()],
});

const truths = (): readonly Sample[] => [
  sample("bool", { a: values("bool", [4], [0, 0, 1, 1]), b: values("bool", [4], [0, 1, 0, 1]) }),
  rejects("floats", { a: ramp([2]), b: ramp([2]) }, 100026, /float32/),
];
export const And = binary({ name: "And", newest: 7, strip: "and", takes: "bool", gives: "bool", real: (a, b) => (a && b ? 1 : 0), samples: truths });
export const Or = binary({ name: "Or", newest: 7, strip: "or", takes: "bool", gives: "bool", real: (a, b) => (a || b ? 1 : 0), samples: truths });

const compared = (): readonly Sample[] => [
  sample("floats", { a: ramp([3, 5]), b: ramp([5]) }),
  sample("int64", { a: values("int64", [3], [9007199254740993n, 2n, 3n]), b: values("int64", [3], [9007199254740992n, 2n, 4n]) }),
];
export const Equal = binary({
  name: "Equal",
  newest: 19,
  strip: "eq",
  takes: "any",
  gives: "bool",
  real: (a, b) => +(a === b),
  whole: (a, b) => (a === b ? 1n : 0n),
  samples: compared,
});
export const Less = binary({
  name: "Less",
  newest: 13,
  strip: "lt",
  takes: "number",
  gives: "bool",
  real: (a, b) => +(a < b),
  whole: (a, b) => (a < b ? 1n : 0n),
  samples: compared,
});
export const LessOrEqual = binary({
  name: "LessOrEqual",
  newest: 16,
  strip: "le",
  takes: "number",
  gives: "bool",
  real: (a, b) => +(a <= b),
  whole: (a, b) => (a <= b ? 1n : 0n),
  samples: compared,
});
export const Greater = binary({
  name: "Greater",
  newest: 13,
  strip: "gt",
  takes: "number",
  gives: "bool",
  real: (a, b) => +(a > b),
  whole: (a, b) => (a > b ? 1n : 0n),
  samples: compared,
});
export const GreaterOrEqual = binary({
  name: "GreaterOrEqual",
  newest: 16,
  strip: "ge",
  takes: "number",
  gives: "bool",
  real: (a, b) => +(a >= b),
  whole: (a, b) => (a >= b ? 1n : 0n),
  samples: compared,
});

/** The exponent may be of another type: it is converted to the type of the base. */
/** Exponents that models have most often, without a logarithm. Roots are not here: they differ at -0 and -Infinity. */
const FEW_PRODUCTS: ReadonlyMap<number, (s: StripBuilder, x: number) => number> = new Map([
  [-1, (s, x) => s.op("reciprocal", x)],
  [1, (_, x) => x],
  [2, (s, x) => s.op("mul", x, x)],
  [3, (s, x) => s.op("mul", s.op("mul", x, x), x)],
]);

export const Pow = defineOp({
  names: { onnx: ["Pow", 15] },
  inputs: ["base", "exponent"],
  upgrades: { 7: legacyBroadcast },
  layout: "follow",
  infer: ({ base, exponent }, _, { node }) => {
    requireDtype(base.dtype, "number", node);
    requireDtype(exponent.dtype, "number", node);
    return [broadcastType([base, { ...exponent, dtype: base.dtype }], node)];
  },
  reference: ({ base, exponent }, _, [out]) => [mapTensors({ real: (a, b) => a ** b, whole: power }, [base, exponent], out!)],
  lower: (b, { base, exponent }) => {
    if (!isFloat(base.dtype) && isFloat(exponent.dtype)) {
      // An integer base with a float exponent is computed in f64, as the standard's model does, and truncated.
      b.elementwise([base, exponent], (s, x, y) => s.op("pow", s.cast(x, "f64"), s.cast(y, "f64")));
      return;
    }
    const few = FEW_PRODUCTS.get(Number(exponent.scalar));
    if (few && (isFloat(base.dtype) || Number(exponent.scalar) > 0)) {
      b.elementwise([base], (s, x) => few(s, x!));
      return;
    }
    b.elementwise([base, exponent], (s, x, y) => s.op("pow", x, s.cast(y, stripType(base.dtype))));
  },
  tolerance: { relative: 2e-5, absolute: 1e-7, why: "exp(y * log(x)) in f32" },
  samples: () => [
    sample("squares", { base: ramp([3, 5]), exponent: scalar(2) }),
    sample("cubes", { base: ramp([3, 5]), exponent: scalar(3, "int64") }),
    sample("inverse", { base: positive([3, 5]), exponent: scalar(-1) }),
    sample("roots", { base: positive([3, 5]), exponent: positive([5], 0.5) }),
    sample("integer exponent", { base: ramp([4]), exponent: values("int64", [4], [1n, 2n, 3n, 0n]) }),
    sample("int32", { base: values("int32", [3], [2, -3, 7]), exponent: values("int32", [3], [10, 3, 0]) }),
  ],
});

/** A strip has few registers: more operands are taken in several passes. */
const MOST_OPERANDS = 6;

function variadic(name: string, newest: number, strip: StripOpName, f: Arithmetic, mean = false): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["...inputs"],
    layout: "follow",
    infer: ({ inputs }, _, { node }) => {
      if (inputs.length === 0) {
        throw new AclError(100021, `${node} has no inputs; it needs at least one`);
      }
      inputs.forEach((input) => {
        requireDtype(input.dtype, mean ? "float" : "number", node);
      });
      return [broadcastType(inputs, node)];
    },
    reference: ({ inputs }, _, [out]) => {
      const wide = isFloat(out!.dtype) ? { ...out!, dtype: "float64" as const } : out!;
      const folded = inputs.reduce((sum, next) => mapTensors(f, [sum, next], { ...wide, dims: out!.dims }));
      const scale = mean ? 1 / inputs.length : 1;
      return [mapTensors({ real: (x) => x * scale, whole: (x) => x }, [folded], out!)];
    },
    lower: (b, { inputs }) => {
      const all = (s: StripBuilder, first: number, ...rest: number[]): number => rest.reduce((sum, next) => s.op(strip, sum, next), first);
      let operands: (Operand | View)[] = [...inputs];
      while (operands.length > MOST_OPERANDS) {
        const part = b.temporary(b.dtype(), b.dims(), b.node.outputs[0]!.layout);
        b.map(part, operands.slice(0, MOST_OPERANDS), all);
        operands = [part, ...operands.slice(MOST_OPERANDS)];
      }
      b.elementwise(operands, (s, first, ...rest) => {
        const total = all(s, first!, ...rest);
        return mean ? s.op("div", total, s.constant(stripType(inputs[0]!.dtype), inputs.length)) : total;
      });
    },
    tolerance: { relative: 1e-6, absolute: 1e-6, why: "each step is rounded to f32" },
    samples: () => [
      sample("one", { inputs: [ramp([2, 3])] }),
      sample("nineteen", { inputs: Array.from({ length: 19 }, (_, i) => noise([3, 4], i + 1)) }),
      sample("three, broadcast", { inputs: [ramp([2, 3]), positive([3]), ramp([2, 1], 0.5)] }),
      rejects("shapes that do not meet", { inputs: [ramp([2, 3]), ramp([4])] }, 100021, /do not broadcast/),
    ],
  });
}

const least = (a: number, b: number): number => (Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : Math.min(a, b));
const most = (a: number, b: number): number => (Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : Math.max(a, b));
export const Min = variadic("Min", 13, "min", { real: least, whole: (a, b) => (a < b ? a : b) });
export const Max = variadic("Max", 13, "max", { real: most, whole: (a, b) => (a > b ? a : b) });
export const Sum = variadic("Sum", 13, "add", { real: (a, b) => a + b });
export const Mean = variadic("Mean", 13, "add", { real: (a, b) => a + b }, true);

export const Where = defineOp({
  names: { onnx: ["Where", 16] },
  inputs: ["condition", "x", "y"],
  layout: "follow",
  infer: ({ condition, x, y }, _, { node }) => {
    requireDtype(condition.dtype, "bool", node);
    const { dtype } = broadcastType([x, y], node);
    return [broadcastType([condition, { ...x, dtype: "bool" }, { ...y, dtype: "bool" }], node, dtype)];
  },
  reference: ({ condition, x, y }, _, [out]) => {
    if (x.data instanceof Float64Array) {
      return [mapTensors({ real: (c, a, b) => (c ? a! : b!) }, [condition, x, y], out!)];
    }
    const wide = { ...condition, dtype: x.dtype };
    return [mapTensors({ real: (c, a, b) => (c ? a! : b!), whole: (c, a, b) => (c ? a! : b!) }, [wide, x, y], out!)];
  },
  lower: (b, { condition, x, y }) => b.elementwise([condition, x, y], (s, c, a, e) => s.op("select", c, a, e)),
  samples: () => [
    sample("broadcast", { condition: values("bool", [3, 1], [1, 0, 1]), x: ramp([3, 4]), y: ramp([4], 2) }),
    sample("int64", { condition: values("bool", [2], [1, 0]), x: values("int64", [2], [9007199254740993n, 2n]), y: values("int64", [2], [3n, 4n]) }),
  ],
});

/** Bounds moved from attributes to inputs in opset 11; a missing bound does not bind. */
export const Clip = defineOp({
  names: { onnx: ["Clip", 13] },
  inputs: ["x", "min?", "max?"],
  attributes: { min: float(), max: float() },
  layout: "follow",
  infer: ({ x, min, max }, _, { node }) => {
    requireDtype(x.dtype, "number", node);
    broadcastType([x, ...(min ? [min] : []), ...(max ? [max] : [])], node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, min, max }, attributes, [out]) => {
    const low = min?.data[0] ?? attributes.min;
    const high = max?.data[0] ?? attributes.max;
    const real = (v: number): number => {
      const above = low === undefined ? v : most(v, Number(low));
      return high === undefined ? above : least(above, Number(high));
    };
    const whole = (v: bigint): bigint => {
      const above = low !== undefined && v < BigInt(low) ? BigInt(low) : v;
      return high !== undefined && above > BigInt(high) ? BigInt(high) : above;
    };
    return [mapTensors({ real, whole }, [x], out!)];
  },
  lower: (b, { x, min, max }, attributes) => {
    const bounds = [...(min ? [min] : []), ...(max ? [max] : [])];
    b.elementwise([x, ...bounds], (s, value, ...loaded) => {
      const type = stripType(x.dtype);
      const low = min ? loaded.shift() : attributes.min === undefined ? undefined : s.constant(type, attributes.min);
      const high = max ? loaded.shift() : attributes.max === undefined ? undefined : s.constant(type, attributes.max);
      const above = low === undefined ? value : s.op("max", value, low);
      return high === undefined ? above : s.op("min", above, high);
    });
  },
  tolerance: EXACT,
  samples: () => [
    sample("both", { x: ramp([3, 5], 1), min: scalar(-2), max: scalar(3) }),
    sample("low only", { x: ramp([9], 1), min: scalar(-1) }),
    sample("high at run time", { x: ramp([9], 1), min: undefined, max: values("float32", [], [2]) }),
    sample("attributes of opset 6", { x: ramp([9], 1) }, { attributes: { min: -1, max: 2 }, floats: ["min", "max"], opset: 6 }),
    sample("no bounds", { x: ramp([4]) }),
  ],
});
