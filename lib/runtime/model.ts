/**
 * A model on a device, shared by all executors of the same bytes and options: its data once, a program per shape signature (least recently used go),
 * and the count of handles that keep it.
 */
import type { CompileOptions, CompileResult, ModelInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import { areFlagsChanged } from "../host/kernels";
import { keepCode } from "../packs";
import { DataStore } from "./data-store";
import type { DeviceCore } from "./device-core";
import { signatureOf } from "./feeds";
import { entryOf, type ModelEntry } from "./model-entries";
import type { ModelSource } from "./model-source";
import { turn } from "./turn";
import type { LoadProgress, Shapes } from "./types";
import { Variant } from "./variant";

export interface ModelOptions {
  readonly frames: number;
  readonly programs: number;
  readonly disable: readonly string[] | undefined;
}

export interface LoadControl {
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((progress: LoadProgress) => void) | undefined;
}

type CompileAsync = (
  bytes: Uint8Array,
  options: CompileOptions,
  control?: { signal?: AbortSignal; onProgress?: (progress: LoadProgress) => void },
) => Promise<CompileResult>;

/** The compiler is loaded with the first model: a program that only copies never pays for it. */
export const loadCompiler = (): { compileAsync: CompileAsync } => require("../compile/compile") as { compileAsync: CompileAsync };

async function compile(source: ModelSource, options: CompileOptions, control: LoadControl): Promise<CompileResult> {
  const { compileAsync } = loadCompiler();
  const folder = source.folder === undefined ? {} : { folder: source.folder };
  const { signal, onProgress } = control;
  return compileAsync(
    source.bytes,
    { ...options, ...folder },
    { ...(signal === undefined ? {} : { signal }), ...(onProgress === undefined ? {} : { onProgress }) },
  );
}

/** As in compile.ts: models up to this size are compiled on this thread. */
const SMALL_BYTES = 256 * 1024;

/** What a model with open dims says of itself; undefined if it has none. */
function openInfo({ bytes, folder }: ModelSource): ModelInfo | undefined {
  const { importOnnx } = require("../import/onnx/model") as typeof import("../import/onnx/model");
  const { modelInfo } = require("../compile/bind") as typeof import("../compile/bind");
  const info = modelInfo(importOnnx(bytes, folder));
  return info.inputs.some(({ dims }) => dims.some((dim) => typeof dim === "string")) ? info : undefined;
}

/** `work`, or 107035 as soon as `signal` fires; the work itself goes on for others that wait for it. */
function orAbort<T>(work: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (signal === undefined) {
    return work;
  }
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(aborted(what, signal.reason));
    if (signal.aborted) {
      onAbort();
    }
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Executors of one model show the same description: nobody may change it. */
function freeze(info: ModelInfo): ModelInfo {
  for (const value of [...info.inputs, ...info.outputs]) {
    Object.freeze(value.dims);
    Object.freeze(value);
  }
  Object.freeze(info.inputs);
  Object.freeze(info.outputs);
  return Object.freeze(info);
}

export class Model {
  readonly device: DeviceCore;
  readonly info: ModelInfo;
  readonly name: string;
  readonly #source: ModelSource;
  readonly #options: ModelOptions;
  readonly #data: DataStore;
  /** By signature, least recently used first. */
  readonly #variants = new Map<string, Variant>();
  readonly #compiling = new Map<string, Promise<Variant>>();
  #handles = 0;
  #freed = false;
  /** Compilations come one after the other: each appends to the data that the one before has left. */
  #turn: Promise<unknown> = Promise.resolve();
  #latest: Variant | undefined;
  /** Why a model that was loaded without shapes has no program yet. */
  #obstacle: AclError | undefined;

  private constructor(device: DeviceCore, source: ModelSource, options: ModelOptions, info: ModelInfo) {
    this.device = device;
    this.info = freeze(info);
    this.name = info.name || source.name;
    this.#source = source;
    this.#options = options;
    this.#data = new DataStore(device.machine);
    device.closers.add(this.#leave);
  }

  /** The thread lets go of the device: its streams have drained, and its handles count no more. */
  readonly #leave = (): void => {
    this.#handles = 0;
    this.#dropIfUnused();
  };

  /** The variant of the latest run: what the fast path tries. Undefined before the first run of a model that cannot be compiled with open dims of 1. */
  get latest(): Variant | undefined {
    return this.#latest;
  }

  /** As `latest`. @throws AclError 100019 if nothing is compiled yet */
  get current(): Variant {
    if (this.#latest === undefined) {
      throw new AclError(
        100019,
        `${this.name}: nothing is compiled yet, since the model's open dims cannot all be 1 (${this.#obstacle?.message}); run it once, or pass shapes to load or warmUp`,
        { cause: this.#obstacle },
      );
    }
    return this.#latest;
  }

  /**
   * The model of `source` on `device`: the one that is there, or a new one. The caller holds it once. `deferring`: a model whose open dims cannot be 1
   * waits for the shapes of its first run.
   */
  static async load(
    device: DeviceCore,
    source: ModelSource,
    options: ModelOptions,
    shapes: Shapes | undefined,
    control: LoadControl,
    deferring: boolean,
  ): Promise<Model> {
    const models = device.models as Set<ModelEntry>;
    const what = `load of ${source.name}`;
    const { bytes, folder } = source;
    const settings = JSON.stringify([folder ?? "", options.frames, options.programs, options.disable ?? []]);
    let model: Model | undefined;
    while (model === undefined) {
      let added = false;
      const entry = await entryOf(models, settings, bytes, () => {
        added = true;
        const made = { settings, bytes, loading: Model.#make(device, source, options, shapes, control) };
        models.add(made);
        // A load that everybody has given up on must not stay.
        made.loading.then(turn).then(
          async () => (await made.loading).#dropIfUnused(),
          () => models.delete(made),
        );
        return made;
      });
      try {
        const loaded = await orAbort(entry.loading, control.signal, what);
        // Its last handle may have gone while we waited our turn; then it is out of the map, and the next round makes another.
        model = loaded.#freed ? undefined : loaded;
      } catch (error) {
        // Whoever began the load has given up; we have not.
        if (added || control.signal?.aborted || !(error instanceof AclError) || error.code !== 107035) {
          throw error;
        }
        await turn();
      }
    }
    model.hold();
    try {
      if (shapes !== undefined) {
        model.#latest = await model.variantFor(model.complete(shapes), control);
      } else if (model.#obstacle !== undefined && model.#latest === undefined && !deferring) {
        throw model.#obstacle;
      }
      return model;
    } catch (error) {
      model.drop();
      throw error;
    }
  }

  /** A model from a compilation that is already there. The caller holds it once. */
  static adopt(device: DeviceCore, result: CompileResult, options: ModelOptions): Model {
    const source = { bytes: result.program.image, folder: undefined, name: result.info.name };
    const model = new Model(device, source, options, result.info);
    model.#data.addNow(result);
    model.#install(result);
    model.hold();
    return model;
  }

  static async #make(
    device: DeviceCore,
    source: ModelSource,
    options: ModelOptions,
    shapes: Shapes | undefined,
    control: LoadControl,
  ): Promise<Model> {
    const disable = options.disable === undefined ? {} : { disable: options.disable };
    let result: CompileResult;
    try {
      result = await compile(source, { build: device.machine.kernels.used, ...disable, ...(shapes === undefined ? {} : { shapes }) }, control);
    } catch (error) {
      const info = shapes === undefined && error instanceof AclError && error.code === 100021 ? openInfo(source) : undefined;
      if (info === undefined) {
        throw error;
      }
      device.check();
      const model = new Model(device, source, options, info);
      model.#obstacle = error as AclError;
      return model;
    }
    device.check();
    const model = new Model(device, source, options, result.info);
    await model.#take(result);
    if (source.bytes.length <= SMALL_BYTES) {
      // Compiled on this thread, and by then also run: now V8 has made what the next process can start with.
      setImmediate(() => areFlagsChanged() || keepCode());
    }
    return model;
  }

  /** Brings a compilation onto the device. What was taken goes back if it does not fit. */
  async #take(result: CompileResult): Promise<Variant> {
    try {
      await this.#data.add(result, turn);
      this.device.check();
      return this.#install(result);
    } catch (error) {
      if (this.#variants.size === 0 && this.device.machine.lost === undefined) {
        this.#data.free();
      }
      throw error;
    }
  }

  #install(result: CompileResult): Variant {
    if ([...this.#variants.values()].every((variant) => variant.idle)) {
      this.#data.settle();
    }
    const variant = this.#place(result);
    const dims = Object.fromEntries(result.program.inputs.map((port) => [port.name, port.dims]));
    this.#variants.set(signatureOf(this.info, dims), variant);
    this.#latest = variant;
    this.#evict();
    return variant;
  }

  /** Where the device has no room, programs of other shapes make some (they can be compiled again); if that is not enough, runs take turns. */
  #place({ program }: CompileResult): Variant {
    for (let inTurns = false; ; ) {
      try {
        return new Variant(this.device, this.name, program, this.#data, this.#options.frames, inTurns);
      } catch (error) {
        if (!(error instanceof AclError) || error.code !== 207001 || inTurns) {
          throw error;
        }
        inTurns = !this.#freeOldest();
      }
    }
  }

  /** Programs beyond the limit go, if no run uses them. */
  #evict(): void {
    while (this.#variants.size > this.#options.programs && this.#freeOldest()) {}
  }

  /** Frees the program that was used longest ago and by no run now, but never the latest. False if there is none. */
  #freeOldest(): boolean {
    for (const [signature, variant] of this.#variants) {
      if (variant.idle && variant !== this.#latest) {
        this.#variants.delete(signature);
        variant.free();
        return true;
      }
    }
    return false;
  }

  /** `shapes` with the dims of inputs that the model fixes. */
  complete(shapes: Shapes): Shapes {
    const all: Record<string, readonly number[]> = { ...shapes };
    for (const { name, dims } of this.info.inputs) {
      if (all[name] === undefined && dims.every((dim) => typeof dim === "number")) {
        all[name] = dims as readonly number[];
      }
    }
    const missing = this.info.inputs.find(({ name }) => all[name] === undefined);
    if (missing !== undefined) {
      throw new AclError(100017, `${this.name}: the dims of input "${missing.name}" are open ([${missing.dims.join(", ")}]); give them in shapes`);
    }
    return all;
  }

  /** The variant for these shapes if it is compiled. */
  compiled(shapes: Shapes): Variant | undefined {
    const signature = signatureOf(this.info, shapes);
    const variant = this.#variants.get(signature);
    if (variant !== undefined && variant !== this.#latest) {
      this.#variants.delete(signature);
      this.#variants.set(signature, variant);
      this.#latest = variant;
    }
    return variant;
  }

  /** The variant for these shapes; compiles it if need be, once for all who ask. */
  async variantFor(shapes: Shapes, control: LoadControl): Promise<Variant> {
    const found = this.compiled(shapes);
    if (found !== undefined) {
      return found;
    }
    const signature = signatureOf(this.info, shapes);
    let compiling = this.#compiling.get(signature);
    if (compiling === undefined) {
      compiling = this.#turn.then(() => this.#compileVariant(shapes));
      this.#turn = compiling.catch(() => {});
      this.#compiling.set(signature, compiling);
      const done = (): boolean => this.#compiling.delete(signature);
      compiling.then(done, done);
    }
    return orAbort(compiling, control.signal, `compilation of ${this.name}`);
  }

  /** Holds the model: whoever asked may have given up meanwhile. */
  async #compileVariant(shapes: Shapes): Promise<Variant> {
    this.hold();
    try {
      const { disable } = this.#options;
      const known = { known: this.#data.known, dataBytes: this.#data.usedBytes };
      const options = { shapes, build: this.device.machine.kernels.used, ...known, ...(disable === undefined ? {} : { disable }) };
      const result = await compile(this.#source, options, { signal: undefined, onProgress: undefined });
      this.device.check();
      return await this.#take(result);
    } finally {
      this.drop();
    }
  }

  hold(): void {
    this.#handles++;
  }

  /** A handle, a prepared run or a run in flight lets go; the last one frees everything. */
  drop(): void {
    this.#handles--;
    this.#dropIfUnused();
  }

  #dropIfUnused(): void {
    if (this.#handles > 0 || this.#freed) {
      return;
    }
    this.#freed = true;
    this.device.closers.delete(this.#leave);
    for (const each of this.device.models as Set<ModelEntry>) {
      if (each.bytes === this.#source.bytes) {
        this.device.models.delete(each);
      }
    }
    if (this.device.machine.lost !== undefined) {
      return;
    }
    for (const variant of this.#variants.values()) {
      variant.free();
    }
    this.#variants.clear();
    this.#data.free();
  }
}
