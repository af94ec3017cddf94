/** MAP on floats: every operation against float64, with the accuracy it promises. */
import type { StripOpName, StripType, View } from "../../../lib/program/types";
import { Plan, random, ulp32 } from "./harness";

/** Series and continued fraction, summed to convergence: independent of the device's. */
function erf(x: number): number {
  const a = Math.abs(x);
  if (a > 6) return Math.sign(x);
  if (a < 2.5) {
    let sum = 0;
    let term = a;
    for (let n = 0; n < 200 && Math.abs(term) > 1e-20 * a; n++) {
      sum += term / (2 * n + 1);
      term *= (-a * a) / (n + 1);
    }
    return Math.sign(x) * (2 / Math.sqrt(Math.PI)) * sum;
  }
  let f = 0;
  for (let n = 200; n > 0; n--) f = n / 2 / (a + f);
  return Math.sign(x) * (1 - Math.exp(-a * a) / ((a + f) * Math.sqrt(Math.PI)));
}
const nearestEven = (x: number): number => {
  const r = Math.round(x);
  const even = Math.abs(x % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r;
  return even === 0 ? (x < 0 || Object.is(x, -0) ? -0 : 0) : even;
};

const UNARY: readonly [StripOpName, (x: number) => number, number][] = [
  ["neg", (x) => -x, 0],
  ["abs", Math.abs, 0],
  ["sign", Math.sign, 0],
  ["floor", Math.floor, 0],
  ["ceil", Math.ceil, 0],
  ["trunc", Math.trunc, 0],
  ["round", nearestEven, 0],
  ["sqrt", Math.sqrt, 0.5],
  ["reciprocal", (x) => 1 / x, 0.5],
  ["rsqrt", (x) => 1 / Math.sqrt(x), 1.5],
  ["relu", (x) => (x < 0 ? 0 : x), 0],
  ["exp", Math.exp, 4],
  ["log", Math.log, 4],
  ["tanh", Math.tanh, 4],
  ["erf", erf, 4],
  ["sigmoid", (x) => 1 / (1 + Math.exp(-x)), 4],
  ["sin", Math.sin, 1],
  ["cos", Math.cos, 1],
  ["tan", Math.tan, 1],
  ["asin", Math.asin, 1],
  ["acos", Math.acos, 1],
  ["atan", Math.atan, 1],
  ["sinh", Math.sinh, 1],
  ["cosh", Math.cosh, 1],
  ["asinh", Math.asinh, 1],
  ["acosh", Math.acosh, 1],
  ["atanh", Math.atanh, 1],
];

/** Specials, every binade with both signs, and a dense range around zero. */
function arguments32(): number[] {
  const next = random(5);
  const values = [
    0,
    -0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.4028234663852886e38,
    1e-45,
    -1e-45,
  ];
  values.push(
    -87.4,
    -88,
    -89,
    -95,
    -100,
    -103.5,
    -104.5,
    88.5,
    88.7228,
    88.73,
    0.625,
    0.6249,
    0.9,
    0.8999,
    3.9,
    4,
    0.99999994,
    -0.99999994,
    1.0000001,
  );
  for (let e = -149; e < 128; e++) values.push(Math.fround(2 ** e * (1 + next())), -Math.fround(2 ** e * (1 + next())));
  for (let i = 0; i < 1500; i++) values.push(Math.fround((next() - 0.5) * 16), Math.fround((next() - 0.5) * 2));
  for (let i = 0; i < 300; i++) values.push(Math.fround((next() - 0.5) * 220), Math.fround((next() - 0.5) * 1e6));
  return values.map(Math.fround);
}

function unary(op: StripOpName, type: StripType, dtype: "float32" | "float64", values: readonly number[]): number[] {
  const plan = new Plan();
  const x = plan.input(dtype, [values.length], values);
  const y = plan.output(dtype, [values.length]);
  const read = plan.run([
    {
      op: "map",
      node: op,
      strip: {
        values: [
          { kind: "input", view: x, type },
          { kind: "op", op, type, args: [0] },
        ],
        outputs: [{ view: y, value: 1 }],
      },
    },
  ]);
  return read(y) as number[];
}

describe("float32", () => {
  const values = arguments32();
  test.each(UNARY)("%s", (op, truth, bound) => {
    const result = unary(op, "f32", "float32", values);
    let most = 0;
    for (const [i, x] of values.entries()) {
      const expected = truth(x);
      const error = ulp32(result[i]!, expected);
      // Sigmoid gives 0 where the result would be subnormal.
      if (op === "sigmoid" && expected < 2 ** -126 && result[i] === 0) continue;
      if (error > bound) throw new Error(`${op}(${x}) = ${result[i]}, expected ${Math.fround(expected)}: ${error} ulp`);
      most = Math.max(most, error);
      if (bound === 0 && !Object.is(Math.fround(expected), result[i]) && op !== "relu")
        throw new Error(`${op}(${x}) = ${result[i]}, expected ${expected}`);
    }
    expect(most).toBeLessThanOrEqual(bound);
  });
});

describe("float64", () => {
  const values = [...arguments32(), 1e300, -1e300, 5e-324, 709.7, -745, 1e-300, 1e15, 1e22];
  test.each(UNARY)("%s", (op, truth) => {
    const result = unary(op, "f64", "float64", values);
    // Near the zeros of sin and cos the result is small against the reduced argument: absolute there.
    const scale = (y: number): number =>
      Math.max(Math.abs(y), op === "tan" || op === "acos" || op === "atanh" ? 1e-3 : op === "sin" || op === "cos" ? 1e-5 : 1e-300);
    for (const [i, x] of values.entries()) {
      const expected = truth(x);
      const actual = result[i]!;
      const same =
        Object.is(expected, actual) || (Number.isNaN(expected) && Number.isNaN(actual)) || Math.abs(actual - expected) <= 4e-15 * scale(expected);
      if (!same && !(op === "relu" && expected === actual)) throw new Error(`${op}(${x}) = ${actual}, expected ${expected}`);
    }
    expect(result.length).toBe(values.length);
  });
});

const BINARY: readonly [StripOpName, (x: number, y: number) => number, number][] = [
  ["add", (x, y) => x + y, 0.5],
  ["sub", (x, y) => x - y, 0.5],
  ["mul", (x, y) => x * y, 0.5],
  ["div", (x, y) => x / y, 0.5],
  ["min", (x, y) => Math.min(x, y), 0],
  ["max", (x, y) => Math.max(x, y), 0],
  ["pow", (x, y) => (x === 1 ? 1 : x === -1 && !Number.isFinite(y) && !Number.isNaN(y) ? 1 : x ** y), 1],
  ["fmod", (x, y) => x % y, 0],
  [
    "mod",
    (x, y) => {
      const r = x % y;
      return r !== 0 && r < 0 !== y < 0 ? r + y : r;
    },
    0.5,
  ],
];

test.each(BINARY)("float32 %s", (op, truth, bound) => {
  const next = random(11);
  const specials = [0, -0, 1, -1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0.5, -2, 3, 1e-40];
  const pairs = specials.flatMap((x) => specials.map((y) => [x, y] as const));
  for (let i = 0; i < 2000; i++)
    pairs.push([(next() - 0.4) * 20, (next() - 0.5) * 12], [Math.floor((next() - 0.5) * 20), Math.floor((next() - 0.5) * 14)]);
  const xs = pairs.map(([x]) => Math.fround(x));
  const ys = pairs.map(([, y]) => Math.fround(y));
  const plan = new Plan();
  const [x, y, z] = [plan.input("float32", [xs.length], xs), plan.input("float32", [xs.length], ys), plan.output("float32", [xs.length])];
  const strip = {
    values: [
      { kind: "input" as const, view: x, type: "f32" as const },
      { kind: "input" as const, view: y, type: "f32" as const },
      { kind: "op" as const, op, type: "f32" as const, args: [0, 1] },
    ],
    outputs: [{ view: z, value: 2 }],
  };
  const result = plan.run([{ op: "map", node: op, strip }])(z) as number[];
  for (const [i, actual] of result.entries()) {
    const expected = truth(xs[i]!, ys[i]!);
    // A result below the normal range may not carry the sign of its zero; NaN must be NaN.
    const error = ulp32(actual, expected);
    if (error > bound) throw new Error(`${op}(${xs[i]}, ${ys[i]}) = ${actual}, expected ${expected}: ${error} ulp`);
  }
  expect(result.length).toBe(xs.length);
});

test("NaN leaves the device in one form", () => {
  const plan = new Plan();
  const x = plan.input("float32", [40], new Array(40).fill(Number.NEGATIVE_INFINITY));
  const y = plan.output("float32", [40]);
  const strip = {
    values: [
      { kind: "input" as const, view: x, type: "f32" as const },
      { kind: "op" as const, op: "sub" as const, type: "f32" as const, args: [0, 0] },
      { kind: "op" as const, op: "neg" as const, type: "f32" as const, args: [1] },
    ],
    outputs: [{ view: y, value: 2 }],
  };
  const read = plan.run([{ op: "map", node: "nan", strip }]);
  const bits: View = { ...y, dtype: "uint32" };
  expect(new Set(read(bits))).toEqual(new Set([0x7fc00000]));
});
