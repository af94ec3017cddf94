/** Random cases of operators that move, pick and place elements. */
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { sizeOf, tensor } from "../../dist/lib/graph/tensor";
import { type Case, type Given, ints, list, one, type Random } from "./random";

const ANY: readonly DtypeName[] = ["float32", "float32", "int64", "int32", "uint8", "bool", "float64", "float16", "int8"];

const transpose = (r: Random): Case => {
  const dims = r.dims();
  const perm = r.chance(0.85) ? { attributes: { perm: ints(r.order(dims.length)) } } : {};
  return { op: "Transpose", opset: 13, inputs: [r.tensor(r.pick(ANY), dims)], ...perm };
};

const concat = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4));
  const axis = r.axis(dims.length);
  const dtype = r.pick(ANY);
  const inputs = Array.from({ length: r.int(1, 5) }, () => r.tensor(dtype, dims.with(axis, r.int(0, 6)), { fixed: r.chance(0.25) }));
  return { op: "Concat", opset: 13, inputs, attributes: { axis: BigInt(axis) } };
};

const slice = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4));
  const axes = r.order(dims.length).slice(0, r.int(1, dims.length));
  const given = r.chance(0.3) ? dims.map((_, axis) => axis) : axes;
  const [starts, ends, steps, shown]: number[][] = [[], [], [], []];
  for (const axis of given) {
    const dim = dims[axis]!;
    starts!.push(r.chance(0.1) ? r.pick([-(2 ** 31), 2 ** 31]) : r.int(-dim - 1, dim + 1));
    ends!.push(r.chance(0.2) ? r.pick([-(2 ** 31), 2 ** 31 - 1, Number.MAX_SAFE_INTEGER]) : r.int(-dim - 1, dim + 1));
    steps!.push(r.pick([1, 1, 2, 3, -1, -2]));
    shown!.push(r.chance(0.5) ? axis : axis - dims.length);
  }
  return { op: "Slice", opset: 13, inputs: [r.tensor(r.pick(ANY), dims), list(...starts!), list(...ends!), list(...shown!), list(...steps!)] };
};

const split = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const axis = r.axis(dims.length);
  const parts = Array.from({ length: r.int(1, 4) }, () => r.int(0, 4));
  const total = parts.reduce((a, b) => a + b, 0);
  const attributes = { axis: BigInt(axis) };
  if (r.chance(0.4)) {
    const count = r.int(1, 4);
    return {
      op: "Split",
      opset: 18,
      inputs: [r.tensor("float32", dims.with(axis, count * 3 - r.below(2)))],
      attributes: { ...attributes, num_outputs: BigInt(count) },
      outputs: count,
    };
  }
  return { op: "Split", opset: 13, inputs: [r.tensor(r.pick(ANY), dims.with(axis, total)), list(...parts)], attributes, outputs: parts.length };
};

const expand = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4));
  const from = r.broadcastable(dims);
  const to = dims.map((dim) => (r.chance(0.2) ? 1 : dim)).slice(r.chance(0.2) ? r.below(dims.length) : 0);
  return { op: "Expand", opset: 13, inputs: [r.tensor(r.pick(ANY), from), list(...to)] };
};

const gather = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const axis = r.axis(dims.length);
  const dim = dims.at(axis)!;
  const indices = r.indices(r.dims(r.int(0, 3)), -dim, dim - 1, { dtype: r.pick(["int64", "int32"]), fixed: r.chance(0.5) });
  return { op: "Gather", opset: 13, inputs: [r.tensor(r.pick(ANY), dims, { fixed: r.chance(0.2) }), indices], attributes: { axis: BigInt(axis) } };
};

const gatherElements = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const axis = r.axis(dims.length);
  const at = axis < 0 ? axis + dims.length : axis;
  const shape = dims.map((dim, i) => (i === at ? r.int(0, 6) : r.int(1, dim)));
  const dim = dims[at]!;
  const indices = r.indices(shape, -dim, dim - 1, { dtype: r.pick(["int64", "int32"]), fixed: r.chance(0.4) });
  return { op: "GatherElements", opset: 13, inputs: [r.tensor(r.pick(ANY), dims), indices], attributes: { axis: BigInt(axis) } };
};

