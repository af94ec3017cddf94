/** ATTENTION against float64: odd sizes, keys in one block and in several, strided and turned operands, masks, rows that see nothing, infinities and NaN. */
import type { View } from "../../../lib/program/types";
import { count, Plan, worst } from "./harness";
import { draw } from "./sliding";

type Matrix = (row: number, column: number) => number;
interface Case {
  readonly rows: number;
  readonly keys: number;
  readonly depth: number;
  readonly values: number;
  readonly scale?: number;
  readonly causal?: number;
}

/** One matrix; a row that sees no key gives `unseen`. */
function attention(
  q: Matrix,
  k: Matrix,
  v: Matrix,
  mask: Matrix,
  { rows, keys, depth, values, scale = 1, causal }: Case,
  unseen = Number.NaN,
): number[] {
  const each = <T>(length: number, of: (i: number) => T): T[] => Array.from({ length }, (_, i) => of(i));
  return each(rows, (r) => {
    const scores = each(keys, (c) =>
      causal !== undefined && c > r + causal
        ? Number.NEGATIVE_INFINITY
        : each(depth, (i) => q(r, i) * k(c, i)).reduce((a, b) => a + b, 0) * Math.fround(scale) + mask(r, c),
    );
    const most = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - most));
    const sum = powers.reduce((a, b) => a + b, 0);
    const hidden = most === Number.NEGATIVE_INFINITY;
    return each(values, (i) => (hidden ? unseen : powers.reduce((total, power, c) => total + (power === 0 ? 0 : power * v(c, i)), 0) / sum));
  }).flat();
}
const none: Matrix = () => 0;
const dense =
  (data: readonly number[], width: number, start = 0): Matrix =>
  (row, column) =>
    data[start + row * width + column]!;

const CASES: readonly Case[] = [
  { rows: 1, keys: 1, depth: 1, values: 1 },
  { rows: 3, keys: 5, depth: 7, values: 2, scale: 0.4 },
  { rows: 130, keys: 64, depth: 16, values: 33, scale: 0.25 },
  { rows: 65, keys: 300, depth: 6, values: 10, scale: 3 },
  { rows: 2, keys: 769, depth: 64, values: 64, scale: 0.125 },
  { rows: 3, keys: 257, depth: 256, values: 256, scale: 1 / 16 },
  { rows: 70, keys: 320, depth: 9, values: 5, scale: 2, causal: 250 },
  { rows: 300, keys: 600, depth: 4, values: 4, scale: 2, causal: 3 },
];

describe.each(CASES)("%j", (given) => {
  const { rows, keys, depth, values } = given;
  const q = draw(2 * rows * depth, 1);
  const [k, v, added] = [draw(2 * keys * depth, 2), draw(2 * keys * values, 3), draw(rows * keys, 4)];
  const form = {
    op: "attention",
    node: "a",
    scale: given.scale ?? 1,
    zeros: false,
    ...(given.causal === undefined ? {} : { causal: given.causal }),
  } as const;
  const truth = [0, 1].flatMap((matrix) =>
    attention(
      dense(q, depth, matrix * rows * depth),
      dense(k, depth, matrix * keys * depth),
      dense(v, values, matrix * keys * values),
      dense(added, keys),
      given,
    ),
  );

  test("two matrices that share a mask", () => {
    const plan = new Plan();
    const shared = plan.input("float32", [rows, keys], added);
    const mask: View = { ...shared, dims: [2, rows, keys], strides: [0, ...shared.strides] };
    const target = plan.output("float32", [2, rows, values]);
    const operands = {
      q: plan.input("float32", [2, rows, depth], q),
      k: plan.input("float32", [2, keys, depth], k),
      v: plan.input("float32", [2, keys, values], v),
    };
    const result = plan.run([{ ...form, target, ...operands, mask }])(target);
    expect(worst(result, truth, () => 1)).toBeLessThan(1e-5);
  });

  test("rows one after the other give the same bits, whatever the strides", () => {
    const plan = new Plan();
    const shared = plan.input("float32", [rows, keys], added);
    const target = plan.output("float32", [2, rows, values]);
    const apart = plan.output("float32", [rows, 2, values]);
    // Q and K with their dims turned: what is dense lies across.
    const turned = (data: readonly number[], a: number, b: number): View => {
      const from = (i: number): number => data[Math.floor(i / (a * b)) * a * b + (i % a) * b + Math.floor((i % (a * b)) / a)]!;
      const view = plan.input(
        "float32",
        [2, b, a],
        Array.from({ length: data.length }, (_, i) => from(i)),
      );
      return { ...view, dims: [2, a, b], strides: [a * b * 4, 4, a * 4] };
    };
    const [kView, vView] = [turned(k, keys, depth), turned(v, keys, values)];
    const [qView, qPlain] = [turned(q, rows, depth), plan.input("float32", [2, rows, depth], q)];
    const mask = (from: number, length: number): View => ({
      ...shared,
      offsetBytes: from * keys * 4,
      dims: [2, length, keys],
      strides: [0, keys * 4, 4],
    });
    const slice = (view: View, from: number, length: number): View => ({
      ...view,
      offsetBytes: view.offsetBytes + from * view.strides[1]!,
      dims: view.dims.with(1, length),
    });
    const heads: View = { ...apart, dims: [2, rows, values], strides: [values * 4, 2 * values * 4, 4] };
    const cut = Math.floor(rows / 3);
    const parts = [[0, cut] as const, [cut, rows - cut] as const].filter(([, length]) => length > 0);
    const whole = {
      ...form,
      target,
      q: qPlain,
      k: plan.input("float32", [2, keys, depth], k),
      v: plan.input("float32", [2, keys, values], v),
      mask: mask(0, rows),
    };
    const read = plan.run([
      whole,
      ...parts.map(([from, length]) => ({
        ...form,
        ...(given.causal === undefined ? {} : { causal: given.causal + from }),
        ...{ target: slice(heads, from, length), q: slice(qView, from, length), k: kView, v: vView, mask: mask(from, length) },
      })),
    ]);
    const [one, other] = [read(target), read(heads)];
    expect(one.filter((value, i) => !Object.is(value, other[i]))).toEqual([]);
    expect(worst(one, truth, () => 1)).toBeLessThan(1e-5);
  });
});

