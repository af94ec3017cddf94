/** The options of create and run: what onnxruntime-common documents is accepted, and refused only where ignoring it would be a lie. */
import { checkInteger, checkOptions, invalidParam, nearestName, notSupported } from "../errors/make";
import type { InferenceSession } from "./ort";

// biome-ignore format: table
const CREATE_NAMES: readonly (keyof InferenceSession.SessionOptions)[] = [
  "executionProviders", "intraOpNumThreads", "interOpNumThreads", "freeDimensionOverrides", "graphOptimizationLevel", "enableCpuMemArena",
  "enableMemPattern", "executionMode", "optimizedModelFilePath", "enableProfiling", "profileFilePrefix", "logId", "logSeverityLevel",
  "logVerbosityLevel", "preferredOutputLocation", "enableGraphCapture", "externalData", "extra",
];
const RUN_NAMES: readonly (keyof InferenceSession.RunOptions)[] = ["logSeverityLevel", "logVerbosityLevel", "terminate", "tag", "extra", "signal"];
const PROVIDER_NAMES: readonly (keyof InferenceSession.NpurtExecutionProviderOption)[] = ["name", "device", "frames", "programs"];

const CREATE = "InferenceSession.create";
const RUN = "session.run";
const MOST_THREADS = 2 ** 31 - 1;

function oneOf(where: string, name: string, value: unknown, allowed: readonly string[]): void {
  if (value !== undefined && !allowed.includes(value as string)) {
    throw invalidParam(
      `${where}: ${name} "${String(value)}" is unknown; did you mean "${nearestName(String(value), allowed)}"? Valid: ${allowed.join(", ")}`,
    );
  }
}

function ofType(where: string, options: object, kind: "boolean" | "string" | "object", names: readonly string[]): void {
  for (const name of names) {
    const value = (options as Record<string, unknown>)[name];
    if (value !== undefined && (typeof value !== kind || value === null)) {
      throw invalidParam(`${where}: ${name} must be ${kind === "object" ? "an object" : `a ${kind}`}, not ${value === null ? "null" : typeof value}`);
    }
  }
}

/** The options of create, or an error that says which one makes no sense. */
export function checkCreateOptions(options: unknown): InferenceSession.SessionOptions {
  checkOptions(CREATE, options, CREATE_NAMES);
  const checked = (options ?? {}) as InferenceSession.SessionOptions;
  checkInteger(CREATE, "intraOpNumThreads", checked.intraOpNumThreads, 0, MOST_THREADS);
  checkInteger(CREATE, "interOpNumThreads", checked.interOpNumThreads, 0, MOST_THREADS);
  checkInteger(CREATE, "logSeverityLevel", checked.logSeverityLevel, 0, 4);
  checkInteger(CREATE, "logVerbosityLevel", checked.logVerbosityLevel, 0, MOST_THREADS);
  oneOf(CREATE, "graphOptimizationLevel", checked.graphOptimizationLevel, ["disabled", "basic", "extended", "layout", "all"]);
  oneOf(CREATE, "executionMode", checked.executionMode, ["sequential", "parallel"]);
  ofType(CREATE, checked, "boolean", ["enableCpuMemArena", "enableMemPattern", "enableProfiling", "enableGraphCapture"]);
  ofType(CREATE, checked, "string", ["optimizedModelFilePath", "profileFilePrefix", "logId"]);
  ofType(CREATE, checked, "object", ["extra", "freeDimensionOverrides"]);
  for (const [name, size] of Object.entries(checked.freeDimensionOverrides ?? {})) {
    checkInteger(`${CREATE}: freeDimensionOverrides`, name, size, 0, 2 ** 31 - 1);
  }
  checkLocations(checked.preferredOutputLocation);
  if (checked.optimizedModelFilePath !== undefined) {
    throw notSupported(`${CREATE}: optimizedModelFilePath: npurt compiles to programs, not to ONNX; leave it out`);
  }
  if (checked.externalData !== undefined && checked.externalData.length > 0) {
    throw notSupported(`${CREATE}: externalData: give the path of the model, and the files that it refers to are found beside it`);
  }
  return checked;
}

function checkLocations(asked: InferenceSession.SessionOptions["preferredOutputLocation"]): void {
  const locations = typeof asked === "object" && asked !== null ? Object.values(asked) : asked === undefined ? [] : [asked];
  for (const location of locations) {
    oneOf(CREATE, "preferredOutputLocation", location, ["cpu", "cpu-pinned", "texture", "gpu-buffer", "ml-tensor"]);
    if (location !== "cpu" && location !== "cpu-pinned") {
      throw notSupported(`${CREATE}: preferredOutputLocation "${location}": results of npurt are in memory of the host; ask for "cpu"`);
    }
  }
}

/** Settings of our own provider, if the list names it. All other providers are names that mean nothing here. */
export function providerOf(providers: unknown): InferenceSession.NpurtExecutionProviderOption {
  if (providers === undefined) {
    return { name: "npurt" };
  }
  if (!Array.isArray(providers)) {
    throw invalidParam(`${CREATE}: executionProviders must be an array of names or objects with a name`);
  }
  for (const provider of providers as unknown[]) {
    const name = typeof provider === "string" ? provider : (provider as { name?: unknown } | null)?.name;
    if (typeof name !== "string" || name === "") {
      throw invalidParam(`${CREATE}: an execution provider is a name or an object with a name, not ${JSON.stringify(provider) ?? typeof provider}`);
    }
    if (name === "npurt" && typeof provider === "object") {
      checkOptions(`${CREATE}: execution provider "npurt"`, provider, PROVIDER_NAMES);
      return provider as InferenceSession.NpurtExecutionProviderOption;
    }
  }
  return { name: "npurt" };
}

export function checkRunOptions(options: unknown): InferenceSession.RunOptions {
  checkOptions(RUN, options, RUN_NAMES);
  const checked = (options ?? {}) as InferenceSession.RunOptions;
  checkInteger(RUN, "logSeverityLevel", checked.logSeverityLevel, 0, 4);
  checkInteger(RUN, "logVerbosityLevel", checked.logVerbosityLevel, 0, MOST_THREADS);
  ofType(RUN, checked, "boolean", ["terminate"]);
  ofType(RUN, checked, "string", ["tag"]);
  ofType(RUN, checked, "object", ["extra"]);
  if (checked.signal !== undefined && typeof checked.signal?.addEventListener !== "function") {
    throw invalidParam(`${RUN}: signal must be an AbortSignal`);
  }
  return checked;
}
