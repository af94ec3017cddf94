/** A kernel binary in device memory and its functions. */
import { Binary, ARGUMENT_LIMIT } from "../../asm/abi/kernel";
import { AclError } from "../errors/acl-error";
import { invalidParam, nearestName, notSupported } from "../errors/make";
import { Header, Layout, PoolTag } from "../host/layout";
import type { DeviceCore } from "./device-core";
import type { FunctionType, KernelExport, KernelModule } from "./kernel-parts";
import { FUNCTION_LIMIT, kernelNumber, rememberKernel } from "./kernel-names";
import { listenToPrints, type PrintSink } from "./kernel-print";

/** What a parameter of a kernel takes. */
export type ParamType = "ptr" | "i32" | "u32" | "i64" | "u64" | "f32" | "f64";

const WASM_TYPES: Readonly<Record<ParamType, string>> = { ptr: "i32", i32: "i32", u32: "i32", i64: "i64", u64: "i64", f32: "f32", f64: "f64" };
const ALIGN = 64;
const align = (bytes: number): number => Math.ceil(bytes / ALIGN) * ALIGN;

export interface FunctionCore {
  readonly binary: BinaryCore;
  readonly name: string;
  readonly index: number;
  /** What fault records call it. */
  readonly number: number;
  readonly params: readonly ParamType[];
  /** Of its code. */
  readonly codeBytes: number;
}

/** Only worker cores can be stopped, so user kernels, which nobody has verified to end, run nowhere else. */
export function checkKernelDriver(device: DeviceCore, what: string): void {
  const { name } = device.machine.driver;
  if (name !== "threads") {
    throw notSupported(`${what}: a kernel may never end, and on the ${name} driver nothing could stop it; open the device with driver "threads"`);
  }
}

export class BinaryCore {
  readonly device: DeviceCore;
  readonly what: string;
  readonly id: number;
  /** Of its record in device memory. */
  readonly address: number;
  live = true;
  /** It takes no launches any more, and is unloaded when those that it took have run. */
  closing = false;
  readonly #module: KernelModule;
  readonly #functions = new Map<string, FunctionCore>();
  /** Sequence of the last launch per stream. */
  readonly #launches = new Map<number, number>();
  readonly #stopListening: () => void;

  private constructor(device: DeviceCore, module: KernelModule, what: string, sink: PrintSink | undefined) {
    const { machine } = device;
    this.device = device;
    this.what = what;
    this.#module = module;
    const code = Binary.SIZE;
    const data = align(code + module.bytes.length);
    this.address = machine.allocate(data + align(module.dataBytes), PoolTag.PROGRAM, what);
    machine.bytes.set(module.bytes, this.address + code);
    machine.bytes.fill(0, this.address + data, this.address + data + module.dataBytes);
    for (const { offset, bytes } of module.data) {
      machine.bytes.set(bytes, this.address + data + offset);
    }
    this.id = Atomics.add(machine.words, (Layout.HEADER + Header.BINARIES) >> 2, 1) + 1;
    this.#set(Binary.MODULE, this.address + code);
    this.#set(Binary.MODULE_BYTES, module.bytes.length);
    this.#set(Binary.DATA, module.dataBytes === 0 ? 0 : this.address + data);
    this.#set(Binary.TABLE, module.tableElements);
    this.#set(Binary.ID, this.id);
    this.#stopListening = module.prints ? listenToPrints(device, this.id, sink) : () => {};
    device.closers.add(this.#release);
  }

  /** @throws AclError 207000 on a driver without workers, 107000 that says why the bytes are refused, 207001 if the device is full */
  static load(device: DeviceCore, bytes: Uint8Array, what: string, sink?: PrintSink): BinaryCore {
    device.check();
    checkKernelDriver(device, what);
    // Loaded by those who have kernels: it is no part of a service's start.
    const { readKernelModule } = require("./kernel-module") as typeof import("./kernel-module");
    return new BinaryCore(device, readKernelModule(bytes, what), what, sink);
  }

  #set(field: number, value: number): void {
    Atomics.store(this.device.machine.words, (this.address + field) >>> 2, value);
  }

