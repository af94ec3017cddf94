/** REDUCE: every fold over every register type, rows and columns, against float64 and BigInt. */
import type { DtypeName } from "../../../lib/graph/dtype";
import type { FoldName, View } from "../../../lib/program/types";
import { agree, count, Plan, random } from "./harness";
import { isInteger, wrap } from "./numbers";

const FOLDS: readonly FoldName[] = ["sum", "mean", "max", "min", "prod", "sum_square", "l1", "log_sum_exp", "all", "any", "arg_max", "arg_min"];
const TYPES: readonly DtypeName[] = ["float32", "float16", "float64", "int32", "uint8", "int64", "uint64"];

function truth(fold: FoldName, row: readonly number[]): number {
  const sum = (f: (x: number) => number): number => row.reduce((total, x) => total + f(x), 0);
  const largest = row.reduce((a, b) => (Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : Math.max(a, b)), Number.NEGATIVE_INFINITY);
  const least = row.reduce((a, b) => (Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : Math.min(a, b)), Number.POSITIVE_INFINITY);
  switch (fold) {
    case "sum":
      return sum((x) => x);
    case "mean":
      return sum((x) => x) / row.length;
    case "max":
      return largest;
    case "min":
      return least;
    case "prod":
      return row.reduce((total, x) => total * x, 1);
    case "sum_square":
      return sum((x) => x * x);
    case "l1":
      return sum(Math.abs);
    case "log_sum_exp":
      return largest === Number.NEGATIVE_INFINITY ? largest : largest + Math.log(sum((x) => Math.exp(x - largest)));
    case "all":
      return row.every((x) => x !== 0) ? 1 : 0;
    case "any":
      return row.some((x) => x !== 0) ? 1 : 0;
    case "arg_max":
      return Math.max(0, row.indexOf(largest));
    default:
      return Math.max(0, row.indexOf(least));
  }
}

const targetOf = (fold: FoldName, dtype: DtypeName): DtypeName =>
  fold.startsWith("arg") ? "int64" : fold === "all" || fold === "any" ? "bool" : dtype;
const SHAPES: readonly (readonly [number, number])[] = [
  [1, 1],
  [3, 7],
  [17, 16],
  [40, 3],
  [2, 5000],
  [1, 1025],
  [700, 40],
  [5, 0],
];

describe.each(TYPES)("%s", (dtype) => {
  test.each(FOLDS)("%s", (fold) => {
    if (fold === "log_sum_exp" && isInteger(dtype)) return;
    for (const [rows, length] of SHAPES) {
      if (length === 0 && (fold.startsWith("arg") || (isInteger(dtype) && (fold === "max" || fold === "min")))) continue;
      const next = random(rows * 31 + length);
      const signed = dtype !== "uint8" && dtype !== "uint64";
      // Products stay small; sums of small whole numbers are exact in every type that holds them.
      const draw = (): number => (fold === "prod" ? (next() < 0.02 ? 2 : 1) : Math.floor((next() - (signed ? 0.5 : 0)) * (fold === "all" ? 40 : 12)));
      const values = Array.from({ length: rows * length }, draw);
      const plan = new Plan();
      const source = plan.input(dtype, [rows, length], values);
      const target = plan.output(targetOf(fold, dtype), [rows]);
      const result = plan.run([{ op: "reduce", node: fold, fold, axes: 1, target, source }])(target);
      for (let r = 0; r < rows; r++) {
        const row = values.slice(r * length, (r + 1) * length);
        let expected = truth(fold, row);
        if (isInteger(dtype) && !fold.startsWith("arg") && fold !== "all" && fold !== "any") {
          expected = Number(wrap(dtype, BigInt(Math.trunc(Number.isNaN(expected) ? 0 : expected))));
        }
        if (dtype === "float32") expected = Math.fround(expected);
        const actual = Number(result[r]);
        const bound = dtype === "float64" ? 1e-14 : dtype === "float16" ? 1e-3 : fold === "log_sum_exp" || fold === "mean" ? 2e-7 : 0;
        const same =
          Object.is(actual, expected) ||
          actual === expected ||
          (Number.isNaN(actual) && Number.isNaN(expected)) ||
          Math.abs(actual - expected) <= bound * Math.abs(expected);
        // float16 sums overflow to infinity past 65504.
        if (!same && !(dtype === "float16" && Math.abs(expected) >= 65520 && Math.abs(actual) === Number.POSITIVE_INFINITY)) {
          throw new Error(`${fold} of [${rows}, ${length}] row ${r}: ${actual}, expected ${expected}`);
        }
      }
      expect(result.length).toBe(rows);
    }
  });
});

