/** Executor: a model ready to run on a device. */
import "./symbols";
import type { ModelInfo, ValueInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { aborted, checkFunction, checkInteger, checkOptions, checkSignal, invalidHandle, invalidParam, kindOf } from "../errors/make";
import { currentContext, currentOn } from "./current-context";
import { Device } from "./device";
import { type DeviceCore, openDevices } from "./device-core";
import { arraysOf, checkFeeds, checkOutputs } from "./feeds";
import { checkMade, coreOf, isObject, make } from "./internals";
import { loadCompiler, Model } from "./model";
import { readModel } from "./model-source";
import type { PreparedRun } from "./prepared";
import { conclude, Run, start, startBlocking, type Started } from "./run";
import type { Stream } from "./stream";
import { Tensor, type TensorData } from "./tensor";
import type { Feeds, LoadProgress, Results, Shapes } from "./types";
import type { Variant } from "./variant";

export type { ModelInfo, ValueInfo } from "../compile/types";
export type { Feeds, LoadProgress, Results } from "./types";

export interface LoadOptions {
  /** Where to run. Default: the device of the current context (see `context.run`), else the open one with the lowest number, else one is opened. */
  readonly device?: Device;
  /** Dims of the inputs whose dims the model leaves open; without any they count as 1, where that can be. Other shapes are compiled when they are first fed. */
  readonly shapes?: Readonly<Record<string, readonly number[]>>;
  /** Runs per shape that may be in flight at once, 1 to 64; further ones wait their turn. Default 4. */
  readonly frames?: number;
  /** Compiled shapes that are kept; the least recently used go first. Default 16. */
  readonly programs?: number;
  /** Folder that external data of a model given as bytes may come from. A model given as a path has its own folder. */
  readonly folder?: string;
  /** Compiler passes to leave out, for debugging. */
  readonly disable?: readonly string[];
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: LoadProgress) => void;
}

export interface RunOptions {
  /** Run in the order of this stream. Default: runs are independent of each other and of all streams; in the current context, if it is of this device. */
  readonly stream?: Stream;
  readonly signal?: AbortSignal;
  /** Tensors to write the outputs into, all of them by name; they are also what is returned. In pinned memory they are written in place. */
  readonly outputs?: Record<string, Tensor>;
}

export interface RunSyncOptions {
  readonly stream?: Stream;
  readonly outputs?: Record<string, Tensor>;
  /** Blocking the main thread stops the event loop: it has to be asked for. */
  readonly allowMainThread?: boolean;
}

const LOAD_NAMES: readonly (keyof LoadOptions)[] = ["device", "shapes", "frames", "programs", "folder", "disable", "signal", "onProgress"];
const RUN_NAMES: readonly (keyof RunOptions)[] = ["stream", "signal", "outputs"];

/** A handle that was forgotten lets go of its model. The place is emptied when it is not forgotten: see `Watch` in buffer.ts. */
const forgotten = new FinalizationRegistry<{ model: Model | undefined }>(({ model }) => model?.drop());

export class Executor {
  readonly #place: { model: Model | undefined };
  readonly #name: string;
  readonly #info: ModelInfo;

  static {
    make.executor = (model) => new Executor(model);
  }

