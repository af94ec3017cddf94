/** Kernels of one's own: binaries and their functions. docs/kernels.md says what a binary is. */
import fs from "node:fs";
import { AclError } from "../../errors/acl-error";
import { invalidParam, notSupported } from "../../errors/make";
import { deviceAddress } from "../../runtime/address";
import { resolve } from "../addresses";
import { anything, type Arg, bytes, callbackOrNull, dict, handle, integer, list, optional, pointer, type Pointer, text } from "../args";
import { HandleTable, HandleType } from "../handles";
import { binaryAt, functionAt, functionOf, loadBinary, unloadBinary } from "../kernels";
import { call } from "../table";

/** aclrtBinaryLoadOptionType. */
enum LoadOption {
  LAZY_LOAD = 1,
  MAGIC,
  CPU_KERNEL_MODE,
}
const VECTOR_KERNEL = 2;

export interface LoadOptionValue {
  readonly type?: unknown;
  readonly value?: unknown;
}
const options = optional(list("options", (name): Arg<LoadOptionValue> => dict<LoadOptionValue>(name)));
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
  binary_set_exception_callback: call({
    c: "aclrtBinarySetExceptionCallback",
    args: [handle("binary"), callbackOrNull<(info: number, userData: unknown) => unknown>("fn"), optional(anything("userData"))],
    returns: "ret",
    doc: "Calls fn(info, userData) when a kernel of the binary fails that this thread launched, as set_exception_info_callback does; null takes it away.",
    run(binary, fn, userData): void {
      binaryAt(binary, "binary_set_exception_callback").onException = fn === null ? undefined : (info) => fn(info, userData);
    },
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
  get_function_size: call({
    c: "aclrtGetFunctionSize",
    args: [handle("function")],
    returns: "[...values, ret]",
    doc: "Bytes of the function's code for cube (0: there is none) and vector cores.",
    none: [0, 0],
    run: (fn) => [0, functionAt(fn, "get_function_size").core.codeBytes],
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

export const kernelCalls = { ...binaryCalls, ...functionCalls };
