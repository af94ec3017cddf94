/** How a strip reads an operand, and what that asks of the length of strips. */
import { OperandMode } from "../../asm/abi/strip";
import type { View } from "./types";
import { elementBytes, isContiguous, product, type Shape } from "./views";

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));

/** What the periods of operands ask of the length of a strip: that it is a multiple of `size`, and leaves `rest` elements of a register free. */
export interface Grouping {
  size: number;
  rest: number;
}

/** How one input is read, given its strides over the joint dims; `group` grows by the periods taken. */
export function inputMode(
  view: View,
  shape: Shape,
  index: number,
  group: Grouping,
  longest: number,
): { mode: OperandMode; dims: readonly number[]; strides: readonly number[] } {
  const { dims } = shape;
  const strides = shape.strides[index]!;
  const size = elementBytes(view);
  const plain = { dims, strides };
  if (isContiguous(dims, strides, size)) return { mode: OperandMode.FLAT, ...plain };
  if (dims.every((dim, axis) => dim === 1 || strides[axis] === 0)) return { mode: OperandMode.SPLAT, ...plain };
  let inner = dims.length;
  while (inner > 0 && isContiguous(dims.slice(inner - 1), strides.slice(inner - 1), size)) inner--;
  const period = product(dims.slice(inner));
  const size2 = (group.size / gcd(group.size, period)) * period;
  const whole = size2 <= longest - group.rest;
  if (inner < dims.length && strides.slice(0, inner).every((stride) => stride === 0) && (whole || period <= longest - group.size)) {
    if (whole) group.size = size2;
    else group.rest = Math.max(group.rest, period);
    return { mode: OperandMode.PERIODIC, dims: [product(dims.slice(0, inner)), period], strides: [0, size] };
  }
  return { mode: OperandMode.GATHER, ...plain };
}
