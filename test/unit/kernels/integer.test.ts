/** PACK_INTEGER and MATMUL_INTEGER against whole-number loops: odd shapes, both signs, zero points at the ends of their range, turned and windowed views. */
import { packInteger, packedIntegerSize } from "../../../dist/lib/program/pack-integer";
import type { Strip, View } from "../../../lib/program/types";
import { count, panel, Plan, random } from "./harness";

type Byte = "int8" | "uint8";
/** The ends of the range come often: that is where dot products saturate. */
function draw(dtype: Byte, length: number, seed: number): number[] {
  const next = random(seed);
  const low = dtype === "int8" ? -128 : 0;
  return Array.from({ length }, () => {
    const place = next();
    return low + (place < 0.2 ? 255 : place < 0.4 ? 0 : Math.floor(next() * 256));
  });
}

interface Given {
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly zerosA: readonly number[];
  readonly zerosB: readonly number[];
}
function product({ a, b, zerosA, zerosB }: Given, batch: number, m: number, k: number, n: number): number[] {
  return Array.from({ length: batch * m * n }, (_, at) => {
    const [x, i, j] = [Math.floor(at / (m * n)), Math.floor(at / n) % m, at % n];
    let sum = 0;
    for (let l = 0; l < k; l++) sum += (a[(x * m + i) * k + l]! - zerosA[x * m + i]!) * (b[(x * k + l) * n + j]! - zerosB[x * n + j]!);
    return sum | 0;
  });
}

const turned = (view: View): View => ({ ...view, dims: swap(view.dims), strides: swap(view.strides) });
const swap = <T>(list: readonly T[]): T[] => [...list.slice(0, -2), list.at(-1)!, list.at(-2)!];
function transposed(values: readonly number[], batch: number, rows: number, columns: number): number[] {
  return Array.from({ length: batch * rows * columns }, (_, at) => {
    const [x, column, row] = [Math.floor(at / (rows * columns)), Math.floor(at / rows) % columns, at % rows];
    return values[(x * rows + row) * columns + column]!;
  });
}

const SHAPES: readonly (readonly [number, number, number, number])[] = [
  [1, 1, 1, 1],
  [1, 5, 3, 7],
  [1, 2, 15, 33],
  [1, 7, 16, 40],
  [2, 13, 17, 19],
  [3, 1, 130, 9],
  [1, 70, 64, 300],
  [1, 3, 4097, 5],
  [2, 2, 9000, 3],
  [1, 260, 30, 1100],
  [5, 3, 0, 4],
  [1, 0, 4, 4],
];

describe.each(SHAPES)("batch %i, %i x %i x %i", (batch, m, k, n) => {
  describe.each([
    ["uint8", "int8"],
    ["int8", "uint8"],
    ["int8", "int8"],
    ["uint8", "uint8"],
  ] as const)("%s by %s", (left, right) => {
    const given: Given = {
      a: draw(left, batch * m * k, 1),
      b: draw(right, batch * k * n, 2),
      zerosA: draw(left, batch * m, 3),
      zerosB: draw(right, batch * n, 4),
    };
    const right0 = product(given, batch, m, k, n);

    test.each([false, true])("packed on the device, turned %s", (turn) => {
      const plan = new Plan();
      const view = (dtype: Byte, rows: number, columns: number, values: readonly number[]): View =>
        turn
          ? turned(plan.input(dtype, [batch, columns, rows], transposed(values, batch, rows, columns)))
          : plan.input(dtype, [batch, rows, columns], values);
      const [a, source] = [view(left, m, k, given.a), view(right, k, n, given.b)];
      const [zeroA, zeroB] = [plan.input(left, [batch, m], given.zerosA), plan.input(right, [batch, n], given.zerosB)];
      const b = plan.output("int8", [batch, packedIntegerSize(k, n, panel)]);
      const target = plan.output("int32", [batch, m, n]);
      const read = plan.run([
        { op: "pack_integer", node: "p", target: b, source, columnDims: 1 },
        { op: "matmul_integer", node: "m", target, a, b, zeroA, zeroB },
      ]);
      expect(read(target).findIndex((value, i) => value !== right0[i])).toBe(-1);
    });

    test("the host packs the same bytes", () => {
      const plan = new Plan();
      const source = plan.input(right, [batch, k, n], given.b);
      const size = packedIntegerSize(k, n, panel);
      const b = plan.output("int8", [batch, size]);
      const read = plan.run([{ op: "pack_integer", node: "p", target: b, source, columnDims: 1 }]);
      const typed = right === "int8" ? Int8Array : Uint8Array;
      const packed = Array.from({ length: batch }, (_, x) => packInteger(typed.from(given.b.slice(x * k * n, (x + 1) * k * n)), k, n, panel));
      const want = new Int8Array(Buffer.concat(packed));
      expect(read(b).findIndex((value, i) => value !== want[i])).toBe(-1);
    });
  });
});

