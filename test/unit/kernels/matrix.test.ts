/** MATMUL, CONV and POOL against float64 over odd shapes, strides, groups, padding, dilation; epilogues; cut into several tiles. */
import { packConv, packMatmul } from "../../../dist/lib/program/pack";
import type { DtypeName } from "../../../lib/graph/dtype";
import type { Strip, View, Window } from "../../../lib/program/types";
import { count, Plan, random, worst, panel } from "./harness";

const draw = (n: number, seed: number): number[] => {
  const next = random(seed);
  return Array.from({ length: n }, () => Math.fround(next() * 2 - 1));
};
/** f32 sums of k products: a few units of 2^-24 per step of the sum of magnitudes. */
const bound = (k: number): number => (4 + Math.sqrt(k)) * 2 ** -23;

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

const nhwc = (view: View): View => {
  const rank = view.dims.length;
  const axes = [0, rank - 1, ...Array.from({ length: rank - 2 }, (_, i) => i + 1)];
  return { ...view, dims: axes.map((axis) => view.dims[axis]!), strides: axes.map((axis) => view.strides[axis]!) };
};
const outSize = (size: number, i: number, w: Window): number =>
  Math.floor((size + w.padsBegin[i]! + w.padsEnd[i]! - (w.dilations[i]! * (w.kernel[i]! - 1) + 1)) / w.strides[i]!) + 1;

/** Calls `visit` for every output pixel and tap: indices of the source pixel (row-major), or -1 in the padding. */
function slide(spatial: readonly number[], out: readonly number[], w: Window, visit: (pixel: number, tap: number, source: number) => void): void {
  for (let pixel = 0; pixel < count(out); pixel++) {
    for (let tap = 0; tap < count(w.kernel); tap++) {
      let [p, t, source, scale] = [pixel, tap, 0, 1];
      for (let i = spatial.length - 1; i >= 0; i--) {
        const at = (p % out[i]!) * w.strides[i]! + (t % w.kernel[i]!) * w.dilations[i]! - w.padsBegin[i]!;
        p = Math.floor(p / out[i]!);
        t = Math.floor(t / w.kernel[i]!);
        source = source < 0 || at < 0 || at >= spatial[i]! ? -1 : source + at * scale;
        scale *= spatial[i]!;
      }
      visit(pixel, tap, source);
    }
  }
}

const window = (kernel: number[], more: Partial<Window> = {}): Window => ({
  kernel,
  strides: kernel.map(() => 1),
  dilations: kernel.map(() => 1),
  padsBegin: kernel.map(() => 0),
  padsEnd: kernel.map(() => 0),
  ...more,
});
interface Case {
  readonly n: number;
  readonly c: number;
  readonly m: number;
  readonly groups: number;
  readonly spatial: number[];
  readonly w: Window;
}
const CONVS: readonly [string, Case][] = [
  ["1x1", { n: 1, c: 20, m: 9, groups: 1, spatial: [5, 6], w: window([1, 1]) }],
  ["5x5 one channel, padded", { n: 2, c: 1, m: 8, groups: 1, spatial: [28, 28], w: window([5, 5], { padsBegin: [2, 2], padsEnd: [2, 2] }) }],
  ["3x3 pointers", { n: 1, c: 16, m: 24, groups: 1, spatial: [14, 11], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  [
    "stride, dilation, uneven pads",
    {
      n: 1,
      c: 18,
      m: 5,
      groups: 1,
      spatial: [13, 17],
      w: window([3, 2], { strides: [2, 3], dilations: [2, 1], padsBegin: [0, 1], padsEnd: [2, 1] }),
    },
  ],
  ["groups", { n: 2, c: 6, m: 9, groups: 3, spatial: [7, 7], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["wide groups", { n: 1, c: 40, m: 22, groups: 2, spatial: [6, 5], w: window([2, 2]) }],
  ["depthwise", { n: 1, c: 37, m: 37, groups: 37, spatial: [9, 8], w: window([3, 3], { strides: [2, 1], padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["depthwise with multiplier", { n: 1, c: 5, m: 10, groups: 5, spatial: [6, 6], w: window([3, 3]) }],
  ["1-D", { n: 2, c: 3, m: 4, groups: 1, spatial: [50], w: window([7], { strides: [2], padsBegin: [3], padsEnd: [3] }) }],
  ["3-D", { n: 1, c: 2, m: 3, groups: 1, spatial: [4, 5, 6], w: window([2, 3, 2], { padsBegin: [1, 0, 1], padsEnd: [0, 1, 1] }) }],
  ["many columns", { n: 1, c: 64, m: 520, groups: 1, spatial: [4, 4], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
];

describe("conv", () => {
  test.each(CONVS)("%s", (_, { n, c, m, groups, spatial, w }) => {
    const out = spatial.map((size, i) => outSize(size, i, w));
    const taps = count(w.kernel);
    const per = c / groups;
    const plan = new Plan();
    const [x, weights, bias] = [draw(n * count(spatial) * c, 1), draw(m * per * taps, 2), draw(m, 3)];
    const source = nhwc(plan.input("float32", [n, ...spatial, c], x));
    const packed = [...packConv(Float32Array.from(weights), [m, per, ...w.kernel], groups, panel)];
    const target = nhwc(plan.output("float32", [n, ...out, m]));
    const row: View = { ...plan.input("float32", [m], bias), dims: target.dims, strides: target.dims.map((__, axis) => (axis === 1 ? 4 : 0)) };
    const epilogue: Strip = {
      values: [
        { kind: "accumulator", type: "f32" },
        { kind: "input", view: row, type: "f32" },
        { kind: "op", op: "add", type: "f32", args: [0, 1] },
      ],
      outputs: [{ view: target, value: 2 }],
    };
    const result = plan.run([
      { op: "conv", node: "c", target, source, weights: plan.input("float32", [packed.length], packed), window: w, groups, epilogue },
    ])(target);
    const size = count(out);
    const values = Array.from({ length: n * m * size }, (__, i) => bias[Math.floor(i / size) % m]!);
    const magnitudes = new Array<number>(values.length).fill(1);
    slide(spatial, out, w, (pixel, tap, at) => {
      if (at < 0) return;
      for (let s = 0; s < n; s++) {
        for (let o = 0; o < m; o++) {
          const first = Math.floor(o / (m / groups)) * per;
          for (let ch = 0; ch < per; ch++) {
            const term = x[(s * count(spatial) + at) * c + first + ch]! * weights[(o * per + ch) * taps + tap]!;
            values[(s * m + o) * size + pixel]! += term;
            magnitudes[(s * m + o) * size + pixel]! += Math.abs(term);
          }
        }
      }
    });
    expect(worst(result, values, (i) => magnitudes[i]!)).toBeLessThan(bound(taps * per));
  });
});

const POOLS: readonly [string, Omit<Case, "m" | "groups">][] = [
  ["2x2", { n: 2, c: 8, spatial: [6, 8], w: window([2, 2], { strides: [2, 2] }) }],
  ["3x3 padded", { n: 1, c: 5, spatial: [7, 7], w: window([3, 3], { strides: [2, 2], padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["dilated", { n: 1, c: 17, spatial: [9, 10], w: window([2, 3], { dilations: [3, 2], padsBegin: [0, 1], padsEnd: [1, 0] }) }],
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
