/** Weights as the kernels want them, packed when the model is compiled. */
import { decode, encode, type Stored } from "../graph/tensor";
import { packConv, packMatmul, packWinograd } from "../program/pack";
import type { View } from "../program/types";
import type { Lowering, Operand } from "./lowering";

const EXPONENT = 0x7f80_0000;

/**
 * Packed weights as bytes, subnormal ones (below 1.2e-38, what weight decay leaves behind) as zeros: products with them are lost in any sum beside
 * them, and processors take some 100 cycles for each.
 */
function bytesOf({ buffer, byteOffset, byteLength, length }: Float32Array): Uint8Array {
  const words = new Uint32Array(buffer, byteOffset, length);
  for (let i = 0; i < length; i++) {
    if ((words[i]! & EXPONENT) === 0) words[i] = 0;
  }
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A constant as float32; the file's bytes may start at any address. */
function floatsOf(stored: Stored): Float32Array {
  if (stored.dtype !== "float32") {
    return floatsOf(encode({ ...decode(stored), dtype: "float32" }));
  }
  const { buffer, byteOffset, byteLength } = stored.bytes;
  return byteOffset % 4 === 0
    ? new Float32Array(buffer, byteOffset, byteLength / 4)
    : new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength));
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

/**
 * An operand as float32 in the order of the file: weights that are used as they are, and biases, whose subnormals would go on into all products of the
 * next layer where a bias alone makes a channel.
 */
export function plainFloats(b: Lowering, operand: Operand): View {
  return operand.stored
    ? b.derived(operand.value, "plain", "float32", operand.dims, () => bytesOf(floatsOf(operand.stored!).slice()))
    : b.converted(operand.view, "float32");
}

/** 3 x 3 weights [M, C, 3, 3] transformed for Winograd; the view keeps the logical dims. */
export function winogradFilter(b: Lowering, weights: Operand): View {
  const { panel } = b.program;
  return b.derived(weights.value, `winograd:${weights.dims}:${panel}`, "float32", weights.dims, () =>
    bytesOf(packWinograd(floatsOf(weights.stored!), weights.dims, panel)),
  );
}