/** Index tuples of `depth` into `dims`; `distinct` ones where order would count. */
function tuples(r: Random, dims: readonly number[], depth: number, count: number, distinct: boolean): number[] {
  const size = sizeOf(dims.slice(0, depth));
  const places = distinct ? r.order(size).slice(0, count) : Array.from({ length: count }, () => r.below(size));
  return places.flatMap((place) => {
    const at: number[] = [];
    for (let axis = depth - 1; axis >= 0; axis--) {
      at[axis] = (place % dims[axis]!) - (r.chance(0.3) ? dims[axis]! : 0);
      place = Math.floor(place / dims[axis]!);
    }
    return at;
  });
}

const gatherNd = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const batch = r.chance(0.3) ? r.below(dims.length) : 0;
  const depth = r.int(1, dims.length - batch);
  const inner = r.int(0, 4);
  const count = sizeOf(dims.slice(0, batch)) * inner;
  const indices = {
    ...tensor("int64", [...dims.slice(0, batch), inner, depth], tuples(r, dims.slice(batch), depth, count, false)),
    fixed: r.chance(0.3),
  };
  return { op: "GatherND", opset: 13, inputs: [r.tensor(r.pick(ANY), dims), indices], attributes: { batch_dims: BigInt(batch) } };
};

const scatterNd = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const depth = r.int(1, dims.length);
  const reduction = r.pick(["none", "none", "add", "mul", "min", "max"]);
  const count = Math.min(r.int(0, 5), sizeOf(dims.slice(0, depth)));
  const indices = { ...tensor("int64", [count, depth], tuples(r, dims, depth, count, reduction === "none")), fixed: r.chance(0.3) };
  const dtype = r.pick<DtypeName>(reduction === "none" ? ANY : ["float32", "float64", "int32"]);
  const inputs = [r.tensor(dtype, dims), indices, r.tensor(dtype, [count, ...dims.slice(depth)])];
  return { op: "ScatterND", opset: 18, inputs, ...(reduction === "none" ? {} : { attributes: { reduction } }) };
};

const scatterElements = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const axis = r.axis(dims.length);
  const at = axis < 0 ? axis + dims.length : axis;
  const reduction = r.pick(["none", "none", "add", "mul", "min", "max"]);
  const dim = dims[at]!;
  const shape = dims.map((size) => r.int(1, size));
  const before = sizeOf(shape.slice(0, at));
  const after = sizeOf(shape.slice(at + 1));
  const chosen = new Float64Array(sizeOf(shape));
  for (let row = 0; row < before * after; row++) {
    const order = r.order(dim);
    for (let i = 0; i < shape[at]!; i++) {
      const place = reduction === "none" ? order[i]! : r.below(dim);
      chosen[(Math.floor(row / after) * shape[at]! + i) * after + (row % after)] = place - (r.chance(0.3) ? dim : 0);
    }
  }
  const dtype = r.pick<DtypeName>(reduction === "none" ? ANY : ["float32", "float64", "int32"]);
  const inputs = [r.tensor(dtype, dims), { ...tensor(r.pick(["int64", "int32"]), shape, chosen), fixed: r.chance(0.3) }, r.tensor(dtype, shape)];
  return { op: "ScatterElements", opset: 18, inputs, attributes: { axis: BigInt(axis), ...(reduction === "none" ? {} : { reduction }) } };
};

const pad = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const mode = r.pick(["constant", "constant", "reflect", "edge", "wrap"]);
  const most = (axis: number): number => (mode === "reflect" ? dims[axis]! - 1 : mode === "wrap" ? dims[axis]! : 4);
  const amount = (axis: number): number =>
    mode === "constant" && r.chance(0.2) ? -r.int(0, Math.floor(dims[axis]! / 2)) : r.int(0, Math.max(0, most(axis)));
  const axes = r.chance(0.3) ? r.order(dims.length).slice(0, r.int(1, dims.length)) : undefined;
  const all = axes ?? dims.map((_, axis) => axis);
  const pads = list(...all.map(amount), ...all.map(amount));
  const dtype = r.pick<DtypeName>(["float32", "float32", "int32", "int64", "float64", "uint8"]);
  const value = mode === "constant" && r.chance(0.7) ? one(dtype, 7, r.chance(0.7)) : undefined;
  const shown = axes && list(...axes.map((axis) => (r.chance(0.5) ? axis : axis - dims.length)));
  return {
    op: "Pad",
    opset: 19,
    inputs: shown ? [r.tensor(dtype, dims), pads, value, shown] : [r.tensor(dtype, dims), pads, value],
    attributes: { mode },
  };
};

