/** Operators that write chosen elements: the data is copied, then what the indices name is written over it. */
import { type Dim, formatDims, normalizeAxis, shapeError } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import { elements, roundTo, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { MergeName, View } from "../program/types";
import { defineOp, int, string } from "./define";
import { lastAxis, rowNumbers, within } from "./indexing";
import type { Lowering, Operand } from "./lowering";
import { fixed, ramp, rejects, sample, values } from "./sample";
import { permuteView, reshapeView } from "./views";

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
  infer: ({ data, indices, updates }, { reduction }, { node }) => {
    requireReduction(reduction, node);
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
        const merged = merge(reduction, result[at + k]!, updates.data[i * size + k]!) as number | bigint;
        result[at + k] = (typeof merged === "bigint" ? merged : roundTo(data.dtype, merged)) as never;
      }
    });
    return [{ ...out!, data: result }];
  },
  lower: (b, { data, indices, updates }, { reduction }) => {
    const { constant } = indices;
    if (!constant || reduction !== "none") {
      return scatterRows(b, data, indices, updates, reduction);
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
    scatterInto(b, target, data.dims, indices, updates.view, "none");
  },
  tolerance: { relative: 1e-3, absolute: 1e-6, why: "halves are added in float32 and rounded once" },
  samples: () => [
    sample("rows", { data: ramp([4, 3]), indices: fixed(values("int64", [2, 1], [3n, -4n])), updates: ramp([2, 3], 5) }),
    sample("a block", { data: ramp([4, 5]), indices: fixed(values("int64", [2, 2, 2], [1n, 1n, 1n, 3n, 2n, 1n, 2n, 3n])), updates: ramp([2, 2], 5) }),
    sample("elements", {
      data: ramp([4, 4, 2]),
      indices: fixed(values("int64", [3, 3], [0n, 1n, 0n, 3n, 3n, 1n, 2n, 0n, 0n])),
      updates: ramp([3], 5),
    }),
    rejects("index outside", { data: ramp([4]), indices: fixed(values("int64", [1, 1], [4n])), updates: ramp([1]) }, 100021, /index 4/),
    sample("indices at run time", { data: ramp([4, 3]), indices: values("int64", [2, 1], [3n, -4n]), updates: ramp([2, 3], 5) }),
    ...["add", "mul", "min", "max"].map((reduction) =>
      sample(
        `${reduction}, a row twice`,
        { data: ramp([4, 5]), indices: values("int64", [3, 1], [3n, 0n, 3n]), updates: ramp([3, 5], 0.5) },
        { attributes: { reduction } },
      ),
    ),
    sample(
      "float16 is added in float32",
      { data: ramp([4, 2], 0.25, "float16"), indices: values("int64", [2, 1], [1n, 1n]), updates: ramp([2, 2], 0.5, "float16") },
      { attributes: { reduction: "add" } },
    ),
    rejects("no such reduction", { data: ramp([4]), indices: values("int64", [1, 1], [0n]), updates: ramp([1]) }, 100021, /none of none, add/, {
      attributes: { reduction: "median" },
    }),
  ],
});

/** The kernel merges what registers hold; halves go through float32. */
const HALVES: ReadonlySet<DtypeName> = new Set(["float16", "bfloat16"]);
const MERGES: readonly string[] = ["none", "add", "mul", "min", "max"];

function requireReduction(reduction: string, node: string): MergeName {
  if (!MERGES.includes(reduction)) {
    throw shapeError(`${node}: reduction "${reduction}" is none of ${MERGES.join(", ")}`);
  }
  return reduction as MergeName;
}

/** `data` in fresh memory, then `write` over it; in float32 where the element type has no arithmetic of its own. */
function overwrite(b: Lowering, data: Operand, updates: Operand, merge: MergeName, write: (target: View, updates: View) => void): void {
  const dtype = merge !== "none" && HALVES.has(data.dtype) ? "float32" : data.dtype;
  b.through(dtype, undefined, (target) => {
    dtype === data.dtype ? b.copy(target, data.view) : b.map(target, [data.view], (_, value) => value!);
    write(target, b.converted(updates.view, dtype));
  });
}

function scatterRows(b: Lowering, data: Operand, indices: Operand, updates: Operand, reduction: string): void {
  const merge = requireReduction(reduction, b.what);
  overwrite(b, data, updates, merge, (target, source) => scatterInto(b, target, data.dims, indices, source, merge));
}