test("one zero point for all, one matrix for a batch, and a strip program that makes bytes of the sums", () => {
  const [batch, m, k, n] = [3, 37, 66, 200];
  const plan = new Plan();
  const [a, b] = [draw("uint8", batch * m * k, 5), draw("int8", k * n, 6)];
  const panels = packInteger(Int8Array.from(b), k, n, panel);
  const zero = (dtype: Byte, dims: readonly number[], value: number): View => ({
    ...plan.input(dtype, [1], [value]),
    dims,
    strides: dims.map(() => 0),
  });
  const packed = plan.input("int8", [panels.length], Array.from(new Int8Array(panels.buffer)));
  const target = plan.output("int8", [batch, m, n]);
  const strip: Strip = {
    values: [
      { kind: "accumulator", type: "i32" },
      { kind: "op", op: "cast_f32", type: "i32", args: [0] },
      { kind: "constant", type: "f32", value: 1 / 4096 },
      { kind: "op", op: "mul", type: "f32", args: [1, 2] },
      { kind: "op", op: "round", type: "f32", args: [3] },
    ],
    outputs: [{ view: target, value: 4 }],
  };
  const read = plan.run([
    {
      op: "matmul_integer",
      node: "m",
      target,
      a: plan.input("uint8", [batch, m, k], a),
      b: { ...packed, dims: [batch, panels.length], strides: [0, 1] },
      zeroA: zero("uint8", [batch, m], 255),
      zeroB: zero("int8", [batch, n], -128),
      epilogue: strip,
    },
  ]);
  const all = Array.from({ length: batch }, () => b).flat();
  const sums = product({ a, b: all, zerosA: new Array(batch * m).fill(255), zerosB: new Array(batch * n).fill(-128) }, batch, m, k, n);
  const halfEven = (x: number): number => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));
  const want = sums.map((sum) => Math.min(127, Math.max(-128, halfEven(sum / 4096))));
  expect(read(target).findIndex((value, i) => value !== want[i])).toBe(-1);
});

test("windows of an image, steps of two", () => {
  const [channels, side, kernel, places, filters] = [3, 11, 3, 5, 9];
  const plan = new Plan();
  const image = draw("uint8", 2 * channels * side * side, 7);
  const weights = draw("int8", filters * channels * kernel * kernel, 8);
  const x = plan.input("uint8", [2, channels, side, side], image);
  const [sample, plane] = [channels * side * side, side * side];
  const source: View = { ...x, dims: [2, channels, kernel, kernel, places, places], strides: [sample, plane, side, 1, 2 * side, 2] };
  const [k, n] = [channels * kernel * kernel, places * places];
  const b = plan.output("int8", [2, packedIntegerSize(k, n, panel)]);
  const target = plan.output("int32", [2, filters, n]);
  const one = (dtype: Byte, dims: readonly number[], value: number): View => ({
    ...plan.input(dtype, [1], [value]),
    dims,
    strides: dims.map(() => 0),
  });
  const a = plan.input("int8", [filters, k], weights);
  const read = plan.run([
    { op: "pack_integer", node: "p", target: b, source, columnDims: 2 },
    {
      op: "matmul_integer",
      node: "m",
      target,
      a: { ...a, dims: [2, filters, k], strides: [0, k, 1] },
      b,
      zeroA: one("int8", [2, filters], -3),
      zeroB: one("uint8", [2, n], 200),
    },
  ]);
  const want = Array.from({ length: count([2, filters, n]) }, (_, at) => {
    const [s, f, y0, x0] = [Math.floor(at / (filters * n)), Math.floor(at / n) % filters, Math.floor((at % n) / places), at % places];
    let sum = 0;
    for (let l = 0; l < k; l++) {
      const [c, y, dx] = [Math.floor(l / 9), Math.floor(l / 3) % 3, l % 3];
      sum += (image[s * sample + c * plane + (2 * y0 + y) * side + 2 * x0 + dx]! - 200) * (weights[f * k + l]! + 3);
    }
    return sum;
  });
  expect(read(target).findIndex((value, i) => value !== want[i])).toBe(-1);
});
