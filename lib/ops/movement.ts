/** Operators that pick or arrange elements: views of their input where strides can say it, else copies into one target. */
import { AclError } from "../errors/acl-error";
import { broadcast, type Dim, formatDims, mapDim, normalizeAxis, shapeError, sum } from "../graph/dims";
import { elements, gatherView, rowMajor, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { View } from "../program/types";
import { defineOp, int, ints } from "./define";
import type { Lowering } from "./lowering";
import { numbersOf } from "./reshape";
import { axesOf, fixed, ramp, rejects, sample, scalar, values } from "./sample";
import { attributeToInput, chain } from "./upgrade";
import { broadcastView, dropAxis, permuteView, reshapeView, sliceView } from "./views";

const permutation = (perm: readonly number[] | undefined, rank: number): number[] => [
  ...(perm ?? Array.from({ length: rank }, (_, i) => rank - 1 - i)),
];

export const Transpose = defineOp({
  names: { onnx: ["Transpose", 25] },
  inputs: ["data"],
  attributes: { perm: ints() },
  infer: ({ data }, { perm }, { node }) => {
    const axes = permutation(perm, data.dims.length);
    if ([...axes].sort((a, b) => a - b).join() !== data.dims.map((_, axis) => axis).join()) {
      throw shapeError(`${node}: perm [${axes}] is no permutation of ${data.dims.length} axes`);
    }
    return [{ dtype: data.dtype, dims: axes.map((axis) => data.dims[axis]!) }];
  },
  reference: ({ data }, { perm }, [out]) => {
    const strides = rowMajor(data.dims);
    const axes = permutation(perm, data.dims.length);
    return [
      gatherView(
        data,
        out!.dims,
        axes.map((axis) => strides[axis]!),
      ),
    ];
  },
  lower: (b, { data }, { perm }) => b.alias(permuteView(data.view, permutation(perm, data.dims.length))),
  samples: () => [
    sample("reverse", { data: ramp([2, 3, 4]) }),
    sample("middle", { data: ramp([2, 3, 4, 5]) }, { attributes: { perm: [0, 2, 1, 3] } }),
    rejects("no permutation", { data: ramp([2, 3]) }, 100021, /perm/, { attributes: { perm: [0, 0] } }),
  ],
});

export const Concat = defineOp({
  names: { onnx: ["Concat", 13] },
  inputs: ["...inputs"],
  attributes: { axis: int(1) },
  layout: "follow",
  infer: ({ inputs }, { axis }, { node }) => {
    const first = inputs[0];
    if (!first) {
      throw shapeError(`${node} has no inputs; it needs at least one`);
    }
    const at = normalizeAxis(axis, first.dims.length, node);
    for (const input of inputs) {
      const fits =
        input.dims.length === first.dims.length &&
        input.dims.every((dim, i) => i === at || typeof dim !== typeof first.dims[i] || dim === first.dims[i]);
      if (!fits) {
        throw shapeError(`${node}: ${formatDims(input.dims)} and ${formatDims(first.dims)} differ outside axis ${at}`);
      }
      if (input.dtype !== first.dtype) {
        throw new AclError(100026, `${node} mixes ${first.dtype} and ${input.dtype}; operands need one element type: insert a Cast`);
      }
    }
    return [{ dtype: first.dtype, dims: (first.dims as Dim[]).with(at, sum(inputs.map((input) => input.dims[at]!))) }];
  },
  reference: ({ inputs }, { axis }, [out]) => {
    const { dtype, dims } = out!;
    const at = normalizeAxis(axis, dims.length, "Concat");
    const data = elements(dtype, sizeOf(dims));
    const strides = rowMajor(dims);
    let start = 0;
    for (const input of inputs) {
      walk(input.dims, strides, (index, offset) => (data[offset] = input.data[index]!), start * strides[at]!);
      start += input.dims[at]!;
    }
    return [{ dtype, dims, data }];
  },
  lower: (b, { inputs }, { axis }) => {
    const target = b.target();
    const at = normalizeAxis(axis, target.dims.length, b.what);
    let start = 0;
    for (const input of inputs) {
      const count = input.dims[at]!;
      b.copy(sliceView(target, at, start, count), input.view);
      start += count;
    }
  },
  samples: () => [
    sample("axis 0", { inputs: [ramp([2, 3]), ramp([1, 3])] }, { attributes: { axis: 0 } }),
    sample("last axis, one empty", { inputs: [ramp([2, 3]), ramp([2, 0]), ramp([2, 4])] }, { attributes: { axis: -1 } }),
    rejects("shapes differ", { inputs: [ramp([2, 3]), ramp([3, 4])] }, 100021, /differ outside axis 0/, { attributes: { axis: 0 } }),
  ],
});

interface Cut {
  readonly axis: number;
  readonly start: number;
  readonly step: number;
  readonly count: Dim;
}

/** ONNX's rules: negative positions count from the end, then everything is clamped; a negative step may stop before element 0. */
function cutsOf(
  dims: readonly Dim[],
  starts: readonly number[],
  ends: readonly number[],
  axes: readonly number[] | undefined,
  steps: readonly number[] | undefined,
  node: string,
): Cut[] {
  if (starts.length !== ends.length || (axes && axes.length !== starts.length) || (steps && steps.length !== starts.length)) {
    throw shapeError(`${node}: starts, ends, axes and steps must have the same length`);
  }
  return starts.map((from, i) => {
    const axis = normalizeAxis(axes?.[i] ?? i, dims.length, node);
    const step = steps?.[i] ?? 1;
    const dim = dims[axis]!;
    if (step === 0) {
      throw shapeError(`${node}: step 0 on axis ${axis}; a slice has to move`);
    }
    if (typeof dim === "string") {
      return { axis, start: 0, step, count: `slice(${dim})` };
    }
    const wrap = (position: number): number => (position < 0 ? position + dim : position);
    const clamp = (position: number, low: number, high: number): number => Math.min(high, Math.max(low, wrap(position)));
    const start = step > 0 ? clamp(from, 0, dim) : clamp(from, 0, dim - 1);
    const end = step > 0 ? clamp(ends[i]!, 0, dim) : clamp(ends[i]!, -1, dim - 1);
    return { axis, start, step, count: Math.max(0, Math.ceil((end - start) / step)) };
  });
}

/** Starts, ends, axes and steps as `Slice` holds them. */
const sliceInputs = ({ starts, ends, axes, steps }: { starts?: Tensor; ends?: Tensor; axes?: Tensor; steps?: Tensor }) =>
  [starts, ends, axes, steps].map((each) => each && Array.from(each.data as ArrayLike<number | bigint>, Number)) as [
    number[],
    number[],
    number[] | undefined,
    number[] | undefined,
  ];

export const Slice = defineOp({
  names: { onnx: ["Slice", 13] },
  inputs: ["data", "starts", "ends", "axes?", "steps?"],
  upgrades: { 10: chain(attributeToInput("starts", 1), attributeToInput("ends", 2), attributeToInput("axes", 3)) },
  needs: ["starts", "ends", "axes", "steps"],
  infer: ({ data, starts, ends, axes, steps }, _, { node }) => {
    const read = (type: typeof axes, name: string) => numbersOf(type, name, node);
    const cuts = cutsOf(data.dims, read(starts, "starts")!, read(ends, "ends")!, read(axes, "axes"), read(steps, "steps"), node);
    return [{ dtype: data.dtype, dims: cuts.reduce<Dim[]>((dims, { axis, count }) => dims.with(axis, count), [...data.dims]) }];
  },
  reference: ({ data, ...where }, _, [out]) => {
    const strides = rowMajor(data.dims);
    let start = 0;
    const stepped = [...strides];
    for (const cut of cutsOf(data.dims, ...sliceInputs(where), "Slice")) {
      start += cut.start * strides[cut.axis]!;
      stepped[cut.axis] = strides[cut.axis]! * cut.step;
    }
    return [gatherView(data, out!.dims, stepped, start)];
  },
  lower: (b, { data, starts, ends, axes, steps }) => {
    const where = {
      starts: starts.constant!,
      ends: ends.constant!,
      ...(axes ? { axes: axes.constant! } : {}),
      ...(steps ? { steps: steps.constant! } : {}),
    };
    const cuts = cutsOf(data.dims, ...sliceInputs(where), b.what);
    b.alias(cuts.reduce<View>((view, { axis, start, step, count }) => sliceView(view, axis, start, count as number, step), data.view));
  },
  samples: () => [
    sample("inside", { data: ramp([5, 6]), starts: axesOf(1, 2), ends: axesOf(4, 5) }),
    sample("negative and past the end", { data: ramp([5, 6]), starts: axesOf(-3), ends: axesOf(99), axes: axesOf(1) }),
    sample("backwards", { data: ramp([5, 6]), starts: axesOf(-1, 4), ends: axesOf(-99, 0), axes: axesOf(1, 0), steps: axesOf(-1, -2) }),
    sample("attributes of opset 9", { data: ramp([5, 6]) }, { attributes: { starts: [1], ends: [3], axes: [1] }, opset: 9 }),
    sample(
      "to the end, written as the largest integer, in opset 9",
      { data: ramp([2, 5]) },
      { attributes: { starts: [2n], ends: [2n ** 63n - 1n], axes: [1n] }, opset: 9 },
    ),
    sample("empty", { data: ramp([5]), starts: axesOf(3), ends: axesOf(3) }),
    rejects("step 0", { data: ramp([5]), starts: axesOf(0), ends: axesOf(5), axes: axesOf(0), steps: axesOf(0) }, 100021, /step 0/),
  ],
});

function splitSizes(dim: Dim, listed: readonly number[] | undefined, count: number, node: string): Dim[] {
  if (listed) {
    const total = listed.reduce((a, b) => a + b, 0);
    if (listed.length !== count || listed.some((size) => size < 0) || (typeof dim === "number" && total !== dim)) {
      throw shapeError(`${node}: split [${listed}] does not divide ${dim} into ${count} outputs`);
    }
    return [...listed];
  }
  const size = mapDim(
    dim,
    (n) => Math.ceil(n / count),
    (n) => `ceil(${n}/${count})`,
  );
  return Array.from({ length: count }, (_, i) => (typeof size === "number" ? Math.max(0, Math.min(size, (dim as number) - i * size)) : size));
}

export const Split = defineOp({
  names: { onnx: ["Split", 18] },
  inputs: ["data", "split?"],
  outputs: Number.POSITIVE_INFINITY,
  attributes: { axis: int(0), num_outputs: int() },
  upgrades: { 13: attributeToInput("split", 1) },
  needs: ["split"],
  infer: ({ data, split }, { axis }, { node, outputs }) => {
    const at = normalizeAxis(axis, data.dims.length, node);
    return splitSizes(data.dims[at]!, numbersOf(split, "split", node), outputs, node).map((size) => ({
      dtype: data.dtype,
      dims: (data.dims as Dim[]).with(at, size),
    }));
  },
  reference: ({ data }, { axis }, types) => {
    const at = normalizeAxis(axis, data.dims.length, "Split");
    const strides = rowMajor(data.dims);
    let start = 0;
    return types.map(({ dims }) => {
      const part = gatherView(data, dims, strides, start * strides[at]!);
      start += dims[at]!;
      return part;
    });
  },
  lower: (b, { data }, { axis }) => {
    const at = normalizeAxis(axis, data.dims.length, b.what);
    let start = 0;
    b.node.outputs.forEach((output, index) => {
      if (output) {
        const count = b.dims(index)[at]!;
        b.alias(sliceView(data.view, at, start, count), index);
        start += count;
      }
    });
  },
  samples: () => [
    sample("equal", { data: ramp([6, 2]) }, { outputs: 3 }),
    sample("listed", { data: ramp([2, 7]), split: axesOf(2, 5) }, { outputs: 2, attributes: { axis: 1 } }),
    sample("attribute of opset 11", { data: ramp([6]) }, { outputs: 2, attributes: { split: [4, 2] }, opset: 11 }),
    rejects("sizes do not add up", { data: ramp([6]), split: axesOf(2, 2) }, 100021, /does not divide 6/, { outputs: 2 }),
  ],
});

export const Expand = defineOp({
  names: { onnx: ["Expand", 13] },
  inputs: ["data", "shape"],
  needs: ["shape"],
  infer: ({ data, shape }, _, { node }) => [{ dtype: data.dtype, dims: broadcast([data.dims, numbersOf(shape, "shape", node)!], node) }],
  reference: ({ data }, _, [out]) => {
    const lead = out!.dims.length - data.dims.length;
    const strides = rowMajor(data.dims);
    return [
      gatherView(
        data,
        out!.dims,
        out!.dims.map((_, axis) => (axis < lead || data.dims[axis - lead] === 1 ? 0 : strides[axis - lead]!)),
      ),
    ];
  },
  lower: (b, { data }) => b.alias(broadcastView(data.view, b.dims())),
  samples: () => [
    sample("row", { data: ramp([1, 3]), shape: axesOf(2, 1) }),
    sample("more dims", { data: ramp([3, 1]), shape: axesOf(2, 1, 4) }),
    rejects("shapes that do not meet", { data: ramp([3]), shape: axesOf(4) }, 100021, /do not broadcast/),
  ],
});

/** Constant indices become one copy each. */
const MOST_COPIES = 64;

/** Indices that the compiler does not know, or too many of them. */
function gatherRows(b: Lowering, data: View, indices: View, axis: number): void {
  const target = b.target();
  const count = sizeOf(indices.dims);
  const outer = sizeOf(data.dims.slice(0, axis));
  const inner = sizeOf(data.dims.slice(axis + 1));
  const known = indices.dtype === "int64" ? indices : b.converted(indices, "int32");
  const list = reshapeView(b.arranged(known), [count])!;
  const source = reshapeView(b.arranged(data), [outer, data.dims[axis]!, inner])!;
  b.gather(reshapeView(target, [outer, count, inner])!, source, list);
}

export const Gather = defineOp({
  names: { onnx: ["Gather", 13] },
  inputs: ["data", "indices"],
  attributes: { axis: int(0) },
  infer: ({ data, indices }, { axis }, { node }) => {
    const at = normalizeAxis(axis, data.dims.length, node);
    const dim = data.dims[at]!;
    for (const index of indices.constant?.data ?? []) {
      if (typeof dim === "number" && (Number(index) < -dim || Number(index) >= dim)) {
        throw shapeError(`${node}: index ${index} is outside axis ${at} of ${formatDims(data.dims)}`);
      }
    }
    return [{ dtype: data.dtype, dims: [...data.dims.slice(0, at), ...indices.dims, ...data.dims.slice(at + 1)] }];
  },
  reference: ({ data, indices }, { axis }, [out]) => {
    const at = normalizeAxis(axis, data.dims.length, "Gather");
    const inner = sizeOf(data.dims.slice(at + 1));
    const outer = sizeOf(data.dims.slice(0, at));
    const result = elements(data.dtype, sizeOf(out!.dims));
    let next = 0;
    for (let o = 0; o < outer; o++) {
      for (const index of indices.data) {
        const row = Number(index) < 0 ? Number(index) + data.dims[at]! : Number(index);
        for (let i = 0; i < inner; i++) {
          result[next++] = data.data[(o * data.dims[at]! + row) * inner + i]!;
        }
      }
    }
    return [{ dtype: data.dtype, dims: out!.dims, data: result }];
  },
  lower: (b, { data, indices }, { axis }) => {
    const { constant } = indices;
    const at = normalizeAxis(axis, data.dims.length, b.what);
    if (!constant) {
      gatherRows(b, data.view, indices.view, at);
      return;
    }
    const rows = Array.from(constant.data as ArrayLike<number | bigint>, (index) =>
      Number(index) < 0 ? Number(index) + data.dims[at]! : Number(index),
    );
    if (constant.dims.length === 0) {
      b.alias(dropAxis(sliceView(data.view, at, rows[0]!, 1), at));
      return;
    }
    const step = rows.length > 1 ? rows[1]! - rows[0]! : 1;
    if (constant.dims.length === 1 && rows.length > 0 && rows.every((row, i) => i === 0 || row - rows[i - 1]! === step)) {
      b.alias(sliceView(data.view, at, rows[0]!, rows.length, step));
      return;
    }
    if (rows.length > MOST_COPIES) {
      gatherRows(b, data.view, indices.view, at);
      return;
    }
    const target = b.target();
    const positions = rowMajor(constant.dims);
    rows.forEach((row, i) => {
      let slot = target;
      constant.dims.forEach((dim, axisOfIndices) => {
        slot = dropAxis(sliceView(slot, at, Math.floor(i / positions[axisOfIndices]!) % dim, 1), at);
      });
      b.copy(slot, dropAxis(sliceView(data.view, at, row, 1), at));
    });
  },
  samples: () => [
    sample("scalar index", { data: ramp([4, 3]), indices: scalar(-1, "int64") }),
    sample("even steps", { data: ramp([4, 3]), indices: fixed(values("int64", [2], [0n, 2n])) }, { attributes: { axis: 1 } }),
    sample("any order", { data: ramp([4, 3]), indices: fixed(values("int32", [2, 2], [0, 3, 1, 1])) }),
    rejects("index outside", { data: ramp([4]), indices: fixed(values("int64", [1], [4n])) }, 100021, /index 4/),
    sample("indices at run time", { data: ramp([5, 3]), indices: values("int64", [2, 2], [4n, -5n, 1n, -1n]) }),
    sample(
      "middle axis, indices at run time",
      { data: ramp([2, 4, 3], 1, "float16"), indices: values("int32", [3], [3, 0, -2]) },
      { attributes: { axis: 1 } },
    ),
    sample("a scalar at run time", { data: ramp([4, 3]), indices: values("int64", [], [2n]) }, { attributes: { axis: -1 } }),
  ],
});
