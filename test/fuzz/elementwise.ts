/** Random cases of elementwise operators, casts and quantization. */
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { tensor } from "../../dist/lib/graph/tensor";
import { type Case, isFloatName, one, type Random } from "./random";

const FLOATS: readonly DtypeName[] = ["float32", "float32", "float64", "float16"];
const NUMBERS: readonly DtypeName[] = ["float32", "float32", "float64", "float16", "int32", "int64", "int32", "uint8", "int8", "uint32", "uint64"];
const WHOLE: readonly DtypeName[] = ["int32", "int64", "uint8", "int8", "uint32", "uint64", "int16", "uint16"];

function unary(op: string, dtypes: readonly DtypeName[], opset = 20, scale = 4, low?: number) {
  return (r: Random): Case => {
    const dtype = r.pick(dtypes);
    return { op, opset, inputs: [r.tensor(dtype, r.dims(), { scale, awkward: r.chance(0.5), ...(low === undefined ? {} : { low }) })] };
  };
}
/** With float attributes in the given ranges, now and then left out. */
function activation(op: string, ranges: Readonly<Record<string, readonly [number, number]>>, opset = 20) {
  return (r: Random): Case => {
    const given = Object.entries(ranges).filter(() => r.chance(0.7));
    const attributes = Object.fromEntries(given.map(([name, [low, high]]) => [name, Math.fround(low + ((r.unit() + 1) / 2) * (high - low)) + 1e-3]));
    return { op, opset, inputs: [r.tensor(r.pick(["float32", "float32", "float16"]), r.dims(), { scale: 4, awkward: r.chance(0.4) })], attributes };
  };
}
function binary(op: string, dtypes: readonly DtypeName[], { opset = 15, awkward = true, nonzero = false } = {}) {
  return (r: Random): Case => {
    const dtype = r.pick(dtypes);
    const dims = r.dims();
    const [a, b] = [r.chance(0.6) ? dims : r.broadcastable(dims), r.chance(0.4) ? dims : r.broadcastable(dims)];
    const options = { scale: r.pick([3, 100]), awkward: awkward && r.chance(0.4) };
    const second = r.tensor(dtype, b, { ...options, fixed: r.chance(0.3) });
    // Division by a whole zero is undefined.
    const safe =
      nonzero && !isFloatName(dtype)
        ? {
            ...second,
            ...tensor(
              dtype,
              b,
              Array.from(second.data as ArrayLike<number | bigint>, (v) => (Number(v) === 0 ? 3 : v)),
            ),
          }
        : second;
    const swap = r.chance(0.3);
    const first = r.tensor(dtype, a, options);
    return { op, opset, inputs: swap && !nonzero ? [safe, first] : [first, safe] };
  };
}
function many(op: string, dtypes: readonly DtypeName[]) {
  return (r: Random): Case => {
    const dtype = r.pick(dtypes);
    const dims = r.dims();
    return { op, opset: 13, inputs: Array.from({ length: r.int(1, 4) }, () => r.tensor(dtype, r.broadcastable(dims), { scale: 20 })) };
  };
}

function cast(r: Random): Case {
  const ALL: readonly DtypeName[] = [...NUMBERS, "bool", "int16", "uint16"];
  const [from, to] = [r.pick(ALL), r.pick(ALL)];
  const codes: Partial<Record<DtypeName, number>> = {
    ...{ float32: 1, uint8: 2, int8: 3, uint16: 4, int16: 5, int32: 6, int64: 7, bool: 9, float16: 10, float64: 11, uint32: 12, uint64: 13 },
  };
  // A float outside the target's range is undefined.
  const wild = isFloatName(from) && isFloatName(to);
  const low = isFloatName(from) && to.startsWith("u") ? 0 : Number.NEGATIVE_INFINITY;
  return { op: "Cast", opset: 13, inputs: [r.tensor(from, r.dims(), { scale: 100, awkward: wild, low })], attributes: { to: BigInt(codes[to]!) } };
}

