/** Weights as the kernels want them, packed when the model is compiled, or by copies where they are known only when it runs. */
import { decode, encode, sizeOf, type Stored } from "../graph/tensor";
import { isDepthwise, packConv, packedBits, packedConvSize, packMatmul, packWinograd, type Weights } from "../program/pack";
import type { View } from "../program/types";
import type { Lowering, Operand } from "./lowering";
import { permuteView, reshapeView, sliceView } from "./views";

const bytesOf = ({ buffer, byteOffset, byteLength }: Weights): Uint8Array => new Uint8Array(buffer, byteOffset, byteLength);

/** A constant as float32. */
const floatsOf = (stored: Stored): Uint8Array => (stored.dtype === "float32" ? stored.bytes : encode({ ...decode(stored), dtype: "float32" }).bytes);

/** A copy without subnormals, as packed weights are. */
function plainBytes(floats: Uint8Array): Uint8Array {
  const copy = new Uint8Array(floats);
  const words = new Uint32Array(copy.buffer);
  for (let i = 0; i < words.length; i++) words[i] = packedBits(words[i]!);
  return copy;
}

/** Panels of the constant matrix `weights`, [k, n] or, `transposed`, [n, k] in the file; the view has the logical dims [k, n]. */
export function packedMatrix(b: Lowering, weights: Operand, transposed: boolean): View {
  const [rows, columns] = weights.dims as [number, number];
  const [k, n] = transposed ? [columns, rows] : [rows, columns];
  const { panel } = b.program;
  const pack = (): Uint8Array => bytesOf(packMatmul(floatsOf(weights.stored!), k, n, panel, transposed));
  return b.derived(weights.value, `matmul:${k}:${n}:${transposed}:${panel}`, "float32", [k, n], pack);
}

/** Weights [M, C / groups, kernel...], or `dims` that mean the same, in the order of the CONV kernel; the view keeps the logical dims. */
export function packedFilter(b: Lowering, weights: Operand, groups: number, dims = weights.dims): View {
  const { panel } = b.program;
  return b.derived(weights.value, `conv:${dims}:${groups}:${panel}`, "float32", weights.dims, () =>
    bytesOf(packConv(floatsOf(weights.stored!), dims, groups, panel)),
  );
}

/** The order of `packConv`, made by copies: weights [M, C / groups, kernel...] that are known only when the model runs. */
export function filterAtRunTime(b: Lowering, weights: View, groups: number, dims = weights.dims): View {
  const [filters, channels, ...kernel] = dims as [number, number, ...number[]];
  const [taps, columns, { panel }] = [sizeOf(kernel), filters / groups, b.program];
  const given = reshapeView(b.arranged(b.converted(weights, "float32")), [groups, columns, channels, taps])!;
  const packed = b.temporary("float32", [packedConvSize(dims, groups, panel)], undefined, `${b.node.name}.weights`);
  if (isDepthwise(channels, columns, groups)) {
    b.copy(reshapeView(packed, [taps, filters])!, permuteView(reshapeView(given, [filters, taps])!, [1, 0]));
    return packed;
  }
  const panels = reshapeView(packed, [groups, Math.ceil(columns / panel), taps, channels, panel])!;
  const place = (first: number, count: number, width: number): void => {
    const target = sliceView(sliceView(panels, 1, first, count), 4, 0, width);
    const from = reshapeView(sliceView(given, 1, first * panel, count * width), [groups, count, width, channels, taps])!;
    b.copy(target, permuteView(from, [0, 1, 4, 3, 2]));
  };
  const [whole, rest] = [Math.floor(columns / panel), columns % panel];
  if (rest > 0) {
    b.map(packed, [], (s) => s.constant("f32", 0));
    place(whole, 1, rest);
  }
  place(0, whole, panel);
  return packed;
}

/**
 * An operand as float32 in the order of the file: weights that are used as they are, and biases, whose subnormals would go on into all products of the
 * next layer where a bias alone makes a channel.
 */
export function plainFloats(b: Lowering, operand: Operand): View {
  return operand.stored
    ? b.derived(operand.value, "plain", "float32", operand.dims, () => plainBytes(floatsOf(operand.stored!)))
    : b.converted(operand.view, "float32");
}

/** 3 x 3 weights [M, C, 3, 3] transformed for Winograd; the view keeps the logical dims. */
export function winogradFilter(b: Lowering, weights: Operand): View {
  const { panel } = b.program;
  return b.derived(weights.value, `winograd:${weights.dims}:${panel}`, "float32", weights.dims, () =>
    bytesOf(packWinograd(floatsOf(weights.stored!), weights.dims, panel)),
  );
}
