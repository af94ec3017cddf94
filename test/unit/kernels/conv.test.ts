/** CONV in all its forms against float64 over odd shapes, strides, groups, padding, dilation; with a bias as epilogue; cut into several tiles. */
import { packConv, packWinograd } from "../../../dist/lib/program/pack";
import type { Strip, View } from "../../../lib/program/types";
import { count, panel, Plan, worst } from "./harness";
import { bound, type Case, draw, nhwc, outSize, slide, window } from "./sliding";

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
  ["runs, stride 2", { n: 2, c: 32, m: 40, groups: 1, spatial: [9, 12], w: window([3, 3], { strides: [2, 2], padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["runs, uneven pads", { n: 1, c: 25, m: 6, groups: 1, spatial: [5, 3], w: window([2, 4], { padsBegin: [0, 3], padsEnd: [1, 2] }) }],
  ["runs, one column", { n: 1, c: 24, m: 17, groups: 1, spatial: [9, 1], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  [
    "dilated pointers",
    { n: 1, c: 30, m: 33, groups: 1, spatial: [9, 9], w: window([3, 3], { dilations: [2, 2], padsBegin: [2, 2], padsEnd: [2, 2] }) },
  ],
  ["groups of many", { n: 1, c: 64, m: 36, groups: 2, spatial: [6, 7], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  ["depthwise rows", { n: 2, c: 20, m: 20, groups: 20, spatial: [6, 23], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
  [
    "depthwise rows, stride 2",
    { n: 1, c: 16, m: 16, groups: 16, spatial: [15, 30], w: window([3, 3], { strides: [2, 2], padsBegin: [0, 0], padsEnd: [1, 1] }) },
  ],
  ["depthwise 5x5", { n: 1, c: 9, m: 9, groups: 9, spatial: [8, 12], w: window([5, 5], { padsBegin: [2, 2], padsEnd: [2, 2] }) }],
  [
    "depthwise dilated",
    { n: 1, c: 8, m: 8, groups: 8, spatial: [9, 11], w: window([3, 3], { dilations: [2, 2], padsBegin: [2, 2], padsEnd: [2, 2] }) },
  ],
  ["1x1, strided", { n: 2, c: 40, m: 24, groups: 1, spatial: [7, 6], w: window([1, 1], { strides: [2, 2] }) }],
  ["winograd", { n: 1, c: 16, m: 16, groups: 1, spatial: [12, 16], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }), form: "winograd" }],
  [
    "winograd, odd sizes",
    { n: 2, c: 19, m: 21, groups: 1, spatial: [13, 10], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }), form: "winograd" },
  ],
  ["winograd, no pads", { n: 1, c: 33, m: 40, groups: 1, spatial: [9, 30], w: window([3, 3]), form: "winograd" }],
  ["winograd, narrow", { n: 1, c: 3, m: 5, groups: 1, spatial: [7, 1], w: window([3, 3], { padsBegin: [2, 2], padsEnd: [0, 1] }), form: "winograd" }],
  [
    "winograd, cut",
    { n: 1, c: 24, m: 24, groups: 1, spatial: [60, 61], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }), form: "winograd" },
  ],
  ["1-D", { n: 2, c: 3, m: 4, groups: 1, spatial: [50], w: window([7], { strides: [2], padsBegin: [3], padsEnd: [3] }) }],
  ["3-D", { n: 1, c: 2, m: 3, groups: 1, spatial: [4, 5, 6], w: window([2, 3, 2], { padsBegin: [1, 0, 1], padsEnd: [0, 1, 1] }) }],
  ["many columns", { n: 1, c: 64, m: 520, groups: 1, spatial: [4, 4], w: window([3, 3], { padsBegin: [1, 1], padsEnd: [1, 1] }) }],
];

/** A number for each channel of `target`. */
const perChannel = (plan: Plan, numbers: readonly number[], target: View): View => ({
  ...plan.input("float32", [numbers.length], numbers),
  dims: target.dims,
  strides: target.dims.map((_, axis) => (axis === 1 ? 4 : 0)),
});

describe("conv", () => {
  test.each(CONVS)("%s", (_, { n, c, m, groups, spatial, w, form = "direct" }) => {
    const out = spatial.map((size, i) => outSize(size, i, w));
    const taps = count(w.kernel);
    const per = c / groups;
    const plan = new Plan();
    const [x, weights, bias] = [draw(n * count(spatial) * c, 1), draw(m * per * taps, 2), draw(m, 3)];
    const source = nhwc(plan.input("float32", [n, ...spatial, c], x));
    const dims = [m, per, ...w.kernel];
    const packed = [
      ...(form === "winograd" ? packWinograd(Float32Array.from(weights), dims, panel) : packConv(Float32Array.from(weights), dims, groups, panel)),
    ];
    const target = nhwc(plan.output("float32", [n, ...out, m]));
    const row = perChannel(plan, bias, target);
    const epilogue: Strip = {
      values: [
        { kind: "accumulator", type: "f32" },
        { kind: "input", view: row, type: "f32" },
        { kind: "op", op: "add", type: "f32", args: [0, 1] },
      ],
      outputs: [{ view: target, value: 2 }],
    };
    const result = plan.run([
      { op: "conv", node: "c", target, source, weights: plan.input("float32", [packed.length], packed), window: w, groups, form, epilogue },
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
    expect(worst(result, values, (i) => magnitudes[i]!)).toBeLessThan(bound(taps * per) * (form === "winograd" ? 10 : 1)); // F(4 x 4, 3 x 3) loses about a decimal digit
  });
});

describe("winograd between planes", () => {
  const cases = CONVS.filter(([, { form }]) => form === "winograd");
  const both = cases.flatMap(([name, given]) =>
    [
      [true, true],
      [true, false],
      [false, true],
    ].map(([from, to]) => [name, from!, to!, given] as const),
  );

  test.each(both)("%s, source in planes %s, target in planes %s: the bits of channels innermost", (_, from, to, { n, c, m, spatial, w }) => {
    const out = spatial.map((size, i) => outSize(size, i, w));
    const size = count(spatial);
    const [x, bias] = [draw(n * size * c, 1), draw(m, 3)];
    const planes = Array.from({ length: x.length }, (__, i) => x[(Math.floor(i / (c * size)) * size + (i % size)) * c + (Math.floor(i / size) % c)]!);
    const packed = [...packWinograd(Float32Array.from(draw(m * c * 9, 2)), [m, c, 3, 3], panel)];
    const run = (planarSource: boolean, planarTarget: boolean): number[] => {
      const plan = new Plan();
      const source = planarSource ? plan.input("float32", [n, c, ...spatial], planes) : nhwc(plan.input("float32", [n, ...spatial, c], x));
      const target = planarTarget ? plan.output("float32", [n, m, ...out]) : nhwc(plan.output("float32", [n, ...out, m]));
      const row = perChannel(plan, bias, target);
      // More than a bias and limits, so that the strip runs over what was written.
      const epilogue: Strip = {
        values: [
          { kind: "accumulator", type: "f32" },
          { kind: "input", view: row, type: "f32" },
          { kind: "op", op: "add", type: "f32", args: [0, 1] },
          { kind: "op", op: "tanh", type: "f32", args: [2] },
        ],
        outputs: [{ view: target, value: 3 }],
      };
      const weights = plan.input("float32", [packed.length], packed);
      return plan
        .run([{ op: "conv", node: "c", target, source, weights, window: w, groups: 1, form: "winograd", epilogue }])(target)
        .map(Number);
    };
    const [want, got] = [run(false, false), run(from, to)];
    expect(worst(got, want, () => 1)).toBe(0);
  });
});
