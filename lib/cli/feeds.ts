/** From `--input` and `--dim` to the tensors of one run: .npy files where given, seeded random values elsewhere. */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../errors/acl-error";
import { readGiven } from "./files";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { arrayOf, countOf, Tensor } from "../runtime/tensor";
import type { Assignment } from "./arguments";
import { readNpy, writeNpy } from "./npy";
import { UsageError } from "./output";

export interface InputInfo {
  readonly name: string;
  readonly dtype: DtypeName;
  readonly dims: readonly (number | string)[];
}

/**
 * One tensor per input. Dims that the model leaves open are taken from the .npy files first, then from `--dim`, then 1.
 * @throws UsageError for a name that the model does not have
 */
export function makeFeeds(
  inputs: readonly InputInfo[],
  given: readonly Assignment[],
  dims: readonly Assignment[],
  seed: number,
): Record<string, Tensor> {
  for (const { name } of given)
    checkName(
      name,
      inputs.map((input) => input.name),
      "--input",
      "input",
    );
  const sizes = readSizes(inputs, dims);
  const files = new Map<string, Tensor>();
  for (const { name, value } of given) {
    if (value === "random") continue;
    const tensor = readTensor(value);
    files.set(name, tensor);
    const input = inputs.find((candidate) => candidate.name === name);
    for (const [axis, dim] of (input?.dims ?? []).entries()) {
      const size = tensor.dims[axis];
      if (typeof dim === "string" && size !== undefined && !sizes.has(dim)) sizes.set(dim, size);
    }
  }
  const random = generator(seed);
  return Object.fromEntries(inputs.map((input) => [input.name, files.get(input.name) ?? randomTensor(input, sizes, random)]));
}

/** Dims of every input for a run that is not fed: open dims as `--dim` says, else 1. */
export function shapesOf(inputs: readonly InputInfo[], dims: readonly Assignment[]): Record<string, readonly number[]> {
  const sizes = readSizes(inputs, dims);
  return Object.fromEntries(inputs.map((input) => [input.name, concrete(input, sizes)]));
}

function readSizes(inputs: readonly InputInfo[], dims: readonly Assignment[]): Map<string, number> {
  const open = inputs.flatMap((input) => input.dims).filter((dim) => typeof dim === "string");
  for (const { name } of dims) checkName(name, open, "--dim", "open dim");
  return new Map(dims.map(({ name, value }) => [name, dimSize(name, value)]));
}

function concrete({ dims }: InputInfo, sizes: ReadonlyMap<string, number>): number[] {
  return dims.map((dim) => (typeof dim === "number" ? dim : (sizes.get(dim) ?? 1)));
}

function checkName(name: string, known: readonly string[], option: string, what: string): void {
  if (!known.includes(name))
    throw new UsageError(`${option} ${name}: the model has no such ${what}; it has ${[...new Set(known)].join(", ") || "none"}`);
}

function dimSize(name: string, value: string): number {
  const size = Number(value);
  if (!Number.isInteger(size) || size < 0) throw new UsageError(`--dim ${name}=${value}: a size is a whole number from 0 up`);
  return size;
}

function readTensor(file: string): Tensor {
  const array = readNpy(readGiven(file, "the input"), path.basename(file));
  return new Tensor(array.dtype, array.dims, new (arrayOf(array.dtype))(alignedBuffer(array.bytes), 0, countOf(array.dims)));
}

/** A buffer of its own, so that every element type may start at its first byte. */
function alignedBuffer(bytes: Uint8Array): ArrayBuffer {
  const buffer = new ArrayBuffer(bytes.length);
  new Uint8Array(buffer).set(bytes);
  return buffer;
}

export function writeTensor(file: string, tensor: Tensor): void {
  const { buffer, byteOffset, byteLength } = tensor.data;
  const bytes = writeNpy({ dtype: tensor.dtype, dims: tensor.dims, bytes: new Uint8Array(buffer, byteOffset, byteLength) });
  try {
    fs.writeFileSync(file, bytes);
  } catch (cause) {
    throw new AclError(100003, `cannot write ${file}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** xorshift32 in [0, 1). */
function generator(seed: number): () => number {
  let state = (seed ^ 0x9e3779b9) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Floats in [0, 1), integers 0 to 9, booleans and sub-byte types 0 or 1; float16 and bfloat16 are bits of numbers in [0.5, 1). */
function randomTensor(input: InputInfo, sizes: ReadonlyMap<string, number>, random: () => number): Tensor {
  const { name, dtype } = input;
  if (dtype === "string") throw new UsageError(`input ${name} takes strings, which a .npy file or a random value cannot give`);
  const dims = concrete(input, sizes);
  const { data } = Tensor.zeros(dtype, dims);
  for (let i = 0; i < data.length; i++) {
    if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(Math.floor(10 * random()));
    else data[i] = randomElement(dtype, random());
  }
  return new Tensor(dtype, dims, data);
}

function randomElement(dtype: DtypeName, value: number): number {
  if (dtype === "float32" || dtype === "float64" || dtype.startsWith("complex")) return value;
  if (dtype === "float16") return 0x3800 + Math.floor(value * 0x400);
  if (dtype === "bfloat16") return 0x3f00 + Math.floor(value * 0x80);
  return Math.floor(value * (dtype === "bool" || DTYPES[dtype].bits < 8 ? 2 : 10));
}
