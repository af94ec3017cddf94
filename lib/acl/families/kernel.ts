/** Kernels of one's own: binaries, functions, argument lists, launches. docs/kernels.md says what a binary is. */
import fs from "node:fs";
import { AclError } from "../../errors/acl-error";
import { invalidParam, notSupported } from "../../errors/make";
import { deviceAddress } from "../../runtime/address";
import { resolve } from "../addresses";
import { type Arg, bytes, dict, handle, integer, list, optional, pointer, type Pointer, text } from "../args";
import { HandleTable, HandleType } from "../handles";
import {
  appendArgument,
  createList,
  finalizeList,
  functionAt,
  functionOf,
  launchDeviceArgs,
  launchHostArgs,
  launchList,
  listBytes,
  loadBinary,
  placeholderBuffer,
  unloadBinary,
  updateArgument,
} from "../kernels";
import { ownStream } from "../streams";
import { call } from "../table";

/** aclrtBinaryLoadOptionType. */
enum LoadOption {
  LAZY_LOAD = 1,
  MAGIC,
  CPU_KERNEL_MODE,
}
/** aclrtLaunchKernelAttrId, as far as a launch here heeds it. */
const TIMEOUT_SECONDS = 7;
const TIMEOUT_US = 8;
/** Attributes without meaning for an emulated core: schedule mode, unified buffer size, engine, prefetch, dump, profiling. */
const IGNORED: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 9]);
const VECTOR_KERNEL = 2;

export interface LoadOptionValue {
  readonly type?: unknown;
  readonly value?: unknown;
}
export interface LaunchAttribute {
  readonly id?: unknown;
  readonly value?: unknown;
}
const options = optional(list("options", (name): Arg<LoadOptionValue> => dict<LoadOptionValue>(name)));
const attributes = (name: string): Arg<readonly LaunchAttribute[]> => list(name, (item): Arg<LaunchAttribute> => dict<LaunchAttribute>(item));
/** Data of create_binary, until binary_load. */
const images = new HandleTable<Uint8Array>(HandleType.CONFIG);

function checkOptions(given: readonly LoadOptionValue[] | undefined, what: string): void {
  for (const { type, value } of given ?? []) {
    if (LoadOption[type as number] === undefined || !Number.isInteger(value)) {
      throw invalidParam(
        `${what}: option {type: ${String(type)}, value: ${String(value)}}; types are 1 (lazy load), 2 (magic) and 3 (CPU kernel mode)`,
      );
    }
    if (type === LoadOption.CPU_KERNEL_MODE) {
      throw notSupported(`${what}: kernels for the AI CPU do not exist here; load a WebAssembly module`);
    }
  }
}

/** The launch's own time limit in us; 0 = none. */
function timeoutOf(config: readonly LaunchAttribute[] | undefined, what: string): number {
  let us = 0;
  for (const { id, value } of config ?? []) {
    const number = typeof value === "bigint" ? Number(value) : value;
    if (id !== TIMEOUT_SECONDS && id !== TIMEOUT_US) {
      if (!IGNORED.has(id as number)) {
        throw invalidParam(`${what}: launch attribute ${String(id)} is unknown; pass 7 (time-out in s) or 8 (time-out in us)`);
      }
    } else if (typeof number !== "number" || !Number.isInteger(number) || number < 0) {
      throw invalidParam(`${what}: time-out ${String(value)}; pass a whole number, 0 for the default`);
    } else {
      us = id === TIMEOUT_US ? number : number * 1e6;
    }
  }
  return us;
}

function readBinary(file: string, what: string): Uint8Array {
  try {
    return fs.readFileSync(file);
  } catch (error) {
    throw new AclError(107009, `${what}: ${file} cannot be read (${(error as Error).message})`, { cause: error });
  }
}

