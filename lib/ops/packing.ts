/** Weights as the kernels want them, packed when the model is compiled. */
import type { View } from "../program/types";
import type { Lowering, Operand } from "./lowering";

export function packedMatrix(_b: Lowering, _weights: Operand, _transposed: boolean): View | undefined {
  return undefined;
}
export function packedFilter(_b: Lowering, weights: Operand, _groups: number): View {
  return weights.view;
}
