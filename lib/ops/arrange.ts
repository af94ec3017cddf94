/** Operators that put elements elsewhere by a rule of positions alone: repeats, blocks, triangles. */
import { type Dim, formatDims, mapDim, normalizeAxis, shapeError } from "../graph/dims";
import { elements, gatherView, isInteger, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, int, required, string } from "./define";
import { numbersOf } from "./reshape";
import { axesOf, fixed, ramp, rejects, sample, scalar, values } from "./sample";
import { stripType } from "./strip-builder";
import { permuteView, reshapeView, sliceView } from "./views";

export const Tile = defineOp({
  names: { onnx: ["Tile", 13] },
  inputs: ["data", "repeats"],
  needs: ["repeats"],
  infer: ({ data, repeats }, _, { node }) => {
    const times = numbersOf(repeats, "repeats", node)!;
    if (times.length !== data.dims.length || times.some((count) => count < 0)) {
      throw shapeError(`${node}: repeats [${times}] need one number of zero or more for each dim of ${formatDims(data.dims)}`);
    }
    return [
      {
        dtype: data.dtype,
        dims: data.dims.map((dim, axis) =>
          mapDim(
            dim,
            (n) => n * times[axis]!,
            (n) => `${n}*${times[axis]}`,
          ),
        ),
      },
    ];
  },
  reference: ({ data }, _, [out]) => {
    const [from, to] = [rowMajor(data.dims), rowMajor(out!.dims)];
    const result = elements(data.dtype, sizeOf(out!.dims));
    for (let i = 0; i < result.length; i++) {
      result[i] = data.data[to.reduce((at, stride, axis) => at + ((Math.floor(i / stride) % out!.dims[axis]!) % data.dims[axis]!) * from[axis]!, 0)]!;
    }
    return [{ ...out!, data: result }];
  },
  lower: (b, { data }) => {
    const target = b.target();
    if (sizeOf(target.dims) === 0) {
      return;
    }
    // Every axis is two: which repeat, and where in it.
    const split = target.dims.flatMap((dim, axis) => [dim / data.dims[axis]!, data.dims[axis]!]);
    const source: View = { ...data.view, dims: split, strides: data.view.strides.flatMap((stride) => [0, stride]) };
    b.copy(reshapeView(target, split)!, source);
  },
  samples: () => [
    sample("both axes", { data: ramp([2, 3]), repeats: axesOf(2, 3) }),
    sample("nothing", { data: ramp([2, 3]), repeats: axesOf(0, 1) }),
    rejects("too few repeats", { data: ramp([2, 3]), repeats: axesOf(2) }, 100021, /one number/),
  ],
});

/** Dims, permutation and result of the two block moves, in terms of [N, C, H, W]. */
interface Move {
  readonly split: number[];
  readonly axes: number[];
  readonly dims: number[];
}

function move(dims: readonly number[], block: number, deeper: boolean, columnsFirst: boolean): Move {
  const [n, c, h, w] = dims as [number, number, number, number];
  if (deeper) {
    return { split: [n, c, h / block, block, w / block, block], axes: [0, 3, 5, 1, 2, 4], dims: [n, c * block * block, h / block, w / block] };
  }
  const depth = c / (block * block);
  const split = columnsFirst ? [n, depth, block, block, h, w] : [n, block, block, depth, h, w];
  return { split, axes: columnsFirst ? [0, 1, 4, 2, 5, 3] : [0, 3, 4, 1, 5, 2], dims: [n, depth, h * block, w * block] };
}

