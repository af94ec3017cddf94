/** Operators that write chosen elements: the data is copied, then what the constant indices name is copied over it. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, shapeError } from "../graph/dims";
import { elements, isInteger, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { defineOp, string } from "./define";
import { fixed, ramp, rejects, sample, scalar, values } from "./sample";
import { dropAxis, sliceView } from "./views";

/** Constant indices become one copy each, unless they name an even block. */
const MOST_COPIES = 4096;

/** The position that each index tuple names: one number per leading axis of the data. */
function positionsOf(indices: Tensor, dims: readonly Dim[], node: string): number[][] {
  const depth = indices.dims[indices.dims.length - 1]!;
  return Array.from({ length: indices.data.length / Math.max(1, depth) }, (_, i) =>
    Array.from({ length: depth }, (_each, axis) => {
      const [index, dim] = [Number(indices.data[i * depth + axis]), dims[axis]!];
      if (typeof dim === "number" && (index < -dim || index >= dim)) {
        throw shapeError(`${node}: index ${index} is outside axis ${axis} of ${formatDims(dims)}`);
      }
      return index < 0 && typeof dim === "number" ? index + dim : index;
    }),
  );
}

/** Start and step per axis of the data for each axis of the indices, when the positions lie in an even block that fills whole steps. */
function blockOf(positions: readonly (readonly number[])[], counts: readonly number[]): { start: readonly number[]; steps: number[][] } | undefined {
  const start = positions[0];
  if (!start) {
    return undefined;
  }
  const strides = rowMajor(counts);
  const steps = counts.map((count, axis) => start.map((at, i) => (count > 1 ? positions[strides[axis]!]![i]! - at : 0)));
  const even = positions.every((position, index) =>
    position.every(
      (at, i) => at === counts.reduce((sum, count, axis) => sum + (Math.floor(index / strides[axis]!) % count) * steps[axis]![i]!, start[i]!),
    ),
  );
  return even ? { start, steps } : undefined;
}

export const ScatterND = defineOp({
  names: { onnx: ["ScatterND", 18] },
  inputs: ["data", "indices", "updates"],
  attributes: { reduction: string("none") },
  infer: ({ data, indices, updates }, _, { node }) => {
    const depth = indices.dims[indices.dims.length - 1];
    if (typeof depth !== "number" || depth > data.dims.length || indices.dtype !== "int64") {
      throw shapeError(`${node}: indices ${indices.dtype}${formatDims(indices.dims)} must be int64 and end in at most ${data.dims.length} positions`);
    }
    const wanted = [...indices.dims.slice(0, -1), ...data.dims.slice(depth)];
    const fits = wanted.length === updates.dims.length && wanted.every((dim, i) => typeof dim !== typeof updates.dims[i] || dim === updates.dims[i]);
    if (!fits || updates.dtype !== data.dtype) {
      throw shapeError(`${node}: updates ${updates.dtype}${formatDims(updates.dims)} must be ${data.dtype}${formatDims(wanted)}`);
    }
    if (indices.constant) {
      positionsOf(indices.constant, data.dims, node);
    }
    return [{ dtype: data.dtype, dims: data.dims }];
  },
  reference: ({ data, indices, updates }, { reduction }, [out]) => {
    const depth = indices.dims[indices.dims.length - 1]!;
    const strides = rowMajor(data.dims);
    const size = sizeOf(data.dims.slice(depth));
    const result = elements(out!.dtype, data.data.length);
    result.set(data.data as never);
    positionsOf(indices, data.dims, "ScatterND").forEach((position, i) => {
      const at = position.reduce((sum, index, axis) => sum + index * strides[axis]!, 0);
      for (let k = 0; k < size; k++) {
        result[at + k] = merge(reduction, result[at + k]!, updates.data[i * size + k]!);
      }
    });
    return [{ ...out!, data: result }];
  },
  lower: (b, { data, indices, updates }, { reduction }) => {
    const { constant } = indices;
    if (!constant) {
      return b.unsupported("indices computed at run time are not supported yet; make them an initializer");
    }
    if (reduction !== "none") {
      return b.unsupported(`reduction "${reduction}" is not supported yet`);
    }
    const positions = positionsOf(constant, data.dims, b.what);
    const counts = constant.dims.slice(0, -1);
    const target = b.target();
    b.copy(target, data.view);
    const block = blockOf(positions, counts);
    if (block) {
      // The block as a view: an axis for each axis of the indices, then what is left of the data's.
      const rest = target.dims.slice(block.start.length);
      const step = (moves: readonly number[]): number => moves.reduce((sum, move, axis) => sum + move * target.strides[axis]!, 0);
      const place: View = {
        ...target,
        offsetBytes: target.offsetBytes + step(block.start),
        dims: [...counts, ...rest],
        strides: [...block.steps.map(step), ...target.strides.slice(block.start.length)],
      };
      b.copy(place, updates.view);
      return;
    }
    if (positions.length > MOST_COPIES) {
      b.unsupported(`${positions.length} constant indices in no even block are not supported yet; at most ${MOST_COPIES} are`);
    }
    const strides = rowMajor(counts);
    positions.forEach((position, i) => {
      const to = position.reduce((view, at) => dropAxis(sliceView(view, 0, at, 1), 0), target);
      const from = counts.reduce((view, count, axis) => dropAxis(sliceView(view, 0, Math.floor(i / strides[axis]!) % count, 1), 0), updates.view);
      b.copy(to, from);
    });
  },
  samples: () => [
    sample("rows", { data: ramp([4, 3]), indices: fixed(values("int64", [2, 1], [3n, -4n])), updates: ramp([2, 3], 5) }),
    sample("a block", { data: ramp([4, 5]), indices: fixed(values("int64", [2, 2, 2], [1n, 1n, 1n, 3n, 2n, 1n, 2n, 3n])), updates: ramp([2, 2], 5) }),
    sample("elements", {
      data: ramp([4, 4, 2]),
      indices: fixed(values("int64", [3, 3], [0n, 1n, 0n, 3n, 3n, 1n, 2n, 0n, 0n])),
      updates: ramp([3], 5),
    }),
    rejects("index outside", { data: ramp([4]), indices: fixed(values("int64", [1, 1], [4n])), updates: ramp([1]) }, 100021, /index 4/),
    rejects("indices at run time", { data: ramp([4]), indices: values("int64", [1, 1], [0n]), updates: ramp([1]) }, 100024, /computed at run time/),
  ],
});

