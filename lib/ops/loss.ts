/** Losses of classifiers. */
import { formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { elements, roundTo, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, int, string, type Type } from "./define";
import type { Expansion } from "./expansion";
import { noise, positive, rejects, sample, values } from "./sample";

interface LossAttributes {
  readonly reduction: string;
  readonly ignore_index: number | undefined;
}

function lossType(scores: Type, target: Type, { reduction }: LossAttributes, node: string): Type {
  requireDtype(scores.dtype, "float", node);
  const wanted = scores.dims.toSpliced(1, 1);
  if (scores.dims.length < 2 || wanted.some((dim, i) => dim !== target.dims[i]) || wanted.length !== target.dims.length) {
    throw shapeError(`${node}: scores ${formatDims(scores.dims)} need targets ${formatDims(wanted)}, not ${formatDims(target.dims)}`);
  }
  if (!["none", "mean", "sum"].includes(reduction)) {
    throw shapeError(`${node}: reduction "${reduction}" is none of none, mean, sum`);
  }
  return { dtype: scores.dtype, dims: reduction === "none" ? wanted : [] };
}

function lossOf(logs: Tensor, target: Tensor, weight: Tensor | undefined, { reduction, ignore_index }: LossAttributes, out: ConcreteType): Tensor {
  const classes = logs.dims[1]!;
  const inner = sizeOf(logs.dims.slice(2));
  const weights = Array.from(target.data as ArrayLike<number | bigint>, (label) =>
    Number(label) === ignore_index ? 0 : weight ? (weight.data[Number(label)] as number) : 1,
  );
  const losses = Array.from(target.data as ArrayLike<number | bigint>, (label, i) =>
    weights[i] === 0 ? 0 : -weights[i]! * (logs.data[(Math.floor(i / inner) * classes + Number(label)) * inner + (i % inner)] as number),
  );
  const sum = losses.reduce((a, b) => a + b, 0);
  const found = reduction === "none" ? losses : [reduction === "sum" ? sum : sum / weights.reduce((a, b) => a + b, 0)];
  const data = elements(out.dtype, found.length) as Float64Array;
  data.set(found.map((value) => roundTo(out.dtype, value)));
  return { ...out, data };
}

function expandLoss(g: Expansion, logs: Value, target: Value, weight: Value | undefined, { reduction, ignore_index }: LossAttributes): Value {
  const dtype = logs.dtype!;
  const zero = g.scalar(0, dtype);
  let labels = g.call("Unsqueeze", [target, g.list(1)]);
  let ignored: Value | undefined;
  if (ignore_index !== undefined) {
    // Such a label may lie outside the classes: any class stands in for it, with weight 0.
    ignored = g.call("Equal", [labels, g.scalar(ignore_index, target.dtype!)]);
    labels = g.call("Where", [ignored, g.scalar(0, target.dtype!), labels]);
  }
  const picked = g.call("Neg", [g.call("GatherElements", [logs, labels], { axis: 1 })]);
  const given = weight && g.call("Gather", [weight, labels]);
  const weights = ignored ? g.call("Where", [ignored, zero, given ?? g.scalar(1, dtype)]) : given;
  const losses = g.call("Squeeze", [weights ? g.call("Mul", [picked, weights]) : picked, g.list(1)]);
  if (reduction === "none") {
    return losses;
  }
  if (reduction === "mean" && !weights) {
    return g.call("ReduceMean", [losses], { keepdims: 0 });
  }
  const sum = g.call("ReduceSum", [losses], { keepdims: 0 });
  return reduction === "sum" ? sum : g.call("Div", [sum, g.call("ReduceSum", [weights], { keepdims: 0 })]);
}

const labels = values("int64", [2, 3], [0, 3, 1, 2, 2, 0]);
const lossSamples = () => [
  sample("mean", { scores: noise([2, 4, 3]), target: labels }),
  sample(
    "weights, one label ignored, outside the classes",
    { scores: noise([2, 4, 3]), target: values("int64", [2, 3], [0, -1, 1, 2, 2, 0]), weight: positive([4]) },
    { attributes: { ignore_index: -1 } },
  ),
  sample("each", { scores: noise([2, 4, 3]), target: labels }, { attributes: { reduction: "none", ignore_index: 2 } }),
  sample("sum", { scores: noise([3, 4]), target: values("int32", [3], [0, 3, 1]) }, { attributes: { reduction: "sum" } }),
  rejects("targets of another shape", { scores: noise([2, 4]), target: values("int64", [3], [0, 1, 2]) }, 100021, /need targets \[2\]/),
];
const tolerance = { relative: 1e-5, absolute: 1e-5, why: "f32 sums and logarithms" };

export const NegativeLogLikelihoodLoss = defineOp({
  names: { onnx: ["NegativeLogLikelihoodLoss", 22] },
  inputs: ["scores", "target", "weight?"],
  attributes: { reduction: string("mean"), ignore_index: int() },
  infer: ({ scores, target }, attributes, { node }) => [lossType(scores, target, attributes, node)],
  reference: ({ scores, target, weight }, attributes, [out]) => [lossOf(scores, target, weight, attributes, out!)],
  expand: (g, { scores, target, weight }, attributes) => [expandLoss(g, scores, target, weight, attributes)],
  tolerance,
  samples: lossSamples,
});

/** log(softmax) over the classes, axis 1. */
function logSoftmax(scores: Tensor): Tensor {
  const [classes, inner] = [scores.dims[1]!, sizeOf(scores.dims.slice(2))];
  const data = new Float64Array(scores.data.length);
  for (let i = 0; i < data.length; i++) {
    const start = Math.floor(i / (classes * inner)) * classes * inner + (i % inner);
    const column = Array.from({ length: classes }, (_, c) => scores.data[start + c * inner] as number);
    const most = Math.max(...column);
    data[i] = (scores.data[i] as number) - most - Math.log(column.reduce((sum, value) => sum + Math.exp(value - most), 0));
  }
  return { ...scores, data };
}

export const SoftmaxCrossEntropyLoss = defineOp({
  names: { onnx: ["SoftmaxCrossEntropyLoss", 13] },
  inputs: ["scores", "target", "weight?"],
  outputs: 2,
  attributes: { reduction: string("mean"), ignore_index: int() },
  infer: ({ scores, target }, attributes, { node }) => [lossType(scores, target, attributes, node), { dtype: scores.dtype, dims: scores.dims }],
  reference: ({ scores, target, weight }, attributes, [out]) => {
    const logs = logSoftmax(scores);
    return [
      lossOf(logs, target, weight, attributes, out!),
      { ...logs, data: (logs.data as Float64Array).map((value) => roundTo(logs.dtype, value)) },
    ];
  },
  expand: (g, { scores, target, weight }, attributes) => {
    const logs = g.call("LogSoftmax", [scores], { axis: 1 });
    return [expandLoss(g, logs, target, weight, attributes), logs];
  },
  tolerance,
  samples: () => [...lossSamples(), sample("with the logarithms", { scores: noise([2, 4, 3]), target: labels }, { outputs: 2 })],
});
