/**
 * A model behind a session: its executor, or, where the model cannot be compiled before the sizes of its inputs are known, the wish for one.
 * The runtime compiles at load with 1 for every open dim. Some models have no meaning at that size (a picture of one pixel does not survive
 * the first stride); they are compiled when they are first fed.
 */
import fs from "node:fs/promises";
import path from "node:path";
import { modelInfo } from "../compile/bind";
import type { ModelInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { invalidHandle } from "../errors/make";
import { importOnnx } from "../import/onnx/model";
import { requireOps } from "../ops/registry";
import { Executor, type LoadOptions } from "../runtime/executor";
import type { Shapes } from "../runtime/types";

export type ModelSource = string | Uint8Array;

/** Errors that other sizes may not have: shapes that do not fit, attributes or forms that depend on them. */
const MAY_DEPEND_ON_SIZES: ReadonlySet<unknown> = new Set([100017, 100021, 100024, 100026]);

export class LoadedModel {
  readonly info: ModelInfo;
  readonly #source: ModelSource;
  readonly #options: LoadOptions;
  #executor: Executor | undefined;
  #loading: Promise<Executor> | undefined;
  #released = false;

  private constructor(info: ModelInfo, executor: Executor | undefined, source: ModelSource, options: LoadOptions) {
    this.info = info;
    this.#executor = executor;
    this.#source = source;
    this.#options = options;
  }

  /** @throws AclError as Executor.load, unless only the sizes are missing */
  static async load(source: ModelSource, options: LoadOptions): Promise<LoadedModel> {
    try {
      const executor = await Executor.load(source, options);
      return new LoadedModel(executor.metadata, executor, source, options);
    } catch (error) {
      const code = error instanceof AclError ? error.code : undefined;
      const info = MAY_DEPEND_ON_SIZES.has(code) ? await openModel(source) : undefined;
      if (info === undefined) {
        throw error;
      }
      return new LoadedModel(info, undefined, source, options);
    }
  }

  /** The executor if it is there: the way of all runs but the first of a model without sizes. */
  get executor(): Executor | undefined {
    return this.#executor;
  }

  /** The executor, compiled for `shapes` if it has to be made now. Runs that come meanwhile wait for the same one. */
  async executorFor(shapes: Shapes): Promise<Executor> {
    if (this.#executor !== undefined) {
      return this.#executor;
    }
    this.#loading ??= Executor.load(this.#source, { ...this.#options, shapes });
    try {
      const executor = await this.#loading;
      if (this.#released) {
        executor.dispose();
        throw invalidHandle("the session was released before its first run could begin; create another");
      }
      this.#executor = executor;
      return executor;
    } finally {
      this.#loading = undefined;
    }
  }

  dispose(): void {
    this.#released = true;
    this.#executor?.dispose();
  }
}

/** What the file declares, if it leaves a dim open and every operator of it is known. */
async function openModel(source: ModelSource): Promise<ModelInfo | undefined> {
  const bytes = typeof source === "string" ? await fs.readFile(source) : source;
  const model = importOnnx(bytes, typeof source === "string" ? path.dirname(path.resolve(source)) : undefined);
  requireOps(model.graph.nodes);
  const info = modelInfo(model);
  return info.inputs.some(({ dims }) => dims.some((dim) => typeof dim === "string")) ? info : undefined;
}