  check(what: string): void {
    this.device.check();
    if (!this.live || this.closing) {
      throw new AclError(107017, `${what}: ${this.what} is ${this.live ? "being " : ""}unloaded; load it again`);
    }
  }

  get names(): string[] {
    return [...this.#module.functions.keys()];
  }

  /**
   * The function `name`. `declared` are its parameters in words; without it they are taken from its WebAssembly type, where an address is an i32.
   * @throws AclError 507027 if there is none, 107044 if it cannot be launched, 107000 if the declaration does not fit it
   */
  function(name: string, declared?: readonly ParamType[]): FunctionCore {
    this.check("kernel.function");
    const known = this.#functions.get(name);
    if (known !== undefined && declared === undefined) {
      return known;
    }
    const found = this.#module.functions.get(name);
    if (found === undefined) {
      const nearest = nearestName(name, this.names);
      throw new AclError(
        507027,
        `${this.what} exports no function "${name}"; ${nearest === undefined ? "it exports none" : `did you mean "${nearest}"?`}`,
      );
    }
    const made = {
      binary: this,
      name,
      index: found.index,
      number: kernelNumber(this.id, found.index),
      params: this.#params(found, declared),
      codeBytes: found.codeBytes,
    };
    rememberKernel(this.device.machine, made.number, name);
    this.#functions.set(name, made);
    return made;
  }

  #params({ name, type, index }: KernelExport, declared: readonly ParamType[] | undefined): readonly ParamType[] {
    const why = unlaunchable(type, index);
    if (why !== undefined) {
      throw new AclError(107044, `function "${name}" of ${this.what} cannot be launched: ${why}`);
    }
    const own = type.params as readonly ParamType[];
    if (declared === undefined) {
      return own;
    }
    for (const [i, param] of declared.entries()) {
      if (WASM_TYPES[param] === undefined) {
        throw invalidParam(`signature of "${name}": parameter ${i} is "${String(param)}"; pass one of ${Object.keys(WASM_TYPES).join(", ")}`);
      }
    }
    if (declared.length !== own.length || declared.some((param, i) => WASM_TYPES[param] !== own[i])) {
      throw invalidParam(`signature of "${name}" is (${declared.join(", ")}), and the function takes (${own.join(", ")}); a ptr is an i32`);
    }
    return declared;
  }

  /** Where the exported variable `name` lies in device memory. @throws AclError 107042 if there is none */
  symbol(name: string): { readonly offset: number; readonly sizeBytes: number } {
    this.check("kernel symbol");
    const found = this.#module.symbols.get(name);
    if (found === undefined) {
      const all = [...this.#module.symbols.keys()];
      const nearest = nearestName(name, all);
      const known = all.length === 0 ? "it exports none" : `did you mean "${nearest ?? all.join('", "')}"?`;
      throw new AclError(107042, `${this.what} exports no variable "${name}"; ${known}`);
    }
    const data = (this.device.machine.words[(this.address + Binary.DATA) >>> 2] as number) >>> 0;
    return { offset: data + found.offset, sizeBytes: found.sizeBytes };
  }

  launched(stream: number, sequence: number): void {
    this.#launches.set(stream, sequence);
  }

  /** Launches that may still run: (stream, sequence). */
  get launches(): ReadonlyMap<number, number> {
    return this.#launches;
  }

  /** Gives the memory back. No launch may be in flight. */
  unload(): void {
    if (this.live) {
      this.#stopListening();
      this.#release();
    }
  }

  readonly #release = (): void => {
    this.live = false;
    this.device.closers.delete(this.#release);
    if (this.device.machine.lost === undefined) {
      this.#set(Binary.ID, 0); // cores that have an instance drop it when they load the next binary
      this.device.machine.release(this.address);
    }
  };
}

function unlaunchable(type: FunctionType, index: number): string | undefined {
  if (type.results.length > 0) {
    return "it returns a value; let it write to memory instead";
  }
  if (type.params.length > ARGUMENT_LIMIT) {
    return `it has ${type.params.length} parameters, and ${ARGUMENT_LIMIT} are the most`;
  }
  if (type.params.includes("other")) {
    return "a parameter is neither a number nor an address";
  }
  return index < FUNCTION_LIMIT ? undefined : `it is export ${index}, and only the first ${FUNCTION_LIMIT} can be launched`;
}