function merge(reduction: string, old: number | bigint, update: number | bigint): never {
  const merged = {
    none: () => update,
    add: () => (typeof old === "bigint" ? old + BigInt(update) : old + Number(update)),
    mul: () => (typeof old === "bigint" ? old * BigInt(update) : old * Number(update)),
    min: () => (update < old ? update : old),
    max: () => (update > old ? update : old),
  }[reduction];
  if (!merged) {
    throw shapeError(`reduction "${reduction}" is none of none, add, mul, min, max`);
  }
  return merged() as never;
}

export const Range = defineOp({
  names: { onnx: ["Range", 11] },
  inputs: ["start", "limit", "delta"],
  needs: ["start", "limit", "delta"],
  infer: ({ start, limit, delta }, _, { node }) => {
    requireDtype(start.dtype, "number", node);
    const [from, to, step] = [start, limit, delta].map((each) => {
      if (!each.constant) {
        throw new AclError(100024, `${node}: its bounds are computed at run time; shapes must be known when the model is compiled`);
      }
      return each.constant.data[0]!;
    }) as [number, number, number];
    if (Number(step) === 0) {
      throw shapeError(`${node}: a delta of 0 never arrives`);
    }
    return [{ dtype: start.dtype, dims: [Math.max(0, Math.ceil((Number(to) - Number(from)) / Number(step)))] }];
  },
  reference: ({ start, delta }, _, [out]) => {
    const data = elements(out!.dtype, out!.dims[0]!);
    const [from, step] = [start.data[0]!, delta.data[0]!];
    const whole = isInteger(out!.dtype) && typeof from === "bigint";
    for (let i = 0; i < data.length; i++) {
      data[i] = (whole ? from + BigInt(i) * BigInt(step) : Number(from) + i * Number(step)) as never;
    }
    return [{ ...out!, data }];
  },
  lower: (b, inputs, attributes) =>
    b.alias(
      b.computed(
        Range.reference({ start: inputs.start.constant!, limit: inputs.limit.constant!, delta: inputs.delta.constant! } as never, attributes, [
          { dtype: b.dtype(), dims: b.dims() },
        ])[0]!,
      ),
    ),
  samples: () => [
    sample("up", { start: scalar(1, "int64"), limit: scalar(9, "int64"), delta: scalar(3, "int64") }),
    sample("down, floats", { start: scalar(1), limit: scalar(-1), delta: scalar(-0.5) }),
    rejects("no step", { start: scalar(1), limit: scalar(2), delta: scalar(0) }, 100021, /never arrives/),
  ],
});
