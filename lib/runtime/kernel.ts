/** Kernels of one's own: WebAssembly modules that run on a device's cores, block by block. */
import { fileURLToPath } from "node:url";
import { AclError } from "../errors/acl-error";
import { checkInteger, checkOptions, invalidParam } from "../errors/make";
import { CORE_LIMIT } from "../host/layout";
import type { DeviceBuffer } from "./buffer";
import type { Device } from "./device";
import { checkMade, coreOf } from "./internals";
import { BinaryCore, type FunctionCore, type ParamType } from "./kernel-binary";
import { prepareLaunch, submitLaunch, TIMEOUT_LIMIT_MS } from "./kernel-launch";
import { readFile } from "./model-source";
import type { StreamCore } from "./stream-core";

/** What a parameter of a kernel takes; `ptr` is an address of the device's memory. */
export type KernelParam = "ptr" | "i32" | "u32" | "i64" | "u64" | "f32" | "f64";

/** Parameters of a binary's functions, by name. */
export type KernelSignatures = Readonly<Record<string, readonly KernelParam[]>>;

export interface KernelLoadOptions {
  /** Gets what kernels print, when a stream of this thread is synchronized. Default: it goes to stdout. */
  readonly print?: (text: string, block: number) => void;
}

/** For a `ptr`: a buffer, an address, null, or an array whose bytes travel with the launch; a bigint for 64-bit parameters; else a number. */
export type KernelArg = number | bigint | null | DeviceBuffer | ArrayBufferView;

export interface KernelLaunchOptions {
  /** How many blocks run, spread over the cores. Default 1. */
  readonly blocks?: number;
  readonly args?: readonly KernelArg[];
  /** Most cores that work on it at a time; one of them then runs several blocks after each other. Default: all. */
  readonly cores?: number;
  /** A block that runs longer is stopped, and its core replaced if it does not poll. Looked at about every 100 ms. Default: the device's watchdogMs. */
  readonly timeoutMs?: number;
}

/** The first that reaches a file URL or path, or bytes. */
type Source = string | URL | ArrayBufferView | ArrayBuffer;

async function readSource(source: Source): Promise<readonly [bytes: Uint8Array, what: string]> {
  if (source instanceof Uint8Array) {
    return [source, "the module"];
  }
  if (ArrayBuffer.isView(source)) {
    return [new Uint8Array(source.buffer, source.byteOffset, source.byteLength), "the module"];
  }
  if (Object.prototype.toString.call(source) === "[object ArrayBuffer]") {
    return [new Uint8Array(source as ArrayBuffer), "the module"];
  }
  if (typeof source !== "string" && !(source instanceof URL)) {
    throw invalidParam("Kernel.load: pass a path, a file URL, or the bytes of a WebAssembly module");
  }
  const file = typeof source === "string" ? source : fileURLToPath(source);
  try {
    return [(await readFile(file)).slice(), file];
  } catch (error) {
    throw new AclError(107009, `Kernel.load: ${file} cannot be read (${(error as Error).message})`, { cause: error });
  }
}

let functionCore: (handle: KernelFunction) => FunctionCore;

/** A function of a loaded kernel binary, ready to be launched. */
export class KernelFunction {
  readonly #core: FunctionCore;

  static {
    functionCore = (handle) => handle.#core;
  }

  /** @internal */
  constructor(core: unknown) {
    checkMade((core as FunctionCore)?.binary instanceof BinaryCore, "KernelFunction", "kernel.function(name)");
    this.#core = core as FunctionCore;
  }

  get name(): string {
    return this.#core.name;
  }

  get params(): readonly KernelParam[] {
    return this.#core.params;
  }
}

/**
 * A WebAssembly module in a device's memory. What it may import and how to build one is in docs/kernels.md.
 * It can write anywhere in the device's memory, as on hardware without an MMU; what it can not do is stop the process, other streams or contexts.
 */