function clip(r: Random): Case {
  const dtype = r.pick(NUMBERS.filter((each) => each !== "uint32"));
  const limit = (value: number) => (r.chance(0.8) ? one(dtype, value, r.chance(0.6)) : undefined);
  const negative = dtype.startsWith("u") ? 0 : -1;
  return { op: "Clip", opset: 13, inputs: [r.tensor(dtype, r.dims(), { scale: 9 }), limit(negative), limit(r.int(0, 3))] };
}

function where(r: Random): Case {
  const dims = r.dims();
  const dtype = r.pick<DtypeName>(["float32", "int32", "int64", "uint8", "float64", "bool", "float16"]);
  const [a, b] = [r.tensor(dtype, r.broadcastable(dims), { awkward: true }), r.tensor(dtype, r.broadcastable(dims), { fixed: r.chance(0.4) })];
  return { op: "Where", opset: 16, inputs: [r.tensor("bool", r.broadcastable(dims)), a, b] };
}

function pow(r: Random): Case {
  const dims = r.dims();
  const [from, by] = [r.pick<DtypeName>(["float32", "float64", "int32", "int64"]), r.pick<DtypeName>(["float32", "float64", "int32", "int64"])];
  const exponent = r.chance(0.6)
    ? one(by, r.pick(isFloatName(by) ? [0, 0.5, 1, 2, 3, -1, 1.5] : [0, 1, 2, 3]))
    : r.tensor(by, r.broadcastable(dims), { scale: 3, low: 0 });
  // A whole power of a negative number that is no number is undefined.
  return {
    op: "Pow",
    opset: 15,
    inputs: [r.tensor(from, dims, { scale: 6, low: isFloatName(from) === isFloatName(by) && r.chance(0.3) ? -9 : 1 }), exponent],
  };
}

function mod(r: Random): Case {
  const dtype = r.pick(NUMBERS);
  const base = binary("Mod", [dtype], { opset: 13, nonzero: true, awkward: false })(r);
  return { ...base, attributes: { fmod: isFloatName(dtype) || r.chance(0.4) ? 1n : 0n } };
}

function shift(r: Random): Case {
  const dtype = r.pick<DtypeName>(["uint8", "uint32", "uint64", "uint16"]);
  const dims = r.dims();
  const amount = r.indices(r.broadcastable(dims), 0, 7, { dtype });
  return { op: "BitShift", opset: 11, inputs: [r.tensor(dtype, dims, { scale: 120 }), amount], attributes: { direction: r.pick(["LEFT", "RIGHT"]) } };
}

function prelu(r: Random): Case {
  const dims = r.dims();
  const slope = r.tensor("float32", r.broadcastable(dims), { fixed: r.chance(0.6) });
  return { op: "PRelu", opset: 16, inputs: [r.tensor("float32", dims, { awkward: r.chance(0.3) }), slope] };
}

function quantize(r: Random): Case {
  const dims = r.dims(r.int(1, 4));
  const dtype = r.pick<DtypeName>(["uint8", "int8", "uint16", "int16"]);
  const axis = r.axis(dims.length);
  const per = r.chance(0.5) ? [dims.at(axis)!] : [];
  const scale = r.tensor("float32", per, { scale: 0.2, low: 0.01, fixed: r.chance(0.5) });
  const zero = r.chance(0.8) ? r.tensor(dtype, per, { scale: 20, fixed: r.chance(0.5) }) : undefined;
  const attributes = { axis: BigInt(axis) };
  if (r.chance(0.5)) {
    return { op: "QuantizeLinear", opset: zero ? 21 : 19, inputs: [r.tensor("float32", dims, { scale: r.pick([1, 30]) }), scale, zero], attributes };
  }
  return { op: "DequantizeLinear", opset: 21, inputs: [r.tensor(dtype, dims, { scale: 100 }), scale, zero], attributes };
}