function blocks(name: string, deeper: boolean): AnyOp {
  return defineOp({
    names: { onnx: [name, 13] },
    inputs: ["data"],
    attributes: { blocksize: required(int()), mode: string("DCR") },
    infer: ({ data }, { blocksize }, { node }) => {
      const [n, c, h, w] = data.dims;
      const whole = (dim: Dim | undefined, by: number): boolean => typeof dim !== "number" || dim % by === 0;
      const fits = deeper ? whole(h, blocksize) && whole(w, blocksize) : whole(c, blocksize * blocksize);
      if (data.dims.length !== 4 || blocksize < 1 || !fits) {
        throw shapeError(`${node}: data ${formatDims(data.dims)} has no whole blocks of ${blocksize}`);
      }
      const scale = (dim: Dim, by: number): Dim =>
        mapDim(
          dim,
          (size) => size * by,
          (text) => `${text}*${by}`,
        );
      const side = deeper ? 1 / blocksize : blocksize;
      return [{ dtype: data.dtype, dims: [n!, scale(c!, deeper ? blocksize ** 2 : 1 / blocksize ** 2), scale(h!, side), scale(w!, side)] }];
    },
    reference: ({ data }, { blocksize, mode }, [out]) => {
      const { split, axes } = move(data.dims, blocksize, deeper, mode === "CRD");
      const strides = rowMajor(split);
      const moved = gatherView(
        data,
        axes.map((axis) => split[axis]!),
        axes.map((axis) => strides[axis]!),
      );
      return [{ ...moved, dims: out!.dims }];
    },
    lower: (b, { data }, { blocksize, mode }) => {
      const { split, axes } = move(data.dims, blocksize, deeper, mode === "CRD");
      const view = reshapeView(data.view, split) ?? reshapeView(b.arranged(data.view), split)!;
      const moved = permuteView(view, axes);
      b.copy(reshapeView(b.target(), moved.dims)!, moved);
    },
    samples: () => [
      sample("blocks of two", { data: ramp([2, 8, 4, 6]) }, { attributes: { blocksize: 2 } }),
      ...(deeper ? [sample("blocks of three", { data: ramp([1, 2, 3, 6]) }, { attributes: { blocksize: 3 } })] : []),
      ...(deeper ? [] : [sample("columns first", { data: ramp([1, 8, 2, 3]) }, { attributes: { blocksize: 2, mode: "CRD" as never } })]),
      rejects("no whole blocks", { data: ramp([1, 3, 3, 5]) }, 100021, /no whole blocks/, { attributes: { blocksize: 2 } }),
    ],
  });
}
export const DepthToSpace = blocks("DepthToSpace", false);
export const SpaceToDepth = blocks("SpaceToDepth", true);

/** 1 where an element of the last two dims is kept. */
const triangle = (rows: number, columns: number, upper: boolean, k: number): Tensor => ({
  dtype: "bool",
  dims: [rows, columns],
  data: Float64Array.from({ length: rows * columns }, (_, i) => {
    const distance = (i % columns) - Math.floor(i / columns);
    return +(upper ? distance >= k : distance <= k);
  }),
});

export const Trilu = defineOp({
  names: { onnx: ["Trilu", 14] },
  inputs: ["data", "k?"],
  attributes: { upper: int(1) },
  needs: ["k"],
  layout: "follow",
  infer: ({ data, k }, _, { node }) => {
    numbersOf(k, "k", node);
    if (data.dims.length < 2) {
      throw shapeError(`${node}: data ${formatDims(data.dims)} is no matrix`);
    }
    return [{ dtype: data.dtype, dims: data.dims }];
  },
  reference: ({ data, k }, { upper }, [out]) => {
    const [rows, columns] = data.dims.slice(-2) as [number, number];
    const keep = triangle(rows, columns, upper !== 0, Number(k?.data[0] ?? 0)).data;
    const result = elements(data.dtype, data.data.length);
    for (let i = 0; i < result.length; i++) {
      result[i] = keep[i % keep.length] ? data.data[i]! : ((result instanceof Float64Array ? 0 : 0n) as never);
    }
    return [{ ...out!, data: result }];
  },
  lower: (b, { data, k }, { upper }) => {
    const [rows, columns] = data.dims.slice(-2) as [number, number];
    const mask = b.computed(triangle(rows, columns, upper !== 0, Number(k?.constant?.data[0] ?? 0)));
    b.elementwise([data, mask], (s, v, keep) => s.op("select", keep!, v!, s.constant(stripType(data.dtype), 0)));
  },
  samples: () => [
    sample("upper", { data: ramp([2, 3, 4]) }),
    sample("lower, shifted", { data: ramp([4, 3]), k: scalar(1, "int64") }, { attributes: { upper: 0 } }),
    sample("int64", { data: values("int64", [2, 2], [1n, 2n, 3n, 4n]), k: scalar(-1, "int64") }),
    rejects("a vector", { data: ramp([3]) }, 100021, /no matrix/),
  ],
});

