/** MAP over views: broadcasts, strides, in place, constants, tails and empty views; and the strips that are refused. */
import { encode as encodeProgram } from "../../../dist/lib/program/encode";
import type { DtypeName } from "../../../lib/graph/dtype";
import type { Instruction, StripOpName, StripType, StripValue, View } from "../../../lib/program/types";
import { agree, Plan, random } from "./harness";
import { isInteger } from "./numbers";

const input = (view: View, type: StripType): StripValue => ({ kind: "input", view, type });
const op = (name: StripOpName, type: StripType, ...args: number[]): StripValue => ({ kind: "op", op: name, type, args });
const map = (values: StripValue[], ...outputs: [View, number][]): Instruction => ({
  op: "map",
  node: "map",
  strip: { values, outputs: outputs.map(([view, value]) => ({ view, value })) },
});
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

/** Views of one input over dims [a, b, c], as broadcasting and striding make them. */
const SHAPES: readonly (readonly [number, number, number])[] = [
  [1, 1, 1],
  [2, 3, 5],
  [3, 1, 17],
  [4, 7, 16],
  [2, 33, 96],
  [1, 1, 5000],
  [3, 50, 40],
  [5, 2, 1000],
  [4, 7, 103],
  [2, 9, 301],
  [1, 5, 999],
];

describe.each(SHAPES)("dims [%i, %i, %i]", (a, b, c) => {
  const dims = [a, b, c];
  const at = (i: number): [number, number, number] => [Math.floor(i / (b * c)), Math.floor(i / c) % b, i % c];

  test.each(["float32", "float16", "int8", "float64"] as const)(
    "flat, splat, row, column, matrix, transposed and reversed operands of %s",
    (dtype) => {
      const type = natural(dtype);
      const size = dtype === "float32" ? 4 : dtype === "float16" ? 2 : dtype === "float64" ? 8 : 1;
      const next = random(a * 100 + b * 10 + c);
      const values = (n: number): number[] => Array.from({ length: n }, () => Math.floor(next() * 5));
      const plan = new Plan();
      const [flat, one, row, column, matrix, turned, back] = [
        values(a * b * c),
        values(1),
        values(c),
        values(b),
        values(b * c),
        values(a * b * c),
        values(a * b * c),
      ];
      const dense = plan.input(dtype, dims, flat);
      const splat = { ...plan.input(dtype, [1], one), dims, strides: [0, 0, 0] };
      const rows = { ...plan.input(dtype, [c], row), dims, strides: [0, 0, size] };
      const columns = { ...plan.input(dtype, [b], column), dims, strides: [0, size, 0] };
      const inner = { ...plan.input(dtype, [b, c], matrix), dims, strides: [0, c * size, size] };
      const transposed = { ...plan.input(dtype, [c, b, a], turned), dims, strides: [size, a * size, a * b * size] };
      const reversed = { ...plan.input(dtype, dims, back), offsetBytes: (a * b * c - 1) * size, strides: [-b * c * size, -c * size, -size] };
      const views = [dense, splat, rows, columns, inner, transposed, reversed];
      const target = plan.output(dtype, dims);
      const strided = plan.output(dtype, [c, b, a]);
      const scattered: View = { ...strided, dims, strides: [size, a * size, a * b * size] };
      const adds = views.slice(1).map((_, i) => op("add", type, i === 0 ? 0 : views.length + i - 1, i + 1));
      const sum = views.length + adds.length - 1;
      const read = plan.run([map([...views.map((view) => input(view, type)), ...adds], [target, sum], [scattered, sum])]);
      const expected = flat.map((value, i) => {
        const [x, y, z] = at(i);
        return value + one[0]! + row[z]! + column[y]! + matrix[y * c + z]! + turned[(z * b + y) * a + x]! + back[a * b * c - 1 - i]!;
      });
      agree(read(target), expected);
      agree(read(scattered), expected);
    },
  );
});

test("in place, and outputs that a later operation still needs", () => {
  const n = 2500;
  const plan = new Plan();
  const values = Array.from({ length: n }, (_, i) => (i % 7) - 3);
  const x = plan.output("float32", [n], values);
  const y = plan.output("float32", [n]);
  // x = x + 1 in place; y = old x * 2: the operation that reads x comes after the one that produces the new x.
  const strip = map([input(x, "f32"), { kind: "constant", type: "f32", value: 1 }, op("add", "f32", 0, 1), op("add", "f32", 0, 0)], [x, 2], [y, 3]);
  const read = plan.run([strip]);
  agree(
    read(x),
    values.map((value) => value + 1),
  );
  agree(
    read(y),
    values.map((value) => value * 2 + 0),
  );
});

test("constants and inputs as outputs", () => {
  const plan = new Plan();
  const x = plan.input(
    "int64",
    [3, 40],
    Array.from({ length: 120 }, (_, i) => BigInt(i) - 60n),
  );
  const splat = { ...plan.input("float32", [1], [2.5]), dims: [3, 40], strides: [0, 0] };
  const [filled, copied, spread] = [plan.output("float16", [3, 40]), plan.output("int64", [3, 40]), plan.output("float32", [3, 40])];
  const read = plan.run([
    map([{ kind: "constant", type: "f32", value: 0.1 }, input(x, "i64"), input(splat, "f32")], [filled, 0], [copied, 1], [spread, 2]),
  ]);
  agree(read(filled), new Array(120).fill(0.0999755859375));
  agree(read(copied), read(x));
  agree(read(spread), new Array(120).fill(2.5));
});

test("empty views and long chains", () => {
  const plan = new Plan();
  const empty = plan.input("float32", [3, 0, 2], []);
  const none = plan.output("float32", [3, 0, 2]);
  expect(plan.run([map([input(empty, "f32"), op("neg", "f32", 0)], [none, 1])])(none)).toEqual([]);
  const chain = new Plan();
  const x = chain.input(
    "float32",
    [300],
    Array.from({ length: 300 }, (_, i) => i),
  );
  const y = chain.output("float32", [300]);
  const ops = Array.from({ length: 60 }, (_, i) => op("add", "f32", i, 0));
  expect(chain.run([map([input(x, "f32"), ...ops], [y, 60])])(y)).toEqual(Array.from({ length: 300 }, (_, i) => i * 61));
});

test("a strip that needs too many registers, mixed dims, undefined operations: typed errors", () => {
  const plan = new Plan();
  const views = Array.from({ length: 30 }, () => plan.input("float32", [4], [1, 2, 3, 4]));
  const y = plan.output("float32", [4]);
  const adds = views.slice(1).map((_, i) => op("add", "f32", i === 0 ? 0 : 29 + i, i + 1));
  const attempt = (instruction: Instruction) => () =>
    encodeProgram({ regions: [[instruction]], blobs: plan.blobs, inputs: 0, outputs: 0, arenaBytes: 4096 });
  expect(attempt(map([...views.map((view) => input(view, "f32")), ...adds], [y, 58]))).toThrow(/needs \d+ registers/);
  expect(attempt(map([input({ ...views[0]!, dims: [2, 2], strides: [8, 4] }, "f32")], [y, 0]))).toThrow(/mixes dims/);
  expect(attempt(map([input(views[0]!, "f32"), op("shl", "f32", 0, 0)], [y, 1]))).toThrow(/shl of f32/);
  expect(attempt(map([input(views[0]!, "f32"), op("add", "f64", 0, 0)], [y, 1]))).toThrow(/wants f64/);
});
