/** Every operator, found by format, domain and name. Built-in ones are listed, users add theirs with `registerOp`. */
import { AclError } from "../errors/acl-error";
import { nearestName } from "../errors/make";
import type { Node } from "../graph/ir";
import type { AnyOp } from "./define";

interface Family {
  /** In ONNX's domain, or "domain:Name". */
  readonly names: readonly string[];
  load(): Readonly<Record<string, unknown>>;
}

/** An operator of onnxruntime's own domain. */
const contrib = (name: string): string => `com.microsoft:${name}`;

/**
 * Which file has which operators: a family is loaded with the first node that needs it, since reading and running all of them would cost every start
 * more than a small model's whole compilation. A test holds this list against what the files define.
 */
export const FAMILIES: readonly Family[] = [
  {
    names: [
      ...["Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Abs", "Neg", "Floor", "Ceil", "Reciprocal", "Not", "LeakyRelu", "Identity"],
      "Dropout",
    ],
    load: () => require("./unary"),
  },
  {
    names: [
      ...["Add", "Sub", "Mul", "Div", "And", "Or", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Pow", "Min", "Max", "Sum", "Mean"],
      ...["Where", "Clip"],
    ],
    load: () => require("./binary"),
  },
  { names: ["Constant", "ConstantOfShape"], load: () => require("./constant") },
  { names: ["Cast", "CastLike", "BitCast"], load: () => require("./cast") },
  { names: ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Size"], load: () => require("./reshape") },
  { names: ["Transpose", "Concat", "Slice", "Split", "Expand", "Gather"], load: () => require("./movement") },
  { names: ["Pad"], load: () => require("./padding") },
  {
    names: ["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1", "ReduceL2", "Softmax", "LogSoftmax"],
    load: () => require("./reduction"),
  },
  { names: ["MatMul", "Gemm"], load: () => require("./matmul") },
  { names: ["Conv"], load: () => require("./convolution") },
  { names: ["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"], load: () => require("./pooling") },
  { names: ["BatchNormalization", "LRN"], load: () => require("./normalization") },
  {
    names: [
      ...["HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Softplus", "Mish", "Softsign", "ThresholdedRelu", "Shrink", "Swish", "Gelu", "PRelu"],
    ],
    load: () => require("./activation"),
  },
  { names: ["Resize", "Upsample"], load: () => require("./resize") },
  { names: ["LSTM", "GRU", "RNN"], load: () => require("./recurrent") },
  { names: ["ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin"], load: () => require("./position") },
  {
    names: ["LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization"],
    load: () => require("./layernorm"),
  },
  { names: ["Tile", "DepthToSpace", "SpaceToDepth", "Trilu", "OneHot"], load: () => require("./arrange") },
  {
    names: [...["Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Round", "Sign", "IsNaN", "IsInf"]],
    load: () => require("./functions"),
  },
  { names: ["GatherElements", "GatherND"], load: () => require("./indexing") },
  { names: ["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger"], load: () => require("./quantization") },
  { names: ["Xor", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"], load: () => require("./integers") },
  { names: ["Einsum"], load: () => require("./einsum") },
  { names: ["ScatterND", "ScatterElements"], load: () => require("./scatter") },
  {
    names: ["Range", "EyeLike", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"],
    load: () => require("./generate"),
  },
  { names: ["CumSum", "CumProd"], load: () => require("./cumulative") },
  { names: ["QLinearMatMul", "QLinearConv", "ConvInteger"], load: () => require("./quantized") },
  { names: ["LpNormalization", "Hardmax", "LpPool", "SwiGLU"], load: () => require("./scaling") },
  { names: ["DFT", "STFT"], load: () => require("./fourier") },
  { names: ["NonZero", "Compress", "Unique", "NonMaxSuppression"], load: () => require("./dynamic") },
  {
    names: ["AffineGrid", "CenterCropPad", "Col2Im", "MaxUnpool", "ReverseSequence", "TensorScatter"],
    load: () => require("./grids"),
  },
  { names: ["CausalConvWithState"], load: () => require("./streaming") },
  { names: ["TopK"], load: () => require("./select") },
  { names: ["GridSample", "RoiAlign"], load: () => require("./sampling") },
  { names: ["Attention", "RotaryEmbedding", "ai.onnx.preview:FlexAttention"], load: () => require("./attention") },
  { names: ["npurt:ScaledDotProduct"], load: () => require("./scaled-dot-product") },
  { names: ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"], load: () => require("./loss") },
  { names: ["ConvTranspose"], load: () => require("./transposed") },
  { names: ["DeformConv"], load: () => require("./deform") },
  {
    names: [
      "SimplifiedLayerNormalization",
      ...["Gelu", "BiasGelu", "FastGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"].map(contrib),
      ...["EmbedLayerNormalization", "FusedMatMul", "FusedConv"].map(contrib),
    ],
    load: () => require("./contrib"),
  },
  { names: ["Attention", "MultiHeadAttention"].map(contrib), load: () => require("./contrib-attention") },
  { names: ["GroupQueryAttention", "RotaryEmbedding", "MatMulNBits"].map(contrib), load: () => require("./contrib-decoder") },
  {
    names: [
      ...["QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", "QLinearConcat"].map(contrib),
      ...["MatMulIntegerToFloat", "DynamicQuantizeMatMul"].map(contrib),
    ],
    load: () => require("./contrib-quantized"),
  },
  {
    names: ["QGemm", "QLinearAveragePool", "QLinearSoftmax", "QLinearWhere"].map(contrib),
    load: () => require("./contrib-quantized-layers"),
  },
];
/** The newest operator set whose forms have been compared with ours. */
export const NEWEST_OPSET = 25;

const isOp = (value: unknown): value is AnyOp =>
  typeof value === "object" && value !== null && ("lower" in value || "expand" in value) && "infer" in value;
const keyOf = (domain: string, name: string): string => `${domain}:${name}`;

/** Families that are not loaded yet, by the keys of their operators. */
const waiting = new Map<string, Family>();
for (const family of FAMILIES) {
  for (const name of family.names) {
    waiting.set(name.includes(":") ? name : keyOf("", name), family);
  }
}
/** Operators of loaded families. */
const builtIn = new Map<string, AnyOp>();
const users = new Map<string, AnyOp>();

function load(family: Family): void {
  for (const op of Object.values(family.load())) {
    const key = isOp(op) ? keyOfOp(op) : undefined;
    if (key !== undefined) {
      builtIn.set(key, op as AnyOp);
      waiting.delete(key);
    }
  }
}

function keyOfOp({ names: { onnx } }: AnyOp): string | undefined {
  return onnx && keyOf(onnx[2] ?? "", onnx[0]);
}

/** Adds (or replaces) an operator for every model compiled from now on in this thread. Models that use it are compiled on the calling thread. */
export function registerOp(op: AnyOp): void {
  const name = op.names?.onnx?.[0];
  if (
    typeof name !== "string" ||
    name === "" ||
    typeof op.infer !== "function" ||
    typeof (op.lower ?? op.expand) !== "function" ||
    !Array.isArray(op.inputs)
  ) {
    throw new AclError(100000, "registerOp: an operator needs names.onnx, inputs, infer, reference and lower; see defineOp");
  }
  const { guarded } = require("./user-op") as { guarded(op: AnyOp): AnyOp };
  users.set(keyOfOp(op) as string, guarded(op));
}

export const hasUserOps = (): boolean => users.size > 0;

/** Every operator; loads all families. */
export function allOps(): AnyOp[] {
  for (const family of new Set(waiting.values())) {
    load(family);
  }
  return [...new Map([...builtIn, ...users]).values()];
}

export function findOp(node: Node): AnyOp | undefined {
  const key = keyOf(node.domain, node.op);
  const family = users.has(key) ? undefined : waiting.get(key);
  if (family !== undefined) {
    load(family);
  }
  return users.get(key) ?? builtIn.get(key);
}

/** @throws AclError 100024 that lists every node of the model that has no operator */
export function requireOps(nodes: readonly Node[]): void {
  const missing = nodes.filter((node) => !findOp(node));
  if (missing.length === 0) {
    return;
  }
  const failures = missing.map((node) => ({ code: 100024, text: describeMissing(node), node: node.name }));
  throw new AclError(
    100024,
    `${missing.length} node${missing.length === 1 ? " is" : "s are"} not supported: ${failures.map(({ text }) => text).join("; ")}`,
    { failures },
  );
}

function describeMissing(node: Node): string {
  const name = `${node.domain === "" ? "" : `${node.domain}.`}${node.op}`;
  const ops = allOps();
  const near = alike(
    node.op,
    ops.flatMap((op) => op.names.onnx?.[0] ?? []),
  );
  const [, version, domain = ""] = ops.find((op) => near !== undefined && op.names.onnx?.[0] === near)?.names.onnx ?? [];
  const form = domain === "" ? `${near}, opset 1 to ${NEWEST_OPSET}` : `${domain}.${near}, opset ${version}`;
  return `"${node.name}" (${name}, opset ${node.opset}${near === undefined ? "" : `; nearest supported: ${form}`})`;
}

/** An operator worth suggesting: of the same name in another domain, a variant of the same word (FastGelu, Conv2D), or a misspelling. */
function alike(wanted: string, names: readonly string[]): string | undefined {
  const word = wanted.toLowerCase();
  const variants = names.filter((name) => name.length > 2 && (word.includes(name.toLowerCase()) || name.toLowerCase().includes(word)));
  return nearestName(wanted, variants) ?? nearestName(wanted, names, Math.min(wanted.length - 2, Math.max(2, wanted.length >> 2)));
}
