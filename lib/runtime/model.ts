/**
 * A model on a device, shared by all executors of the same bytes and options: its data once, a program per shape signature (least recently used go),
 * and the count of handles that keep it.
 */
import { createHash } from "node:crypto";
import type { CompileOptions, CompileResult, ModelInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import { DataStore } from "./data-store";
import type { DeviceCore } from "./device-core";
import { signatureOf } from "./feeds";
import type { LoadProgress, Shapes } from "./types";
import { Variant } from "./variant";

export interface ModelSource {
  readonly bytes: Uint8Array;
  /** Folder that external data may come from. */
  readonly folder: string | undefined;
  readonly name: string;
}

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
async function compile(source: ModelSource, options: CompileOptions, control: LoadControl): Promise<CompileResult> {
  const { compileAsync } = require("../compile/compile") as { compileAsync: CompileAsync };
  const folder = source.folder === undefined ? {} : { folder: source.folder };
  const { signal, onProgress } = control;
  return compileAsync(
    source.bytes,
    { ...options, ...folder },
    { ...(signal === undefined ? {} : { signal }), ...(onProgress === undefined ? {} : { onProgress }) },
  );
}

export function hashOf(source: ModelSource, options: ModelOptions): string {
  const canonical = JSON.stringify([source.folder ?? "", options.frames, options.programs, options.disable ?? []]);
  return createHash("sha256").update(source.bytes).update(canonical).digest("hex");
}

export class Model {
  readonly device: DeviceCore;
  readonly info: ModelInfo;
  readonly name: string;
  readonly #hash: string;
  readonly #source: ModelSource;
  readonly #options: ModelOptions;
  readonly #data: DataStore;
  /** By signature, least recently used first. */
  readonly #variants = new Map<string, Variant>();
  readonly #compiling = new Map<string, Promise<Variant>>();
  #handles = 0;
  /** The variant of the latest run: what the fast path tries. */
  latest: Variant;

  private constructor(device: DeviceCore, source: ModelSource, options: ModelOptions, hash: string, result: CompileResult) {
    this.device = device;
    this.info = result.info;
    this.name = result.info.name || source.name;
    this.#source = source;
    this.#options = options;
    this.#hash = hash;
    this.#data = new DataStore(device.machine);
    this.latest = this.#install(result);
  }

  /** The model of `source` on `device`: the one that is there, or a new one. The caller holds it once. */
  static async load(
    device: DeviceCore,
    source: ModelSource,
    options: ModelOptions,
    shapes: Shapes | undefined,
    control: LoadControl,
  ): Promise<Model> {
    const hash = hashOf(source, options);
    const models = device.models as Map<string, Promise<Model>>;
    let loading = models.get(hash);
    if (loading === undefined) {
      loading = Model.#make(device, source, options, hash, shapes, control);
      models.set(hash, loading);
      loading.catch(() => models.delete(hash));
    }
    const model = await loading;
    if (control.signal?.aborted) {
      model.#dropIfUnused();
      throw aborted(`load of ${source.name}`, control.signal.reason);
    }
    model.hold();
    try {
      if (shapes !== undefined) {
        model.latest = await model.variantFor(model.complete(shapes), control);
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
    const model = new Model(device, source, options, hashOf(source, options), result);
    model.hold();
    return model;
  }

  static async #make(
    device: DeviceCore,
    source: ModelSource,
    options: ModelOptions,
    hash: string,
    shapes: Shapes | undefined,
    control: LoadControl,
  ): Promise<Model> {
    const disable = options.disable === undefined ? {} : { disable: options.disable };
    const result = await compile(source, { ...disable, ...(shapes === undefined ? {} : { shapes }) }, control);
    device.check();
    return new Model(device, source, options, hash, result);
  }

  #install(result: CompileResult): Variant {
    this.#data.add(result);
    if ([...this.#variants.values()].every((variant) => variant.idle)) {
      this.#data.settle();
    }
    const variant = new Variant(this.device, this.name, result.program, this.#data, this.#options.frames);
    const dims = Object.fromEntries(result.program.inputs.map((port) => [port.name, port.dims]));
    this.#variants.set(signatureOf(this.info, dims), variant);
    this.#evict();
    return variant;
  }

  /** Programs beyond the limit go, oldest first, if no run uses them. */
  #evict(): void {
    for (const [signature, variant] of this.#variants) {
      if (this.#variants.size <= this.#options.programs) {
        return;
      }
      if (variant.idle && variant !== this.latest) {
        this.#variants.delete(signature);
        variant.free();
      }
    }
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
    if (variant !== undefined && variant !== this.latest) {
      this.#variants.delete(signature);
      this.#variants.set(signature, variant);
      this.latest = variant;
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
      compiling = this.#compileVariant(shapes, control).finally(() => this.#compiling.delete(signature));
      this.#compiling.set(signature, compiling);
    }
    return compiling;
  }

  async #compileVariant(shapes: Shapes, control: LoadControl): Promise<Variant> {
    const { disable } = this.#options;
    const known = { known: this.#data.known, dataBytes: this.#data.usedBytes };
    const result = await compile(this.#source, { shapes, ...known, ...(disable === undefined ? {} : { disable }) }, control);
    this.device.check();
    this.latest = this.#install(result);
    return this.latest;
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
    if (this.#handles > 0) {
      return;
    }
    this.device.models.delete(this.#hash);
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