export const OneHot = defineOp({
  names: { onnx: ["OneHot", 11] },
  inputs: ["indices", "depth", "values"],
  attributes: { axis: int(-1) },
  needs: ["depth"],
  infer: ({ indices, depth, values: pair }, { axis }, { node }) => {
    requireDtype(indices.dtype, "number", node);
    const size = numbersOf(depth, "depth", node)![0]!;
    if (!(size >= 1)) {
      throw shapeError(`${node}: a depth of ${size} leaves no classes`);
    }
    const at = normalizeAxis(axis, indices.dims.length + 1, node);
    return [{ dtype: pair.dtype, dims: [...indices.dims.slice(0, at), size, ...indices.dims.slice(at)] }];
  },
  reference: ({ indices, depth, values: pair }, { axis }, [out]) => {
    const size = Number(depth.data[0]);
    const inner = sizeOf(indices.dims.slice(normalizeAxis(axis, indices.dims.length + 1, "OneHot")));
    const result = elements(out!.dtype, sizeOf(out!.dims));
    for (let i = 0; i < result.length; i++) {
      const index = Number(indices.data[Math.floor(i / (inner * size)) * inner + (i % inner)]);
      result[i] = pair.data[(index < 0 ? index + size : index) === Math.floor(i / inner) % size ? 1 : 0]!;
    }
    return [{ ...out!, data: result }];
  },
  lower: (b, { indices, values: pair }, { axis }) => {
    const dims = b.dims();
    const at = normalizeAxis(axis, dims.length, b.what);
    const type = stripType(indices.dtype);
    const size = dims[at]!;
    const classes = Array.from({ length: size }, (_, i) => i);
    const data = isInteger(indices.dtype) && type.endsWith("64") ? BigInt64Array.from(classes, BigInt) : Float64Array.from(classes);
    const ramped = b.computed({ dtype: indices.dtype, dims: [size, ...dims.slice(at + 1).map(() => 1)], data });
    const spread: View = { ...indices.view, dims: indices.dims.toSpliced(at, 0, 1), strides: indices.view.strides.toSpliced(at, 0, 0) };
    const [off, on] = [0, 1].map((i) => sliceView(pair.view, 0, i, 1));
    b.map(b.target(), [spread, ramped, off!, on!], (s, index, position, none, hit) => {
      const wrapped = s.op("select", s.op("lt", index!, s.constant(type, 0)), s.op("add", index!, s.constant(type, size)), index!);
      return s.op("select", s.op("eq", wrapped, position!), hit!, none!);
    });
  },
  samples: () => [
    sample("last axis", {
      indices: values("int64", [2, 3], [0n, 2n, -1n, 1n, 9n, 3n]),
      depth: scalar(4, "int64"),
      values: fixed(values("float32", [2], [0, 1])),
    }),
    sample(
      "first axis",
      { indices: values("int32", [3], [0, -3, 2]), depth: scalar(3, "int64"), values: values("float32", [2], [-1, 5]) },
      { attributes: { axis: 0 } },
    ),
    rejects("no classes", { indices: values("int64", [1], [0n]), depth: scalar(0, "int64"), values: ramp([2]) }, 100021, /no classes/),
  ],
});