const FLOAT_ONLY = ["Exp", "Sqrt", "Sigmoid", "Tanh", "Erf", "Floor", "Ceil", "Round", "Sin", "Cos"];
const F32_ONLY = ["Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Softplus", "Softsign", "HardSwish", "Mish"];
const COMPARISONS = ["Less", "LessOrEqual", "Greater", "GreaterOrEqual"];

export const ELEMENTWISE: Readonly<Record<string, (r: Random) => Case>> = {
  ...Object.fromEntries(FLOAT_ONLY.map((op) => [op, unary(op, FLOATS)])),
  ...Object.fromEntries(F32_ONLY.map((op) => [op, unary(op, ["float32"], 20, op.startsWith("A") ? 1 : 4)])),
  ...Object.fromEntries(["Abs", "Neg", "Sign"].map((op) => [op, unary(op, op === "Neg" ? NUMBERS.filter((d) => !d.startsWith("u")) : NUMBERS)])),
  ...Object.fromEntries(COMPARISONS.map((op) => [op, binary(op, NUMBERS, { opset: 16 })])),
  ...Object.fromEntries(["And", "Or", "Xor"].map((op) => [op, binary(op, ["bool"])])),
  ...Object.fromEntries(["BitwiseAnd", "BitwiseOr", "BitwiseXor"].map((op) => [op, binary(op, WHOLE, { opset: 18 })])),
  ...Object.fromEntries(["Add", "Sub", "Mul"].map((op) => [op, binary(op, NUMBERS)])),
  ...Object.fromEntries(["Max", "Min"].map((op) => [op, many(op, NUMBERS)])),
  ...Object.fromEntries(["Sum", "Mean"].map((op) => [op, many(op, ["float32", "float64"])])),
  Div: binary("Div", NUMBERS, { nonzero: true }),
  Equal: binary("Equal", [...NUMBERS, "bool"], { opset: 13 }),
  Relu: unary("Relu", ["float32", "float64", "float16", "int32", "int8"]),
  Log: unary("Log", FLOATS, 20, 50, 0),
  Acosh: unary("Acosh", ["float32"], 20, 9, 1),
  Reciprocal: unary("Reciprocal", FLOATS),
  Not: unary("Not", ["bool"]),
  BitwiseNot: unary("BitwiseNot", WHOLE),
  IsNaN: unary("IsNaN", FLOATS),
  IsInf: (r) => ({
    ...unary("IsInf", ["float32", "float64"])(r),
    ...(r.chance(0.5) ? { attributes: { detect_negative: BigInt(r.below(2)), detect_positive: BigInt(r.below(2)) } } : {}),
  }),
  LeakyRelu: activation("LeakyRelu", { alpha: [-0.5, 2] }),
  HardSigmoid: activation("HardSigmoid", { alpha: [0, 1], beta: [0, 1] }),
  Elu: activation("Elu", { alpha: [-1, 2] }),
  Selu: activation("Selu", { alpha: [-1, 2], gamma: [0.5, 2] }),
  Celu: activation("Celu", { alpha: [0.1, 2] }),
  ThresholdedRelu: activation("ThresholdedRelu", { alpha: [-1, 2] }),
  Shrink: activation("Shrink", { lambd: [0, 2], bias: [-1, 1] }),
  // At minus infinity ours is the limit, the formula is NaN.
  Gelu: (r) => ({
    op: "Gelu",
    opset: 20,
    inputs: [r.tensor("float32", r.dims(), { scale: r.pick([4, 1e30]) })],
    ...(r.chance(0.5) ? { attributes: { approximate: r.pick(["none", "tanh"]) } } : {}),
  }),
  ...{ Cast: cast, Clip: clip, Where: where, Pow: pow, Mod: mod, BitShift: shift, PRelu: prelu, Quantize: quantize },
};
