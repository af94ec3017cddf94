/** Shared by the elementwise families: reference arithmetic over broadcast shapes, and inference. */
import { AclError } from "../errors/acl-error";
import { broadcast, broadcastStrides } from "../graph/dims";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { elements, isFloat, isInteger, isSigned, roundTo, rowMajor, saturated, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { ConcreteType, Type } from "./define";

/** A function on numbers, and the same on integers of any width where it differs. */
export interface Arithmetic {
  readonly real: (...args: number[]) => number;
  readonly whole?: (...args: bigint[]) => bigint;
}

/** Applies `f` element by element; the result is rounded (wrapped) to the output's type. */
export function mapTensors(f: Arithmetic, inputs: readonly Tensor[], { dtype, dims }: ConcreteType): Tensor {
  const data = elements(dtype, sizeOf(dims));
  const offsets = inputs.map((input) => offsetsOf(input, dims));
  const args = new Array<number>(inputs.length);
  const whole = f.whole && inputs.every((input) => isInteger(input.dtype)) ? f.whole : undefined;
  for (let i = 0; i < data.length; i++) {
    if (whole) {
      const value = whole(...inputs.map((input, k) => BigInt(input.data[offsets[k]![i]!]!)));
      data[i] = data instanceof Float64Array ? wrapBig(dtype, value) : value;
      continue;
    }
    for (let k = 0; k < inputs.length; k++) {
      args[k] = Number(inputs[k]!.data[offsets[k]![i]!]);
    }
    const value = f.real(...args);
    data[i] = data instanceof Float64Array ? roundTo(dtype, value) : saturated(dtype, value);
  }
  return { dtype, dims, data };
}

function wrapBig(dtype: DtypeName, value: bigint): number {
  if (dtype === "bool") {
    return value === 0n ? 0 : 1;
  }
  const { bits } = DTYPES[dtype];
  return isInteger(dtype) ? Number(isSigned(dtype) ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value)) : roundTo(dtype, Number(value));
}

function offsetsOf(input: Tensor, dims: readonly number[]): Uint32Array {
  const offsets = new Uint32Array(sizeOf(dims));
  walk(dims, broadcastStrides(input.dims, rowMajor(input.dims), dims), (index, offset) => (offsets[index] = offset));
  return offsets;
}

/** One element type for all operands and their broadcast shape. */
export function broadcastType(inputs: readonly Type[], node: string, dtype?: DtypeName): Type {
  const first = inputs[0]!;
  for (const input of inputs) {
    if (input.dtype !== first.dtype) {
      throw new AclError(100026, `${node} mixes ${first.dtype} and ${input.dtype}; operands need one element type: insert a Cast`);
    }
  }
  return {
    dtype: dtype ?? first.dtype,
    dims: broadcast(
      inputs.map((input) => input.dims),
      node,
    ),
  };
}

export function requireDtype(dtype: DtypeName, allowed: "float" | "number" | "bool", node: string): void {
  const fits = allowed === "float" ? isFloat(dtype) : allowed === "bool" ? dtype === "bool" : isFloat(dtype) || isInteger(dtype);
  if (!fits) {
    throw new AclError(100026, `${node} does not take ${dtype}; it takes ${allowed === "number" ? "numbers" : `${allowed} values`}`);
  }
}
