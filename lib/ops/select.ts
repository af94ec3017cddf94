/** TopK: the best of each row, on the device. */
import { normalizeAxis, shapeError } from "../graph/dims";
import { elements, rowMajor, sizeOf } from "../graph/tensor";
import type { View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { defineOp, int } from "./define";
import { lastAxis } from "./indexing";
import { numbersOf } from "./reshape";
import { axesOf, noise, ramp, rejects, sample, values } from "./sample";
import { attributeToInput } from "./upgrade";
import { permuteView } from "./views";

/** Order of two elements: NaN is larger than everything. */
function compare(a: number | bigint, b: number | bigint): number {
  const [x, y] = [Number.isNaN(a), Number.isNaN(b)];
  return x || y ? Number(x) - Number(y) : a < b ? -1 : a > b ? 1 : 0;
}

export const TopK = defineOp({
  names: { onnx: ["TopK", 24] },
  inputs: ["x", "k"],
  outputs: 2,
  attributes: { axis: int(-1), largest: int(1), sorted: int(1) },
  upgrades: { 10: attributeToInput("k", 1) },
  needs: ["k"],
  infer: ({ x, k }, { axis }, { node }) => {
    requireDtype(x.dtype, "number", node);
    const at = normalizeAxis(axis, x.dims.length, node);
    const count = numbersOf(k, "k", node)![0]!;
    if (!(count >= 0) || count > Number(x.dims[at])) {
      throw shapeError(`${node}: k is ${count}, axis ${at} has ${x.dims[at]} elements`);
    }
    const dims = x.dims.map((dim, i) => (i === at ? count : dim));
    return [
      { dtype: x.dtype, dims },
      { dtype: "int64", dims },
    ];
  },
  reference: ({ x }, { axis, largest }, types) => {
    const { dims } = types[0]!;
    const at = normalizeAxis(axis, dims.length, "TopK");
    const [size, count, inner] = [x.dims[at]!, dims[at]!, rowMajor(x.dims)[at]!];
    const best = elements(x.dtype, sizeOf(dims));
    const positions = new BigInt64Array(sizeOf(dims));
    for (let row = 0; row * size < x.data.length; row++) {
      const [block, column] = [Math.floor(row / inner), row % inner];
      const value = (i: number): number | bigint => x.data[(block * size + i) * inner + column]!;
      const order = Array.from({ length: size }, (_, i) => i).sort((i, j) => (largest ? -1 : 1) * compare(value(i), value(j)) || i - j);
      for (let i = 0; i < count; i++) {
        const place = (block * count + i) * inner + column;
        best[place] = value(order[i]!) as never;
        positions[place] = BigInt(order[i]!);
      }
    }
    return [
      { ...types[0]!, data: best },
      { dtype: "int64", dims, data: positions },
    ];
  },
  lower: (b, { x }, { axis, largest }) => {
    const rank = x.dims.length;
    const at = normalizeAxis(axis, rank, b.what);
    const inner = (view: View): View => permuteView(view, lastAxis(rank, at));
    const dims = x.dims.with(at, b.dims(b.has(0) ? 0 : 1)[at]!);
    const best = b.has(0) ? b.target(0) : b.temporary(x.dtype, dims);
    const positions = b.has(1) ? b.target(1) : b.temporary("int64", dims);
    b.topK(inner(best), inner(positions), inner(x.view), largest !== 0);
  },
  samples: () => [
    sample("last axis", { x: noise([3, 50]), k: axesOf(7) }, { outputs: 2 }),
    sample("first axis, the least", { x: noise([40, 3], 2), k: axesOf(40) }, { attributes: { axis: 0, largest: 0 }, outputs: 2 }),
    sample(
      "ties, infinities, both zeros, NaN",
      { x: values("float32", [10], [0, -0, 3, Number.NaN, 3, Number.NEGATIVE_INFINITY, -0, Number.POSITIVE_INFINITY, 0, -1]), k: axesOf(10) },
      { outputs: 2 },
    ),
    sample(
      "NaN comes last of the least",
      { x: values("float32", [6], [2, Number.NaN, 3, 1, Number.NaN, 2]), k: axesOf(5) },
      { attributes: { largest: 0 }, outputs: 2 },
    ),
    sample("long", { x: noise([2, 3000], 7), k: axesOf(33) }, { outputs: 2 }),
    sample("float16", { x: ramp([2, 9], 0.5, "float16"), k: axesOf(4) }, { outputs: 2 }),
    sample("uint64", { x: values("uint64", [4], [1n, 2n ** 63n, 5n, 2n ** 64n - 1n]), k: axesOf(3) }, { outputs: 2 }),
    sample(
      "int64, axis of opset 9",
      { x: values("int64", [2, 3], [1n, 5n, -(2n ** 40n), 7n, 7n, 0n]) },
      { attributes: { k: 2, axis: 1 }, opset: 9, outputs: 2 },
    ),
    rejects("more than there are", { x: ramp([3]), k: axesOf(4) }, 100021, /k is 4/),
    rejects("k computed at run time", { x: ramp([3]), k: values("int64", [1], [2n]) }, 100024, /computed at run time/),
  ],
});
