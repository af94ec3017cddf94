/** Element-by-element functions: accuracy in units of the last place over their whole range, special values, splats, in place. */
import { MicroCode } from "../../../dist/asm/abi/micro";
import { StripCode } from "../../../dist/asm/abi/strip";
import { type Bed, expectSame, onEveryBuild, random, ulps } from "./bed";

/** Power series, then the continued fraction of erfc: good to 1e-14. */
function erf(x: number): number {
  const a = Math.abs(x);
  if (!(a < 6)) return Number.isNaN(x) ? x : Math.sign(x);
  let value: number;
  if (a < 2.5) {
    let term = a;
    value = a;
    for (let n = 1; n < 120; n++) {
      term *= (2 * a * a) / (2 * n + 1);
      value += term;
    }
    value *= (2 / Math.sqrt(Math.PI)) * Math.exp(-a * a);
  } else {
    let fraction = a;
    for (let n = 80; n >= 1; n--) fraction = a + n / 2 / fraction;
    value = 1 - Math.exp(-a * a) / (fraction * Math.sqrt(Math.PI));
  }
  return x < 0 ? -value : value;
}
const sigmoid = (x: number): number => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)));
/** With its limit at -Infinity, where the formula has no value. */
const geluTanh = (x: number): number =>
  x === Number.NEGATIVE_INFINITY ? 0 : (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const gelu = (x: number): number => (x === Number.NEGATIVE_INFINITY ? 0 : (x / 2) * (1 + erf(x / Math.SQRT2)));
const maximum = (x: number): number => (x < 0 ? 0 : x);

interface Unary {
  readonly name: string;
  readonly code: number;
  readonly exact: (x: number) => number;
  readonly low: number;
  readonly high: number;
  readonly ulp: number;
  /** Errors that are small beside the argument rather than beside the result. */
  readonly absolute?: number;
}

const S = StripCode;
const FUNCTIONS: readonly Unary[] = [
  { name: "exp", code: S.EXP, exact: Math.exp, low: -110, high: 90, ulp: 2 },
  { name: "log", code: S.LOG, exact: Math.log, low: 0, high: 1e6, ulp: 4 },
  { name: "log near 1", code: S.LOG, exact: Math.log, low: 0.5, high: 2, ulp: 4 },
  { name: "tanh", code: S.TANH, exact: Math.tanh, low: -12, high: 12, ulp: 7 },
  { name: "tanh near 0", code: S.TANH, exact: Math.tanh, low: -0.7, high: 0.7, ulp: 7 },
  // Below -88.3 the result is 0.
  { name: "sigmoid", code: S.SIGMOID, exact: sigmoid, low: -100, high: 40, ulp: 4, absolute: 1.2e-38 },
  { name: "erf", code: S.ERF, exact: erf, low: -5, high: 5, ulp: 7 },
  { name: "erf near 0", code: S.ERF, exact: erf, low: -1, high: 1, ulp: 7 },
  { name: "gelu", code: MicroCode.GELU, exact: gelu, low: -1, high: 8, ulp: 8 },
  { name: "gelu, negative", code: MicroCode.GELU, exact: gelu, low: -5, high: -1, ulp: 64 },
  { name: "gelu, far out", code: MicroCode.GELU, exact: gelu, low: -1e4, high: -5, ulp: 4, absolute: 2e-7 },
  {
    name: "gelu, tanh form",
    code: MicroCode.GELU_TANH,
    exact: geluTanh,
    low: -8,
    high: 8,
    ulp: 4,
    absolute: 5e-7,
  },
  { name: "gelu, tanh form, far out", code: MicroCode.GELU_TANH, exact: geluTanh, low: -1e6, high: -8, ulp: 4, absolute: 5e-7 },
  { name: "silu", code: MicroCode.SILU, exact: (x) => x * sigmoid(x), low: -80, high: 30, ulp: 5 },
  {
    name: "hard swish",
    code: MicroCode.HARD_SWISH,
    exact: (x) => x * Math.min(Math.max(x / 6 + 0.5, 0), 1),
    low: -8,
    high: 8,
    ulp: 4,
    absolute: 3e-7,
  },
  { name: "sqrt", code: S.SQRT, exact: Math.sqrt, low: 0, high: 1e4, ulp: 0.5 },
  { name: "1 / sqrt", code: S.RSQRT, exact: (x) => 1 / Math.sqrt(x), low: 1e-3, high: 1e4, ulp: 1.5 },
  { name: "1 / x", code: S.RECIPROCAL, exact: (x) => 1 / x, low: -50, high: 50, ulp: 0.5 },
  { name: "relu", code: S.RELU, exact: maximum, low: -3, high: 3, ulp: 0 },
  { name: "abs", code: S.ABS, exact: Math.abs, low: -3, high: 3, ulp: 0 },
  { name: "neg", code: S.NEG, exact: (x) => -x, low: -3, high: 3, ulp: 0 },
];

function apply(bed: Bed, code: number, values: ArrayLike<number>): Float32Array {
  const count = Math.ceil(values.length / 16) * 16;
  const padded = Float32Array.from({ length: count }, (_, i) => values[i] ?? 1);
  const source = bed.floats(padded);
  const target = bed.output(count);
  expect(bed.e.strip(code, target, target + count * 4, source, 64, 0, 0, 0, 0)).toBe(1);
  return bed.read(target, values.length);
}

onEveryBuild((bed) => {
  test.each(FUNCTIONS)("$name: within $ulp ulp from $low to $high", ({ code, exact, low, high, ulp, absolute = 0 }) => {
    const next = random(31);
    const count = 4000;
    // Half evenly over the range, half towards 0 over many powers of two.
    const values = Float32Array.from({ length: count }, (_, i) => {
      const even = low + ((next() + 1) / 2) * (high - low);
      return i % 2 === 0 ? even : Math.min(Math.max(even * 2 ** (-20 * Math.abs(next())), low), high);
    });
    const found = apply(bed, code, values);
    const wrong: string[] = [];
    values.forEach((x, i) => {
      const right = exact(x);
      const error = ulps(found[i]!, right);
      if (!(error <= ulp) && !(Math.abs(found[i]! - right) <= absolute)) wrong.push(`f(${x}) = ${found[i]}, exact ${right}: ${error} ulp`);
    });
    expect(wrong.slice(0, 5)).toEqual([]);
  });

  test.each(FUNCTIONS)("$name: special values", ({ code, exact }) => {
    const specials = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 1, -1];
    const found = apply(bed, code, specials);
    specials.forEach((x, i) => {
      const right = exact(x);
      // 0 x Infinity of silu and hard swish at -Infinity is NaN in the formula, and is told apart from a number; gelu gives its limit.
      if (Number.isNaN(right) || !Number.isFinite(right)) expect([x, found[i]]).toEqual([x, right]);
      else expect(Math.abs(found[i]! - right)).toBeLessThanOrEqual(5e-7);
    });
  });

  const BINARY: readonly (readonly [string, number, (x: number, y: number) => number])[] = [
    ["add", S.ADD, (x, y) => x + y],
    ["sub", S.SUB, (x, y) => x - y],
    ["mul", S.MUL, (x, y) => x * y],
    ["div", S.DIV, (x, y) => x / y],
    ["min", S.MIN, Math.min],
    ["max", S.MAX, Math.max],
    ["add and relu", MicroCode.ADD_RELU, (x, y) => maximum(x + y)],
    ["prelu", MicroCode.PRELU, (x, y) => (x < 0 ? x * y : x)],
    ["multiply and relu", MicroCode.MUL_RELU, (x, y) => maximum(x * y)],
  ];
  test.each(BINARY)("%s of vectors, of a splat, and in place", (_, code, exact) => {
    const count = 48;
    const next = random(32);
    const [x, y] = [Float32Array.from({ length: count }, next), Float32Array.from({ length: count }, next)];
    x[5] = Number.NaN;
    const splat = new Float32Array(16).fill(0.375);
    const [a, b, s] = [bed.floats(x), bed.floats(y), bed.floats(splat)];
    const target = bed.output(count);
    bed.e.strip(code, target, target + count * 4, a, 64, b, 64, 0, 0);
    expectSame(
      bed.read(target, count),
      Float32Array.from(x, (value, i) => exact(value, y[i]!)),
    );
    bed.e.strip(code, target, target + count * 4, s, 0, b, 64, 0, 0);
    expectSame(
      bed.read(target, count),
      Float32Array.from(y, (value) => exact(0.375, value)),
    );
    bed.e.strip(code, a, a + count * 4, a, 64, s, 0, 0, 0);
    expectSame(
      bed.read(a, count),
      Float32Array.from(x, (value) => exact(value, 0.375)),
    );
  });

  test("clip and multiply-add", () => {
    const x = Float32Array.from({ length: 32 }, (_, i) => (i === 7 ? Number.NaN : i / 8 - 2));
    const [low, high] = [new Float32Array(16).fill(-1), new Float32Array(16).fill(1.25)];
    const [a, b, c] = [bed.floats(x), bed.floats(low), bed.floats(high)];
    const target = bed.output(32);
    bed.e.strip(S.CLIP, target, target + 128, a, 64, b, 0, c, 0);
    expectSame(
      bed.read(target, 32),
      x.map((value) => (Number.isNaN(value) ? value : Math.min(Math.max(value, -1), 1.25))),
    );
    // Exact in f32, so fused and unfused agree.
    bed.e.strip(S.MULADD, target, target + 128, a, 64, c, 0, a, 64);
    expectSame(
      bed.read(target, 32),
      x.map((value) => value * 1.25 + value),
    );
    bed.e.strip(MicroCode.MULADD_RELU, target, target + 128, a, 64, c, 0, a, 64);
    expectSame(
      bed.read(target, 32),
      x.map((value) => maximum(value * 1.25 + value)),
    );
  });

  test("a code without a vector form does nothing", () => {
    const target = bed.output(16);
    expect(bed.e.strip(S.POW, target, target + 64, target, 64, target, 64, 0, 0)).toBe(0);
    expect(bed.e.strip(9999, target, target + 64, target, 64, target, 64, 0, 0)).toBe(0);
    expect(bed.read(target, 16).every(Number.isNaN)).toBe(true);
  });

  test("functions with limits never pass them", () => {
    const values = Float32Array.from({ length: 4000 }, (_, i) => i / 200);
    for (const code of [S.TANH, S.ERF, S.SIGMOID]) {
      expect(Math.max(...apply(bed, code, values))).toBe(1);
      expect(
        Math.min(
          ...apply(
            bed,
            code,
            values.map((x) => -8 * x),
          ),
        ),
      ).toBe(code === S.SIGMOID ? 0 : -1);
    }
  });

  test("long functions work in place and on empty ranges", () => {
    const x = Float32Array.from({ length: 64 }, (_, i) => i / 16 - 2);
    const a = bed.floats(x);
    bed.e.strip(S.EXP, a, a, a, 64, 0, 0, 0, 0);
    expectSame(bed.read(a, 64), x);
    bed.e.strip(S.EXP, a, a + 256, a, 64, 0, 0, 0, 0);
    bed.read(a, 64).forEach((value, i) => expect(ulps(value, Math.exp(x[i]!))).toBeLessThanOrEqual(2));
  });
});
