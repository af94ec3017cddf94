/** InferenceSession as onnxruntime-common has it, over an Executor. */
import path from "node:path";
import type { ValueInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { invalidHandle, invalidParam, nearestName } from "../errors/make";
import type { Device } from "../runtime/device";
import type { LoadOptions, RunOptions } from "../runtime/executor";
import { checkMade } from "../runtime/internals";
import type { Tensor as RuntimeTensor } from "../runtime/tensor";
import type { Results } from "../runtime/types";
import { deviceFor } from "./device";
import { collect, collectValues, directOutputs, splitArguments } from "./fetches";
import { LoadedModel, type ModelSource } from "./loaded";
import type { HostValue } from "./sequences";
import { checkCreateOptions, checkRunOptions, providerOf } from "./options";
import { HostTensor, stringsFor, tensorFor } from "./tensor";
import type { InferenceSession as InferenceSessionInterface, Tensor as TensorInterface } from "./ort";

type SessionOptions = InferenceSessionInterface.SessionOptions;
type ValueMetadata = InferenceSessionInterface.ValueMetadata;

export class HostSession implements InferenceSessionInterface {
  #model: LoadedModel | undefined;
  readonly #device: Device;
  readonly #profile: string | undefined;
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  readonly inputMetadata: readonly ValueMetadata[];
  readonly outputMetadata: readonly ValueMetadata[];

  private constructor(model: LoadedModel, device: Device, options: SessionOptions) {
    checkMade(model instanceof LoadedModel, "InferenceSession", "await InferenceSession.create(model)");
    const { inputs, outputs } = model.info;
    const sizes = options.freeDimensionOverrides ?? {};
    this.#model = model;
    this.#device = device;
    this.#profile = options.enableProfiling === true ? (options.profileFilePrefix ?? "npurt_profile") : undefined;
    this.inputNames = inputs.map(({ name }) => name);
    this.outputNames = outputs.map(({ name }) => name);
    const other = new Set(
      [...(model.staged?.inputs ?? []), ...(model.staged?.outputs ?? [])].filter(({ kind }) => kind !== "tensor").map(({ name }) => name),
    );
    const metadata = (value: ValueInfo): ValueMetadata => (other.has(value.name) ? { name: value.name, isTensor: false } : metadataOf(value, sizes));
    this.inputMetadata = inputs.map(metadata);
    this.outputMetadata = outputs.map(metadata);
  }

  static async create(first: unknown, second?: unknown, third?: unknown, fourth?: unknown): Promise<HostSession> {
    const { source, options } = sourceOf(first, second, third, fourth);
    const checked = checkCreateOptions(options);
    const provider = providerOf(checked.executionProviders);
    const device = await deviceFor(checked, provider);
    const { frames, programs } = provider;
    const kept: LoadOptions = { device, ...(frames === undefined ? {} : { frames }), ...(programs === undefined ? {} : { programs }) };
    const model = await LoadedModel.load(source, kept);
    try {
      await compileFor(model, checked.freeDimensionOverrides);
      return new HostSession(model, device, checked);
    } catch (error) {
      model.dispose();
      throw error;
    }
  }

  // Async, so that whatever is wrong with the arguments rejects the promise, as with onnxruntime.
  async run(feeds: InferenceSessionInterface.FeedsType, second?: unknown, third?: unknown): Promise<InferenceSessionInterface.ReturnType> {
    const model = this.#model;
    if (model === undefined) {
      throw invalidHandle("session.run: the session was released; create another");
    }
    const { fetches, options } = splitArguments(second, third, this.outputNames);
    const { signal, terminate } = checkRunOptions(options);
    if (terminate === true) {
      throw new AclError(107035, "session.run: `terminate` is set in its options; leave it out to run");
    }
    if (model.staged !== undefined) {
      return collectValues(fetches, await model.staged.run(hostValues(feeds, this.inputNames), signal));
    }
    const tensors = feedsOf(feeds, this.inputNames);
    const outputs = directOutputs(fetches, this.outputNames);
    const extra = runOptions(signal, outputs);
    return collect(fetches, await model.run(tensors, extra), outputs !== undefined);
  }

  async release(): Promise<void> {
    this.#model?.dispose();
    this.#model = undefined;
  }

  startProfiling(): void {
    // The device traces from the time it is opened.
  }

  endProfiling(): void {
    if (this.#profile !== undefined) {
      // Diagnosis is loaded by those who ask for it.
      const { writeTimeline } = require("../diag/timeline") as { writeTimeline(device: Device, file: string): unknown };
      writeTimeline(this.#device, path.resolve(`${this.#profile}_${new Date().toISOString().replaceAll(":", "-")}.json`));
    }
  }
}

function metadataOf({ name, dtype, dims }: ValueInfo, sizes: Readonly<Record<string, number>>): ValueMetadata {
  const shape = dims.map((dim) => (typeof dim === "string" ? (sizes[dim] ?? dim) : dim));
  return { name, isTensor: true, type: dtype as TensorInterface.Type, shape };
}

function checkObject(options: unknown): void {
  if (options !== undefined && (options === null || typeof options !== "object")) {
    throw invalidParam(`InferenceSession.create: options must be an object, not ${options === null ? "null" : typeof options}`);
  }
}

const isBuffer = (value: unknown): value is ArrayBufferLike => /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(value));

/** The model and the options, in any of the four ways to give them. */
function sourceOf(first: unknown, second: unknown, third: unknown, fourth: unknown): { source: ModelSource; options: unknown } {
  if (typeof first === "string" || ArrayBuffer.isView(first)) {
    checkObject(second);
    const source = typeof first === "string" ? first : new Uint8Array(first.buffer, first.byteOffset, first.byteLength);
    return { source, options: second };
  }
  if (!isBuffer(first)) {
    throw invalidParam("InferenceSession.create: pass the path of a model, or its bytes in a Uint8Array or an ArrayBuffer");
  }
  if (typeof second !== "number") {
    checkObject(second);
    return { source: new Uint8Array(first), options: second };
  }
  const length = typeof third === "number" ? third : first.byteLength - second;
  if (!Number.isInteger(second) || !Number.isInteger(length) || second < 0 || length <= 0 || second + length > first.byteLength) {
    throw invalidParam(
      `InferenceSession.create: byteOffset ${second} and byteLength ${String(third ?? length)} do not lie in a buffer of ${first.byteLength} bytes`,
    );
  }
  const options = typeof third === "number" ? fourth : (third ?? fourth);
  checkObject(options);
  return { source: new Uint8Array(first, second, length), options };
}

/** Compiles for the sizes that open dims are given, if those leave none open and nothing else is missing. */
async function compileFor(model: LoadedModel, sizes: Readonly<Record<string, number>> | undefined): Promise<void> {
  const { inputs } = model.info;
  for (const name of Object.keys(sizes ?? {})) {
    if (!inputs.some(({ dims }) => dims.includes(name))) {
      const open = [...new Set(inputs.flatMap(({ dims }) => dims.filter((dim) => typeof dim === "string")))];
      throw invalidParam(`InferenceSession.create: freeDimensionOverrides: no input has a dim "${name}"; open dims: ${open.join(", ") || "none"}`);
    }
  }
  const shapes = Object.fromEntries(
    inputs.map(({ name, dims }): [string, (number | string)[]] => [name, dims.map((dim) => (typeof dim === "string" ? (sizes?.[dim] ?? dim) : dim))]),
  );
  if (sizes !== undefined && Object.values(shapes).every((dims) => dims.every((dim) => typeof dim === "number"))) {
    const complete = shapes as Record<string, number[]>;
    await model.executor?.warmUp({ shapes: complete });
  }
}

/** Feeds as the runtime takes them; it checks that none is missing, types and dims. What is no input of the model is ignored, as onnxruntime does. */
function feedsOf(feeds: unknown, inputNames: readonly string[]): Record<string, RuntimeTensor> {
  if (feeds === null || typeof feeds !== "object" || Array.isArray(feeds) || ArrayBuffer.isView(feeds) || feeds instanceof HostTensor) {
    throw new AclError(100017, `session.run: feeds must be an object of tensors by input name (${inputNames.join(", ")})`);
  }
  const tensors: Record<string, RuntimeTensor> = {};
  for (const name of inputNames) {
    const value = (feeds as Record<string, unknown>)[name];
    if (value !== undefined) {
      tensors[name] = tensorFor(value, `session.run: feed "${name}"`);
      continue;
    }
    const stray = Object.keys(feeds).filter((fed) => !inputNames.includes(fed));
    if (stray.length > 0) {
      throw new AclError(100017, `session.run: input "${name}" is missing; did you mean it by "${nearestName(name, stray)}", which is no input?`);
    }
  }
  return tensors;
}

/** What a model in stages takes: tensors, arrays of them for sequences, null for an optional without a value. */
function hostValues(feeds: unknown, inputNames: readonly string[]): Record<string, HostValue> {
  if (feeds === null || typeof feeds !== "object" || Array.isArray(feeds) || ArrayBuffer.isView(feeds) || feeds instanceof HostTensor) {
    throw new AclError(100017, `session.run: feeds must be an object of values by input name (${inputNames.join(", ")})`);
  }
  const given = feeds as Record<string, unknown>;
  const hostValue = (value: unknown, what: string): HostValue =>
    value === null
      ? null
      : Array.isArray(value)
        ? value.map((each, index) => hostValue(each, `${what}[${index}]`))
        : (stringsFor(value) ?? tensorFor(value, what));
  return Object.fromEntries(
    inputNames.flatMap((name) => (given[name] === undefined ? [] : [[name, hostValue(given[name], `session.run: feed "${name}"`)]])),
  );
}

/** Undefined where there is nothing to say: a run without options takes the shortest way. */
function runOptions(signal: AbortSignal | undefined, outputs: Results | undefined): RunOptions | undefined {
  return signal === undefined && outputs === undefined
    ? undefined
    : { ...(signal === undefined ? {} : { signal }), ...(outputs === undefined ? {} : { outputs }) };
}

// What users see it called.
Object.defineProperty(HostSession, "name", { value: "InferenceSession" });
