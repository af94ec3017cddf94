/** Reads a model file for a command: its bytes, and what it says about its inputs and outputs before anything is compiled. */
import path from "node:path";
import { modelInfo } from "../compile/bind";
import type { ModelInfo } from "../compile/types";
import { importOnnx } from "../import/onnx/model";
import type { Tensor } from "../runtime/tensor";
import type { Assignment } from "./arguments";
import { readGiven } from "./files";
import { UsageError } from "./output";

export interface ModelFile {
  readonly bytes: Uint8Array;
  /** Where its external data lies. */
  readonly folder: string;
  readonly info: ModelInfo;
}

/** @throws AclError 100003 if the file cannot be read, and what the importer throws */
export function readModel(file: string): ModelFile {
  const folder = path.dirname(path.resolve(file));
  const bytes = readGiven(file, "the model");
  return { bytes, folder, info: modelInfo(importOnnx(bytes, folder)) };
}

export function checkOutputNames(info: ModelInfo, asked: readonly Assignment[]): void {
  const names = info.outputs.map((output) => output.name);
  for (const { name } of asked) {
    if (!names.includes(name)) throw new UsageError(`--output ${name}: the model has no such output; it has ${names.join(", ")}`);
  }
}

export function dimsOf(tensors: Readonly<Record<string, Tensor>>): Record<string, readonly number[]> {
  return Object.fromEntries(Object.entries(tensors).map(([name, { dims }]) => [name, dims]));
}
