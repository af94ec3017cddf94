/** Models of one operator (or one usual chain) whose time is its kernel's time. Second operands are weights, as they are in a model. */
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";
import { feedData } from "../runners/serve.mjs";

const f32 = (name, dims, seed = 1) => ({ name, dtype: "float32", dims, seed });

/**
 * How many times as fast as onnxruntime-web a kernel shall be with as many threads, by the major version of Node. With several threads there is a goal
 * for large products alone.
 */
const GOALS = {
  matmul: { 20: 1.6, 24: 3 },
  vector: { 20: 1.3, 24: 1.3 },
  winograd: { 20: 5, 24: 9 },
  direct: { 20: 1.6, 24: 3 },
  depthwise: { 20: 2.2, 24: 4 },
  softmax: { 20: 2.3, 24: 5.5 },
  curve: { 20: 4, 24: 8 },
  norm: { 20: 10, 24: 18 },
  chain: { 20: 4, 24: 5 },
  integer: { 20: 1.05, 24: 4 },
};
const THREADED_MATMUL = { 20: 1.7, 24: 3.2 };
/** Size from which a product has a goal with several threads. */
const LARGE = 512;

/** A case from its parts; `weights` are generated alike in the model and in the peer that has no ONNX importer. */
function kernelCase({ name, nodes, feeds, weights = [], constants = [], output, outputType = "float32", opset, goals, threadedGoals, tfjs }) {
  return {
    name,
    feeds,
    goals,
    threadedGoals,
    tfjs: tfjs && { ...tfjs, weights },
    model: encodeModel({
      name: "bench",
      ...(opset === undefined ? {} : { opset }),
      nodes,
      inputs: feeds,
      outputs: [{ name: "y", dtype: outputType, dims: output }],
      initializers: [...constants, ...weights.map((weight) => ({ ...weight, data: feedData(weight) }))],
    }),
  };
}

const matmul = (m, k, n) =>
  kernelCase({
    name: `matmul ${m}x${k}x${n}`,
    nodes: [{ op: "MatMul", inputs: ["x", "w"], outputs: ["y"] }],
    feeds: [f32("x", [m, k])],
    weights: [f32("w", [k, n], 2)],
    output: [m, n],
    goals: m === 1 ? GOALS.vector : GOALS.matmul,
    ...(Math.min(m, k, n) >= LARGE ? { threadedGoals: THREADED_MATMUL } : {}),
    tfjs: { op: "matmul" },
  });

const integerMatmul = (m, k, n) =>
  kernelCase({
    name: `int8 matmul ${m}x${k}x${n}`,
    nodes: [{ op: "MatMulInteger", inputs: ["x", "w"], outputs: ["y"] }],
    feeds: [{ name: "x", dtype: "uint8", dims: [m, k], below: 256 }],
    weights: [{ name: "w", dtype: "int8", dims: [k, n], seed: 2, below: 128 }],
    output: [m, n],
    outputType: "int32",
    goals: GOALS.integer,
  });

const layerNorm = (rows, count) =>
  kernelCase({
    name: `layernorm ${rows}x${count}`,
    opset: 17,
    nodes: [{ op: "LayerNormalization", inputs: ["x", "scale", "shift"], outputs: ["y"] }],
    feeds: [f32("x", [rows, count])],
    weights: [f32("scale", [count], 2), f32("shift", [count], 3)],
    output: [rows, count],
    goals: GOALS.norm,
  });

function conv({ name, cin, cout, kernel, side, group = 1, relu = false }) {
  const pad = (kernel - 1) / 2;
  const attributes = { kernel_shape: [kernel, kernel], pads: [pad, pad, pad, pad], group };
  const nodes = [{ op: "Conv", inputs: ["x", "w"], outputs: [relu ? "c" : "y"], attributes }];
  if (relu) nodes.push({ op: "Relu", inputs: ["c"], outputs: ["y"] });
  return kernelCase({
    name,
    nodes,
    feeds: [f32("x", [1, cin, side, side])],
    weights: [f32("w", [cout, cin / group, kernel, kernel], 2)],
    output: [1, cout, side, side],
    goals: group > 1 ? GOALS.depthwise : kernel === 3 ? GOALS.winograd : GOALS.direct,
    tfjs: { op: group > 1 ? "depthwise" : "conv", pad, relu, layout: "nhwc" },
  });
}

