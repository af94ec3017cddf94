/** Random cases of onnxruntime's own operators (domain com.microsoft). */
import type { DtypeName } from "../../dist/lib/graph/dtype";
import { tensor } from "../../dist/lib/graph/tensor";
import { type Case, type Given, ints, one, type Random } from "./random";

const domain = "com.microsoft";
const opset = 17;

const bent = (r: Random): Case => {
  const op = r.pick(["Gelu", "BiasGelu", "FastGelu", "QuickGelu"]);
  const dims = r.dims(r.int(1, 4), 0);
  const bias = op === "BiasGelu" || (op === "FastGelu" && r.chance(0.5)) ? [r.tensor("float32", dims.slice(-1), { fixed: r.chance(0.5) })] : [];
  return {
    op,
    domain,
    opset,
    inputs: [r.tensor("float32", dims, { scale: 4 }), ...bias],
    attributes: op === "QuickGelu" && r.chance(0.5) ? { alpha: 1.5 } : {},
  };
};

const skip = (r: Random): Case => {
  const op = r.pick(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]);
  const dims = [r.int(1, 3), r.int(1, 4), r.int(1, 20)];
  const row = (low = -9) => r.tensor("float32", dims.slice(-1), { fixed: true, low });
  const full = op === "SkipLayerNormalization";
  const inputs = [
    r.tensor("float32", dims),
    r.tensor("float32", r.chance(0.3) ? dims.slice(1) : dims),
    row(0.1),
    ...(full ? [r.chance(0.7) ? row() : undefined] : []),
    r.chance(0.5) ? row() : undefined,
  ];
  return { op, domain, opset, inputs, attributes: { epsilon: 1e-4 }, outputs: 1 };
};

const embed = (r: Random): Case => {
  const [batch, length, size] = [r.int(1, 3), r.int(1, 5), r.int(1, 12)];
  const table = (rows: number) => r.tensor("float32", [rows, size], { fixed: true });
  const segments = r.chance(0.6);
  const inputs = [
    r.indices([batch, length], 0, 6, { dtype: "int32" }),
    segments ? r.indices([batch, length], 0, 1, { dtype: "int32" }) : undefined,
    ...[table(7), table(9), segments ? table(2) : undefined],
    ...[r.tensor("float32", [size], { fixed: true, low: 0.1 }), r.tensor("float32", [size], { fixed: true })],
    r.chance(0.5) ? r.indices([batch, length], 0, 1, { dtype: "int32" }) : undefined,
  ];
  return { op: "EmbedLayerNormalization", domain, opset, inputs, attributes: { epsilon: 1e-4 }, outputs: 2 };
};

const fusedMatMul = (r: Random): Case => {
  const [m, k, n] = [r.int(1, 9), r.int(1, 20), r.int(1, 9)];
  const [transA, transB] = [r.below(2), r.below(2)];
  const batch = r.dims(r.below(3), 0);
  const matrix = (rows: number, columns: number, turn: number) =>
    r.tensor("float32", [...batch, ...(turn ? [columns, rows] : [rows, columns])], { fixed: r.chance(0.3) });
  return {
    op: "FusedMatMul",
    domain,
    opset,
    inputs: [matrix(m, k, transA), matrix(k, n, transB)],
    attributes: { alpha: 0.5, transA: BigInt(transA), transB: BigInt(transB) },
  };
};

const fusedConv = (r: Random): Case => {
  const [c, m] = [r.int(1, 5), r.int(1, 9)];
  const dims = [1, c, r.int(3, 9), r.int(3, 9)];
  const activation = r.pick(["Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"]);
  const activation_params = { LeakyRelu: [0.125], Clip: [-0.5, 0.75], HardSigmoid: [0.25, 0.5] }[activation];
  const z = r.chance(0.5) ? [r.tensor("float32", [1, m, dims[2]!, dims[3]!])] : [];
  const inputs = [r.tensor("float32", dims), r.tensor("float32", [m, c, 3, 3], { fixed: true }), r.tensor("float32", [m], { fixed: true }), ...z];
  return {
    op: "FusedConv",
    domain,
    opset,
    inputs,
    attributes: { pads: ints([1, 1, 1, 1]), kernel_shape: ints([3, 3]), activation, activation_params },
  };
};

const maskOf = (r: Random, batch: number, rows: number, total: number): Given | undefined => {
  const ones = (dims: number[]): Given => {
    const given = r.indices(dims, 0, 1, { dtype: "int32" });
    // Every row sees something: what a row sees that sees nothing is a matter of taste.
    return { ...given, data: Float64Array.from(given.data as Float64Array, (v, i) => (i % total === 0 ? 1 : v)) };
  };
  return r.pick([
    () => undefined,
    () => r.indices([batch], 1, total, { dtype: "int32" }),
    () => ones([batch, total]),
    () => ones([batch, rows, total]),
  ])();
};

