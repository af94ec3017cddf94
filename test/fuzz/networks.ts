/** Random cases of reductions, products, windows, normalization, sampling and recurrence. */
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { tensor } from "../../dist/lib/graph/tensor";
import { type Case, ints, list, type Random } from "./random";

// The peer keeps the dims of what is empty, and drops NaN from the greatest and smallest.
const REDUCTIONS = [
  "ReduceSum",
  "ReduceMean",
  "ReduceProd",
  "ReduceMax",
  "ReduceMin",
  "ReduceSumSquare",
  "ReduceL1",
  "ReduceL2",
  "ReduceLogSum",
  "ReduceLogSumExp",
];

function reduction(op: string) {
  return (r: Random): Case => {
    const dims = r.dims(r.int(0, 4), op === "ReduceSum" ? 0.03 : 0);
    const axes = dims.length > 0 && r.chance(0.85) ? r.order(dims.length).slice(0, r.int(0, dims.length)) : undefined;
    const shown = axes?.map((axis) => (r.chance(0.5) ? axis : axis - dims.length));
    const dtype = r.pick<DtypeName>(op.includes("Log") ? ["float32", "float64"] : ["float32", "float32", "float64", "int32", "int64"]);
    const x = r.tensor(dtype, dims, { scale: 3, low: op === "ReduceLogSum" ? 0.1 : -9, awkward: op.endsWith("Sum") && r.chance(0.1) });
    const attributes = {
      ...(r.chance(0.7) ? { keepdims: BigInt(r.below(2)) } : {}),
      ...(r.chance(0.3) ? { noop_with_empty_axes: BigInt(r.below(2)) } : {}),
    };
    if (op !== "ReduceSum" && r.chance(0.3)) {
      const { noop_with_empty_axes: _, ...rest } = attributes;
      return { op, opset: 13, inputs: [x], attributes: { ...rest, ...(shown && shown.length > 0 ? { axes: ints(shown) } : {}) } };
    }
    return { op, opset: 18, inputs: shown ? [x, list(...shown)] : [x], attributes };
  };
}

const extremum = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4), 0);
  const attributes = { axis: BigInt(r.axis(dims.length)), keepdims: BigInt(r.below(2)), select_last_index: BigInt(r.below(2)) };
  return {
    op: r.pick(["ArgMax", "ArgMin"]),
    opset: 13,
    inputs: [r.tensor(r.pick(["float32", "int32", "float64", "int8", "uint8"]), dims, { scale: 2 })],
    attributes,
  };
};

const softmax = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4));
  const op = r.pick(["Softmax", "LogSoftmax", "Hardmax"]);
  return {
    op,
    opset: r.pick([13, 11]),
    inputs: [r.tensor(r.pick(["float32", "float32", "float64", "float16"]), dims, { scale: r.pick([2, 90]) })],
    ...(r.chance(0.8) ? { attributes: { axis: BigInt(r.axis(dims.length)) } } : {}),
  };
};

const cumulative = (r: Random): Case => {
  const dims = r.dims(r.int(1, 4));
  const axis = { ...tensor("int64", [], [r.axis(dims.length)]), fixed: true };
  return {
    op: "CumSum",
    opset: 14,
    inputs: [r.tensor(r.pick(["float32", "int32", "int64", "float64"]), dims), axis],
    attributes: { exclusive: BigInt(r.below(2)), reverse: BigInt(r.below(2)) },
  };
};

const matmul = (r: Random): Case => {
  const batch = r.dims(r.int(0, 2), 0.05);
  const [m, k, n] = [r.int(1, 20), r.chance(0.03) ? 0 : r.int(1, 33), r.int(1, 40)];
  const dtype = r.pick<DtypeName>(["float32", "float32", "float32", "float64", "float16", "int32", "int64"]);
  const a = r.chance(0.1) ? [k] : [...r.broadcastable(batch), m, k];
  const b = r.chance(0.1) ? [k] : [...r.broadcastable(batch), k, n];
  return { op: "MatMul", opset: 13, inputs: [r.tensor(dtype, a, { fixed: r.chance(0.1) }), r.tensor(dtype, b, { fixed: r.chance(0.5) })] };
};