/** Four rows: all hidden, one key, the lowest finite number everywhere, a NaN. */
function special(zeros: boolean, keys: number): { readonly result: (number | bigint)[]; readonly v: number[] } {
  const plan = new Plan();
  const [depth, values] = [3, 2];
  const hidden = Array.from({ length: keys }, () => Number.NEGATIVE_INFINITY);
  const mask = [...hidden, ...hidden.with(keys - 1, 0), ...hidden.fill(-3.4028234663852886e38), ...draw(keys, 5).with(1, Number.NaN)];
  const v = draw(keys * values, 3);
  const target = plan.output("float32", [4, values]);
  const operands = {
    q: plan.input("float32", [4, depth], draw(4 * depth, 1)),
    k: plan.input("float32", [keys, depth], draw(keys * depth, 2)),
    v: plan.input("float32", [keys, values], v),
    mask: plan.input("float32", [4, keys], mask),
  };
  return { result: plan.run([{ op: "attention", node: "a", target, ...operands, scale: 1, zeros }])(target), v };
}

test.each([5, 700])("special rows of %i keys", (keys) => {
  const { result, v } = special(false, keys);
  const mean = [0, 1].map((i) => v.reduce((sum, x, at) => sum + (at % 2 === i ? x : 0), 0) / keys);
  const truth = [Number.NaN, Number.NaN, ...v.slice(-2), ...mean, Number.NaN, Number.NaN];
  expect(worst(result, truth, () => 1)).toBeLessThan(1e-6);
  expect(special(true, keys).result.slice(0, 2)).toEqual([0, 0]);
});

test("causal rows before the first key see nothing", () => {
  const plan = new Plan();
  const [rows, keys, depth, values] = [5, 4, 3, 2];
  const [q, k, v] = [draw(rows * depth, 1), draw(keys * depth, 2), draw(keys * values, 3)];
  const target = plan.output("float32", [rows, values]);
  const operands = {
    q: plan.input("float32", [rows, depth], q),
    k: plan.input("float32", [keys, depth], k),
    v: plan.input("float32", [keys, values], v),
  };
  const given = { rows, keys, depth, values, causal: -3 };
  const result = plan.run([{ op: "attention", node: "a", target, ...operands, scale: 1, causal: -3, zeros: true }])(target);
  expect(count(target.dims)).toBe(rows * values);
  expect(worst(result, attention(dense(q, depth), dense(k, depth), dense(v, values), none, given, 0), () => 1)).toBeLessThan(1e-6);
});

test.each([
  ["heads that are too wide", { depth: 257, values: 4, dtype: "float32" }, /wider than 256/],
  ["another type", { depth: 4, values: 4, dtype: "float64" }, /takes float32 matrices/],
] as const)("%s are refused", (_, { depth, values, dtype }, text) => {
  const plan = new Plan();
  const view = (rows: number, columns: number): View => plan.input(dtype, [rows, columns], draw(rows * columns, 1));
  const instruction = {
    op: "attention",
    node: "a",
    target: plan.output("float32", [2, values]),
    q: view(2, depth),
    k: view(3, depth),
    v: view(3, values),
  } as const;
  expect(() => plan.run([{ ...instruction, scale: 1, zeros: false }])).toThrow(text);
});