const attention = (r: Random): Case => {
  const [batch, length, heads, size] = [r.int(1, 2), r.int(1, 4), r.int(1, 3), r.int(1, 3) * 2];
  const width = heads * size;
  const before = r.chance(0.4) ? r.int(1, 3) : 0;
  const past = before > 0 ? r.tensor("float32", [2, batch, heads, before, size]) : undefined;
  const mask = maskOf(r, batch, length, before + length);
  const inputs = [
    ...[
      r.tensor("float32", [batch, length, 5]),
      r.tensor("float32", [5, 3 * width], { fixed: true }),
      r.tensor("float32", [3 * width], { fixed: true }),
    ],
    ...[
      mask?.dims.length === 1 && before > 0 ? undefined : mask,
      past,
      r.chance(0.3) ? r.tensor("float32", [1, heads, length, before + length]) : undefined,
    ],
  ];
  return {
    op: "Attention",
    domain,
    opset,
    inputs,
    attributes: { num_heads: BigInt(heads), unidirectional: BigInt(r.below(2)) },
    outputs: before > 0 ? 2 : 1,
  };
};

const multiHead = (r: Random): Case => {
  const [batch, length, keys, heads, size] = [r.int(1, 2), r.int(1, 4), r.int(1, 5), r.int(1, 3), r.int(1, 3) * 2];
  const width = heads * size;
  const before = r.chance(0.4) ? r.int(1, 3) : 0;
  const past = () => (before > 0 ? r.tensor("float32", [batch, heads, before, size]) : undefined);
  const mask = maskOf(r, batch, length, before + keys);
  const x = (rows: number) => r.tensor("float32", [batch, rows, width]);
  const inputs = [
    ...[x(length), x(keys), x(keys), r.chance(0.5) ? r.tensor("float32", [3 * width], { fixed: true }) : undefined],
    ...[
      mask?.dims.length === 1 ? undefined : mask,
      r.chance(0.3) ? r.tensor("float32", [1, heads, length, before + keys]) : undefined,
      past(),
      past(),
    ],
  ];
  return {
    op: "MultiHeadAttention",
    domain,
    opset,
    inputs,
    attributes: { num_heads: BigInt(heads), scale: r.pick([0, 0.3]) },
    outputs: before > 0 ? 3 : 1,
  };
};

const groupQuery = (r: Random): Case => {
  const [heads, groups, size] = [r.int(1, 2), r.int(1, 3), 16];
  const before = r.chance(0.5) ? r.int(1, 5) : 0;
  const batch = before > 0 ? 1 : r.int(1, 2);
  const length = before > 0 ? 1 : r.int(1, 4);
  const rotary = r.chance(0.6);
  const cache = () => (rotary ? r.tensor("float32", [12, size / 2], { fixed: true }) : undefined);
  const past = () => r.tensor("float32", [batch, heads, before, size]);
  const inputs = [
    ...[
      r.tensor("float32", [batch, length, heads * groups * size]),
      r.tensor("float32", [batch, length, heads * size]),
      r.tensor("float32", [batch, length, heads * size]),
    ],
    ...[
      past(),
      past(),
      { ...tensor("int32", [batch], new Array<number>(batch).fill(before + length - 1)) },
      { ...tensor("int32", [1], [before + length]), fixed: true },
    ],
    ...[cache(), cache()],
  ];
  const attributes = {
    ...{ num_heads: BigInt(heads * groups), kv_num_heads: BigInt(heads), do_rotary: BigInt(rotary), rotary_interleaved: BigInt(r.below(2)) },
    ...(r.chance(0.3) ? { local_window_size: BigInt(r.int(1, 4)) } : {}),
  };
  return { op: "GroupQueryAttention", domain, opset, inputs, attributes, outputs: 3 };
};

const rotary = (r: Random): Case => {
  const [batch, length, heads, size] = [r.int(1, 2), r.int(1, 4), r.int(1, 3), 8];
  const x = r.chance(0.5) ? r.tensor("float32", [batch, length, heads * size]) : r.tensor("float32", [batch, heads, length, size]);
  const positions = r.chance(0.5) ? r.indices([1], 0, 5) : r.indices([batch, length], 0, 8);
  const cache = () => r.tensor("float32", [12, size / 2], { fixed: true });
  return { op: "RotaryEmbedding", domain, opset, inputs: [x, positions, cache(), cache()], attributes: { interleaved: BigInt(r.below(2)) } };
};

const bits = (r: Random): Case => {
  const [n, size] = [r.int(1, 9), r.pick([16, 32])];
  const k = size * r.int(1, 3);
  const blocks = k / size;
  const bytes = (dims: number[]) => r.indices(dims, 0, 255, { dtype: "uint8", fixed: true });
  const zeros = r.chance(0.5) ? bytes([n * Math.ceil(blocks / 2)]) : undefined;
  const inputs = [
    r.tensor("float32", [r.int(1, 3), k]),
    bytes([n, blocks, size / 2]),
    r.tensor("float32", [n * blocks], { scale: 0.2, fixed: true }),
    zeros,
  ];
  return { op: "MatMulNBits", domain, opset, inputs, attributes: { K: BigInt(k), N: BigInt(n), bits: 4n, block_size: BigInt(size) } };
};

