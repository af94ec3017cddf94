/** Small inputs that every operator carries: they feed the reference check, the device checks, the fuzzers and the benches. */
import type { DtypeName } from "../graph/dtype";
import type { Attribute } from "../graph/ir";
import { type Elements, encode, roundTo, sizeOf, type Stored, type Tensor, tensor } from "../graph/tensor";

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

/** Numbers are made when somebody looks at them: loading the operators must not cost what testing them does. */
function lazy(dtype: DtypeName, dims: readonly number[], numbers: () => readonly (number | bigint)[], asConstant = false): SampleInput {
  let data: Elements | undefined;
  return {
    dtype,
    dims,
    asConstant,
    get data() {
      data ??= tensor(dtype, dims, numbers()).data;
      return data;
    },
  };
}

/** 0, 1, -1, 2, -2 ... scaled by `step`: both signs, no two neighbours alike. */
export function ramp(dims: readonly number[], step = 0.25, dtype: DtypeName = "float32"): SampleInput {
  const at = (i: number): number => roundTo(dtype, (i % 2 ? 1 : -1) * Math.ceil((i % 257) / 2) * step);
  return lazy(dtype, dims, () => Array.from({ length: sizeOf(dims) }, (_, i) => at(i)));
}
/** Above zero everywhere. */
export function positive(dims: readonly number[], step = 0.25, dtype: DtypeName = "float32"): SampleInput {
  return lazy(dtype, dims, () => Array.from({ length: sizeOf(dims) }, (_, i) => roundTo(dtype, (1 + (i % 61)) * step)));
}
/** Reproducible noise in -1..1 from a linear congruential generator. */
export function noise(dims: readonly number[], seed = 1): SampleInput {
  return lazy("float32", dims, () => {
    let state = seed >>> 0;
    return Array.from({ length: sizeOf(dims) }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.fround(state / 2 ** 31 - 1);
    });
  });
}
export function values(dtype: DtypeName, dims: readonly number[], numbers: readonly (number | bigint)[]): SampleInput {
  return lazy(dtype, dims, () => numbers);
}
/** A constant 1-D int64 tensor: axes, shapes, pads. */
export function axesOf(...numbers: number[]): SampleInput {
  return lazy("int64", [numbers.length], () => numbers, true);
}
/** A constant scalar. */
export function scalar(value: number, dtype: DtypeName = "float32"): SampleInput {
  return lazy(dtype, [], () => [value], true);
}
/** The same numbers as an initializer. */
export const fixed = (input: SampleInput): SampleInput => lazy(input.dtype, input.dims, () => [...input.data], true);
export const asStored = (input: SampleInput): Stored => encode(input);
