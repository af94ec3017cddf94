/** The cases of bench/kernel/micro.mjs: how one call of a function is set up, and the one-operator model that a peer runs beside it. */
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";

/** Addresses in a bed's memory, far apart and not a multiple of 4 KiB from each other: a load must not wait for a store with the same low bits. */
const A = 1 << 20;
const B = (24 << 20) + 4224;
const C = (48 << 20) + 2112;
const D = (80 << 20) + 6208;
const E = (112 << 20) + 1056;

const values = (count) => Float32Array.from({ length: count }, (_, i) => ((i * 7919) % 1000) / 500 - 1);
const product = (dims) => dims.reduce((total, dim) => total * dim, 1);

/** A model of one node with weights; `weights` are { name, dims }. */
function onePeer(op, { feeds, weights = [], attributes = {}, output }) {
  const inputs = [...feeds, ...weights].map(({ name }) => name);
  const model = encodeModel({
    name: "micro",
    nodes: [{ op, inputs, outputs: ["y"], attributes }],
    inputs: feeds,
    outputs: [{ name: "y", dtype: "float32", dims: output }],
    initializers: weights.map(({ name, dims }) => ({ name, dtype: "float32", dims, data: values(product(dims)) })),
  });
  return { model, feeds };
}
const f32 = (name, dims) => ({ name, dtype: "float32", dims });

const gemm = (rows, columns, depth) => ({
  name: `gemm ${rows}x${columns}x${depth}`,
  operations: 2 * rows * columns * depth,
  prepare: ({ e }) => {
    e.pack(B, columns * 4, 4, depth, columns, D);
    return () => e.gemm(rows, columns, depth, A, depth * 4, D, depth * e.panelColumns() * 4, C, columns * 4, 1);
  },
  peer: () => onePeer("MatMul", { feeds: [f32("x", [rows, depth])], weights: [f32("w", [depth, columns])], output: [rows, columns] }),
});

/** Any bytes will do for panels. */
const gemmInteger = (rows, columns, depth) => ({
  name: `gemmInteger ${rows}x${columns}x${depth}`,
  operations: 2 * rows * columns * depth,
  prepare:
    ({ e }) =>
    () =>
      e.gemmInteger(rows, columns, depth, A, depth, D, depth * e.panelColumns(), C, columns * 4),
});

const convPeer = (side, inputs, outputs, kernel, { group = 1, stride = 1 } = {}) =>
  onePeer("Conv", {
    feeds: [f32("x", [1, inputs, side, side])],
    weights: [f32("w", [outputs, inputs / group, kernel, kernel]), f32("b", [outputs])],
    attributes: { kernel_shape: [kernel, kernel], pads: Array(4).fill((kernel - 1) / 2), strides: [stride, stride], group },
    output: [1, outputs, side / stride, side / stride],
  });

/** 3 x 3 over a padded NHWC image: every window row is one segment of three pixels. */
const convolve = (side, inputs, outputs) => ({
  name: `convolve 3x3 ${side}x${side} ${inputs}>${outputs}`,
  operations: 2 * 9 * side * side * inputs * outputs,
  prepare: ({ e, u32 }) => {
    const [rows, padded] = [side * side, side + 2];
    for (let y = 0; y < 3; y++) {
      for (let i = 0; i < rows; i++) u32[D / 4 + y * rows + i] = A + ((Math.floor(i / side) + y) * padded + (i % side)) * inputs * 4;
    }
    const [panelPitch, step] = [9 * inputs * e.panelColumns() * 4, 48];
    return () => {
      for (let i = 0; i < rows; i += step) {
        e.convolve(Math.min(step, rows - i), outputs, 3, 3 * inputs, D + i * 4, rows * 4, B, panelPitch, C + i * outputs * 4, outputs * 4, 1);
      }
    };
  },
  peer: () => convPeer(side, inputs, outputs, 3),
});

const winograd = (side, inputs, outputs, step) => ({
  name: `winograd ${side}x${side} ${inputs}>${outputs}, ${step} tiles a call`,
  operations: 2 * 9 * side * side * inputs * outputs,
  prepare: ({ e }) => {
    const tiles = Math.ceil(side / 4) ** 2;
    e.winogradWeights(A, 12, 4, 36, inputs * 36, inputs, outputs, B);
    return () => {
      for (let first = 0; first < tiles; first += step) {
        e.winogradConvolve(A, side, side, inputs, 1, 1, B, C, side, side, outputs, outputs * 4, first, Math.min(step, tiles - first), D);
      }
    };
  },
  peer: () => convPeer(side, inputs, outputs, 3),
});

const depthwiseRow = (side, channels, stride) => ({
  name: `depthwiseRow 3x3/${stride} ${side}x${side}x${channels}`,
  operations: (2 * 9 * side * side * channels) / stride / stride,
  prepare: ({ e }) => {
    const [pitch, count] = [(side + 2) * channels * 4, side / stride];
    return () => {
      for (let y = 0; y < count; y++) {
        e.depthwiseRow(
          3,
          stride,
          count,
          channels,
          A + y * stride * pitch,
          pitch,
          channels * 4,
          B,
          B + 65536,
          C + y * count * channels * 4,
          channels * 4,
        );
      }
    };
  },
  peer: () => convPeer(side, channels, channels, 3, { group: channels, stride }),
});