function dataOf(data: Pointer, length: number, what: string): Uint8Array {
  if (length < 1) {
    throw invalidParam(`${what}: ${length} bytes; pass the whole binary`);
  }
  return resolve(data, length, `${what}: data`).bytes.slice(0, length);
}

const binaryCalls = {
  binary_load_from_file: call({
    c: "aclrtBinaryLoadFromFile",
    args: [text("path"), options],
    returns: "[value, ret]",
    doc: "Loads a kernel binary (a WebAssembly module) on the current device: 107009 if it cannot be read, 107000 with the reason if it is refused.",
    none: 0,
    run(path, given) {
      checkOptions(given, "binary_load_from_file");
      return loadBinary(readBinary(path, "binary_load_from_file"), path, "binary_load_from_file");
    },
  }),
  binary_load_from_data: call({
    c: "aclrtBinaryLoadFromData",
    args: [pointer("data"), integer("length"), options],
    returns: "[value, ret]",
    doc: "The same from memory, which may be reused at once.",
    none: 0,
    run(data, length, given) {
      checkOptions(given, "binary_load_from_data");
      return loadBinary(dataOf(data, length, "binary_load_from_data"), "the module", "binary_load_from_data");
    },
  }),
  binary_unload: call({
    c: "aclrtBinaryUnLoad",
    args: [handle("binary")],
    returns: "ret",
    doc: "Waits for the binary's launches; then it is gone, with its functions and argument lists.",
    blocks: true,
    run: (binary): void => unloadBinary(binary, "binary_unload"),
  }),
  create_binary: call({
    c: "aclrtCreateBinary",
    args: [bytes("data"), integer("length")],
    returns: "[value, ret]",
    doc: "The older way to load: keeps the bytes for binary_load.",
    none: 0,
    run: (data, length) => images.add(dataOf(data, length, "create_binary")),
  }),
  binary_load: call({
    c: "aclrtBinaryLoad",
    args: [handle("image")],
    returns: "[value, ret]",
    doc: "Loads what create_binary keeps.",
    none: 0,
    run: (image) => loadBinary(images.get(image, "binary_load: image"), "the module", "binary_load"),
  }),
  destroy_binary: call({
    c: "aclrtDestroyBinary",
    args: [handle("image")],
    returns: "ret",
    doc: "Drops what create_binary keeps; what was loaded from it stays.",
    run(image): void {
      images.remove(image, "destroy_binary: image");
    },
  }),
  binary_get_function: call({
    c: "aclrtBinaryGetFunction",
    args: [handle("binary"), text("name")],
    returns: "[value, ret]",
    doc: "A function of the binary by name: 507027 if there is none, 107044 if it cannot be launched.",
    none: 0,
    run: (binary, name) => functionOf(binary, () => name, "binary_get_function"),
  }),
  binary_get_function_by_entry: call({
    c: "aclrtBinaryGetFunctionByEntry",
    args: [handle("binary"), integer("entry")],
    returns: "[value, ret]",
    doc: "A function by its number, in the order in which the module exports them, from 0.",
    none: 0,
    run(binary, entry) {
      return functionOf(
        binary,
        (names) => {
          const name = names[entry];
          if (name === undefined) {
            throw new AclError(507027, `binary_get_function_by_entry: entry ${entry}; the binary has 0 to ${names.length - 1}`);
          }
          return name;
        },
        "binary_get_function_by_entry",
      );
    },
  }),
  binary_get_global: call({
    c: "aclrtBinaryGetGlobal",
    args: [handle("binary"), text("name")],
    returns: "[value, ret]",
    doc: "Refused: a WebAssembly module does not say where its static data lies; let a kernel write the address to memory.",
    refused: 207000,
    none: 0,
    run(): number {
      throw notSupported("binary_get_global: a WebAssembly module does not say where its static data lies; let a kernel write the address to memory");
    },
  }),
  register_cpu_func: call({
    c: "aclrtRegisterCpuFunc",
    args: [handle("binary"), text("name"), text("kernel")],
    returns: "[value, ret]",
    doc: "Refused: there is no AI CPU; load the function as a kernel.",
    refused: 207000,
    none: 0,
    run(): number {
      throw notSupported("register_cpu_func: there is no AI CPU; load the function as a kernel");
    },
  }),
};

