/** Operators that pick elements by index tensors: one GATHER, or views and copies where the indices are known. */
import { type Dim, formatDims, normalizeAxis, shapeError } from "../graph/dims";
import { elements, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { defineOp, int } from "./define";
import type { Lowering } from "./lowering";
import { fixed, ramp, rejects, sample, values } from "./sample";
import { reshapeView } from "./views";

/** Rows of `data` seen as [1, size, inner] by the flat int64 or int32 `indices`, into `target` of as many rows. */
function gatherFlat(b: Lowering, target: View, data: View, inner: number, indices: View): void {
  const count = sizeOf(indices.dims);
  const size = sizeOf(data.dims) / Math.max(1, inner);
  const list = reshapeView(b.arranged(indices), [count])!;
  b.gather(reshapeView(target, [1, count, inner])!, reshapeView(b.arranged(data), [1, size, inner])!, list);
}

/** index < 0 ? index + size : index, then times `stride`, plus what `rest` holds: an int64 view of the dims of `indices`. */
function flatIndices(b: Lowering, indices: View, sizes: View, strides: View, rest: View): View {
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
    normalizeAxis(axis, data.dims.length, node);
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
    const target = b.target();
    if (sizeOf(target.dims) === 0) {
      return;
    }
    const [strides, own] = [rowMajor(data.dims), rowMajor(target.dims)];
    // Where each index would point if it were 0.
    const rest = Array.from({ length: sizeOf(target.dims) }, (_, i) =>
      own.reduce((sum, stride, k) => sum + (k === at ? 0 : (Math.floor(i / stride) % target.dims[k]!) * strides[k]!), 0),
    );
    const flat = flatIndices(b, indices.view, int64(b, [], [data.dims[at]!]), int64(b, [], [strides[at]!]), int64(b, target.dims, rest));
    gatherFlat(b, target, data.view, 1, flat);
  },
  samples: () => [
    sample("rows", { data: ramp([3, 4]), indices: values("int64", [2, 4], [0n, 1n, -1n, 2n, 2n, 0n, 1n, -3n]) }),
    sample("columns, known", { data: ramp([2, 3]), indices: fixed(values("int32", [2, 2], [0, 2, 1, -1])) }, { attributes: { axis: 1 } }),
    rejects("another rank", { data: ramp([3, 4]), indices: values("int64", [2], [0n, 1n]) }, 100021, /rank 2/),
  ],
});

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
    // Row numbers: batch first, then one index after the other.
    const list = reshapeView(b.arranged(indices.view), [rows, depth])!;
    const perBatch = sizeOf(data.dims.slice(batch_dims, batch_dims + depth));
    const batches = sizeOf(indices.dims.slice(0, batch_dims));
    let flat = int64(
      b,
      [rows, 1],
      Array.from({ length: rows }, (_, row) => Math.floor(row / (rows / batches)) * perBatch),
    );
    for (let k = 0; k < depth; k++) {
      const column: View = { ...list, offsetBytes: list.offsetBytes + k * list.strides[1]!, dims: [rows, 1], strides: [list.strides[0]!, 0] };
      const stride = sizeOf(data.dims.slice(batch_dims + k + 1, batch_dims + depth));
      flat = flatIndices(b, column, int64(b, [], [data.dims[batch_dims + k]!]), int64(b, [], [stride]), flat);
    }
    gatherFlat(b, target, data.view, inner, flat);
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
