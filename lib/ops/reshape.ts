/** Operators that give the same elements another shape: views where the layout allows, else one copy. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, isConcrete, normalizeAxis, product, shapeError } from "../graph/dims";
import { sizeOf, type Tensor } from "../graph/tensor";
import { defineOp, int, type Type } from "./define";
import type { Lowering, Operand } from "./lowering";
import { axesOf, ramp, rejects, sample, values } from "./sample";
import { attributeToInput } from "./upgrade";
import { reshapeView } from "./views";

const numbers = (constant: Tensor): number[] => Array.from(constant.data as ArrayLike<number | bigint>, Number);

/** The numbers of an input that decides a shape. @throws AclError 100024 when they are only known at run time */
export function numbersOf(type: Type | undefined, name: string, node: string): number[] | undefined {
  if (!type) {
    return undefined;
  }
  if (!type.constant) {
    throw new AclError(100024, `${node}: "${name}" is computed at run time; shapes must be known when the model is compiled`);
  }
  return numbers(type.constant);
}

function lowerReshape(b: Lowering, data: Operand): void {
  const dims = b.dims();
  const source = data.view;
  const view = reshapeView(source, dims);
  if (view) {
    b.alias(view);
    return;
  }
  // The target is row-major, so it can be seen with the source's dims; the copy does the rest.
  const target = b.target();
  b.copy(reshapeView(target, source.dims)!, source);
}

const same = (data: Tensor, dims: readonly number[]): Tensor => ({ dtype: data.dtype, dims, data: data.data });

function reshapeDims(from: readonly Dim[], wanted: readonly number[], allowZero: boolean, node: string): Dim[] {
  const dims: Dim[] = wanted.map((dim, axis) => {
    if (dim === 0 && !allowZero) {
      if (axis >= from.length) {
        throw shapeError(`${node}: shape ${formatDims(wanted)} copies dim ${axis} of data, which has ${from.length} dims`);
      }
      return from[axis]!;
    }
    return dim;
  });
  const open = dims.indexOf(-1);
  if (dims.some((dim, axis) => typeof dim === "number" && dim < 0 && axis !== open)) {
    throw shapeError(`${node}: shape ${formatDims(wanted)} may hold one -1 and no other negative number`);
  }
  const total = product(from);
  if (open >= 0) {
    const rest = product(dims.filter((_, axis) => axis !== open));
    if (typeof total === "number" && typeof rest === "number") {
      if (rest === 0 ? total !== 0 : total % rest !== 0) {
        throw shapeError(`${node}: ${total} elements of ${formatDims(from)} cannot be reshaped to ${formatDims(wanted)}`);
      }
      dims[open] = rest === 0 ? 0 : total / rest;
    } else {
      dims[open] = rest === 1 ? total : `(${total})/(${rest})`;
    }
  } else if (isConcrete(dims) && typeof total === "number" && sizeOf(dims) !== total) {
    throw shapeError(`${node}: ${total} elements of ${formatDims(from)} cannot be reshaped to ${formatDims(wanted)}`);
  }
  return dims;
}

export const Reshape = defineOp({
  names: { onnx: ["Reshape", 25] },
  inputs: ["data", "shape"],
  attributes: { allowzero: int(0) },
  upgrades: { 5: attributeToInput("shape", 1) },
  needs: ["shape"],
  infer: ({ data, shape }, { allowzero }, { node }) => [
    { dtype: data.dtype, dims: reshapeDims(data.dims, numbersOf(shape, "shape", node)!, allowzero === 1, node) },
  ],
  reference: ({ data }, _, [out]) => [same(data, out!.dims)],
  sameBytes: true,
  lower: (b, { data }) => lowerReshape(b, data),
  samples: () => [
    sample("flatten", { data: ramp([2, 3, 4]), shape: axesOf(2, -1) }),
    sample("zero copies a dim", { data: ramp([2, 3, 4]), shape: axesOf(0, 4, 3) }),
    sample("to a scalar", { data: ramp([1, 1]), shape: axesOf() }),
    rejects("wrong count", { data: ramp([2, 3]), shape: axesOf(4) }, 100021, /6 elements/),
    rejects("two open dims", { data: ramp([2, 3]), shape: axesOf(-1, -1) }, 100021, /one -1/),
    rejects("shape at run time", { data: ramp([2, 3]), shape: values("int64", [1], [6n]) }, 100024, /computed at run time/),
  ],
});

export const Flatten = defineOp({
  names: { onnx: ["Flatten", 25] },
  inputs: ["data"],
  attributes: { axis: int(1) },
  infer: ({ data }, { axis }, { node }) => {
    const at = axis === data.dims.length ? axis : normalizeAxis(axis, data.dims.length, node);
    return [{ dtype: data.dtype, dims: [product(data.dims.slice(0, at)), product(data.dims.slice(at))] }];
  },
  reference: ({ data }, _, [out]) => [same(data, out!.dims)],
  sameBytes: true,
  lower: (b, { data }) => lowerReshape(b, data),
  samples: () => [
    sample("axis 1", { data: ramp([2, 3, 4]) }),
    sample("axis 0", { data: ramp([2, 3]) }, { attributes: { axis: 0 } }),
    sample("axis -1", { data: ramp([2, 3, 4]) }, { attributes: { axis: -1 } }),
    rejects("axis outside", { data: ramp([2, 3]) }, 100021, /axis 3/, { attributes: { axis: 3 } }),
  ],
});

