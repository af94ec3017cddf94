/** MATMUL and POOL against float64 over odd shapes, strides, padding, dilation; epilogues; cut into several tiles. */
import { packMatmul } from "../../../dist/lib/program/pack";
import type { DtypeName } from "../../../lib/graph/dtype";
import type { Strip, View } from "../../../lib/program/types";
import { count, panel, Plan, random, worst } from "./harness";
import { bound, type Case, draw, nhwc, outSize, slide, window } from "./sliding";

interface Product {
  readonly values: number[];
  readonly magnitudes: number[];
}
function product(a: readonly number[], b: readonly number[], batch: number, m: number, k: number, n: number, sharedB: boolean): Product {
  const values: number[] = [];
  const magnitudes: number[] = [];
  for (let x = 0; x < batch; x++) {
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        let magnitude = 1e-30;
        for (let l = 0; l < k; l++) {
          const term = a[(x * m + i) * k + l]! * b[((sharedB ? 0 : x) * k + l) * n + j]!;
          sum += term;
          magnitude += Math.abs(term);
        }
        values.push(sum);
        magnitudes.push(magnitude);
      }
    }
  }
  return { values, magnitudes };
}

const SHAPES: readonly (readonly [number, number, number, number])[] = [
  [1, 1, 1, 1],
  [1, 5, 8, 8],
  [1, 4, 3, 9],
  [1, 1, 64, 40],
  [1, 1, 600, 77],
  [2, 7, 13, 17],
  [3, 61, 20, 8],
  [1, 130, 530, 19],
  [5, 3, 0, 4],
  [1, 0, 4, 4],
  [4, 2, 5, 130],
  [1, 3, 300, 300],
  [1, 250, 40, 300],
  [1, 65, 1030, 210],
];

describe.each(SHAPES)("matmul batch %i, %i x %i x %i", (batch, m, k, n) => {
  const a = draw(batch * m * k, 1);
  test.each([true, false])("float32, packed %s", (packed) => {
    const plan = new Plan();
    const b = draw((packed ? 1 : batch) * k * n, 2);
    const left = plan.input("float32", [batch, m, k], a);
    const weights = packed ? [...packMatmul(Float32Array.from(b), k, n, panel)] : b;
    const right = packed ? { ...plan.input("float32", [weights.length], weights) } : plan.input("float32", [batch, k, n], b);
    const target = plan.output("float32", [batch, m, n]);
    const result = plan.run([{ op: "matmul", node: "m", target, a: left, b: right, packed }])(target);
    const truth = product(a, b, batch, m, k, n, packed);
    expect(worst(result, truth.values, (i) => truth.magnitudes[i]!)).toBeLessThan(bound(k));
  });

  test("transposed operands, strided target, epilogue", () => {
    const plan = new Plan();
    const b = draw(batch * k * n, 3);
    const transpose = (values: number[], rows: number, columns: number): number[] =>
      Array.from({ length: values.length }, (_, i) => {
        const x = Math.floor(i / (rows * columns));
        return values[x * rows * columns + (i % rows) * columns + (Math.floor(i / rows) % columns)]!;
      });
    const turned = (view: View): View => ({
      ...view,
      dims: [view.dims[0]!, view.dims[2]!, view.dims[1]!],
      strides: [view.strides[0]!, view.strides[2]!, view.strides[1]!],
    });
    const left = turned(plan.input("float32", [batch, k, m], transpose(a, m, k)));
    const right = turned(plan.input("float32", [batch, n, k], transpose(b, k, n)));
    const wide = plan.output("float32", [batch, m, n + 3]);
    const target: View = { ...wide, dims: [batch, m, n], offsetBytes: m * n === 0 ? 0 : 8 };
    const bias = draw(n, 4);
    const row: View = { ...plan.input("float32", [n], bias), dims: [batch, m, n], strides: [0, 0, 4] };
    const epilogue: Strip = {
      values: [
        { kind: "accumulator", type: "f32" },
        { kind: "input", view: row, type: "f32" },
        { kind: "op", op: "add", type: "f32", args: [0, 1] },
        { kind: "op", op: "relu", type: "f32", args: [2] },
      ],
      outputs: [{ view: target, value: 3 }],
    };
    const result = plan.run([{ op: "matmul", node: "m", target, a: left, b: right, packed: false, epilogue }])(target);
    const truth = product(a, b, batch, m, k, n, false);
    const values = truth.values.map((value, i) => Math.max(0, value + bias[i % n]!));
    expect(worst(result, values, (i) => truth.magnitudes[i]! + 1)).toBeLessThan(bound(k));
  });

  test.each(["float64", "int32", "int64"] as const)("%s", (dtype: DtypeName) => {
    const plan = new Plan();
    const whole = (n: number, seed: number): number[] => draw(n, seed).map((value) => Math.round(value * 50));
    const [x, y] = [whole(batch * m * k, 5), whole(batch * k * n, 6)];
    const target = plan.output(dtype, [batch, m, n]);
    const result = plan.run([
      { op: "matmul", node: "m", target, a: plan.input(dtype, [batch, m, k], x), b: plan.input(dtype, [batch, k, n], y), packed: false },
    ])(target);
    expect(worst(result, product(x, y, batch, m, k, n, false).values, () => 1)).toBe(0);
  });
});

