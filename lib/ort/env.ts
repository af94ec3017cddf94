/** The `env` object that code written for onnxruntime sets flags on, and what a suite runner may hand to this back end. */
import { DTYPES, type DtypeName } from "../graph/dtype";
import type { Env } from "./ort";

const { version } = require("../../../package.json") as { version: string };

/** The release of onnxruntime-common whose interface this is. */
const INTERFACE = "1.30.0";

export const env: Env = {
  logLevel: "warning",
  versions: { common: INTERFACE, npurt: version },
  wasm: {},
  // Their `context` and `device` do not exist here.
  webgl: {} as Env["webgl"],
  webgpu: {} as Env["webgpu"],
};

/** Types that onnxruntime-common's tensors have. */
const STANDARD = new Set<DtypeName>(
  // biome-ignore format: table
  ["float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "float64", "uint32", "uint64", "uint4", "int4"],
);

/**
 * What this back end takes beyond onnxruntime-common: `dtypes` are further element types that `Tensor` takes as raw storage (2- and 4-bit types
 * packed, the first element in the low bits); `nonTensor` says whether sequences and optionals may be fed and fetched.
 */
export const capabilities: { readonly nonTensor: boolean; readonly dtypes: readonly string[] } = {
  nonTensor: true,
  dtypes: (Object.keys(DTYPES) as DtypeName[]).filter((name) => !STANDARD.has(name)),
};