export const Squeeze = defineOp({
  names: { onnx: ["Squeeze", 25] },
  inputs: ["data", "axes?"],
  upgrades: { 13: attributeToInput("axes", 1) },
  needs: ["axes"],
  infer: ({ data, axes }, _, { node }) => {
    const listed = numbersOf(axes, "axes", node)?.map((axis) => normalizeAxis(axis, data.dims.length, node));
    const drop = listed ?? data.dims.flatMap((dim, axis) => (dim === 1 ? [axis] : []));
    for (const axis of drop) {
      if (typeof data.dims[axis] === "number" && data.dims[axis] !== 1) {
        throw shapeError(`${node}: axis ${axis} of ${formatDims(data.dims)} is ${data.dims[axis]}, only dims of 1 can be squeezed`);
      }
    }
    return [{ dtype: data.dtype, dims: data.dims.filter((_, axis) => !drop.includes(axis)) }];
  },
  reference: ({ data }, _, [out]) => [same(data, out!.dims)],
  sameBytes: true,
  lower: (b, { data }) => lowerReshape(b, data),
  samples: () => [
    sample("all", { data: ramp([1, 3, 1]) }),
    sample("one", { data: ramp([1, 3, 1]), axes: axesOf(-1) }),
    sample("attribute of opset 11", { data: ramp([1, 3, 1]) }, { attributes: { axes: [0] }, opset: 11 }),
    rejects("a dim of 3", { data: ramp([1, 3]), axes: axesOf(1) }, 100021, /only dims of 1/),
  ],
});

export const Unsqueeze = defineOp({
  names: { onnx: ["Unsqueeze", 25] },
  inputs: ["data", "axes"],
  upgrades: { 13: attributeToInput("axes", 1) },
  needs: ["axes"],
  infer: ({ data, axes }, _, { node }) => {
    const listed = numbersOf(axes, "axes", node)!;
    const rank = data.dims.length + listed.length;
    const at = new Set(listed.map((axis) => normalizeAxis(axis, rank, node)));
    if (at.size !== listed.length) {
      throw shapeError(`${node}: axes [${listed}] name an axis twice`);
    }
    const rest = [...data.dims];
    return [{ dtype: data.dtype, dims: Array.from({ length: rank }, (_, axis) => (at.has(axis) ? 1 : rest.shift()!)) }];
  },
  reference: ({ data }, _, [out]) => [same(data, out!.dims)],
  sameBytes: true,
  lower: (b, { data }) => lowerReshape(b, data),
  samples: () => [
    sample("ends", { data: ramp([2, 3]), axes: axesOf(0, -1) }),
    sample("attribute of opset 11", { data: ramp([2, 3]) }, { attributes: { axes: [1] }, opset: 11 }),
    rejects("twice", { data: ramp([2]), axes: axesOf(0, 0) }, 100021, /twice/),
  ],
});

export const Shape = defineOp({
  names: { onnx: ["Shape", 25] },
  inputs: ["data"],
  attributes: { start: int(0), end: int() },
  infer: ({ data }, { start, end }) => [{ dtype: "int64", dims: [range(data.dims.length, start, end).length] }],
  reference: ({ data }, { start, end }, [out]) => [
    { dtype: "int64", dims: out!.dims, data: BigInt64Array.from(range(data.dims.length, start, end), (axis) => BigInt(data.dims[axis]!)) },
  ],
  lower: (b, { data }, { start, end }) => {
    const axes = range(data.dims.length, start, end);
    b.alias(b.computed({ dtype: "int64", dims: [axes.length], data: BigInt64Array.from(axes, (axis) => BigInt(data.dims[axis]!)) }));
  },
  samples: () => [sample("all", { data: ramp([2, 3, 4]) }), sample("slice", { data: ramp([2, 3, 4]) }, { attributes: { start: -2, end: -1 } })],
});

export const Size = defineOp({
  names: { onnx: ["Size", 25] },
  inputs: ["data"],
  infer: () => [{ dtype: "int64", dims: [] }],
  reference: ({ data }) => [{ dtype: "int64", dims: [], data: BigInt64Array.of(BigInt(sizeOf(data.dims))) }],
  lower: (b, { data }) => b.alias(b.computed({ dtype: "int64", dims: [], data: BigInt64Array.of(BigInt(sizeOf(data.dims))) })),
  samples: () => [sample("matrix", { data: ramp([2, 3]) }), sample("nothing", { data: ramp([2, 0]) })],
});

function range(rank: number, start: number, end: number | undefined): number[] {
  const clamp = (axis: number): number => Math.min(rank, Math.max(0, axis < 0 ? axis + rank : axis));
  const from = clamp(start);
  return Array.from({ length: Math.max(0, clamp(end ?? rank) - from) }, (_, i) => from + i);
}
