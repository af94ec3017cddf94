/** MAP: element types, casts, integer arithmetic, comparisons and logic. */
import type { DtypeName } from "../../../lib/graph/dtype";
import type { Instruction, StripOpName, StripType, StripValue, View } from "../../../lib/program/types";
import { agree, Plan, random } from "./harness";
import { decode, encode, isInteger, isWide, limits, valuesOf, wrap } from "./numbers";

const input = (view: View, type: StripType): StripValue => ({ kind: "input", view, type });
const op = (name: StripOpName, type: StripType, ...args: number[]): StripValue => ({ kind: "op", op: name, type, args });
const map = (values: StripValue[], ...outputs: [View, number][]): Instruction => ({
  op: "map",
  node: "map",
  strip: { values, outputs: outputs.map(([view, value]) => ({ view, value })) },
});

const ALL: readonly DtypeName[] = [
  "float32",
  "float64",
  "float16",
  "bfloat16",
  "float8e4m3fn",
  "float8e4m3fnuz",
  "float8e5m2",
  "float8e5m2fnuz",
  "float4e2m1",
  "float8e8m0",
  "bool",
  "int8",
  "uint8",
  "int16",
  "uint16",
  "int32",
  "uint32",
  "int64",
  "uint64",
  "int4",
  "uint4",
  "int2",
  "uint2",
];
const SMALL_FLOATS: readonly DtypeName[] = [
  "float16",
  "bfloat16",
  "float8e4m3fn",
  "float8e4m3fnuz",
  "float8e5m2",
  "float8e5m2fnuz",
  "float4e2m1",
  "float8e8m0",
];
const natural = (dtype: DtypeName): StripType =>
  dtype === "float64"
    ? "f64"
    : dtype === "int64"
      ? "i64"
      : dtype === "uint64"
        ? "u64"
        : dtype === "uint32"
          ? "u32"
          : isInteger(dtype) || dtype === "bool"
            ? "i32"
            : "f32";

/** What a Cast from `from` to `to` gives (the device saturates floats, wraps integers). */
function castTruth(value: number | bigint, from: DtypeName, to: DtypeName): number | bigint {
  if (to === "bool") return Number(value) === 0 ? 0 : 1;
  if (!isInteger(to)) {
    // Integers go to the narrow floats through float32.
    const number = Number(value);
    return to === "float64" ? number : typeof value === "bigint" && to === "float32" ? Math.fround(number) : Math.fround(number);
  }
  if (isInteger(from) || from === "bool") return wrap(to, BigInt(value));
  const number = Number(value);
  if (Number.isNaN(number)) return 0n;
  const [low, high] = limits(to);
  if (number <= Number(low)) return low;
  if (number >= Number(high)) return high;
  return BigInt(Math.trunc(number));
}

function samples(dtype: DtypeName): (number | bigint)[] {
  const next = random(3);
  if (dtype === "bool") return [0, 1, 1, 0, 1];
  if (SMALL_FLOATS.includes(dtype) && !dtype.includes("16")) return [...valuesOf(dtype)];
  if (isInteger(dtype)) {
    const [low, high] = limits(dtype);
    const values = [
      low,
      high,
      0n,
      1n,
      low + 1n,
      high - 1n,
      127n,
      128n,
      200n,
      255n,
      256n,
      -1n,
      -128n,
      65535n,
      70000n,
      2n ** 31n,
      2n ** 53n + 1n,
      -(2n ** 40n),
    ];
    const inside = values.filter((value) => value >= low && value <= high);
    return isWide(dtype) ? inside : inside.map(Number);
  }
  const values = [
    0, -0, 1, -1, 0.5, -0.5, 1.5, 2.5, 3.49, 100.7, -100.7, 127.5, 128, 255.9, 256, 300, -300, 65504, 65520, 70000, 448, 464, 480, 57344, 61440, 6, 5,
    1e9,
  ];
  values.push(
    3e9,
    -3e9,
    5e9,
    1e19,
    -1e19,
    1e30,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    6e-8,
    2e-8,
    3e-8,
    6.1e-5,
    1e-3,
    2 ** -9,
    2 ** -10,
    3 * 2 ** -10,
    1.0625,
    1.1875,
    17,
    18,
    19,
  );
  for (let i = 0; i < 200; i++) values.push((next() - 0.5) * 10 ** (next() * 8 - 4));
  return values.map((value) => (dtype === "float64" ? value : Math.fround(value)));
}