const functionCalls = {
  get_function_name: call({
    c: "aclrtGetFunctionName",
    args: [handle("function")],
    returns: "[value, ret]",
    doc: "Name of the function.",
    none: "",
    run: (fn) => functionAt(fn, "get_function_name").core.name,
  }),
  get_function_addr: call({
    c: "aclrtGetFunctionAddr",
    args: [handle("function")],
    returns: "[...values, ret]",
    doc: "Addresses on cube and vector cores: there is no cube kernel (0), and the binary's record stands for the code.",
    none: [0, 0],
    run(fn) {
      const { binary } = functionAt(fn, "get_function_addr");
      return [0, deviceAddress(binary.device.index, binary.core.address)];
    },
  }),
  get_function_attribute: call({
    c: "aclrtGetFunctionAttribute",
    args: [handle("function"), integer("attribute")],
    returns: "[value, ret]",
    doc: "Attribute 1, the kind of kernel: 2, vector.",
    none: 0,
    run(fn, attribute) {
      functionAt(fn, "get_function_attribute");
      if (attribute !== 1) {
        throw invalidParam(`get_function_attribute: attribute ${attribute} is unknown; pass 1 (kind of kernel)`);
      }
      return VECTOR_KERNEL;
    },
  }),
  get_function_param_count: call({
    c: "aclrtGetFunctionParamCount",
    args: [handle("function")],
    returns: "[value, ret]",
    doc: "How many arguments the function takes.",
    none: 0,
    run: (fn) => functionAt(fn, "get_function_param_count").core.params.length,
  }),
  get_function_param_info: call({
    c: "aclrtGetFunctionParamInfo",
    args: [handle("function"), integer("index")],
    returns: "[value, ret]",
    doc: "Where argument `index` lies among the arguments, and its type.",
    none: { offset: 0, size: 0, type: "" },
    run(fn, index) {
      const { core } = functionAt(fn, "get_function_param_info");
      const type = core.params[index];
      if (type === undefined) {
        throw invalidParam(`get_function_param_info: index ${index}; "${core.name}" has ${core.params.length} parameters`);
      }
      return { offset: 8 * index, size: 8, type: type as string };
    },
  }),
};

const argumentCalls = {
  kernel_args_init: call({
    c: "aclrtKernelArgsInit",
    args: [handle("function")],
    returns: "[value, ret]",
    doc: "An empty argument list for the function. It lives as long as the binary.",
    none: 0,
    run: (fn) => createList(fn, "kernel_args_init"),
  }),
  kernel_args_get_mem_size: call({
    c: "aclrtKernelArgsGetMemSize",
    args: [handle("function"), integer("userArgsSize")],
    returns: "[value, ret]",
    doc: "Bytes that an argument list of the function takes: 8 each.",
    none: 0,
    run: (fn, size) => Math.max(size, listBytes(fn, "kernel_args_get_mem_size")),
  }),
  kernel_args_append: call({
    c: "aclrtKernelArgsAppend",
    args: [handle("args"), pointer("param"), integer("size")],
    returns: "[value, ret]",
    doc: "The next argument: `size` bytes (at most 8) at `param`, taken now. An address has 8.",
    none: 0,
    run: (args, param, size) => appendArgument(args, param, size, "kernel_args_append"),
  }),
  kernel_args_append_place_holder: call({
    c: "aclrtKernelArgsAppendPlaceHolder",
    args: [handle("args")],
    returns: "[value, ret]",
    doc: "The next argument: an address of data that travels with each launch.",
    none: 0,
    run: (args) => appendArgument(args, undefined, 0, "kernel_args_append_place_holder"),
  }),
  kernel_args_get_place_holder_buffer: call({
    c: "aclrtKernelArgsGetPlaceHolderBuffer",
    args: [handle("args"), handle("param"), integer("size")],
    returns: "[value, ret]",
    doc: "Host memory for the data of a placeholder; its bytes at launch are what the kernel sees.",
    none: 0,
    run: (args, param, size) => placeholderBuffer(args, param, size, "kernel_args_get_place_holder_buffer"),
  }),
  kernel_args_para_update: call({
    c: "aclrtKernelArgsParaUpdate",
    args: [handle("args"), handle("param"), pointer("value"), integer("size")],
    returns: "ret",
    doc: "Another value for an argument; launches that are queued keep the old one.",
    run: (args, param, value, size): void => updateArgument(args, param, value, size, "kernel_args_para_update"),
  }),
  kernel_args_finalize: call({
    c: "aclrtKernelArgsFinalize",
    args: [handle("args")],
    returns: "ret",
    doc: "Checks number and sizes of the arguments; nothing can be appended any more.",
    run: (args): void => finalizeList(args, "kernel_args_finalize"),
  }),
};