const tile = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4));
  return {
    op: "Tile",
    opset: 13,
    inputs: [r.tensor(r.pick(["float32", "int64", "int32", "uint8", "bool"]), dims), list(...dims.map(() => r.int(0, 3)))],
  };
};

const blocks = (r: Random): Case => {
  const size = r.int(1, 3);
  const [n, c, h, w] = [r.int(1, 2), r.int(1, 4), r.int(1, 4), r.int(1, 4)];
  if (r.chance(0.5)) {
    return { op: "SpaceToDepth", opset: 13, inputs: [r.tensor("float32", [n, c, h * size, w * size])], attributes: { blocksize: BigInt(size) } };
  }
  const attributes = { blocksize: BigInt(size), mode: r.pick(["DCR", "CRD"]) };
  return { op: "DepthToSpace", opset: 13, inputs: [r.tensor(r.pick(["float32", "uint8"]), [n, c * size * size, h, w])], attributes };
};

const trilu = (r: Random): Case => {
  const k = r.chance(0.7) ? one("int64", r.int(-6, 6)) : undefined;
  return {
    op: "Trilu",
    opset: 14,
    inputs: [r.tensor(r.pick(["float32", "int64", "bool", "float64"]), r.dims(r.int(2, 4))), k],
    attributes: { upper: BigInt(r.below(2)) },
  };
};

const oneHot = (r: Random): Case => {
  const depth = r.int(1, 6);
  const indices = r.indices(r.dims(r.int(0, 3)), -depth - 1, depth, { dtype: r.pick(["int64", "int32"]) });
  const rank = indices.dims.length + 1;
  return {
    op: "OneHot",
    opset: 11,
    inputs: [indices, list(depth), { ...tensor("float32", [2], [r.unit(), r.unit()]) }],
    attributes: { axis: BigInt(r.axis(rank)) },
  };
};

const reshape = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0.02);
  const total = sizeOf(dims);
  const choose = (): number[] => {
    const order = r.order(dims.length).map((axis) => dims[axis]!);
    return r.chance(0.5) ? order : [order.slice(0, 2).reduce((a, b) => a * b, 1), ...order.slice(2)];
  };
  const to = choose();
  const shape = total > 0 && r.chance(0.5) ? to.with(r.below(to.length), -1) : to;
  return { op: "Reshape", opset: 14, inputs: [r.tensor(r.pick(ANY), dims), list(...shape)], attributes: { allowzero: total === 0 ? 1n : 0n } };
};

const squeeze = (r: Random): Case => {
  const dims = r.dims(r.int(0, 3));
  const rank = dims.length + r.int(1, 2);
  const axes = r.order(rank).slice(0, rank - dims.length);
  const shown = list(...axes.map((axis) => (r.chance(0.5) ? axis : axis - rank)));
  if (r.chance(0.5)) {
    return { op: "Unsqueeze", opset: 13, inputs: [r.tensor(r.pick(ANY), dims), shown] };
  }
  const wide = [...dims];
  for (const axis of axes.toSorted((a, b) => a - b)) wide.splice(axis, 0, 1);
  return { op: "Squeeze", opset: 13, inputs: [r.tensor(r.pick(ANY), wide), r.chance(0.85) ? shown : undefined] };
};

const flatten = (r: Random): Case => {
  const dims = r.dims(r.int(0, 4));
  return { op: "Flatten", opset: 13, inputs: [r.tensor("float32", dims)], attributes: { axis: BigInt(r.int(-dims.length, dims.length)) } };
};