const depthwise = (side, channels, kernel) => ({
  name: `depthwise ${kernel}x${kernel} ${side}x${side}x${channels}`,
  operations: 2 * kernel * kernel * side * side * channels,
  prepare: ({ e, u32 }) => {
    const [padded, taps, pixels] = [side + kernel - 1, kernel * kernel, side * side];
    for (let t = 0; t < taps; t++) {
      for (let i = 0; i < pixels; i++) {
        const pixel = (Math.floor(i / side) + Math.floor(t / kernel)) * padded + (i % side) + (t % kernel);
        u32[D / 4 + t * pixels + i] = A + pixel * channels * 4;
      }
    }
    return () => {
      for (let y = 0; y < side; y++) {
        e.depthwise(side, channels, taps, D + y * side * 4, pixels * 4, B, B + 65536, C + y * side * channels * 4, channels * 4);
      }
    };
  },
  peer: () => convPeer(side, channels, channels, kernel, { group: channels }),
});

const STRIP = 1024;
/** A long array in strips of 4 KiB, as the interpreter runs it. */
const strip = (name, code, count, { op, operands = 1 } = {}) => ({
  name: `strip ${name} ${count / 1024}K`,
  prepare:
    ({ e }) =>
    () => {
      for (let i = 0; i < count * 4; i += STRIP * 4) e.strip(code, C + i, C + i + STRIP * 4, A + i, 64, B + i, 64, E + i, 64);
    },
  ...(op === undefined
    ? {}
    : {
        peer: () => {
          const feeds = ["x", "z"].slice(0, operands).map((one) => f32(one, [count]));
          return onePeer(op, { feeds, output: [count] });
        },
      }),
});

const rowsCase = (name, rows, count, run, peer) => ({
  name: `${name} ${rows}x${count}`,
  prepare:
    ({ e }) =>
    () =>
      run(e, rows, count),
  ...(peer ? { peer: () => peer(rows, count) } : {}),
});

export function microCases() {
  return [
    ...[
      [256, 256, 256],
      [512, 512, 512],
      [3136, 64, 64],
      [3136, 256, 64],
      [128, 768, 768],
      [49, 512, 512],
      [1, 1024, 1024],
      [1, 256, 512],
      [2, 256, 512],
    ].map((shape) => gemm(...shape)),
    convolve(56, 64, 64),
    convolve(28, 128, 128),
    winograd(56, 64, 64, 28),
    winograd(56, 64, 64, 196),
    winograd(28, 128, 128, 49),
    winograd(14, 256, 256, 16),
    depthwiseRow(56, 128, 1),
    depthwiseRow(56, 128, 2),
    depthwiseRow(28, 128, 1),
    depthwiseRow(14, 512, 1),
    depthwise(56, 128, 3),
    depthwise(28, 128, 5),
    strip("exp", 20, 262144, { op: "Exp" }),
    strip("log", 21, 262144, { op: "Log" }),
    strip("tanh", 30, 262144, { op: "Tanh" }),
    strip("sigmoid", 35, 262144, { op: "Sigmoid" }),
    strip("erf", 34, 262144, { op: "Erf" }),
    strip("gelu", 128, 262144),
    strip("silu", 130, 262144),
    strip("relu", 36, 262144, { op: "Relu" }),
    strip("add", 1, 262144, { op: "Add", operands: 2 }),
    strip("add and relu", 132, 262144),
    strip("multiply-add", 38, 262144),
    rowsCase(
      "softmax",
      1024,
      1024,
      (e, rows, count) => e.softmaxRows(rows, count, A, count * 4, C, count * 4),
      (rows, count) => onePeer("Softmax", { feeds: [f32("x", [rows, count])], attributes: { axis: -1 }, output: [rows, count] }),
    ),
    rowsCase(
      "layer norm",
      1024,
      768,
      (e, rows, count) => e.layerNormRows(rows, count, A, count * 4, C, count * 4, B, B + 8192, 1e-5),
      (rows, count) =>
        onePeer("LayerNormalization", {
          feeds: [f32("x", [rows, count])],
          weights: [f32("g", [count]), f32("b", [count])],
          attributes: { axis: -1 },
          output: [rows, count],
        }),
    ),
    rowsCase("sum of rows", 256, 1024, (e, rows, count) => e.sumRows(rows, count, A, count * 4, C)),
    rowsCase("max of rows", 256, 1024, (e, rows, count) => e.maxRows(rows, count, A, count * 4, C)),
    rowsCase("sum of columns", 256, 1024, (e, rows, count) => e.sumColumns(rows, count, A, count * 4, C, 1)),
    gemmInteger(256, 256, 256),
    gemmInteger(512, 512, 512),
    gemmInteger(1, 1024, 1024),
  ];
}