/** BatchNormalization after Conv: a runtime that folds it pays nothing for it. */
function convBatchNorm({ channels, side }) {
  const vector = (name, seed) => f32(name, [channels], seed);
  const weights = [f32("w", [channels, channels, 3, 3], 2), vector("scale", 3), vector("bias", 4), vector("mean", 5)];
  return kernelCase({
    name: `conv3x3+bn+relu ${channels}->${channels} ${side}x${side}`,
    nodes: [
      { op: "Conv", inputs: ["x", "w"], outputs: ["c"], attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1] } },
      { op: "Mul", inputs: ["mean", "mean"], outputs: ["variance"] },
      { op: "BatchNormalization", inputs: ["c", "scale", "bias", "mean", "variance"], outputs: ["n"], attributes: { epsilon: { float: 0.5 } } },
      { op: "Relu", inputs: ["n"], outputs: ["y"] },
    ],
    feeds: [f32("x", [1, channels, side, side])],
    weights,
    output: [1, channels, side, side],
    goals: GOALS.winograd,
  });
}

function pool(name, op, tfjs, { channels, side, size, stride }) {
  const out = Math.floor((side - size) / stride) + 1;
  return kernelCase({
    name,
    nodes: [{ op, inputs: ["x"], outputs: ["y"], attributes: { kernel_shape: [size, size], strides: [stride, stride] } }],
    feeds: [f32("x", [1, channels, side, side])],
    output: [1, channels, out, out],
    tfjs: { op: tfjs, size, stride, layout: "nhwc" },
  });
}

const chain = (label, count) =>
  kernelCase({
    name: `add+mul+relu ${label}`,
    nodes: [
      { op: "Add", inputs: ["a", "b"], outputs: ["s"] },
      { op: "Mul", inputs: ["s", "c"], outputs: ["p"] },
      { op: "Relu", inputs: ["p"], outputs: ["y"] },
    ],
    feeds: [f32("a", [count], 1), f32("b", [count], 2), f32("c", [count], 3)],
    output: [count],
    goals: GOALS.chain,
    tfjs: { op: "addMulRelu" },
  });

const unary = (op, tfjs, goals, dims, label, attributes) =>
  kernelCase({
    name: `${op.toLowerCase()} ${label}`,
    nodes: [{ op, inputs: ["x"], outputs: ["y"], attributes }],
    feeds: [f32("x", dims)],
    output: dims,
    goals,
    tfjs: tfjs && { op: tfjs },
  });

/** ReduceSum takes its axes as a tensor since opset 13: a constant of the model. */
const sumRows = (rows, columns) =>
  kernelCase({
    name: `reducesum rows ${rows}x${columns}`,
    nodes: [{ op: "ReduceSum", inputs: ["x", "axes"], outputs: ["y"], attributes: { keepdims: 0 } }],
    feeds: [f32("x", [rows, columns])],
    constants: [{ name: "axes", dtype: "int64", dims: [1], data: new BigInt64Array([1n]) }],
    output: [rows],
    tfjs: { op: "sumRows" },
  });

const MILLION = 1 << 20;

export const kernelCases = () => [
  matmul(256, 256, 256),
  matmul(512, 512, 512),
  matmul(1024, 1024, 1024),
  matmul(1, 1024, 1024),
  integerMatmul(512, 512, 512),
  conv({ name: "conv3x3 64->64 56x56", cin: 64, cout: 64, kernel: 3, side: 56 }),
  convBatchNorm({ channels: 64, side: 56 }),
  conv({ name: "conv1x1 64->256 56x56", cin: 64, cout: 256, kernel: 1, side: 56 }),
  conv({ name: "depthwise3x3 128 56x56", cin: 128, cout: 128, kernel: 3, side: 56, group: 128 }),
  pool("maxpool2x2 64 112x112", "MaxPool", "maxPool", { channels: 64, side: 112, size: 2, stride: 2 }),
  pool("averagepool3x3 64 56x56", "AveragePool", "averagePool", { channels: 64, side: 56, size: 3, stride: 1 }),
  chain("64K", 1 << 16),
  chain("4M", 4 * MILLION),
  unary("Sigmoid", "sigmoid", GOALS.curve, [MILLION], "1M"),
  unary("Erf", undefined, GOALS.curve, [MILLION], "1M"),
  unary("Softmax", "softmax", GOALS.softmax, [1024, 1024], "1024x1024", { axis: 1 }),
  layerNorm(1024, 768),
  sumRows(1024, 1024),
];