const launchCalls = {
  launch_kernel: call({
    c: "aclrtLaunchKernel",
    args: [handle("function"), integer("blocks"), pointer("args"), integer("argsSize"), handle("stream")],
    returns: "ret",
    doc: "Runs `blocks` blocks; the arguments lie in device memory, 8 bytes each. What became of it says the next synchronize.",
    run: (fn, blocks, args, size, stream): void => launchDeviceArgs(fn, blocks, args, size, ownStream(stream, "launch_kernel"), 0, "launch_kernel"),
  }),
  launch_kernel_v2: call({
    c: "aclrtLaunchKernelV2",
    args: [handle("function"), integer("blocks"), pointer("args"), integer("argsSize"), attributes("config"), handle("stream")],
    returns: "ret",
    doc: "The same with launch attributes.",
    run: (fn, blocks, args, size, config, stream): void =>
      launchDeviceArgs(fn, blocks, args, size, ownStream(stream, "launch_kernel_v2"), timeoutOf(config, "launch_kernel_v2"), "launch_kernel_v2"),
  }),
  launch_kernel_with_config: call({
    c: "aclrtLaunchKernelWithConfig",
    args: [handle("function"), integer("blocks"), handle("stream"), attributes("config"), handle("args"), optional(integer("reserve"))],
    returns: "ret",
    doc: "Runs `blocks` blocks with an argument list; attribute 7 or 8 limits a block's time (s, us).",
    run: (fn, blocks, stream, config, args, _reserve): void =>
      launchList(
        fn,
        blocks,
        ownStream(stream, "launch_kernel_with_config"),
        timeoutOf(config, "launch_kernel_with_config"),
        args,
        "launch_kernel_with_config",
      ),
  }),
  launch_kernel_with_host_args: call({
    c: "aclrtLaunchKernelWithHostArgs",
    args: [
      handle("function"),
      integer("blocks"),
      handle("stream"),
      attributes("config"),
      pointer("hostArgs"),
      integer("argsSize"),
      optional(list("placeholders", (item): Arg<{ readonly addrOffset?: unknown; readonly dataOffset?: unknown }> => dict(item))),
    ],
    returns: "ret",
    doc: "Runs `blocks` blocks with arguments in host memory, 8 bytes each, taken now; a placeholder makes one the address of data behind them.",
    run: (fn, blocks, stream, config, args, size, placeholders): void =>
      launchHostArgs(
        fn,
        blocks,
        ownStream(stream, "launch_kernel_with_host_args"),
        timeoutOf(config, "launch_kernel_with_host_args"),
        args,
        size,
        placeholders ?? [],
        "launch_kernel_with_host_args",
      ),
  }),
};

export const kernelCalls = { ...binaryCalls, ...functionCalls, ...argumentCalls, ...launchCalls };
