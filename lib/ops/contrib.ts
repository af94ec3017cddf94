/**
 * What onnxruntime's optimizer and its exporters put in place of groups of ONNX's operators (domain com.microsoft): activations, normalization of sums,
 * products and convolutions with what follows them. Each is said in ONNX's operators again, which the compiler fuses its own way.
 */
import { AclError } from "../errors/acl-error";
import type { Value } from "../graph/ir";
import { sizeOf, type Tensor } from "../graph/tensor";
import { mapTensors, requireDtype } from "./arithmetic";
import { Conv } from "./convolution";
import { type AnyOp, type ConcreteType, defineOp, float, floats, int, ints, string, type Tolerance } from "./define";
import type { Expansion } from "./expansion";
import { MatMul, multiply } from "./matmul";
import { fixed, noise, positive, ramp, rejects, type Sample, sample, values } from "./sample";
import { erf } from "./unary";

export const CONTRIB = "com.microsoft";
export const CLOSE: Tolerance = { relative: 2e-5, absolute: 1e-5, why: "f32 sums and functions against float64" };

interface Activation {
  readonly name: string;
  readonly bias: "none" | "optional" | "required";
  readonly real: (x: number, alpha: number) => number;
  readonly expand: (g: Expansion, x: Value, alpha: number) => Value;
  readonly alpha?: number;
}

/** An activation of x, or of x and a bias along its last axis. */
function activated({ name, bias, real, expand, alpha }: Activation): AnyOp {
  const shifts = bias !== "none";
  const withBias = (): Sample => sample("a bias", { x: noise([2, 3, 8]), bias: fixed(noise([8], 2)) });
  return defineOp({
    names: { onnx: [name, 1, CONTRIB] },
    inputs: (bias === "required" ? ["x", "bias"] : shifts ? ["x", "bias?"] : ["x"]) as unknown as readonly ["x", "bias?"],
    attributes: (alpha === undefined ? {} : { alpha: float(alpha) }) as { alpha: ReturnType<typeof float> },
    infer: ({ x }, _, { node }) => {
      requireDtype(x.dtype, "float", node);
      return [{ dtype: x.dtype, dims: x.dims }];
    },
    reference: ({ x, bias: b }, given, [out]) => [
      mapTensors({ real: (v, shift = 0) => real(v + shift, Number(given.alpha ?? alpha)) }, b ? [x, b] : [x], out!),
    ],
    expand: (g, { x, bias: b }, given) => [expand(g, b ? g.call("Add", [x, b]) : x, Number(given.alpha ?? alpha))],
    tolerance: { ...CLOSE, absolute: 2e-6 },
    samples: () => [
      ...(bias === "required" ? [] : [sample("no bias", { x: noise([3, 7]) })]),
      ...(shifts ? [withBias()] : [sample("steps", { x: ramp([9], 0.5) })]),
      ...(bias === "required" ? [sample("a row", { x: ramp([9], 0.5), bias: ramp([9]) })] : []),
    ],
  });
}
const exact = (x: number): number => 0.5 * x * (1 + erf(x * Math.SQRT1_2));
const byTanh = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const gelu = (approximate: "none" | "tanh") => (g: Expansion, x: Value) => g.call("Gelu", [x], { approximate });

export const Gelu = activated({ name: "Gelu", bias: "none", real: exact, expand: gelu("none") });
export const BiasGelu = activated({ name: "BiasGelu", bias: "required", real: exact, expand: gelu("none") });
export const FastGelu = activated({ name: "FastGelu", bias: "optional", real: byTanh, expand: gelu("tanh") });
export const QuickGelu = activated({
  name: "QuickGelu",
  bias: "none",
  alpha: 1.702,
  real: (x, alpha) => x / (1 + Math.exp(-alpha * x)),
  expand: (g, x, alpha) => g.call("Swish", [x], { alpha }),
});