export class Kernel {
  readonly #binary: BinaryCore;
  readonly #functions = new Map<string, KernelFunction>();
  #disposed: Promise<void> | undefined;

  private constructor(binary: BinaryCore) {
    checkMade(binary instanceof BinaryCore, "Kernel", "await Kernel.load(device, module)");
    this.#binary = binary;
  }

  /**
   * Loads a module from a file or from bytes.
   * @param signatures parameters of the functions that take addresses; the others' follow from their WebAssembly types
   * @throws AclError 107009 if the file cannot be read, 107000 if the module is refused (the text says why) or a signature does not fit,
   *   507027 for a signature of a function that is not there, 107044 for one that cannot be launched, 207000 on the inline and sim drivers, 207001 if the device is full
   * @see CANN aclrtBinaryLoadFromFile, aclrtBinaryLoadFromData
   */
  static async load(device: Device, source: Source, signatures: KernelSignatures = {}, options: KernelLoadOptions = {}): Promise<Kernel> {
    const core = coreOf.device(device);
    core.check();
    checkOptions("Kernel.load", options, ["print"]);
    if (options.print !== undefined && typeof options.print !== "function") {
      throw invalidParam(`Kernel.load: print must be a function, not ${typeof options.print}`);
    }
    const [bytes, what] = await readSource(source);
    const binary = BinaryCore.load(core, bytes, what, options.print);
    try {
      const kernel = new Kernel(binary);
      for (const [name, params] of Object.entries(signatures)) {
        kernel.#declare(name, params);
      }
      return kernel;
    } catch (error) {
      binary.unload();
      throw error;
    }
  }

  #declare(name: string, params: readonly ParamType[] | undefined): KernelFunction {
    const made = new KernelFunction(this.#binary.function(name, params));
    this.#functions.set(name, made);
    return made;
  }

  /** Names of the module's functions. */
  get names(): string[] {
    return this.#binary.names;
  }

  /**
   * The function `name`.
   * @throws AclError 507027 if the module does not export it (the text names the nearest), 107044 if it cannot be launched, 107017 after `dispose`
   * @see CANN aclrtBinaryGetFunction
   */
  function(name: string): KernelFunction {
    this.#binary.check("kernel.function");
    return this.#functions.get(name) ?? this.#declare(name, undefined);
  }

  /** Waits for its launches and unloads it; a second call does nothing. @see CANN aclrtBinaryUnLoad */
  dispose(): Promise<void> {
    this.#disposed ??= this.#unload();
    return this.#disposed;
  }

  async #unload(): Promise<void> {
    const { machine } = this.#binary.device;
    this.#binary.closing = true;
    for (const [stream, sequence] of this.#binary.launches) {
      if (machine.lost === undefined) {
        await machine.wait(stream, sequence).catch(() => {}); // a device that is lost meanwhile keeps nothing
      }
    }
    this.#binary.unload();
  }

  [Symbol.dispose](): void {
    void this.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** Behind Stream.launchKernel. @param core the stream's core, as no public type may reach it */
export function launchKernel(core: unknown, fn: KernelFunction, options: KernelLaunchOptions): void {
  const stream = core as StreamCore;
  const where = "stream.launchKernel";
  if (!(fn instanceof KernelFunction)) {
    throw invalidParam(`${where}: pass what kernel.function(name) returned`);
  }
  checkOptions(where, options, ["blocks", "args", "cores", "timeoutMs"]);
  checkInteger(where, "timeoutMs", options.timeoutMs, 1, TIMEOUT_LIMIT_MS);
  checkInteger(where, "cores", options.cores, 1, CORE_LIMIT);
  const args = options.args ?? [];
  if (!Array.isArray(args)) {
    throw invalidParam(`${where}: args must be a list`);
  }
  const work = prepareLaunch(stream, functionCore(fn), options.blocks ?? 1, options.timeoutMs ?? 0, args);
  submitLaunch(stream, options.cores === undefined ? work : { ...work, cores: options.cores });
}