  private constructor(model: Model) {
    checkMade(model instanceof Model, "Executor", "await Executor.load(model)");
    this.#place = { model };
    this.#name = model.name;
    this.#info = model.info;
    forgotten.register(this, this.#place, this.#place);
  }

  /**
   * Loads an ONNX model from a file or from bytes, compiles it, and puts it on the device. The event loop is not blocked.
   * Executors of the same model and options on one device share its data and programs. A model whose open dims cannot be 1 is compiled when first run.
   * @throws AclError 100003 for a file, 100013 for a damaged model, 100024 listing every unsupported node, 100017 for shapes, 207001, 107035, 107000 for an option
   */
  static load(model: string | URL | Uint8Array, options: LoadOptions = {}): Promise<Executor> {
    return loadExecutor(model, options, true);
  }

  /** Name, producer, opsets and metadata that the model declares. */
  get metadata(): ModelInfo {
    return this.#info;
  }

  /** Inputs as the model declares them: a dim that is open is a name. */
  get inputs(): readonly ValueInfo[] {
    return this.#info.inputs;
  }

  get outputs(): readonly ValueInfo[] {
    return this.#info.outputs;
  }

  get disposed(): boolean {
    return this.#place.model === undefined;
  }

  /** Dims of the outputs for the shapes of the latest run (or load). */
  get outputShapes(): Readonly<Record<string, readonly number[]>> {
    const { outputs } = this.#use().current.program;
    return Object.fromEntries(outputs.map(({ name, dims }) => [name, dims]));
  }

  /** Sizes of the program for the shapes of the latest run (or load), in bytes and nanoseconds on one core. */
  get program(): {
    readonly arenaBytes: number;
    readonly costNs: number;
    readonly instructions: number;
    readonly regions: number;
    readonly imageBytes: number;
  } {
    const { arenaBytes, costNs, instructionCount, regionCount, image } = this.#use().current.program;
    return { arenaBytes, costNs, instructions: instructionCount, regions: regionCount, imageBytes: image.length };
  }

  #use(): Model {
    const { model } = this.#place;
    if (model === undefined) {
      throw invalidHandle(`the executor of ${this.#name} was disposed; load the model again`);
    }
    model.device.admit();
    return model;
  }