const quantized = (r: Random): Case => {
  const dtype = r.pick<DtypeName>(["uint8", "int8"]);
  const bytes = (dims: readonly number[]) => r.tensor(dtype, dims, { scale: 120 });
  const scale = () => one("float32", 0.01 + Math.abs(r.unit()) / 10);
  const zero = () => r.tensor(dtype, [], { scale: 100, fixed: true });
  const dims = r.dims(r.int(1, 4), 0);
  switch (r.below(5)) {
    case 0:
      return {
        op: r.pick(["QLinearAdd", "QLinearMul"]),
        domain,
        opset,
        inputs: [bytes(dims), scale(), zero(), bytes(r.broadcastable(dims)), scale(), zero(), scale(), zero()],
      };
    case 1:
      return { op: r.pick(["QLinearSigmoid", "QLinearLeakyRelu"]), domain, opset, inputs: [bytes(dims), scale(), zero(), scale(), zero()] };
    case 2:
      return {
        op: "QLinearGlobalAveragePool",
        domain,
        opset,
        inputs: [bytes([1, r.int(1, 9), r.int(1, 5), r.int(1, 5)]), scale(), zero(), scale(), zero()],
      };
    case 3: {
      const axis = r.axis(dims.length);
      const part = () => [bytes(dims.with(axis, r.int(1, 4))), scale(), zero()];
      return { op: "QLinearConcat", domain, opset, inputs: [scale(), zero(), ...part(), ...part()], attributes: { axis: BigInt(axis) } };
    }
    default: {
      const [m, k, n] = [r.int(1, 5), r.int(1, 20), r.int(1, 9)];
      const b = r.tensor("int8", [k, n], { scale: 120, fixed: true });
      const bias = r.chance(0.5) ? r.tensor("float32", [n], { fixed: true }) : undefined;
      return {
        op: "MatMulIntegerToFloat",
        domain,
        opset,
        inputs: [r.tensor("uint8", [m, k], { scale: 200 }), b, scale(), scale(), one("uint8", 128), undefined, bias],
      };
    }
  }
};

/** The product with a bias, and ONNX's own operators between dequantized numbers; QLinearSoftmax ends the peer's process. */
const quantizedLayer = (r: Random): Case => {
  const dtype = r.pick<DtypeName>(["uint8", "int8"]);
  const bytes = (dims: readonly number[]) => r.tensor(dtype, dims, { scale: 120 });
  const scale = () => one("float32", 0.01 + Math.abs(r.unit()) / 10);
  const zero = () => r.tensor(dtype, [], { scale: 100, fixed: true });
  const scales = () => [scale(), zero(), scale(), zero()];
  const op = r.pick(["QGemm", "QGemm", "QLinearAveragePool", "QLinearWhere"]);
  if (op === "QGemm") {
    const [m, k, n] = [r.int(1, 9), r.int(1, 40), r.int(1, 20)];
    const [transA, transB] = [r.below(2), r.below(2)];
    const perColumn = r.chance(0.5) ? [n] : [];
    const a = bytes(transA ? [k, m] : [m, k]);
    const b = r.tensor(dtype, transB ? [n, k] : [k, n], { scale: 120, fixed: r.chance(0.7) });
    const bScale = r.tensor("float32", perColumn, { fixed: true, low: 0.01, scale: 0.1 });
    const c = r.chance(0.6) ? r.tensor("int32", [n], { scale: 900, fixed: true }) : undefined;
    const result = r.chance(0.7) ? [one("float32", 3), zero()] : [];
    const inputs = [a, scale(), zero(), b, bScale, r.tensor(dtype, perColumn, { scale: 9, fixed: true }), c, ...result];
    return { op, domain, opset, inputs, attributes: { transA: BigInt(transA), transB: BigInt(transB), alpha: 0.5 } };
  }
  if (op === "QLinearWhere") {
    const dims = r.dims(r.int(1, 4), 1);
    return {
      op,
      domain,
      opset,
      inputs: [r.tensor("bool", dims), bytes(dims), scale(), zero(), bytes(r.broadcastable(dims)), ...scales().slice(0, 2), scale(), zero()],
    };
  }
  const last = r.below(2);
  const [channels, side] = [r.int(1, 20), r.int(3, 9)];
  const window = { kernel_shape: [2n, 3n], strides: [1n, 2n], pads: [1n, 1n, 0n, 1n], count_include_pad: BigInt(r.below(2)) };
  const image = bytes(last ? [2, side, side, channels] : [2, channels, side, side]);
  return { op, domain, opset, inputs: [image, ...scales()], attributes: { ...window, channels_last: BigInt(last) } };
};

export const CONTRIB: Readonly<Record<string, (r: Random) => Case>> = {
  ...{ Bent: bent, Skip: skip, Embed: embed, FusedMatMul: fusedMatMul, FusedConv: fusedConv, ContribAttention: attention, MultiHead: multiHead },
  ...{ GroupQuery: groupQuery, Rotary: rotary, Bits: bits, Quantized: quantized, QuantizedLayer: quantizedLayer },
};