const same = (a: number | bigint, b: number | bigint): boolean =>
  Object.is(a, b) || (typeof a !== typeof b && BigInt(a) === BigInt(b)) || (Number.isNaN(a as number) && Number.isNaN(b as number));

test.each(ALL)("%s to every dtype", (from) => {
  const plan = new Plan();
  const values = samples(from);
  const source = plan.input(from, [values.length], values);
  const targets = ALL.map((to) => ({ to, view: plan.output(to, [values.length]) }));
  const read = plan.run([targets.map(({ view }) => map([input(source, natural(from))], [view, 0]))]);
  // The stored samples are the source's own values.
  const exact = read(source);
  for (const { to, view } of targets) {
    const expected = decode(
      to,
      encode(
        to,
        exact.map((value) => castTruth(value, from, to)),
      ),
    );
    for (const [i, actual] of read(view).entries()) {
      if (!same(actual, expected[i]!)) throw new Error(`${exact[i]} as ${to} is ${actual}, expected ${expected[i]}`);
    }
  }
  expect(targets.length).toBe(23);
});

// Saturation sends the infinities of float8e5m2 to its largest value.
test.each(SMALL_FLOATS)("every %s survives the way through a register", (dtype) => {
  const values = [...valuesOf(dtype)];
  const plan = new Plan();
  const raw: DtypeName = values.length > 256 ? "uint16" : "uint8";
  const codes = values.map((_, code) => code);
  const source = plan.input(raw, [values.length], codes);
  const [copy, wide] = [plan.output(dtype, [values.length]), plan.output("float32", [values.length])];
  const read = plan.run([map([input({ ...source, dtype }, "f32")], [copy, 0], [wide, 0])]);
  agree(read(wide), values);
  const back = read({ ...copy, dtype: raw });
  agree(
    back.map((code, i) => (Number.isNaN(values[i]!) || (!Number.isFinite(values[i]!) && !dtype.includes("16")) ? i : code)),
    codes,
  );
});

const INTEGER_OPS: readonly [StripOpName, (x: bigint, y: bigint, bits: bigint, signed: boolean) => bigint][] = [
  ["add", (x, y) => x + y],
  ["sub", (x, y) => x - y],
  ["mul", (x, y) => x * y],
  ["div", (x, y) => (y === 0n ? 0n : x / y)],
  ["min", (x, y) => (x < y ? x : y)],
  ["max", (x, y) => (x > y ? x : y)],
  ["fmod", (x, y) => (y === 0n ? 0n : x % y)],
  [
    "mod",
    (x, y) => {
      if (y === 0n) return 0n;
      const r = x % y;
      return r !== 0n && r < 0n !== y < 0n ? r + y : r;
    },
  ],
  ["bitand", (x, y) => x & y],
  ["bitor", (x, y) => x | y],
  ["bitxor", (x, y) => x ^ y],
  ["shl", (x, y, bits) => (y < 0n || y >= bits ? 0n : x << y)],
  ["shr", (x, y, bits) => (y < 0n || y >= bits ? 0n : x >> y)],
  ["pow", (x, y) => (y < 0n ? (x === 1n ? 1n : x === -1n ? (y % 2n === 0n ? 1n : -1n) : 0n) : BigInt.asUintN(64, x) ** (y > 40n ? 40n : y))],
];