/** Rows of the last axis with mean 0 (unless `centred` is false) and deviation 1, in float64; mean and inverse deviation of each. */
function normalizeRows({ dims, data }: Tensor, epsilon: number, centred: boolean) {
  const size = dims[dims.length - 1]!;
  const count = sizeOf(dims) / Math.max(1, size);
  const [value, mean, inverse] = [new Float64Array(data.length), new Float64Array(count), new Float64Array(count)];
  for (let row = 0; row < count; row++) {
    const part = (data as Float64Array).subarray(row * size, (row + 1) * size);
    mean[row] = centred ? part.reduce((sum, v) => sum + v, 0) / size : 0;
    inverse[row] = 1 / Math.sqrt(part.reduce((sum, v) => sum + (v - mean[row]!) ** 2, 0) / size + epsilon);
    part.forEach((v, i) => (value[row * size + i] = (v - mean[row]!) * inverse[row]!));
  }
  return { value, mean, inverse };
}

/** Sum of what is there, normalized: [y, mean, inverse deviation, the sum]. */
function normalizedSum(
  parts: readonly Tensor[],
  gamma: Tensor,
  beta: Tensor | undefined,
  epsilon: number,
  centred: boolean,
  types: readonly ConcreteType[],
) {
  const sum = mapTensors({ real: (...all) => all.reduce((a, b) => a + b, 0) }, parts, { dtype: "float64", dims: types[0]!.dims });
  const { value, mean, inverse } = normalizeRows(sum, epsilon, centred);
  const wide = { dtype: "float64" as const, dims: sum.dims, data: value };
  const y = mapTensors({ real: (v, scale, shift = 0) => v * scale + shift }, [wide, gamma, ...(beta ? [beta] : [])], types[0]!);
  const folded = [mean, inverse].map((data, i): Tensor => ({ dtype: "float32", dims: types[i + 1]?.dims ?? [], data }));
  return [y, ...folded, mapTensors({ real: (v) => v }, [sum], { dtype: types[0]!.dtype, dims: sum.dims })].slice(0, types.length);
}

function skipNormalization(name: string, centred: boolean): AnyOp {
  return defineOp({
    names: { onnx: [name, 1, CONTRIB] },
    inputs: (centred ? ["x", "skip", "gamma", "beta?", "bias?"] : ["x", "skip", "gamma", "bias?"]) as unknown as readonly [
      "x",
      "skip",
      "gamma",
      "beta?",
      "bias?",
    ],
    outputs: 4,
    attributes: { epsilon: float(1e-5) },
    infer: ({ x }, _, { node, outputs }) => {
      requireDtype(x.dtype, "float", node);
      const folded = { dtype: "float32" as const, dims: [...x.dims.slice(0, -1), 1] };
      return [{ dtype: x.dtype, dims: x.dims }, folded, folded, { dtype: x.dtype, dims: x.dims }].slice(0, outputs);
    },
    reference: ({ x, skip, gamma, beta, bias }, { epsilon }, types) =>
      normalizedSum([x, skip, ...(bias ? [bias] : [])], gamma, beta, epsilon, centred, types),
    expand: (g, { x, skip, gamma, beta, bias }, { epsilon }) => {
      const both = g.call("Add", [x, skip]);
      const sum = bias ? g.call("Add", [both, bias]) : both;
      if (!centred) {
        if (g.has(1) || g.has(2)) {
          throw new AclError(100024, `${g.what}: mean and deviation are not given by this operator; use its first and fourth output`);
        }
        return [g.call("RMSNormalization", [sum, gamma], { axis: -1, epsilon }), undefined, undefined, g.has(3) ? sum : undefined];
      }
      const count = g.has(2) ? 3 : g.has(1) ? 2 : 1;
      const [y, mean, inverse] = g.calls(count, "LayerNormalization", [sum, gamma, beta], { axis: -1, epsilon });
      return [y, g.has(1) ? mean : undefined, g.has(2) ? inverse : undefined, g.has(3) ? sum : undefined];
    },
    tolerance: CLOSE,
    samples: () => [
      sample("one output", {
        x: noise([2, 3, 8]),
        skip: noise([2, 3, 8], 2),
        gamma: fixed(positive([8])),
        ...(centred ? { beta: fixed(noise([8], 3)) } : {}),
      }),
      sample("a bias", { x: noise([1, 2, 12]), skip: noise([2, 12], 2), gamma: fixed(positive([12])), bias: fixed(noise([12], 4)) }),
      ...(centred
        ? [
            sample(
              "all outputs",
              { x: noise([2, 3, 8]), skip: noise([2, 3, 8], 2), gamma: fixed(positive([8])), beta: fixed(noise([8], 3)) },
              { outputs: 4 },
            ),
          ]
        : []),
    ],
  });
}
export const SkipLayerNormalization = skipNormalization("SkipLayerNormalization", true);
export const SkipSimplifiedLayerNormalization = skipNormalization("SkipSimplifiedLayerNormalization", false);