const gemm = (r: Random): Case => {
  const [m, k, n] = [r.int(1, 20), r.int(1, 33), r.int(1, 40)];
  const [transA, transB] = [r.below(2), r.below(2)];
  const dtype = r.pick<DtypeName>(["float32", "float32", "float64", "float16"]);
  const c = r.chance(0.8) ? r.tensor(dtype, r.pick([[n], [m, n], [1, n], [m, 1], [1], []]), { fixed: r.chance(0.5) }) : undefined;
  const attributes = { transA: BigInt(transA), transB: BigInt(transB), ...(r.chance(0.5) ? { alpha: 0.5, beta: r.pick([0.25, 1.5]) } : {}) };
  return {
    op: "Gemm",
    opset: 13,
    inputs: [r.tensor(dtype, transA ? [k, m] : [m, k]), r.tensor(dtype, transB ? [n, k] : [k, n], { fixed: r.chance(0.5) }), c],
    attributes,
  };
};

const einsum = (r: Random): Case => {
  const sizes: Record<string, number> = { a: r.int(1, 4), b: r.int(1, 5), c: r.int(1, 6), d: r.int(1, 3) };
  const dims = (term: string): number[] => [...term].map((letter) => sizes[letter]!);
  const equation = r.pick([
    "ab,bc->ac",
    "abc,acd->abd",
    "ab->ba",
    "abc->b",
    "ab,ab->",
    "a,b->ab",
    "abc,dc->abd",
    "abcd,abd->ac",
    "abc,abc->abc",
    "bca,cd->dab",
  ]);
  return {
    op: "Einsum",
    opset: 12,
    inputs: equation
      .split("->")[0]!
      .split(",")
      .map((term) => r.tensor("float32", dims(term))),
    attributes: { equation },
  };
};

export interface Geometry {
  readonly rank: number;
  readonly kernel: number[];
  readonly spatial: number[];
  readonly attributes: Record<string, bigint[] | string>;
}
/** A window that fits: kernel, strides, dilations and pads, or auto_pad. */
export function geometry(r: Random, padsBelowKernel = false): Geometry {
  const rank = r.pick([1, 2, 2, 2, 3]);
  const kernel = Array.from({ length: rank }, () => r.int(1, 4));
  const dilations = kernel.map(() => (r.chance(0.25) ? 2 : 1));
  const spatial = kernel.map((k, i) => (k - 1) * dilations[i]! + 1 + r.int(0, rank === 3 ? 4 : 9));
  const attributes: Record<string, bigint[] | string> = {};
  if (r.chance(0.6)) attributes["strides"] = ints(kernel.map(() => r.int(1, 3)));
  if (dilations.some((each) => each > 1)) attributes["dilations"] = ints(dilations);
  if (r.chance(0.25)) attributes["auto_pad"] = dilations.every((each) => each === 1) ? r.pick(["SAME_UPPER", "SAME_LOWER", "VALID"]) : "VALID";
  else if (r.chance(0.7)) attributes["pads"] = ints([...kernel, ...kernel].map((k) => r.int(0, padsBelowKernel ? k - 1 : 3)));
  return { rank, kernel, spatial, attributes };
}

const conv = (r: Random): Case => {
  const { kernel, spatial, attributes } = geometry(r);
  const group = r.pick([1, 1, 1, 2, 3, 5]);
  const per = r.pick([1, 1, 2, 3, 17]);
  const filters = group * r.pick([1, 2, 3, 9]);
  const dtype = r.pick<DtypeName>(["float32", "float32", "float32", "float16"]);
  const inputs = [
    r.tensor(dtype, [r.chance(0.03) ? 0 : r.int(1, 3), group * per, ...spatial]),
    r.tensor(dtype, [filters, per, ...kernel], { fixed: r.chance(0.7) }),
    r.chance(0.6) ? r.tensor(dtype, [filters], { fixed: r.chance(0.7) }) : undefined,
  ];
  return {
    op: "Conv",
    opset: r.pick([11, 22]),
    inputs,
    attributes: {
      ...attributes,
      ...(group > 1 || r.chance(0.5) ? { group: BigInt(group) } : {}),
      ...(r.chance(0.5) ? { kernel_shape: ints(kernel) } : {}),
    },
  };
};

