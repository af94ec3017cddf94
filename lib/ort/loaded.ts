/**
 * A model behind a session: its executor, or, where it cannot be compiled before something is fed, what is needed to make one then.
 * Two things may be missing at load. Sizes: the runtime takes 1 for every open dim, and some models have no meaning at that size (a picture of one
 * pixel does not survive the first stride). Values: where a shape is computed from an input (the target of a Reshape, the axes of a sum), the
 * program depends on the numbers fed, and so it does where the branches of an If give different shapes and the one that is taken is not the one that
 * the program has. Such a model is compiled for the sizes and values that it is fed, and kept for the next run with the same.
 */
import type { modelInfo } from "../compile/bind";
import type { ModelInfo, ValueInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { invalidHandle } from "../errors/make";
import { UNFIT_BRANCH } from "../graph/ir";
import type { importOnnx } from "../import/onnx/model";
import { Executor, loadExecutor, type LoadOptions, type RunOptions } from "../runtime/executor";
import { checkFeeds } from "../runtime/feeds";
import { readModel } from "../runtime/model-source";
import type { Tensor } from "../runtime/tensor";
import type { Results } from "../runtime/types";
import type { withValues } from "./specialize";
import type { StagedModel } from "./staged";

export type ModelSource = string | Uint8Array;
type Tensors = Readonly<Record<string, Tensor>>;

/** Few models need these, so they are loaded by the first that does. */
const late = {
  modelInfo: (...args: Parameters<typeof modelInfo>) => (require("../compile/bind") as { modelInfo: typeof modelInfo }).modelInfo(...args),
  importOnnx: (...args: Parameters<typeof importOnnx>) => (require("../import/onnx/model") as { importOnnx: typeof importOnnx }).importOnnx(...args),
  stagedModel: () => (require("./staged") as { StagedModel: typeof StagedModel }).StagedModel,
  withValues: (...args: Parameters<typeof withValues>) => (require("./specialize") as { withValues: typeof withValues }).withValues(...args),
};

/** Errors that other sizes or values may not have: shapes that do not fit, attributes or forms that depend on them. */
const MAY_DEPEND_ON_FEEDS: ReadonlySet<unknown> = new Set([100017, 100021, 100024, 100026]);
/** Executors that a model keeps for values it was fed. */
const MOST_EXECUTORS = 16;

/** What a compilation waits for: the file, and the inputs whose values may matter, in the order in which they are tried. */
interface Deferred {
  readonly file: Promise<{ readonly bytes: Uint8Array; readonly folder: string | undefined }>;
  readonly cause: unknown;
  readonly choices: readonly (readonly string[])[];
}

interface Entry {
  readonly executor: Promise<Executor>;
  users: number;
}

export class LoadedModel {
  readonly info: ModelInfo;
  readonly #options: LoadOptions;
  #deferred: Deferred | undefined;
  #executor: Executor | undefined;
  /** By the values that are compiled in, least recently used first. */
  readonly #entries = new Map<string, Entry>();
  /** The choice that has worked. */
  #choice = 0;
  /** Which way was taken to compile it: changes when a run finds that it takes another. */
  #way = 0;
  #released = false;

  private constructor(
    info: ModelInfo,
    options: LoadOptions,
    executor: Executor | undefined,
    deferred: Deferred | undefined,
    readonly source: ModelSource,
    /** Set for a model in stages; then nothing else is. */
    readonly staged?: StagedModel,
  ) {
    this.info = info;
    this.#options = options;
    this.#executor = executor;
    this.#deferred = deferred;
  }

  /** @throws AclError as Executor.load, unless what it says may change with what is fed */
  static async load(source: ModelSource, options: LoadOptions): Promise<LoadedModel> {
    try {
      const executor = await loadExecutor(source, options, false);
      return new LoadedModel(executor.metadata, options, executor, undefined, source);
    } catch (error) {
      const staged = error instanceof AclError && (await inStages(source, options).catch((other) => notTyped(other)));
      if (staged) {
        return staged;
      }
      // An error that lists nodes is about operators that are not there, whatever is fed.
      if (!(error instanceof AclError) || !MAY_DEPEND_ON_FEEDS.has(error.code) || error.failures.length > 0) {
        throw error;
      }
      const { bytes, folder } = await readModel(source);
      const info = late.modelInfo(late.importOnnx(bytes, folder));
      const choices = choicesOf(info.inputs);
      if (choices.length === 0 || info.inputs.some(({ dtype }) => dtype === "string")) {
        throw error;
      }
      return new LoadedModel(info, options, undefined, { file: Promise.resolve({ bytes, folder }), cause: error, choices }, source);
    }
  }

  /** A model with open dims, compiled when it is first run. */
  static deferred(bytes: Uint8Array, inputs: readonly ValueInfo[], options: LoadOptions & { readonly folder?: string }): LoadedModel {
    const info: ModelInfo = { name: "stage", producer: "", irVersion: 0, opsets: {}, metadata: {}, inputs, outputs: [] };
    const cause = new AclError(100021, "a stage of the model cannot be compiled for these shapes");
    const choices = choicesOf(inputs);
    const complete = choices[0]?.length === 0 ? choices : [[], ...choices];
    return new LoadedModel(info, options, undefined, { file: Promise.resolve({ bytes, folder: options.folder }), cause, choices: complete }, bytes);
  }

  static ofStages(info: ModelInfo, options: LoadOptions, source: ModelSource, staged: StagedModel): LoadedModel {
    return new LoadedModel(info, options, undefined, undefined, source, staged);
  }

  /** The executor of a model that needs nothing but its feeds: the way of nearly all runs. */
  get executor(): Executor | undefined {
    return this.#executor;
  }

  async run(fed: Tensors, extra: RunOptions | undefined): Promise<Results> {
    for (;;) {
      const way = this.#way;
      try {
        return await (this.#executor === undefined ? this.#runFor(fed, extra) : this.#executor.run(fed, extra));
      } catch (error) {
        const unfit = error instanceof AclError && error.node?.endsWith(UNFIT_BRANCH) === true;
        // Another run may have found it out before us.
        if (!unfit || this.#released || (way === this.#way && !this.#nextWay(error))) {
          throw error;
        }
      }
    }
  }

  /** Compiles in more of what is fed from now on. False where nothing is left. */
  #nextWay(cause: AclError): boolean {
    const choices = this.#deferred?.choices ?? choicesOf(this.info.inputs).filter((names) => names.length > 0);
    const next = this.#deferred === undefined ? 0 : this.#choice + 1;
    if (next >= choices.length) {
      return false;
    }
    this.#deferred ??= { file: readModel(this.source, this.#options.folder), cause, choices };
    this.#executor?.dispose();
    this.#executor = undefined;
    this.#choice = next;
    this.#way++;
    return true;
  }

  /** Runs on the executor for these feeds, which takes some of them; the others are compiled in. */
  async #runFor(fed: Tensors, extra: RunOptions | undefined): Promise<Results> {
    const { choices, cause } = this.#deferred!;
    let closest = cause;
    const tensors = checkFeeds(this.info, fed, this.info.name || "model");
    for (let choice = this.#choice; choice < choices.length; choice++) {
      const [values, feeds] = divide(tensors, choices[choice]!);
      const entry = this.#hold(values, feeds);
      try {
        const executor = await entry.executor.catch((error) => {
          if (!(error instanceof AclError) || !MAY_DEPEND_ON_FEEDS.has(error.code)) {
            throw error;
          }
          closest = error; // each choice knows more than the one before
          return undefined;
        });
        if (this.#released) {
          throw invalidHandle("the session was released before its run could begin; create another");
        }
        if (executor !== undefined) {
          this.#choice = choice;
          if (choices[choice]!.length === 0) {
            this.#executor = executor;
          }
          return await executor.run(feeds, extra);
        }
      } finally {
        entry.users--;
      }
    }
    throw closest;
  }

  /** The executor with these values compiled in; the caller counts as a user of it until it says otherwise. */
  #hold(values: Tensors, feeds: Tensors): Entry {
    const key = keyOf(values);
    const found = this.#entries.get(key);
    if (found !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, found);
      found.users++;
      return found;
    }
    const { file } = this.#deferred!;
    const shapes = Object.fromEntries(Object.entries(feeds).map(([name, { dims }]) => [name, dims]));
    const executor = file.then(({ bytes, folder }) => {
      const model = Object.keys(values).length === 0 ? bytes : late.withValues(bytes, values);
      return Executor.load(model, { ...this.#options, ...(folder === undefined ? {} : { folder }), shapes });
    });
    const entry = { executor, users: 1 };
    this.#entries.set(key, entry);
    executor.then(
      (loaded) => this.#released && loaded.dispose(),
      () => this.#entries.delete(key),
    );
    this.#evict();
    return entry;
  }

  #evict(): void {
    for (const [key, entry] of this.#entries) {
      if (this.#entries.size <= MOST_EXECUTORS) {
        return;
      }
      if (entry.users === 0) {
        this.#entries.delete(key);
        disposeLater(entry);
      }
    }
  }

  dispose(): void {
    this.#released = true;
    this.#executor?.dispose();
    this.staged?.dispose();
    for (const entry of this.#entries.values()) {
      disposeLater(entry);
    }
    this.#entries.clear();
  }
}