  /**
   * Runs the model on `feeds` (tensors, or bare arrays where the model fixes the dims) and resolves to its outputs by name.
   * What is fed is taken at the call, but for pinned memory (`device.allocatePinned`): feeds and `outputs` there are used in place while the run goes on,
   * so nothing is copied. Any number of runs may be in flight; shapes that are new are compiled first.
   * @throws AclError 100017 naming the feed that does not fit, 100018 for outputs; the device's code if a kernel fails (`node` says which);
   *   107035 if the signal fires; 107017 after dispose; 507899 if the device is lost
   * @see CANN aclmdlExecuteAsync
   */
  run(feeds: Feeds, options?: RunOptions): Promise<Results> {
    try {
      const model = this.#use();
      const variant = model.latest;
      const outputs = options?.outputs;
      // The straight line: known shapes, own stream, no signal. Everything else, and everything wrong, is `#runWith`'s.
      const plain =
        currentOn(model.device) === undefined &&
        (options === undefined ||
          (options !== null && options.stream === undefined && options.signal === undefined && isObject(outputs) && variant?.fits(outputs)));
      const fed = plain && isObject(feeds) ? variant?.accept(feeds) : undefined;
      if (variant === undefined || fed === undefined) {
        return this.#runWith(model, feeds, options === undefined ? {} : options);
      }
      const frame = variant.take();
      if (frame === undefined) {
        return Run.go(model, variant, fed, { stream: undefined, signal: undefined, outputs });
      }
      const started = launch(variant, frame, fed, outputs);
      if (started !== "DONE") {
        return Run.follow(model, variant, frame, started, { stream: undefined, signal: undefined, outputs });
      }
      try {
        return Promise.resolve(conclude(variant, frame, outputs));
      } finally {
        variant.give(frame);
      }
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async #runWith(model: Model, feeds: Feeds, options: RunOptions): Promise<Results> {
    checkOptions("executor.run", options, RUN_NAMES);
    const { signal, outputs } = options;
    checkSignal("executor.run", signal);
    if (signal?.aborted) {
      throw aborted(`run of ${this.#name}`, signal.reason);
    }
    const tensors = checkFeeds(this.#info, feeds, this.#name);
    const stream = this.#streamOf(model, options.stream);
    const variant = model.compiled(dimsOf(tensors)) ?? (await this.#compile(model, tensors, signal));
    if (outputs !== undefined) {
      checkOutputs(variant, outputs);
    }
    return Run.go(model, variant, arraysOf(variant, tensors), { stream, signal, outputs });
  }

  async #compile(model: Model, tensors: Record<string, Tensor>, signal: AbortSignal | undefined): Promise<Variant> {
    model.hold();
    try {
      for (;;) {
        const variant = await model.variantFor(dimsOf(tensors), { signal, onProgress: undefined });
        // With few programs kept, it may have had to go before it was our turn.
        if (!variant.freed) {
          return variant;
        }
      }
    } finally {
      model.drop();
    }
  }

  #streamOf(model: Model, stream: Stream | undefined): ReturnType<typeof coreOf.stream> | undefined {
    if (stream === undefined) {
      return currentOn(model.device)?.runStream();
    }
    const core = coreOf.stream(stream);
    if (core.device !== model.device) {
      throw invalidParam(`run of ${this.#name}: the stream belongs to device ${core.device.index}, the executor to device ${model.device.index}`);
    }
    core.check();
    return core;
  }

  /**
   * As `run`, but blocks this thread until the results are there.
   * @throws AclError 107038 on the main thread unless `allowMainThread` is set; 100019 if these shapes have not been compiled: call `warmUp` first
   */
  runSync(feeds: Feeds, options: RunSyncOptions = {}): Results {
    checkOptions("executor.runSync", options, ["stream", "outputs", "allowMainThread"]);
    const { isMainThread } = require("node:worker_threads") as typeof import("node:worker_threads");
    if (isMainThread && options.allowMainThread !== true) {
      throw new AclError(
        107038,
        `runSync of ${this.#name} would block the event loop of the main thread; use run, call it in a worker thread, or pass allowMainThread: true`,
      );
    }
    const model = this.#use();
    const tensors = checkFeeds(this.#info, feeds, this.#name);
    const variant = model.compiled(dimsOf(tensors));
    if (variant === undefined) {
      throw new AclError(
        100019,
        `runSync of ${this.#name}: these shapes are not compiled yet, and compiling does not block; await executor.warmUp({ shapes }) first`,
      );
    }
    if (options.outputs !== undefined) {
      checkOutputs(variant, options.outputs);
    }
    return runBlocking(variant, arraysOf(variant, tensors), this.#streamOf(model, options.stream), options.outputs);
  }

  /**
   * Compiles for `shapes` (default: those of the load) and runs once on zeros, so that the first real run is as fast as the others.
   * @throws AclError as `run`
   */
  async warmUp(options: { readonly shapes?: Shapes; readonly signal?: AbortSignal } = {}): Promise<void> {
    checkOptions("executor.warmUp", options, ["shapes", "signal"]);
    checkSignal("executor.warmUp", options.signal);
    if (options.signal?.aborted) {
      throw aborted(`warm-up of ${this.#name}`, options.signal.reason);
    }
    checkShapes("executor.warmUp", options.shapes);
    const model = this.#use();
    model.hold();
    try {
      const { shapes, signal } = options;
      const variant = shapes === undefined ? model.current : await model.variantFor(model.complete(shapes), { signal, onProgress: undefined });
      const zeros = variant.program.inputs.map(({ dtype, dims }) => Tensor.zeros(dtype, dims).data);
      await Run.go(model, variant, zeros, { stream: undefined, signal, outputs: undefined });
    } finally {
      model.drop();
    }
  }

  /** A run with buffers of its own that `stream.launch` takes: nothing is copied. For the shapes of the latest run (or load). */
  prepare(): PreparedRun {
    const model = this.#use();
    return make.prepared(model, model.current.prepare());
  }

  /** Lets go of the model; memory goes back when its last executor does and no run is in flight. A second call does nothing. */
  dispose(): void {
    const { model } = this.#place;
    if (model !== undefined) {
      this.#place.model = undefined;
      forgotten.unregister(this.#place);
      model.drop();
    }
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.dispose();
  }
}

/** As `Executor.load`. Without `deferring`, a model that cannot be compiled for its shapes (open dims as 1) is an error at once. */
export async function loadExecutor(model: string | URL | Uint8Array, options: LoadOptions, deferring: boolean): Promise<Executor> {
  checkOptions("Executor.load", options, LOAD_NAMES);
  checkInteger("Executor.load", "frames", options.frames, 1, 64);
  checkInteger("Executor.load", "programs", options.programs, 1, 1024);
  checkLoadOptions(options);
  if (options.signal?.aborted) {
    throw aborted("Executor.load", options.signal.reason);
  }
  const reading = readModel(model, options.folder);
  loadCompiler(); // while the file is read
  const source = await reading;
  const device = await deviceFor(options.device);
  const kept = { frames: options.frames ?? 4, programs: options.programs ?? 16, disable: options.disable };
  const control = { signal: options.signal, onProgress: options.onProgress };
  return make.executor(await Model.load(device, source, kept, options.shapes, control, deferring));
}

/** Loads a frame and starts it on its own stream. A frame that could not be started goes back. */
function launch(variant: Variant, frame: ReturnType<Variant["prepare"]>, fed: readonly TensorData[], outputs: Results | undefined): Started {
  try {
    variant.load(frame, fed, outputs);
    frame.stream.context.checkLatch();
    return start(frame, frame.stream);
  } catch (error) {
    variant.give(frame);
    throw error;
  }
}

function runBlocking(
  variant: Variant,
  fed: readonly TensorData[],
  stream: ReturnType<typeof coreOf.stream> | undefined,
  outputs: Results | undefined,
): Results {
  // All frames may be in flight for runs whose promises need this very thread: then a frame of our own.
  const pooled = variant.take();
  const frame = pooled ?? variant.prepare();
  const giveBack = (): void => (pooled === undefined ? variant.giveUp(frame) : variant.give(frame));
  const on = stream ?? frame.stream;
  let inFlight = false;
  try {
    on.open();
    variant.load(frame, fed, outputs);
    if (!startBlocking(frame, on)) {
      inFlight = true;
      if (!on.machine.block(on.index, frame.sequence, Number.POSITIVE_INFINITY)) {
        throw new AclError(
          507046,
          `runSync of ${variant.name} cannot finish, since only this thread could move ${on.name}: ${on.machine.describeHead(on.index)}`,
        );
      }
      inFlight = false;
    }
    return conclude(variant, frame, outputs);
  } finally {
    if (inFlight && on.machine.lost === undefined) {
      on.machine.whenReached(on.index, frame.sequence, giveBack);
    } else if (!inFlight) {
      giveBack();
    } else {
      variant.fail(on.machine.lost);
    }
  }
}

function checkLoadOptions({ signal, onProgress, folder, disable, shapes }: LoadOptions): void {
  const where = "Executor.load";
  checkSignal(where, signal);
  if (onProgress !== undefined) {
    checkFunction(where, "onProgress", onProgress);
  }
  if (folder !== undefined && typeof folder !== "string") {
    throw invalidParam(`${where}: folder is ${kindOf(folder)}; pass a path`);
  }
  if (disable !== undefined && !(Array.isArray(disable) && disable.every((name) => typeof name === "string"))) {
    throw invalidParam(`${where}: disable is ${kindOf(disable)}; pass an array of pass names`);
  }
  checkShapes(where, shapes);
}

function checkShapes(where: string, shapes: Shapes | undefined): void {
  if (shapes === undefined) {
    return;
  }
  if (!isObject(shapes) || Array.isArray(shapes)) {
    throw new AclError(100017, `${where}: shapes are ${kindOf(shapes)}; pass an object of dims by input name`);
  }
  for (const [name, dims] of Object.entries(shapes)) {
    if (!Array.isArray(dims) || !dims.every((dim) => Number.isSafeInteger(dim) && dim >= 0)) {
      const given = Array.isArray(dims) ? `[${dims.map(kindOf).join(", ")}]` : kindOf(dims);
      throw new AclError(100017, `${where}: dims of "${name}" are ${given}; pass an array of whole numbers from 0 up`);
    }
  }
}

function dimsOf(tensors: Record<string, Tensor>): Shapes {
  return Object.fromEntries(Object.entries(tensors).map(([name, { dims }]) => [name, dims]));
}

async function deviceFor(device: Device | undefined): Promise<DeviceCore> {
  if (device !== undefined && !(device instanceof Device)) {
    throw invalidParam("Executor.load: device must be what Device.open returned");
  }
  const near = currentContext()?.device ?? Math.min(...openDevices.keys());
  const core = device === undefined ? (openDevices.get(near) ?? coreOf.device(await Device.open())) : coreOf.device(device);
  core.check();
  return core;
}