const convTranspose = (r: Random): Case => {
  const { kernel, spatial, attributes } = geometry(r, true);
  const group = r.pick([1, 1, 2, 3]);
  const [per, filters] = [r.int(1, 4), r.int(1, 5)];
  const strides = (attributes["strides"] as bigint[] | undefined) ?? kernel.map(() => 1n);
  const { auto_pad, ...plain } = attributes;
  const extra = auto_pad === undefined && r.chance(0.3) ? { output_padding: ints(strides.map((stride) => r.below(Number(stride)))) } : {};
  const inputs = [
    r.tensor("float32", [r.int(1, 2), group * per, ...spatial]),
    r.tensor("float32", [group * per, filters, ...kernel], { fixed: r.chance(0.7) }),
    r.chance(0.6) ? r.tensor("float32", [group * filters], { fixed: r.chance(0.7) }) : undefined,
  ];
  return {
    op: "ConvTranspose",
    opset: 11,
    inputs,
    attributes: { ...plain, ...(auto_pad && r.chance(0.5) ? { auto_pad } : {}), ...extra, group: BigInt(group) },
  };
};

const pool = (r: Random): Case => {
  const { kernel, spatial, attributes } = geometry(r, true);
  const x = (dtype: DtypeName) => r.tensor(dtype, [r.chance(0.03) ? 0 : r.int(1, 2), r.int(1, 9), ...spatial], { scale: 5 });
  const all = { ...attributes, kernel_shape: ints(kernel), ...(attributes["auto_pad"] ? {} : { ceil_mode: BigInt(r.below(2)) }) };
  const op = r.pick(["MaxPool", "MaxPool", "AveragePool", "LpPool"]);
  if (op === "MaxPool") {
    const outputs = r.chance(0.4) ? 2 : 1;
    const order = outputs === 2 && r.chance(0.3) ? { storage_order: 1n } : {};
    return { op, opset: 12, inputs: [x(r.pick(["float32", "float32", "int8", "uint8", "float64"]))], attributes: { ...all, ...order }, outputs };
  }
  if (op === "LpPool") {
    return { op, opset: 18, inputs: [x("float32")], attributes: { ...all, p: BigInt(r.int(1, 3)) } };
  }
  return { op, opset: 19, inputs: [x("float32")], attributes: { ...all, count_include_pad: BigInt(r.below(2)) } };
};

const globalPool = (r: Random): Case => ({
  op: r.pick(["GlobalAveragePool", "GlobalMaxPool"]),
  opset: 1,
  inputs: [r.tensor("float32", [r.int(1, 3), r.int(1, 20), ...r.dims(r.int(1, 3), 0)])],
});

const normalization = (r: Random): Case => {
  const dims = [r.int(1, 3), r.int(1, 4) * 2, ...r.dims(r.int(1, 2), 0)];
  const channel = (low = -9) => r.tensor("float32", [dims[1]!], { low, fixed: r.chance(0.7) });
  const epsilon = { epsilon: r.pick([1e-5, 1e-3]) };
  switch (r.below(6)) {
    case 0:
      return {
        op: "BatchNormalization",
        opset: 15,
        inputs: [r.tensor("float32", r.chance(0.2) ? dims.slice(0, 2) : dims), channel(), channel(), channel(), channel(0.1)],
        attributes: epsilon,
      };
    case 1:
      return { op: "InstanceNormalization", opset: 6, inputs: [r.tensor("float32", dims), channel(), channel()], attributes: epsilon };
    case 2: {
      const axis = r.axis(dims.length);
      const inner = dims.slice(axis < 0 ? axis + dims.length : axis);
      return {
        op: "LayerNormalization",
        opset: 17,
        inputs: [r.tensor(r.pick(["float32", "float32", "float16"]), dims), undefined, undefined].map(
          (each, i, all) => each ?? r.tensor(all[0]!.dtype, inner, { fixed: i === 1 }),
        ),
        attributes: { ...epsilon, axis: BigInt(axis) },
      };
    }
    case 3:
      return {
        op: "LRN",
        opset: 13,
        inputs: [r.tensor("float32", dims.length === 4 ? dims : [...dims, 2])],
        attributes: { size: BigInt(r.pick([1, 3, 5])), alpha: 0.01, beta: 0.75, bias: 1.5 },
      };
    case 4:
      return { op: "MeanVarianceNormalization", opset: 13, inputs: [r.tensor("float32", [r.int(2, 3), 2, 3, r.int(1, 5)])] };
    default:
      return {
        op: "LpNormalization",
        opset: 1,
        inputs: [r.tensor("float32", dims)],
        attributes: { axis: BigInt(r.axis(dims.length)), p: BigInt(r.int(1, 2)) },
      };
  }
};

