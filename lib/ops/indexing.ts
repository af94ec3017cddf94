/** Operators that pick elements by index tensors: one GATHER, or views and copies where the indices are known. */
import { type Dim, formatDims, normalizeAxis, shapeError } from "../graph/dims";
import { elements, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { defineOp, int } from "./define";
import type { Lowering } from "./lowering";
import { fixed, ramp, rejects, sample, values } from "./sample";
import { permuteView, reshapeView } from "./views";

/** Rows of `data` seen as [1, size, inner] by the flat int64 or int32 `indices`, into `target` of as many rows. */
function gatherFlat(b: Lowering, target: View, data: View, inner: number, indices: View): void {
  const count = sizeOf(indices.dims);
  const size = sizeOf(data.dims) / Math.max(1, inner);
  const list = reshapeView(b.arranged(indices), [count])!;
  b.gather(reshapeView(target, [1, count, inner])!, reshapeView(b.arranged(data), [1, size, inner])!, list);
}

/** All axes in order but `axis`, which comes last. */
export const lastAxis = (rank: number, axis: number): number[] => [...Array.from({ length: rank }, (_, i) => i).filter((i) => i !== axis), axis];

/** The part of a view that indices of `dims` reach: all of `axis`, the beginning of the others. */
export const within = (view: View, dims: readonly number[], axis: number): View => ({
  ...view,
  dims: view.dims.map((dim, i) => (i === axis ? dim : dims[i]!)),
});

/** index < 0 ? index + size : index, then times `stride`, plus what `rest` holds: an int64 view of the dims of `indices`. */
function flatIndex(b: Lowering, indices: View, sizes: View, strides: View, rest: View): View {
  const flat = b.temporary("int64", indices.dims, undefined, `${b.node.name}.positions`);
  b.map(flat, [indices, sizes, strides, rest], (s, index, size, stride, more) => {
    const wide = s.cast(index!, "i64");
    const wrapped = s.op("select", s.op("lt", wide, s.constant("i64", 0)), s.op("add", wide, size!), wide);
    return s.op("muladd", wrapped, stride!, more!);
  });
  return flat;
}
const int64 = (b: Lowering, dims: readonly number[], numbers: readonly number[]): View =>
  b.computed({ dtype: "int64", dims, data: BigInt64Array.from(numbers, BigInt) });

export const GatherElements = defineOp({
  names: { onnx: ["GatherElements", 13] },
  inputs: ["data", "indices"],
  attributes: { axis: int(0) },
  infer: ({ data, indices }, { axis }, { node }) => {
    const at = normalizeAxis(axis, data.dims.length, node);
    if (indices.dims.some((dim, i) => i !== at && Number(dim) > Number(data.dims[i]))) {
      throw shapeError(`${node}: indices ${formatDims(indices.dims)} reach past data ${formatDims(data.dims)}`);
    }
    if (indices.dims.length !== data.dims.length || (indices.dtype !== "int64" && indices.dtype !== "int32")) {
      throw shapeError(`${node}: indices ${indices.dtype}${formatDims(indices.dims)} must be int32 or int64 of the data's rank ${data.dims.length}`);
    }
    return [{ dtype: data.dtype, dims: indices.dims }];
  },
  reference: ({ data, indices }, { axis }, [out]) => {
    const at = normalizeAxis(axis, data.dims.length, "GatherElements");
    const [strides, own] = [rowMajor(data.dims), rowMajor(out!.dims)];
    const result = elements(data.dtype, sizeOf(out!.dims));
    for (let i = 0; i < result.length; i++) {
      const place = own.reduce((sum, stride, k) => {
        const index = k === at ? Number(indices.data[i]) : Math.floor(i / stride) % out!.dims[k]!;
        return sum + (index < 0 ? index + data.dims[k]! : index) * strides[k]!;
      }, 0);
      result[i] = data.data[place]!;
    }
    return [{ ...out!, data: result }];
  },
  lower: (b, { data, indices }, { axis }) => {
    const at = normalizeAxis(axis, data.dims.length, b.what);
    const inner = (view: View): View => permuteView(view, lastAxis(data.dims.length, at));
    b.gatherElements(inner(b.target()), inner(within(data.view, indices.dims, at)), inner(indices.view));
  },
  samples: () => [
    sample("rows", { data: ramp([3, 4]), indices: values("int64", [2, 4], [0n, 1n, -1n, 2n, 2n, 0n, 1n, -3n]) }),
    sample("columns, known", { data: ramp([2, 3]), indices: fixed(values("int32", [2, 2], [0, 2, 1, -1])) }, { attributes: { axis: 1 } }),
    rejects("another rank", { data: ramp([3, 4]), indices: values("int64", [2], [0n, 1n]) }, 100021, /rank 2/),
  ],
});

/** For each tuple of `indices` the number of the row of data that it names, [rows, 1]: batch first, then one index after the other. */
export function rowNumbers(b: Lowering, dims: readonly number[], indices: View, batchDims: number): View {
  const depth = indices.dims[indices.dims.length - 1]!;
  const rows = sizeOf(indices.dims.slice(0, -1));
  const list = reshapeView(b.arranged(indices), [rows, depth])!;
  const perBatch = sizeOf(dims.slice(batchDims, batchDims + depth));
  const batches = sizeOf(indices.dims.slice(0, batchDims));
  let flat = int64(
    b,
    [rows, 1],
    Array.from({ length: rows }, (_, row) => Math.floor(row / (rows / batches)) * perBatch),
  );
  for (let k = 0; k < depth; k++) {
    const column: View = { ...list, offsetBytes: list.offsetBytes + k * list.strides[1]!, dims: [rows, 1], strides: [list.strides[0]!, 0] };
    const stride = sizeOf(dims.slice(batchDims + k + 1, batchDims + depth));
    flat = flatIndex(b, column, int64(b, [], [dims[batchDims + k]!]), int64(b, [], [stride]), flat);
  }
  return flat;
}

export const GatherND = defineOp({
  names: { onnx: ["GatherND", 13] },
  inputs: ["data", "indices"],
  attributes: { batch_dims: int(0) },
  infer: ({ data, indices }, { batch_dims }, { node }) => {
    const depth = indices.dims[indices.dims.length - 1];
    if (
      typeof depth !== "number" ||
      depth < 1 ||
      batch_dims + depth > data.dims.length ||
      indices.dims.length <= batch_dims ||
      indices.dtype !== "int64"
    ) {
      throw shapeError(`${node}: indices ${indices.dtype}${formatDims(indices.dims)} do not fit data ${formatDims(data.dims)}`);
    }
    const dims: Dim[] = [...indices.dims.slice(0, -1), ...data.dims.slice(batch_dims + depth)];
    return [{ dtype: data.dtype, dims }];
  },
  reference: ({ data, indices }, { batch_dims }, [out]) => {
    const { starts, size } = rowsOf(data, indices, batch_dims);
    const result = elements(data.dtype, sizeOf(out!.dims));
    starts.forEach((start, row) => {
      for (let i = 0; i < size; i++) {
        result[row * size + i] = data.data[start + i]!;
      }
    });
    return [{ ...out!, data: result }];
  },
  lower: (b, { data, indices }, { batch_dims }) => {
    const depth = indices.dims[indices.dims.length - 1]!;
    const target = b.target();
    const rows = sizeOf(indices.dims.slice(0, -1));
    const inner = sizeOf(data.dims.slice(batch_dims + depth));
    if (rows * inner === 0) {
      return;
    }
    gatherFlat(b, target, data.view, inner, rowNumbers(b, data.dims, indices.view, batch_dims));
  },
  samples: () => [
    sample("rows", { data: ramp([3, 4, 2]), indices: values("int64", [2, 2], [0n, 1n, -1n, 3n]) }),
    sample("whole slices", { data: ramp([3, 4]), indices: fixed(values("int64", [2, 1], [2n, 0n])) }),
    sample("batch", { data: ramp([2, 3, 4]), indices: values("int64", [2, 1], [1n, -1n]) }, { attributes: { batch_dims: 1 } }),
    rejects("too many indices", { data: ramp([3]), indices: values("int64", [1, 2], [0n, 0n]) }, 100021, /do not fit/),
  ],
});

/** First element of each row that the indices name, and how many a row has. */
function rowsOf(data: Tensor, indices: Tensor, batch: number): { starts: number[]; size: number } {
  const depth = indices.dims[indices.dims.length - 1]!;
  const strides = rowMajor(data.dims);
  const rows = indices.data.length / depth;
  const perBatch = rows / sizeOf(indices.dims.slice(0, batch));
  const starts = Array.from({ length: rows }, (_, row) => {
    let start = Math.floor(row / perBatch) * (batch > 0 ? strides[batch - 1]! : 0);
    for (let k = 0; k < depth; k++) {
      const index = Number(indices.data[row * depth + k]);
      start += (index < 0 ? index + data.dims[batch + k]! : index) * strides[batch + k]!;
    }
    return start;
  });
  return { starts, size: sizeOf(data.dims.slice(batch + depth)) };
}