describe.each(["int32", "uint32", "int64", "uint64"] as const)("%s", (dtype) => {
  const type = natural(dtype);
  const bits = type.endsWith("64") ? 64n : 32n;
  const [low, high] = limits(dtype);
  const specials = [low, high, 0n, 1n, 2n, 3n, 31n, 33n, 63n, low + 1n, high - 7n, ...(low < 0n ? [-1n, -2n, -5n] : [])];
  const pairs = specials.flatMap((x) => specials.map((y) => [x, y] as const));
  const convert = (value: bigint): number | bigint => (isWide(dtype) ? value : Number(value));

  test.each(INTEGER_OPS)("%s", (name, truth) => {
    const usable = name === "pow" ? pairs.filter(([, y]) => y <= 40n) : pairs;
    const plan = new Plan();
    const [x, y, z] = [
      plan.input(
        dtype,
        [usable.length],
        usable.map(([a]) => a),
      ),
      plan.input(
        dtype,
        [usable.length],
        usable.map(([, b]) => b),
      ),
      plan.output(dtype, [usable.length]),
    ];
    const result = plan.run([map([input(x, type), input(y, type), op(name, type, 0, 1)], [z, 2])])(z);
    for (const [i, [a, b]] of usable.entries()) {
      const expected = convert(wrap(dtype, truth(a, b, bits, low < 0n)));
      if (result[i] !== expected) throw new Error(`${a} ${name} ${b} = ${result[i]}, expected ${expected}`);
    }
    expect(result.length).toBe(usable.length);
  });

  test("comparisons, logic, unary", () => {
    const plan = new Plan();
    const n = pairs.length;
    const [x, y] = [
      plan.input(
        dtype,
        [n],
        pairs.map(([a]) => a),
      ),
      plan.input(
        dtype,
        [n],
        pairs.map(([, b]) => b),
      ),
    ];
    const compare: [StripOpName, (a: bigint, b: bigint) => boolean][] = [
      ["eq", (a, b) => a === b],
      ["ne", (a, b) => a !== b],
      ["lt", (a, b) => a < b],
      ["le", (a, b) => a <= b],
      ["gt", (a, b) => a > b],
      ["ge", (a, b) => a >= b],
      ["and", (a, b) => a !== 0n && b !== 0n],
      ["or", (a, b) => a !== 0n || b !== 0n],
      ["xor", (a, b) => (a !== 0n) !== (b !== 0n)],
    ];
    const single: [StripOpName, (a: bigint) => bigint][] = [
      ["neg", (a) => -a],
      ["abs", (a) => (a < 0n ? -a : a)],
      ["sign", (a) => (a > 0n ? 1n : a < 0n ? -1n : 0n)],
      ["bitnot", (a) => ~a],
      ["relu", (a) => (a < 0n ? 0n : a)],
      ["floor", (a) => a],
    ];
    const bools = compare.map(() => plan.output("bool", [n]));
    const whole = single.map(() => plan.output(dtype, [n]));
    const clipped = plan.output(dtype, [n]);
    const picked = plan.output(dtype, [n]);
    const limit = isWide(dtype) ? [2n, 40n] : [2, 40];
    const instructions = [
      ...compare.map(([name], i) => map([input(x, type), input(y, type), op(name, type, 0, 1)], [bools[i]!, 2])),
      ...single.map(([name], i) => map([input(x, type), op(name, type, 0)], [whole[i]!, 1])),
      map(
        [input(x, type), { kind: "constant", type, value: limit[0]! }, { kind: "constant", type, value: limit[1]! }, op("clip", type, 0, 1, 2)],
        [clipped, 3],
      ),
      map([input(x, type), input(y, type), op("lt", type, 0, 1), op("select", type, 2, 0, 1)], [picked, 3]),
    ];
    const read = plan.run([instructions]);
    for (const [i, [, truth]] of compare.entries())
      agree(
        read(bools[i]!),
        pairs.map(([a, b]) => Number(truth(a, b))),
      );
    for (const [i, [, truth]] of single.entries())
      agree(
        read(whole[i]!),
        pairs.map(([a]) => convert(wrap(dtype, truth(a)))),
      );
    agree(
      read(clipped),
      pairs.map(([a]) => convert(a < 2n ? 2n : a > 40n ? 40n : a)),
    );
    agree(
      read(picked),
      pairs.map(([a, b]) => convert(a < b ? a : b)),
    );
  });
});

test("float comparisons, NaN and infinities", () => {
  const xs = [1, 2, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, -0];
  const ys = [2, 2, 1, Number.POSITIVE_INFINITY, 0, -0, 0];
  for (const [dtype, type] of [
    ["float32", "f32"],
    ["float64", "f64"],
  ] as const) {
    const plan = new Plan();
    const [x, y] = [plan.input(dtype, [7], xs), plan.input(dtype, [7], ys)];
    const truths: [StripOpName, (a: number, b: number) => boolean][] = [
      ["eq", (a, b) => a === b],
      ["ne", (a, b) => a !== b],
      ["lt", (a, b) => a < b],
      ["ge", (a, b) => a >= b],
      ["isnan", (a) => Number.isNaN(a)],
      ["isinf", (a) => Math.abs(a) === Number.POSITIVE_INFINITY],
      ["not", (a) => a === 0],
    ];
    const outs = truths.map(() => plan.output("bool", [7]));
    const unary = new Set<StripOpName>(["isnan", "isinf", "not"]);
    const read = plan.run([
      truths.map(([name], i) => map([input(x, type), input(y, type), unary.has(name) ? op(name, type, 0) : op(name, type, 0, 1)], [outs[i]!, 2])),
    ]);
    for (const [i, [, truth]] of truths.entries())
      agree(
        read(outs[i]!),
        xs.map((a, k) => Number(truth(a, ys[k]!))),
      );
  }
});