/** Not of the standard, but in its domain. */
export const SimplifiedLayerNormalization = defineOp({
  names: { onnx: ["SimplifiedLayerNormalization", 1] },
  inputs: ["x", "scale"],
  attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
  infer: ({ x }, _, { node }) => {
    requireDtype(x.dtype, "float", node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, scale }, { axis, epsilon }, [out]) => {
    const at = axis < 0 ? axis + x.dims.length : axis;
    const { value } = normalizeRows({ ...x, dims: [sizeOf(x.dims.slice(0, at)), sizeOf(x.dims.slice(at))] }, epsilon, false);
    return [mapTensors({ real: (v, s) => v * s }, [{ dtype: "float64", dims: x.dims, data: value }, scale], out!)];
  },
  expand: (g, { x, scale }, { axis, epsilon }) => [g.call("RMSNormalization", [x, scale], { axis, epsilon })],
  tolerance: CLOSE,
  samples: () => [
    sample("rows", { x: noise([2, 3, 8]), scale: fixed(positive([8])) }),
    sample("two axes", { x: noise([2, 3, 4]), scale: fixed(positive([3, 4])) }, { attributes: { axis: 1 } }),
  ],
});

/** Rows of a table by indices. */
function lookUp(table: Tensor, indices: readonly number[], dims: readonly number[]): Tensor {
  const size = table.dims[1]!;
  const data = new Float64Array(indices.length * size);
  indices.forEach((row, i) => data.set((table.data as Float64Array).subarray(row * size, (row + 1) * size), i * size));
  return { dtype: "float64", dims: [...dims, size], data };
}
const numbers = ({ data }: Tensor): number[] => Array.from(data as ArrayLike<number | bigint>, Number);

export const EmbedLayerNormalization = defineOp({
  names: { onnx: ["EmbedLayerNormalization", 1, CONTRIB] },
  inputs: ["ids", "segments?", "words", "places", "segmentTable?", "gamma", "beta", "mask?", "positions?"],
  outputs: 3,
  attributes: { epsilon: float(1e-12), mask_index_type: int(0) },
  infer: ({ ids, words }, _, { outputs }) => {
    const dims = [...ids.dims, words.dims[1]!];
    const sum = { dtype: words.dtype, dims };
    return [sum, { dtype: "int32" as const, dims: [ids.dims[0]!] }, sum].slice(0, outputs);
  },
  reference: ({ ids, segments, words, places, segmentTable, gamma, beta, mask, positions }, { epsilon }, types) => {
    const [batch, length] = ids.dims as [number, number];
    const at = positions ? numbers(positions) : Array.from({ length: batch * length }, (_, i) => i % length);
    const spread = at.length === batch * length ? at : Array.from({ length: batch * length }, (_, i) => at[i % length]!);
    const parts = [lookUp(words, numbers(ids), ids.dims), lookUp(places, spread, ids.dims)];
    const all = segments && segmentTable ? [...parts, lookUp(segmentTable, numbers(segments), ids.dims)] : parts;
    const [y, , , sum] = normalizedSum(all, gamma, beta, epsilon, true, [
      types[0]!,
      { dtype: "float32", dims: [] },
      { dtype: "float32", dims: [] },
      types[0]!,
    ]);
    const seen = new Float64Array(batch).map((_, b) =>
      mask
        ? numbers(mask)
            .slice(b * length, (b + 1) * length)
            .filter((each) => each === 1).length
        : 0,
    );
    return [y!, { dtype: "int32" as const, dims: [batch], data: seen }, sum!].slice(0, types.length);
  },
  expand: (g, { ids, segments, words, places, segmentTable, gamma, beta, mask, positions }, { epsilon }) => {
    const [batch, length] = ids.dims as [number, number];
    const place = positions ? g.call("Gather", [places, positions]) : g.slice(places, 0, 0, length);
    let sum = g.call("Add", [g.call("Gather", [words, ids]), place]);
    if (segments && segmentTable) {
      sum = g.call("Add", [sum, g.call("Gather", [segmentTable, segments])]);
    }
    const y = g.call("LayerNormalization", [sum, gamma, beta], { axis: -1, epsilon });
    const seen = (): Value =>
      mask
        ? g.call("ReduceSum", [g.cast(mask, "int32"), g.list(1)], { keepdims: 0 })
        : g.constant("int32", [batch], new Array<number>(batch).fill(0));
    return [y, g.has(1) ? seen() : undefined, g.has(2) ? sum : undefined];
  },
  tolerance: CLOSE,
  samples: () => [
    sample(
      "words, places, segments, a mask",
      {
        ids: values("int32", [2, 3], [0, 4, 2, 1, 1, 3]),
        segments: values("int32", [2, 3], [0, 0, 1, 1, 0, 1]),
        words: fixed(noise([5, 8])),
        places: fixed(noise([4, 8], 2)),
        segmentTable: fixed(noise([2, 8], 3)),
        gamma: fixed(positive([8])),
        beta: fixed(noise([8], 4)),
        mask: values("int32", [2, 3], [1, 1, 0, 1, 1, 1]),
      },
      { outputs: 3 },
    ),
    sample("words and places", {
      ids: values("int32", [1, 2], [1, 0]),
      words: fixed(noise([2, 6])),
      places: fixed(noise([2, 6], 2)),
      gamma: fixed(positive([6])),
      beta: fixed(noise([6], 4)),
    }),
  ],
});