/** Rows of `updates` to the rows of `target` (dense, of `dims`) that the tuples name: neighbours in a row share their index. */
function scatterInto(b: Lowering, target: View, dims: readonly number[], indices: Operand, updates: View, merge: MergeName): void {
  const depth = indices.dims[indices.dims.length - 1]!;
  const [rows, inner, count] = [sizeOf(dims.slice(0, depth)), sizeOf(dims.slice(depth)), sizeOf(indices.dims.slice(0, -1))];
  if (count * inner === 0) {
    return;
  }
  const numbers = rowNumbers(b, dims, indices.view, 0);
  const columns = (view: View, length: number): View => permuteView(reshapeView(view, [length, inner])!, [1, 0]);
  const shared: View = { ...numbers, dims: [inner, count], strides: [0, numbers.strides[0]!] };
  b.scatterElements(merge, columns(target, rows), columns(b.arranged(updates), count), shared);
}

export const ScatterElements = defineOp({
  names: { onnx: ["ScatterElements", 18] },
  inputs: ["data", "indices", "updates"],
  attributes: { axis: int(0), reduction: string("none") },
  infer: ({ data, indices, updates }, { axis, reduction }, { node }) => {
    const at = normalizeAxis(axis, data.dims.length, node);
    requireReduction(reduction, node);
    const fits = indices.dims.length === data.dims.length && indices.dims.every((dim, i) => i === at || !(Number(dim) > Number(data.dims[i])));
    if (!fits || indices.dims.join() !== updates.dims.join() || updates.dtype !== data.dtype || !indices.dtype.startsWith("int")) {
      const [a, c] = [indices, updates].map(({ dtype, dims }) => `${dtype}${formatDims(dims)}`);
      throw shapeError(`${node}: indices ${a} and updates ${c} do not fit data ${data.dtype}${formatDims(data.dims)}`);
    }
    return [{ dtype: data.dtype, dims: data.dims }];
  },
  reference: ({ data, indices, updates }, { axis, reduction }, [out]) => {
    const at = normalizeAxis(axis, data.dims.length, "ScatterElements");
    const [strides, own] = [rowMajor(data.dims), rowMajor(indices.dims)];
    const result = elements(out!.dtype, data.data.length);
    result.set(data.data as never);
    for (let i = 0; i < indices.data.length; i++) {
      const place = own.reduce((sum, stride, k) => {
        const index = k === at ? Number(indices.data[i]) : Math.floor(i / stride) % indices.dims[k]!;
        return sum + (index < 0 ? index + data.dims[k]! : index) * strides[k]!;
      }, 0);
      const merged = merge(reduction, result[place]!, updates.data[i]!) as number | bigint;
      result[place] = (typeof merged === "bigint" ? merged : roundTo(data.dtype, merged)) as never;
    }
    return [{ ...out!, data: result }];
  },
  lower: (b, { data, indices, updates }, { axis, reduction }) => {
    const at = normalizeAxis(axis, data.dims.length, b.what);
    const inner = (view: View): View => permuteView(view, lastAxis(data.dims.length, at));
    const how = requireReduction(reduction, b.what);
    overwrite(b, data, updates, how, (target, source) =>
      b.scatterElements(how, inner(within(target, indices.dims, at)), inner(source), inner(indices.view)),
    );
  },
  tolerance: { relative: 1e-6, absolute: 1e-6, why: "f32 sums in order" },
  samples: () => [
    sample("rows", { data: ramp([3, 4]), indices: values("int64", [2, 3], [0, 1, -1, 2, 2, 0]), updates: ramp([2, 3], 5) }),
    sample(
      "columns, twice the same",
      { data: ramp([2, 5]), indices: values("int32", [2, 3], [1, 1, 4, 0, -5, 0]), updates: ramp([2, 3], 5) },
      { attributes: { axis: 1, reduction: "add" } },
    ),
    sample(
      "the middle of three, int8",
      { data: ramp([2, 3, 2], 1, "int8"), indices: values("int64", [2, 1, 2], [2, 0, 1, 1]), updates: ramp([2, 1, 2], 7, "int8") },
      { attributes: { axis: 1, reduction: "max" } },
    ),
    rejects("updates of other dims", { data: ramp([3]), indices: values("int64", [2], [0, 1]), updates: ramp([3]) }, 100021, /do not fit/),
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