test("float32 sums stay within 10 units of 2^-24 of the magnitudes", () => {
  const next = random(2);
  const [rows, length] = [3, 100003];
  const values = Array.from({ length: rows * length }, () => Math.fround((next() - 0.45) * 10 ** (next() * 4)));
  const plan = new Plan();
  const source = plan.input("float32", [rows, length], values);
  const target = plan.output("float32", [rows]);
  const result = plan.run([{ op: "reduce", node: "sum", fold: "sum", axes: 1, target, source }])(target) as number[];
  for (let r = 0; r < rows; r++) {
    const row = values.slice(r * length, (r + 1) * length);
    const magnitude = row.reduce((total, x) => total + Math.abs(x), 0);
    expect(Math.abs(result[r]! - row.reduce((total, x) => total + x, 0))).toBeLessThanOrEqual(10 * 2 ** -24 * magnitude);
  }
});

describe("several axes and strides", () => {
  const dims = [3, 5, 4, 9];
  const next = random(8);
  const values = Array.from({ length: count(dims) }, () => Math.floor((next() - 0.5) * 100));
  const value = (i: readonly number[]): number => values[((i[0]! * 5 + i[1]!) * 4 + i[2]!) * 9 + i[3]!]!;
  /** `order`: source axes, the folded ones last. */
  const CASES: readonly [readonly number[], number][] = [
    [[0, 1, 2, 3], 2],
    [[0, 3, 1, 2], 2],
    [[3, 0, 1, 2], 3],
    [[1, 3, 0, 2], 2],
    [[2, 1, 0, 3], 1],
    [[0, 1, 2, 3], 4],
    [[0, 1, 2, 3], 0],
  ];
  test.each(CASES)("axes %j, innermost %i folded", (order, axes) => {
    for (const fold of ["sum", "mean", "max", "min", "sum_square", "arg_min"] as const) {
      const plan = new Plan();
      const dense = plan.input("float32", dims, values);
      const source: View = { ...dense, dims: order.map((axis) => dims[axis]!), strides: order.map((axis) => dense.strides[axis]!) };
      const outer = source.dims.slice(0, 4 - axes);
      const inner = source.dims.slice(4 - axes);
      const target = plan.output(targetOf(fold, "float32"), outer);
      const result = plan.run([{ op: "reduce", node: fold, fold, axes, target, source }])(target);
      const expected = Array.from({ length: count(outer) }, (_, o) => {
        const row = Array.from({ length: count(inner) }, (_, i) => {
          let rest = o * count(inner) + i;
          const index = [0, 0, 0, 0];
          for (let axis = 3; axis >= 0; axis--) {
            index[order[axis]!] = rest % source.dims[axis]!;
            rest = Math.floor(rest / source.dims[axis]!);
          }
          return value(index);
        });
        return truth(fold, row);
      });
      agree(result.map(Number), expected.map(Math.fround));
    }
  });
});

test("the strip after a fold: other views, another dtype, scattered target", () => {
  const plan = new Plan();
  const source = plan.input(
    "float32",
    [6, 50],
    Array.from({ length: 300 }, (_, i) => (i * 13) % 17),
  );
  const offset = plan.input("float32", [6], [1, 2, 3, 4, 5, 6]);
  const target: View = { ...plan.output("int16", [6, 2]), dims: [6], strides: [4] };
  const after = {
    values: [
      { kind: "accumulator" as const, type: "f32" as const },
      { kind: "input" as const, view: offset, type: "f32" as const },
      { kind: "op" as const, op: "sub" as const, type: "f32" as const, args: [0, 1] },
    ],
    outputs: [{ view: target, value: 2 }],
  };
  const result = plan.run([{ op: "reduce", node: "r", fold: "sum", axes: 1, target, source, after }])(target);
  const expected = Array.from(
    { length: 6 },
    (_, r) => Array.from({ length: 50 }, (_, i) => ((r * 50 + i) * 13) % 17).reduce((a, b) => a + b, 0) - (r + 1),
  );
  expect(result).toEqual(expected);
});

test("NaN and infinities", () => {
  const plan = new Plan();
  const rows = [
    [1, Number.NaN, 2],
    [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY],
    [Number.POSITIVE_INFINITY, 1, 2],
  ];
  const source = plan.input("float32", [3, 3], rows.flat());
  const outs = (["max", "min", "sum", "log_sum_exp"] as const).map((fold) => ({ fold, target: plan.output("float32", [3]) }));
  const read = plan.run([outs.map(({ fold, target }) => ({ op: "reduce" as const, node: fold, fold, axes: 1, target, source }))]);
  for (const { fold, target } of outs)
    agree(
      read(target),
      rows.map((row) => (row.some(Number.isNaN) ? Number.NaN : truth(fold, row) || (fold === "log_sum_exp" ? Number.POSITIVE_INFINITY : 0))),
    );
});