/** The last two axes exchanged. */
function turned({ dtype, dims, data }: Tensor): Tensor {
  const [rows, columns] = dims.slice(-2) as [number, number];
  const result = (data as Float64Array).map((_, i) => {
    const [matrix, place] = [Math.floor(i / (rows * columns)), i % (rows * columns)];
    return data[matrix * rows * columns + (place % rows) * columns + Math.floor(place / rows)] as number;
  });
  return { dtype, dims: [...dims.slice(0, -2), columns, rows], data: result };
}

export const FusedMatMul = defineOp({
  names: { onnx: ["FusedMatMul", 1, CONTRIB] },
  inputs: ["a", "b"],
  attributes: { alpha: float(1), transA: int(0), transB: int(0), transBatchA: int(0), transBatchB: int(0) },
  infer: ({ a, b }, { transA, transB, transBatchA, transBatchB }, context) => {
    if (transBatchA || transBatchB) {
      throw new AclError(100024, `${context.node}: transBatchA and transBatchB are not supported; transpose before it`);
    }
    const turn = (dims: readonly unknown[], on: number) => (on && dims.length > 1 ? [...dims.slice(0, -2), dims.at(-1), dims.at(-2)] : dims);
    return MatMul.infer({ a: { ...a, dims: turn(a.dims, transA) }, b: { ...b, dims: turn(b.dims, transB) } } as never, {}, context);
  },
  reference: ({ a, b }, { alpha, transA, transB }, [out]) => {
    const product = multiply(transA ? turned(a) : a, transB ? turned(b) : b, "float64");
    return [mapTensors({ real: (v) => alpha * v }, [{ ...product, dims: out!.dims }], out!)];
  },
  expand: (g, { a, b }, { alpha, transA, transB }) => {
    const turn = (of: Value, on: number): Value => {
      const rank = of.dims!.length;
      return on && rank > 1 ? g.transpose(of, [...Array.from({ length: rank - 2 }, (_, i) => i), rank - 1, rank - 2]) : of;
    };
    const product = g.call("MatMul", [turn(a, transA), turn(b, transB)]);
    return [alpha === 1 ? product : g.call("Mul", [product, g.scalar(alpha, a.dtype!)])];
  },
  tolerance: CLOSE,
  samples: () => [
    sample("turned and scaled", { a: noise([2, 3, 5]), b: noise([2, 4, 5], 2) }, { attributes: { alpha: 0.5, transB: 1 }, floats: ["alpha"] }),
    sample("weights", { a: noise([7, 3]), b: fixed(noise([7, 4], 2)) }, { attributes: { transA: 1 } }),
    rejects("batches turned", { a: noise([2, 3, 5]), b: noise([2, 5, 3]) }, 100024, /transBatchA/, { attributes: { transBatchA: 1 } }),
  ],
});

