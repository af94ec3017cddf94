/** Small inputs that every operator carries: they feed the reference check, the device checks, the fuzzers and the benches. */
import type { DtypeName } from "../graph/dtype";
import type { Attribute } from "../graph/ir";
import { encode, roundTo, sizeOf, type Tensor, tensor } from "../graph/tensor";

export interface Sample {
  readonly title: string;
  /** Positional or by input name; a tensor marked with `constant` is an initializer of the model. */
  readonly inputs: Readonly<Record<string, SampleInput | readonly SampleInput[] | undefined>>;
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** Number of outputs to ask for. */
  readonly outputs: number;
  readonly opset?: number;
  /** Set when the compiler has to refuse the node. */
  readonly rejects?: { readonly code: number; readonly text: RegExp };
}
export type SampleInput = Tensor & { readonly asConstant?: boolean };

interface Extra {
  readonly attributes?: Readonly<Record<string, Attribute | number | readonly number[]>>;
  readonly outputs?: number;
  readonly opset?: number;
  /** Numbers in `attributes` that are floats. */
  readonly floats?: readonly string[];
}

/** Whole numbers in `attributes` mean integers unless `floats` names them. */
export function sample(title: string, inputs: Sample["inputs"], extra: Extra = {}): Sample {
  const attributes: Record<string, Attribute> = {};
  for (const [name, value] of Object.entries(extra.attributes ?? {})) {
    const asInt = !extra.floats?.includes(name);
    if (typeof value === "number") {
      attributes[name] = asInt && Number.isInteger(value) ? BigInt(value) : value;
    } else if (Array.isArray(value) && asInt && value.every((each) => typeof each === "number")) {
      attributes[name] = (value as number[]).map(BigInt);
    } else {
      attributes[name] = value as Attribute;
    }
  }
  return { title, inputs, attributes, outputs: extra.outputs ?? 1, ...(extra.opset === undefined ? {} : { opset: extra.opset }) };
}

export function rejects(title: string, inputs: Sample["inputs"], code: number, text: RegExp, extra: Extra = {}): Sample {
  return { ...sample(title, inputs, extra), rejects: { code, text } };
}

/** 0, 1, -1, 2, -2 ... scaled by `step`: both signs, no two neighbours alike. */
export function ramp(dims: readonly number[], step = 0.25, dtype: DtypeName = "float32"): SampleInput {
  const count = sizeOf(dims);
  return tensor(
    dtype,
    dims,
    Array.from({ length: count }, (_, i) => roundTo(dtype, (i % 2 ? 1 : -1) * Math.ceil((i % 257) / 2) * step)),
  );
}
/** Above zero everywhere. */
export function positive(dims: readonly number[], step = 0.25, dtype: DtypeName = "float32"): SampleInput {
  return tensor(
    dtype,
    dims,
    Array.from({ length: sizeOf(dims) }, (_, i) => roundTo(dtype, (1 + (i % 61)) * step)),
  );
}
/** Reproducible noise in -1..1 from a linear congruential generator. */
export function noise(dims: readonly number[], seed = 1): SampleInput {
  let state = seed >>> 0;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.fround(state / 2 ** 31 - 1);
  };
  return tensor("float32", dims, Array.from({ length: sizeOf(dims) }, next));
}
export function values(dtype: DtypeName, dims: readonly number[], numbers: readonly (number | bigint)[]): SampleInput {
  return tensor(dtype, dims, numbers);
}
/** A constant 1-D int64 tensor: axes, shapes, pads. */
export function axesOf(...numbers: number[]): SampleInput {
  return { ...tensor("int64", [numbers.length], numbers), asConstant: true };
}
/** A constant scalar. */
export function scalar(value: number, dtype: DtypeName = "float32"): SampleInput {
  return { ...tensor(dtype, [], [value]), asConstant: true };
}
export const fixed = (input: SampleInput): SampleInput => ({ ...input, asConstant: true });
export const asStored = (input: SampleInput) => encode(input);