const shapeOf = (r: Random): Case => {
  if (r.chance(0.3)) return { op: "Size", opset: 13, inputs: [r.tensor("float32", r.dims())] };
  return {
    op: "Shape",
    opset: 15,
    inputs: [r.tensor("float32", r.dims())],
    attributes: r.chance(0.5) ? {} : { start: BigInt(r.int(-4, 4)), end: BigInt(r.int(-4, 4)) },
  };
};

const reverse = (r: Random): Case => {
  const dims = r.dims(r.int(2, 4), 0);
  const time = r.below(2);
  const lengths = r.indices([dims[1 - time]!], 0, dims[time]!, { fixed: r.chance(0.3) });
  return {
    op: "ReverseSequence",
    opset: 10,
    inputs: [r.tensor(r.pick(["float32", "int64", "bool"]), dims), lengths],
    attributes: { batch_axis: BigInt(1 - time), time_axis: BigInt(time) },
  };
};

const topK = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const axis = r.axis(dims.length);
  const attributes = { axis: BigInt(axis), largest: BigInt(r.below(2)), sorted: 1n };
  const x = r.tensor(r.pick(["float32", "float64", "int64", "int32"]), dims, { scale: r.pick([2, 100]) });
  return { op: "TopK", opset: 11, inputs: [x, list(r.int(0, dims.at(axis)!))], attributes, outputs: 2 };
};

const constantOfShape = (r: Random): Case => ({ op: "ConstantOfShape", opset: 9, inputs: [list(...r.dims())] });
const eyeLike = (r: Random): Case => ({
  op: "EyeLike",
  opset: 9,
  inputs: [r.tensor("float32", r.dims(2))],
  attributes: { k: BigInt(r.int(-4, 4)), dtype: BigInt(r.pick([1, 7, 11, 6])) },
});
const range = (r: Random): Case => {
  const dtype = r.pick<DtypeName>(["int64", "int32", "float32", "float64"]);
  const step = r.pick([1, 2, 3, -1, -2]);
  return { op: "Range", opset: 11, inputs: [one(dtype, r.int(-5, 5)), one(dtype, r.int(-9, 9)), one(dtype, step)] };
};

const dynamic = (r: Random): Case => {
  const fixed = (given: Given): Given => ({ ...given, fixed: true });
  if (r.chance(0.4))
    return {
      op: "NonZero",
      opset: 13,
      inputs: [fixed(r.tensor(r.pick(["float32", "int64", "bool", "int32", "uint8"]), r.dims(r.int(1, 4)), { scale: 1 }))],
    };
  const dims = r.dims(r.int(1, 4), 0);
  if (r.chance(0.5)) {
    const axis = r.chance(0.7) ? r.axis(dims.length) : undefined;
    const length = r.int(0, axis === undefined ? sizeOf(dims) : dims.at(axis)!);
    return {
      op: "Compress",
      opset: 11,
      inputs: [fixed(r.tensor("float32", dims)), fixed(r.tensor("bool", [length]))],
      ...(axis === undefined ? {} : { attributes: { axis: BigInt(axis) } }),
    };
  }
  const axis = r.chance(0.5) ? { axis: BigInt(r.axis(dims.length)) } : {};
  return {
    op: "Unique",
    opset: 11,
    inputs: [fixed(r.tensor(r.pick(["float32", "int64"]), dims, { scale: 2 }))],
    attributes: { ...axis, sorted: BigInt(r.below(2)) },
    outputs: 4,
  };
};

export const ARRANGEMENT: Readonly<Record<string, (r: Random) => Case>> = {
  ...{
    Transpose: transpose,
    Concat: concat,
    Slice: slice,
    Split: split,
    Expand: expand,
    Gather: gather,
    GatherElements: gatherElements,
    GatherND: gatherNd,
  },
  ...{
    ScatterND: scatterNd,
    ScatterElements: scatterElements,
    Pad: pad,
    Tile: tile,
    DepthToSpace: blocks,
    Trilu: trilu,
    OneHot: oneHot,
    Reshape: reshape,
  },
  ...{ Squeeze: squeeze, Flatten: flatten, Shape: shapeOf, ReverseSequence: reverse, TopK: topK, ConstantOfShape: constantOfShape, EyeLike: eyeLike },
  ...{ Range: range, Dynamic: dynamic },
};