const resize = (r: Random): Case => {
  const mode = r.pick(["nearest", "linear", "cubic"]);
  const rank = mode === "cubic" ? 2 : r.pick([1, 2, 2, 3]);
  const dims = [r.int(1, 2), r.int(1, 4), ...Array.from({ length: rank }, () => r.int(1, 9))];
  const to = dims.map((dim, i) => (i < 2 ? dim : r.int(1, 14)));
  // Between corners the length before rounding counts; the peer takes the rounded one.
  const coordinates = r.pick(["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]);
  const bySizes = coordinates === "align_corners" || r.chance(0.5);
  const scales = {
    ...tensor(
      "float32",
      [dims.length],
      dims.map((_, i) => (i < 2 ? 1 : r.pick([0.5, 0.6, 1, 1.5, 2, 3, 2.3]))),
    ),
    fixed: true,
  };
  const attributes = {
    mode,
    coordinate_transformation_mode: coordinates,
    ...(mode === "nearest" ? { nearest_mode: r.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]) } : {}),
    ...(mode === "cubic" ? { cubic_coeff_a: r.pick([-0.75, -0.5]), exclude_outside: BigInt(r.below(2)) } : {}),
    ...(mode !== "nearest" && r.chance(0.25) ? { antialias: 1n } : {}),
  };
  const x = r.tensor("float32", dims);
  return { op: "Resize", opset: 18, inputs: bySizes ? [x, undefined, undefined, list(...to)] : [x, undefined, scales], attributes };
};

const gridSample = (r: Random): Case => {
  const [n, c, h, w] = [r.int(1, 2), r.int(1, 4), r.int(1, 6), r.int(1, 6)];
  const attributes = {
    mode: r.pick(["linear", "nearest", "cubic"]),
    padding_mode: r.pick(["zeros", "border", "reflection"]),
    align_corners: BigInt(r.below(2)),
  };
  return {
    op: "GridSample",
    opset: 20,
    inputs: [r.tensor("float32", [n, c, h, w]), r.tensor("float32", [n, r.int(1, 5), r.int(1, 5), 2], { scale: 1.4 })],
    attributes,
  };
};

const roiAlign = (r: Random): Case => {
  const count = r.int(1, 3);
  const boxes = tensor(
    "float32",
    [count, 4],
    Array.from({ length: count }, () => [r.int(0, 5), r.int(0, 5), r.int(6, 12), r.int(6, 12)].map((v) => v + 0.3)).flat(),
  );
  const attributes = {
    output_height: BigInt(r.int(1, 3)),
    output_width: BigInt(r.int(1, 3)),
    sampling_ratio: BigInt(r.int(0, 2)),
    spatial_scale: r.pick([1, 0.5]),
    mode: "avg",
    coordinate_transformation_mode: r.pick(["half_pixel", "output_half_pixel"]),
  };
  return { op: "RoiAlign", opset: 16, inputs: [r.tensor("float32", [2, r.int(1, 3), 9, 9]), boxes, r.indices([count], 0, 1)], attributes };
};

export const NETWORKS: Readonly<Record<string, (r: Random) => Case>> = {
  ...Object.fromEntries(REDUCTIONS.map((op) => [op, reduction(op)])),
  ...{ ArgMax: extremum, Softmax: softmax, CumSum: cumulative, MatMul: matmul, Gemm: gemm, Einsum: einsum, Conv: conv, ConvTranspose: convTranspose },
  ...{
    Pool: pool,
    GlobalPool: globalPool,
    Normalization: normalization,
    Resize: resize,
    GridSample: gridSample,
    RoiAlign: roiAlign,
  },
};
