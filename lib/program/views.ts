/** Geometry of views that the encoder needs: extents, density, and fewer dims for the same elements. Strides are bytes. */
import { DTYPES } from "../graph/dtype";
import type { View } from "./types";

export const product = (dims: readonly number[]): number => dims.reduce((total, dim) => total * dim, 1);

export const elementsOf = (view: View): number => product(view.dims);

/** Bytes from the view's first element: [low, high) covers every byte that it touches; empty for a view without elements. */
export function reachOf(dims: readonly number[], strides: readonly number[], elementBytes: number): { readonly low: number; readonly high: number } {
  if (dims.includes(0)) return { low: 0, high: 0 };
  let low = 0;
  let high = elementBytes;
  for (const [axis, dim] of dims.entries()) {
    const reach = (dim - 1) * strides[axis]!;
    if (reach < 0) low += reach;
    else high += reach;
  }
  return { low, high };
}

/** Row-major and dense; the stride of a dim of one element says nothing. */
export function isContiguous(dims: readonly number[], strides: readonly number[], elementBytes: number): boolean {
  let expected = elementBytes;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    if (dims[axis] !== 1 && strides[axis] !== expected) return false;
    expected *= dims[axis]!;
  }
  return true;
}

export interface Shape {
  readonly dims: readonly number[];
  /** Strides of each of the views, over `dims`. */
  readonly strides: readonly (readonly number[])[];
}

/**
 * Fewest dims that number the same elements in the same order for all `strides` at once: dims of one go, neighbours that lie evenly in every view
 * become one. At least one dim is left. `keep` innermost dims are never merged with others.
 */
export function collapse(shape: Shape, keep = 0): Shape {
  if (shape.dims.includes(0)) return { dims: [0], strides: shape.strides.map(() => [0]) };
  const dims: number[] = [];
  const strides: number[][] = shape.strides.map(() => []);
  const outer = shape.dims.length - keep;
  for (const [axis, dim] of shape.dims.entries()) {
    if (dim === 1 && axis < outer) continue;
    const last = dims.length - 1;
    const even = axis < outer && last >= 0 && shape.strides.every((own, i) => strides[i]![last] === own[axis]! * dim);
    if (even) {
      dims[last]! *= dim;
      for (const [i, own] of shape.strides.entries()) strides[i]![last] = own[axis]!;
    } else {
      dims.push(dim);
      for (const [i, own] of shape.strides.entries()) strides[i]!.push(own[axis]!);
    }
  }
  if (dims.length === 0) return { dims: [1], strides: shape.strides.map(() => [0]) };
  return { dims, strides };
}

/** Axes in another order: axis i of the result is `axes[i]`. */
export function reorder(shape: Shape, axes: readonly number[]): Shape {
  return { dims: axes.map((axis) => shape.dims[axis]!), strides: shape.strides.map((own) => axes.map((axis) => own[axis]!)) };
}

export const elementBytes = (view: View): number => DTYPES[view.dtype].bytes;