interface Follow {
  readonly real: (x: number, params: readonly number[]) => number;
  readonly expand: (g: Expansion, x: Value, params: readonly number[]) => Value;
}
const FOLLOWS: Readonly<Record<string, Follow>> = {
  Relu: { real: (x) => Math.max(0, x), expand: (g, x) => g.call("Relu", [x]) },
  Sigmoid: { real: (x) => 1 / (1 + Math.exp(-x)), expand: (g, x) => g.call("Sigmoid", [x]) },
  Tanh: { real: Math.tanh, expand: (g, x) => g.call("Tanh", [x]) },
  LeakyRelu: { real: (x, [a = 0.01]) => (x < 0 ? a * x : x), expand: (g, x, [alpha = 0.01]) => g.call("LeakyRelu", [x], { alpha }) },
  Clip: {
    real: (x, [low = Number.NEGATIVE_INFINITY, high = Number.POSITIVE_INFINITY]) => Math.min(high, Math.max(low, x)),
    expand: (g, x, limits) => g.call("Clip", [x, ...limits.slice(0, 2).map((limit) => g.scalar(limit, x.dtype!))]),
  },
  HardSigmoid: {
    real: (x, [a = 0.2, b = 0.5]) => Math.min(1, Math.max(0, a * x + b)),
    expand: (g, x, [alpha = 0.2, beta = 0.5]) => g.call("HardSigmoid", [x], { alpha, beta }),
  },
};

export const FusedConv = defineOp({
  names: { onnx: ["FusedConv", 1, CONTRIB] },
  inputs: ["x", "weights", "bias?", "z?"],
  attributes: {
    ...{ kernel_shape: ints(), strides: ints(), dilations: ints(), pads: ints(), auto_pad: string("NOTSET"), group: int(1) },
    ...{ activation: string(""), activation_params: floats() },
  },
  infer: ({ z: _, ...inputs }, { activation, activation_params: __, ...attributes }, context) => {
    if (activation && !(activation in FOLLOWS)) {
      throw new AclError(100024, `${context.node}: activation "${activation}" is not supported; ${Object.keys(FOLLOWS).join(", ")} are`);
    }
    return Conv.infer(inputs as never, attributes as never, context);
  },
  reference: ({ z, ...inputs }, { activation, activation_params, ...attributes }, [out]) => {
    const [y] = Conv.reference(inputs as never, attributes as never, [{ dtype: "float64", dims: out!.dims }]);
    const follow = FOLLOWS[activation!]?.real ?? ((x: number) => x);
    return [mapTensors({ real: (v, more = 0) => follow(v + more, activation_params ?? []) }, [y!, ...(z ? [z] : [])], out!)];
  },
  expand: (g, { x, weights, bias, z }, { activation, activation_params, ...attributes }) => {
    const conv = g.call("Conv", [x, weights, bias], attributes as never);
    const sum = z ? g.call("Add", [conv, z]) : conv;
    return [activation ? FOLLOWS[activation]!.expand(g, sum, activation_params ?? []) : sum];
  },
  tolerance: CLOSE,
  samples: () => [
    sample(
      "a sum, relu",
      { x: noise([1, 3, 5, 5]), weights: fixed(noise([4, 3, 3, 3], 2)), bias: fixed(noise([4], 3)), z: noise([1, 4, 5, 5], 4) },
      { attributes: { pads: [1, 1, 1, 1], activation: "Relu" as never } },
    ),
    sample(
      "clip",
      { x: noise([1, 2, 4]), weights: fixed(noise([2, 2, 2], 2)) },
      { attributes: { activation: "Clip" as never, activation_params: [0, 0.5] }, floats: ["activation_params"] },
    ),
    rejects("no such activation", { x: noise([1, 1, 3]), weights: fixed(noise([1, 1, 2])) }, 100024, /"Sinus"/, {
      attributes: { activation: "Sinus" as never },
    }),
  ],
});
