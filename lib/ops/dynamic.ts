/**
 * Operators whose result is as large as the numbers make it. With numbers that are known they are folded like any other; else npurt/ort runs them on the
 * host, between programs (lib/ort/staged.ts).
 */
import { AclError } from "../errors/acl-error";
import { formatDims, normalizeAxis, shapeError } from "../graph/dims";
import { elements, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { type AnyOp, type Attributes, type AttributeSpecs, defineOp, int, type Type } from "./define";
import type { Sample } from "./sample";
import { fixed, ramp, rejects, sample, scalar, values } from "./sample";

interface Dynamic<A extends AttributeSpecs> {
  readonly name: string;
  readonly newest: number;
  readonly inputs: readonly string[];
  readonly outputs?: number;
  readonly attributes?: A;
  check?(types: readonly (Type | undefined)[], attributes: Attributes<A>, node: string): void;
  compute(inputs: readonly (Tensor | undefined)[], attributes: Attributes<A>, node: string): readonly Tensor[];
  samples(): readonly Sample[];
}

function dynamic<A extends AttributeSpecs>({ name, newest, inputs, outputs, attributes, check, compute, samples }: Dynamic<A>): AnyOp {
  const keys = inputs.map((key) => key.replace("?", ""));
  return defineOp({
    names: { onnx: [name, newest] },
    inputs,
    outputs: outputs ?? 1,
    attributes: attributes ?? {},
    staged: true,
    infer: (given, attribute, { node }) => {
      const types = keys.map((key) => (given as Record<string, Type | undefined>)[key]);
      check?.(types, attribute as Attributes<A>, node);
      if (types.some((type) => type && !type.constant)) {
        throw new AclError(
          100024,
          `${node}: the size of its result depends on numbers that are computed at run time; a session of npurt/ort takes such models`,
        );
      }
      return compute(
        types.map((type) => type?.constant),
        attribute as Attributes<A>,
        node,
      ).map(({ dtype, dims }) => ({ dtype, dims }));
    },
    reference: (given, attribute) =>
      compute(
        keys.map((key) => (given as Record<string, Tensor | undefined>)[key]),
        attribute as Attributes<A>,
        name,
      ),
    lower: (b) => b.unsupported("its result is too large to be known when the model is compiled"),
    samples,
  });
}

const int64 = (dims: readonly number[], numbers: readonly number[]): Tensor => ({ dtype: "int64", dims, data: BigInt64Array.from(numbers, BigInt) });

export const NonZero = dynamic({
  name: "NonZero",
  newest: 13,
  inputs: ["x"],
  compute: ([x]) => {
    const { dims, data } = x!;
    const found = Array.from({ length: data.length }, (_, i) => i).filter((i) => Number(data[i]) !== 0);
    return [
      int64(
        [dims.length, found.length],
        rowMajor(dims).flatMap((stride, axis) => found.map((i) => Math.floor(i / stride) % dims[axis]!)),
      ),
    ];
  },
  samples: () => [
    sample("matrix", { x: fixed(values("float32", [2, 3], [1, 0, -2, 0, Number.NaN, 3])) }),
    sample("nothing", { x: fixed(values("int64", [3], [0n, 0n, 0n])) }),
    rejects("numbers of the run", { x: ramp([3]) }, 100024, /npurt\/ort/),
  ],
});

/** Slices of an axis, one after the other. */
function slicesOf({ dtype, dims, data }: Tensor, axis: number, picked: readonly number[]): Tensor {
  const [size, inner] = [dims[axis]!, rowMajor(dims)[axis]!];
  const out = dims.with(axis, picked.length);
  const result = elements(dtype, sizeOf(out));
  for (let i = 0; i < result.length; i++) {
    const block = Math.floor(i / inner / picked.length);
    result[i] = data[(block * size + picked[Math.floor(i / inner) % picked.length]!) * inner + (i % inner)]! as never;
  }
  return { dtype, dims: out, data: result };
}

export const Compress = dynamic({
  name: "Compress",
  newest: 11,
  inputs: ["x", "condition"],
  attributes: { axis: int() },
  check: ([x, condition], { axis }, node) => {
    requireDtype(condition!.dtype, "bool", node);
    if (axis !== undefined) {
      normalizeAxis(axis, x!.dims.length, node);
    }
  },
  compute: ([x, condition], { axis }) => {
    const flat = axis === undefined ? { ...x!, dims: [x!.data.length] } : x!;
    const at = axis === undefined ? 0 : normalizeAxis(axis, x!.dims.length, "Compress");
    const picked = Array.from({ length: Math.min(condition!.data.length, flat.dims[at]!) }, (_, i) => i).filter((i) => condition!.data[i]);
    return [slicesOf(flat, at, picked)];
  },
  samples: () => [
    sample("rows", { x: fixed(ramp([3, 2])), condition: fixed(values("bool", [2], [0, 1])) }, { attributes: { axis: 0 } }),
    sample("flat", { x: fixed(ramp([3, 2])), condition: fixed(values("bool", [5], [0, 1, 0, 0, 1])) }),
    rejects("a condition of numbers", { x: ramp([3]), condition: fixed(ramp([3])) }, 100026, /bool/),
  ],
});

function compareSlices(x: Tensor, a: number, b: number, size: number): number {
  for (let i = 0; i < size; i++) {
    const [p, q] = [x.data[a * size + i]!, x.data[b * size + i]!];
    if (p !== q && !(Number.isNaN(p) && Number.isNaN(q))) {
      return Number.isNaN(p) ? 1 : Number.isNaN(q) ? -1 : p < q ? -1 : 1;
    }
  }
  return 0;
}

export const Unique = dynamic({
  name: "Unique",
  newest: 11,
  inputs: ["x"],
  outputs: 4,
  attributes: { axis: int(), sorted: int(1) },
  check: ([x], { axis }, node) => {
    if (axis !== undefined) {
      normalizeAxis(axis, x!.dims.length, node);
    }
  },
  compute: ([x], { axis, sorted }) => {
    const flat = axis === undefined ? { ...x!, dims: [x!.data.length] } : x!;
    const at = axis === undefined ? 0 : normalizeAxis(axis, x!.dims.length, "Unique");
    const count = flat.dims[at]!;
    // Slices side by side, so that two of them can be compared.
    const rows = Array.from({ length: count }, (_, i) => slicesOf(flat, at, [i]).data);
    const size = rows[0]?.length ?? 0;
    const lined = { ...flat, data: rows.flatMap((row) => [...row]) as unknown as Tensor["data"] };
    const order = Array.from({ length: count }, (_, i) => i).sort((a, b) => compareSlices(lined, a, b, size) || a - b);
    const groups: number[][] = [];
    for (const i of order) {
      const last = groups[groups.length - 1];
      last && compareSlices(lined, last[0]!, i, size) === 0 ? last.push(i) : groups.push([i]);
    }
    if (!sorted) {
      groups.sort((a, b) => a[0]! - b[0]!);
    }
    const inverse = new Array<number>(count).fill(0);
    groups.forEach((group, index) => group.forEach((i) => (inverse[i] = index)));
    const firsts = groups.map((group) => group[0]!);
    return [
      slicesOf(flat, at, firsts),
      int64([groups.length], firsts),
      int64([count], inverse),
      int64(
        [groups.length],
        groups.map(({ length }) => length),
      ),
    ];
  },
  samples: () => [
    sample("sorted", { x: fixed(values("float32", [6], [2, 1, 1, 3, 4, 3])) }, { outputs: 4 }),
    sample("in order of appearance", { x: fixed(values("int64", [5], [2n, 1n, 1n, 3n, 2n])) }, { attributes: { sorted: 0 }, outputs: 4 }),
    sample("rows", { x: fixed(values("float32", [3, 2], [1, 0, 1, 0, 0, 5])) }, { attributes: { axis: 0 }, outputs: 4 }),
    rejects("axis outside", { x: fixed(ramp([3])) }, 100021, /axis 1/, { attributes: { axis: 1 } }),
  ],
});

/** Corners [y1, x1, y2, x2] of a box, whichever way round they are written. */
function corners(box: ArrayLike<number>, centre: boolean): [number, number, number, number] {
  const [a, b, c, d] = [box[0]!, box[1]!, box[2]!, box[3]!];
  return centre ? [b - d / 2, a - c / 2, b + d / 2, a + c / 2] : [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];
}

function overlapOf(a: readonly number[], b: readonly number[]): number {
  const side = (low: number, high: number): number => Math.max(0, Math.fround(high - low));
  const both = Math.fround(side(Math.max(a[0]!, b[0]!), Math.min(a[2]!, b[2]!)) * side(Math.max(a[1]!, b[1]!), Math.min(a[3]!, b[3]!)));
  const area = (box: readonly number[]): number => Math.fround(side(box[0]!, box[2]!) * side(box[1]!, box[3]!));
  const all = Math.fround(Math.fround(area(a) + area(b)) - both);
  return both > 0 && all > 0 ? Math.fround(both / all) : 0;
}

export const NonMaxSuppression = dynamic({
  name: "NonMaxSuppression",
  newest: 11,
  inputs: ["boxes", "scores", "most?", "overlap?", "score?"],
  attributes: { center_point_box: int(0) },
  check: ([boxes, scores], _, node) => {
    const [b, s] = [boxes!.dims, scores!.dims];
    if (b.length !== 3 || s.length !== 3 || b[2] !== 4 || b[0] !== s[0] || b[1] !== s[2]) {
      throw shapeError(`${node}: boxes ${formatDims(b)} and scores ${formatDims(s)} must be [batch, count, 4] and [batch, classes, count]`);
    }
  },
  compute: ([boxes, scores, most, overlap, score], { center_point_box }) => {
    const [batches, classes, count] = scores!.dims as [number, number, number];
    const limit = Number(most?.data[0] ?? 0);
    const [highest, least] = [Number(overlap?.data[0] ?? 0), score ? Number(score.data[0]) : Number.NEGATIVE_INFINITY];
    const found: number[] = [];
    for (let b = 0; b < batches; b++) {
      const all = Array.from({ length: count }, (_, i) =>
        corners((boxes!.data as Float64Array).subarray((b * count + i) * 4, (b * count + i) * 4 + 4), center_point_box !== 0),
      );
      for (let c = 0; c < classes; c++) {
        const rating = (scores!.data as Float64Array).subarray((b * classes + c) * count, (b * classes + c + 1) * count);
        const order = Array.from({ length: count }, (_, i) => i).filter((i) => rating[i]! > least);
        order.sort((i, j) => rating[j]! - rating[i]! || i - j);
        const kept: number[] = [];
        for (const i of order) {
          if (kept.length >= limit) {
            break;
          }
          if (kept.every((other) => overlapOf(all[i]!, all[other]!) <= highest)) {
            kept.push(i);
            found.push(b, c, i);
          }
        }
      }
    }
    return [int64([found.length / 3, 3], found)];
  },
  samples: () => [
    sample("overlaps", {
      boxes: fixed(values("float32", [1, 4, 4], [0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11, 1, 11.1, 0, 10.1])),
      scores: fixed(values("float32", [1, 1, 4], [0.9, 0.75, 0.6, 0.95])),
      most: scalar(3, "int64"),
      overlap: scalar(0.5),
      score: scalar(0.1),
    }),
    sample(
      "boxes by their centre",
      {
        boxes: fixed(values("float32", [1, 3, 4], [0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1, 5, 5, 1, 1])),
        scores: fixed(values("float32", [1, 2, 3], [0.9, 0.8, 0.7, 0.1, 0.2, 0.3])),
        most: scalar(2, "int64"),
        overlap: scalar(0.4),
      },
      { attributes: { center_point_box: 1 } },
    ),
    rejects("boxes of five numbers", { boxes: fixed(ramp([1, 2, 5])), scores: fixed(ramp([1, 1, 2])) }, 100021, /must be \[batch, count, 4\]/),
  ],
});