const POOLS: readonly [string, Omit<Case, "m" | "groups">][] = [
  ["2x2", { n: 2, c: 8, spatial: [6, 8], w: window([2, 2], { strides: [2, 2] }) }],
  ["3x3 padded", { n: 1, c: 5, spatial: [7, 7], w: window([3, 3], { strides: [2, 2], padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["dilated", { n: 1, c: 17, spatial: [9, 10], w: window([2, 3], { dilations: [3, 2], padsBegin: [0, 1], padsEnd: [1, 0] }) }],
  ["many channels", { n: 1, c: 35, spatial: [12, 9], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["1-D", { n: 3, c: 2, spatial: [20], w: window([5], { strides: [3] }) }],
  ["3-D", { n: 1, c: 4, spatial: [4, 4, 5], w: window([2, 2, 2], { padsBegin: [1, 0, 1], padsEnd: [0, 1, 0] }) }],
];

describe.each(POOLS)("pool %s", (_, { n, c, spatial, w }) => {
  test.each([
    ["float32", "max", true],
    ["float32", "average", true],
    ["float32", "average_include_pad", true],
    ["float32", "max", false],
    ["float32", "average", false],
    ["float64", "average", true],
    ["float64", "max", false],
    ["int8", "max", true],
    ["uint8", "max", false],
  ] as const)("%s %s, channels last %s", (dtype, kind, last) => {
    const out = spatial.map((size, i) => outSize(size, i, w));
    const next = random(4);
    const x = Array.from({ length: n * c * count(spatial) }, () => Math.floor(next() * 100));
    const plan = new Plan();
    const source = last ? nhwc(plan.input(dtype, [n, ...spatial, c], x)) : plan.input(dtype, [n, c, ...spatial], x);
    const target = last ? nhwc(plan.output(dtype, [n, ...out, c])) : plan.output(dtype, [n, c, ...out]);
    const result = plan.run([{ op: "pool", node: "p", kind, target, source, window: w }])(target);
    const size = count(out);
    const seen = Array.from({ length: n * c * size }, () => [] as number[]);
    const area = count(spatial);
    slide(spatial, out, w, (pixel, __, at) => {
      if (at < 0) return;
      for (let s = 0; s < n; s++)
        for (let ch = 0; ch < c; ch++) seen[(s * c + ch) * size + pixel]!.push(x[last ? (s * area + at) * c + ch : (s * c + ch) * area + at]!);
    });
    const expected = seen.map((values) =>
      kind === "max" ? Math.max(...values) : values.reduce((a, b) => a + b, 0) / (kind === "average" ? values.length : count(w.kernel)),
    );
    expect(worst(result, expected, (i) => Math.abs(expected[i]!) + 1)).toBeLessThan(dtype === "float64" ? 1e-15 : 2e-7);
  });
});

test("a NaN has one form behind an epilogue, whatever it came in as", () => {
  const [m, k, n] = [7, 5, 37];
  const plan = new Plan();
  const real = new Int32Array(new Float32Array(draw(m * k, 5)).buffer);
  real[3 * k + 1] = 0xffc01234 | 0; // a NaN with a sign and a payload
  const left: View = { ...plan.input("int32", [m, k], [...real]), dtype: "float32" };
  const target = plan.output("float32", [m, n]);
  const epilogue: Strip = {
    values: [
      { kind: "accumulator", type: "f32" },
      { kind: "op", op: "abs", type: "f32", args: [0] },
    ],
    outputs: [{ view: target, value: 1 }],
  };
  const b = plan.input("float32", [k, n], draw(k * n, 6));
  const read = plan.run([{ op: "matmul", node: "m", target, a: left, b, packed: false, epilogue }]);
  const bits = read({ ...target, dtype: "int32" });
  const wrong = bits.findIndex((word, i) => (word === 0x7fc00000) !== (Math.floor(i / n) === 3));
  expect(wrong).toBe(-1);
});

test("maximum: NaN wins wherever it stands in the window", () => {
  const c = 21;
  for (let tap = 0; tap < 4; tap++) {
    const plan = new Plan();
    const x = Array.from({ length: 4 * c }, (_, i) => (Math.floor(i / c) === tap && i % 3 === 0 ? Number.NaN : (i % 7) - 3));
    const target = nhwc(plan.output("float32", [1, 1, 1, c]));
    const result = plan.run([
      { op: "pool", node: "p", kind: "max", target, source: nhwc(plan.input("float32", [1, 2, 2, c], x)), window: window([2, 2]) },
    ])(target);
    const expected = Array.from({ length: c }, (_, ch) => Math.max(x[ch]!, x[c + ch]!, x[2 * c + ch]!, x[3 * c + ch]!));
    expect(result).toEqual(expected);
  }
});
