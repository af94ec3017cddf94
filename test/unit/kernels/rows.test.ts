/** SOFTMAX and NORM against float64: odd lengths, strided rows, in place, rows that are all one value, infinities and NaN. */
import type { View } from "../../../lib/program/types";
import { Plan, worst } from "./harness";
import { draw } from "./sliding";

const softmax = (row: readonly number[]): number[] => {
  const most = Math.max(...row);
  const powers = row.map((x) => Math.exp(x - most));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / total);
};
const norm = (row: readonly number[], scale: readonly number[], shift: readonly number[], epsilon: number): number[] => {
  const mean = row.reduce((a, b) => a + b, 0) / row.length;
  const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / row.length;
  return row.map((x, i) => ((x - mean) / Math.sqrt(variance + epsilon)) * scale[i]! + shift[i]!);
};
const rowsOf = (values: readonly number[], length: number): number[][] =>
  Array.from({ length: values.length / length }, (_, i) => values.slice(i * length, (i + 1) * length));

/** [a, b, length] stored as [b, a, length + 3]: rows that lie neither side by side nor in order. */
function strided(view: View, a: number, b: number, length: number): View {
  return { ...view, dims: [a, b, length], strides: [(length + 3) * 4, a * (length + 3) * 4, 4] };
}

describe.each([1, 2, 15, 16, 17, 64, 100, 1000])("rows of %i", (length) => {
  const [a, b] = [3, 4];
  const values = draw(a * b * (length + 3), 7).map((x) => Math.fround(x * 20));
  const row = (i: number, j: number): number[] => values.slice((j * a + i) * (length + 3), (j * a + i) * (length + 3) + length);
  const rows = Array.from({ length: a * b }, (_, r) => row(Math.floor(r / b), r % b));

  test("softmax", () => {
    const plan = new Plan();
    const source = strided(plan.input("float32", [b, a, length + 3], values), a, b, length);
    const target = plan.output("float32", [a, b, length]);
    const result = plan.run([{ op: "softmax", node: "s", target, source }])(target);
    const truth = rows.flatMap(softmax);
    expect(worst(result, truth, () => 1)).toBeLessThan(1e-6);
    expect(worst(result, truth, (i) => Math.max(truth[i]!, 1e-30))).toBeLessThan(1e-5);
  });

  test("norm, in place", () => {
    const plan = new Plan();
    const [scale, shift] = [draw(length, 8), draw(length, 9)];
    const target = plan.output("float32", [a * b, length], rows.flat());
    const [factor, term] = [plan.input("float32", [length], scale), plan.input("float32", [length], shift)];
    const result = plan.run([{ op: "norm", node: "n", target, source: target, scale: factor, shift: term, epsilon: 1e-5 }])(target);
    const truth = rows.flatMap((each) => norm(each, scale, shift, Math.fround(1e-5)));
    expect(worst(result, truth, () => 1)).toBeLessThan(2e-5);
  });
});

test("softmax of infinities and NaN", () => {
  const plan = new Plan();
  const values = [0, Number.NEGATIVE_INFINITY, 1, Number.NaN, 1, 2, Number.NEGATIVE_INFINITY, 3, 3];
  const target = plan.output("float32", [3, 3]);
  const result = plan.run([{ op: "softmax", node: "s", target, source: plan.input("float32", [3, 3], values) }])(target);
  const truth = rowsOf(values, 3).flatMap((row) => (row.some(Number.isNaN) ? row.map(() => Number.NaN) : softmax(row)));
  expect(worst(result, truth, () => 1)).toBeLessThan(1e-6);
});

test("an empty row, and rows of constants", () => {
  const plan = new Plan();
  const empty = plan.output("float32", [4, 0]);
  const same = plan.output("float32", [2, 40]);
  const ones = plan.input("float32", [40], new Array(40).fill(1));
  const source = plan.input("float32", [2, 40], new Array(80).fill(3));
  const read = plan.run([
    { op: "softmax", node: "s", target: empty, source: plan.input("float32", [4, 0], []) },
    { op: "norm", node: "n", target: same, source, scale: ones, shift: ones, epsilon: 1e-5 },
  ]);
  expect(read(empty)).toEqual([]);
  expect(read(same)).toEqual(new Array(80).fill(1));
});
