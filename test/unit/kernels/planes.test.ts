/** CONV over row-major planes, one filter per channel, against float64: steps, dilations, uneven and large pads, narrow and tall planes, limits, NaN. */
import type { Strip, View, Window } from "../../../lib/program/types";
import { count, Plan, worst } from "./harness";
import { bound, draw, outSize, slide, window } from "./sliding";

interface Case {
  readonly n: number;
  readonly c: number;
  readonly spatial: [number, number];
  readonly w: Window;
}
const around = (pad: number): Partial<Window> => ({ padsBegin: [pad, pad], padsEnd: [pad, pad] });

const CASES: readonly [string, Case][] = [
  ["3x3 padded", { n: 2, c: 5, spatial: [7, 11], w: window([3, 3], around(1)) }],
  ["3x3 without pads", { n: 1, c: 3, spatial: [9, 21], w: window([3, 3]) }],
  ["one row", { n: 1, c: 4, spatial: [1, 30], w: window([3, 3], around(1)) }],
  ["one source column", { n: 1, c: 2, spatial: [6, 1], w: window([3, 3], { padsBegin: [1, 2], padsEnd: [1, 3] }) }],
  ["a single pixel in pads", { n: 1, c: 2, spatial: [1, 1], w: window([3, 3], around(4)) }],
  ["pads longer than the window", { n: 1, c: 3, spatial: [4, 5], w: window([2, 3], { padsBegin: [3, 5], padsEnd: [0, 4] }) }],
  ["steps of 2", { n: 2, c: 3, spatial: [10, 19], w: window([3, 3], { strides: [2, 2], ...around(1) }) }],
  ["steps of 3 down and 1 across", { n: 1, c: 3, spatial: [11, 9], w: window([3, 3], { strides: [3, 1], ...around(1) }) }],
  [
    "step of 2 across, dilated, uneven pads",
    { n: 1, c: 3, spatial: [12, 17], w: window([2, 3], { strides: [1, 2], dilations: [3, 2], padsBegin: [0, 3], padsEnd: [2, 1] }) },
  ],
  ["dilated", { n: 1, c: 4, spatial: [9, 11], w: window([3, 3], { dilations: [2, 2], ...around(2) }) }],
  ["1x9", { n: 1, c: 2, spatial: [3, 40], w: window([1, 9], { padsBegin: [0, 4], padsEnd: [0, 4] }) }],
  ["9x1", { n: 1, c: 2, spatial: [30, 5], w: window([9, 1], { padsBegin: [4, 0], padsEnd: [4, 0] }) }],
  ["more rows than a band holds", { n: 1, c: 2, spatial: [150, 130], w: window([3, 3], around(1)) }],
  ["many planes", { n: 1, c: 150, spatial: [14, 14], w: window([3, 3], around(1)) }],
];

/** Inputs, output and the sums in float64. */
function prepare({ n, c, spatial, w }: Case) {
  const out = spatial.map((size, i) => outSize(size, i, w));
  const taps = count(w.kernel);
  const plan = new Plan();
  const [x, weights, bias] = [draw(n * c * count(spatial), 1), draw(c * taps, 2), draw(c, 3)];
  const source = plan.input("float32", [n, c, ...spatial], x);
  const filter = plan.input("float32", [c, 1, ...w.kernel], weights);
  const target = plan.output("float32", [n, c, ...out]);
  const row: View = { ...plan.input("float32", [c], bias), dims: target.dims, strides: [0, 4, 0, 0] };
  const size = count(out);
  const sums = Array.from({ length: n * c * size }, (_, i) => bias[Math.floor(i / size) % c]!);
  const magnitudes = sums.map((sum) => 1 + Math.abs(sum));
  slide(spatial, out, w, (pixel, tap, at) => {
    if (at < 0) return;
    for (let plane = 0; plane < n * c; plane++) {
      const term = x[plane * count(spatial) + at]! * weights[(plane % c) * taps + tap]!;
      sums[plane * size + pixel]! += term;
      magnitudes[plane * size + pixel]! += Math.abs(term);
    }
  });
  return { plan, source, filter, target, row, sums, magnitudes, x, taps };
}

const biased = (target: View, row: View, after: "relu" | "abs" | undefined): Strip => ({
  values: [
    { kind: "accumulator", type: "f32" },
    { kind: "input", view: row, type: "f32" },
    { kind: "op", op: "add", type: "f32", args: [0, 1] },
    ...(after ? [{ kind: "op" as const, op: after, type: "f32" as const, args: [2] }] : []),
  ],
  outputs: [{ view: target, value: after ? 3 : 2 }],
});

describe.each([undefined, "relu", "abs"] as const)("bias and then %s", (after) => {
  test.each(CASES)("%s", (_, given) => {
    const { plan, source, filter, target, row, sums, magnitudes, taps } = prepare(given);
    const epilogue = biased(target, row, after);
    const read = plan.run([{ op: "conv", node: "c", form: "planes", target, source, weights: filter, window: given.w, groups: given.c, epilogue }]);
    const right = sums.map((sum) => (after === "relu" ? Math.max(sum, 0) : after === "abs" ? Math.abs(sum) : sum));
    expect(worst(read(target), right, (i) => magnitudes[i]!)).toBeLessThan(bound(taps));
  });
});

test("a NaN goes where its windows are, in one form; infinities stay", () => {
  const given: Case = { n: 1, c: 2, spatial: [6, 9], w: window([3, 3], around(1)) };
  const { x } = prepare(given);
  x[3 * 9 + 4] = Number.NaN;
  x[54 + 8] = Number.POSITIVE_INFINITY;
  const plan = new Plan();
  const source = plan.input("float32", [1, 2, 6, 9], x);
  const filter = plan.input("float32", [2, 1, 3, 3], new Array(18).fill(0.5));
  const target = plan.output("float32", [1, 2, 6, 9]);
  const read = plan.run([{ op: "conv", node: "c", form: "planes", target, source, weights: filter, window: given.w, groups: 2 }]);
  const found = [...read(target)].map(Number);
  const touched = (at: number, y: number, x0: number): boolean => Math.abs(Math.floor((at % 54) / 9) - y) <= 1 && Math.abs((at % 9) - x0) <= 1;
  expect(found.flatMap((value, at) => (Number.isNaN(value) ? [at] : []))).toEqual(
    found.flatMap((_, at) => (at < 54 && touched(at, 3, 4) ? [at] : [])),
  );
  expect(found.flatMap((value, at) => (value === Number.POSITIVE_INFINITY ? [at] : []))).toEqual(
    found.flatMap((_, at) => (at >= 54 && touched(at, 0, 8) ? [at] : [])),
  );
});