/** The model in stages, if it has what needs them: nodes that no program holds, or values that are no tensors. */
async function inStages(source: ModelSource, options: LoadOptions): Promise<LoadedModel | undefined> {
  const { bytes, folder } = await readModel(source);
  const staged = late.stagedModel().from(bytes, folder, options);
  if (staged === undefined) {
    return undefined;
  }
  const info = {
    name: "",
    producer: "",
    irVersion: 0,
    opsets: {},
    metadata: {},
    inputs: staged.infos(staged.inputs),
    outputs: staged.infos(staged.outputs),
  };
  return LoadedModel.ofStages(info, options, source, staged);
}

/** What cannot be read at all was said better by the load that came before. */
function notTyped(error: unknown): undefined {
  if (error instanceof AclError) {
    throw error;
  }
}

function disposeLater({ executor }: Entry): void {
  executor.then(
    (loaded) => loaded.dispose(),
    () => {}, // whoever waits for it is told
  );
}

/**
 * None where a size is open; then the integers that may say a shape; then small floats too (scales, the ends of a range);
 * then all but the first input (weights, indices: kernels that want them packed or checked beforehand).
 */
function choicesOf(inputs: readonly ValueInfo[]): string[][] {
  const isSmall = ({ dims }: ValueInfo): boolean => dims.length <= 1;
  const isWhole = ({ dtype }: ValueInfo): boolean => /^(u?int|bool)/.test(dtype);
  const none = inputs.some(({ dims }) => dims.some((dim) => typeof dim === "string")) ? [[]] : [];
  const whole = inputs.filter((input) => isSmall(input) && isWhole(input)).map(({ name }) => name);
  const small = inputs.filter(isSmall).map(({ name }) => name);
  const others = inputs.slice(1).map(({ name }) => name);
  const some = [whole, small, others].filter((names) => names.length > 0);
  return [...none, ...some.filter((names, i) => some.findIndex((each) => each.join() === names.join()) === i)];
}

function divide(tensors: Tensors, names: readonly string[]): [Tensors, Tensors] {
  const entries = Object.entries(tensors);
  const among = (wanted: boolean): Tensors => Object.fromEntries(entries.filter(([name]) => names.includes(name) === wanted));
  return [among(true), among(false)];
}

function keyOf(values: Tensors): string {
  return Object.entries(values)
    .map(([name, { dims, data }]) => `${name}[${dims.join()}]${Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("latin1")}`)
    .join(";");
}
