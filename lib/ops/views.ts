/** Windows on blobs: all the ways to look at memory in another shape without moving it. Strides are bytes. */
import { broadcastStrides } from "../graph/dims";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { rowMajor, sizeOf } from "../graph/tensor";
import type { Blob, View } from "../program/types";

/** A dense view of a whole blob; `layout` lists the logical axes outermost first. */
export function dense(blob: Blob, dtype: DtypeName, dims: readonly number[], layout?: readonly number[]): View {
  return { blob, dtype, offsetBytes: 0, dims, strides: denseStrides(dims, DTYPES[dtype].bytes, layout) };
}

export function denseStrides(dims: readonly number[], size: number, layout?: readonly number[]): number[] {
  if (!layout) {
    return rowMajor(dims).map((stride) => stride * size);
  }
  const strides = new Array<number>(dims.length);
  let step = size;
  for (const axis of [...layout].reverse()) {
    strides[axis] = step;
    step *= dims[axis]!;
  }
  return strides;
}

/** Channels innermost: [N, C, spatial...] stored as N, spatial..., C. */
export function channelsLast(rank: number): number[] {
  return [0, ...Array.from({ length: rank - 2 }, (_, i) => i + 2), 1];
}

/** Same memory order? The stride of a dim of 1 says nothing. */
export function sameLayout(a: View, b: View): boolean {
  return a.dims.length === b.dims.length && a.dims.every((dim, axis) => dim === b.dims[axis] && (dim === 1 || a.strides[axis] === b.strides[axis]));
}

export function isDense(view: View, layout?: readonly number[]): boolean {
  const strides = denseStrides(view.dims, DTYPES[view.dtype].bytes, layout);
  return view.dims.every((dim, axis) => dim === 1 || view.strides[axis] === strides[axis]);
}

export function broadcastView(view: View, dims: readonly number[]): View {
  return { ...view, dims, strides: broadcastStrides(view.dims, view.strides, dims) };
}

export function permuteView(view: View, axes: readonly number[]): View {
  return { ...view, dims: axes.map((axis) => view.dims[axis]!), strides: axes.map((axis) => view.strides[axis]!) };
}

/** Elements start, start + step, ... of one axis. */
export function sliceView(view: View, axis: number, start: number, count: number, step = 1): View {
  return {
    ...view,
    offsetBytes: view.offsetBytes + start * view.strides[axis]!,
    dims: view.dims.with(axis, count),
    strides: view.strides.with(axis, view.strides[axis]! * step),
  };
}

export function dropAxis(view: View, axis: number): View {
  return { ...view, dims: view.dims.toSpliced(axis, 1), strides: view.strides.toSpliced(axis, 1) };
}

/** The same elements, in the same logical order, under other dims; undefined when the strides do not allow it and a copy is needed. */
export function reshapeView(view: View, dims: readonly number[]): View | undefined {
  if (sizeOf(dims) === 0) {
    return { ...view, dims, strides: denseStrides(dims, DTYPES[view.dtype].bytes) };
  }
  // Runs of source axes that lie evenly in memory: each is one long axis of `length` elements `stride` apart.
  const runs: { length: number; stride: number }[] = [];
  view.dims.forEach((dim, axis) => {
    if (dim === 1) {
      return;
    }
    const last = runs[runs.length - 1];
    if (last && last.stride === dim * view.strides[axis]!) {
      last.length *= dim;
      last.stride = view.strides[axis]!;
    } else {
      runs.push({ length: dim, stride: view.strides[axis]! });
    }
  });
  const strides = new Array<number>(dims.length).fill(0);
  let axis = dims.length - 1;
  for (const { length, stride } of runs.reverse()) {
    let left = length;
    let step = stride;
    while (left > 1) {
      const dim = dims[axis]!;
      if (dim !== 1) {
        if (left % dim !== 0) {
          return undefined;
        }
        strides[axis] = step;
        step *= dim;
        left /= dim;
      }
      axis--;
    }
  }
  return { ...view, dims, strides };
}

/** Bytes that a view touches: [low, high) from the start of its blob; empty when it has no elements. */
export function extentOf(view: View): { readonly low: number; readonly high: number } {
  let low = view.offsetBytes;
  let high = view.offsetBytes;
  for (const [axis, dim] of view.dims.entries()) {
    if (dim === 0) {
      return { low: view.offsetBytes, high: view.offsetBytes };
    }
    const reach = (dim - 1) * view.strides[axis]!;
    reach < 0 ? (low += reach) : (high += reach);
  }
  return { low, high: high + DTYPES[view.dtype].bytes };
}
