/** Argument lists of kernels, and launches. */
import { invalidParam } from "../../errors/make";
import { resolve } from "../addresses";
import { type Arg, dict, handle, integer, list, optional, pointer } from "../args";
import {
  appendArgument,
  createList,
  finalizeList,
  launchArgsArray,
  launchDeviceArgs,
  launchHostArgs,
  launchList,
  listBytes,
  placeholderBuffer,
  updateArgument,
} from "../kernels";
import { ownStream } from "../streams";
import { call } from "../table";

/** aclrtLaunchKernelAttrId, as far as a launch here heeds it. */
const TIMEOUT_SECONDS = 7;
const TIMEOUT_US = 8;
/** Attributes without meaning for an emulated core: schedule mode, unified buffer size, engine, prefetch, dump, profiling. */
const IGNORED: ReadonlySet<number> = new Set([1, 2, 3, 4, 5, 6, 9]);
/** What a list needs in memory of the user besides its arguments: its handle. */
const HANDLE_BYTES = 8;

export interface LaunchAttribute {
  readonly id?: unknown;
  readonly value?: unknown;
}
const attributes = (name: string): Arg<readonly LaunchAttribute[]> => list(name, (item): Arg<LaunchAttribute> => dict<LaunchAttribute>(item));

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
  kernel_args_get_handle_mem_size: call({
    c: "aclrtKernelArgsGetHandleMemSize",
    args: [handle("function")],
    returns: "[value, ret]",
    doc: "Bytes that kernel_args_init_by_user_mem needs for the handle.",
    none: 0,
    run(fn) {
      listBytes(fn, "kernel_args_get_handle_mem_size");
      return HANDLE_BYTES;
    },
  }),
  kernel_args_init_by_user_mem: call({
    c: "aclrtKernelArgsInitByUserMem",
    args: [handle("function"), pointer("argsHandle"), pointer("userHostMem"), integer("actualArgsSize")],
    returns: "[value, ret]",
    doc: "An argument list whose arguments lie in `userHostMem`, 8 bytes each: what stands there at launch is launched. Its handle is also written to `argsHandle`.",
    none: 0,
    run(fn, handleMemory, memory, size) {
      const what = "kernel_args_init_by_user_mem";
      const least = listBytes(fn, what);
      if (size < least) {
        throw invalidParam(`${what}: ${size} bytes for arguments, and the function takes ${least}; ask kernel_args_get_mem_size`);
      }
      const place = resolve(handleMemory, HANDLE_BYTES, `${what}: argsHandle`).bytes;
      const made = createList(fn, what, resolve(memory, size, `${what}: userHostMem`).bytes);
      new DataView(place.buffer, place.byteOffset).setBigUint64(0, BigInt(made), true);
      return made;
    },
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

const launches = {
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
  launch_kernel_with_args_array: call({
    c: "aclrtLaunchKernelWithArgsArray",
    args: [handle("function"), integer("blocks"), handle("stream"), attributes("config"), list("args", pointer)],
    returns: "ret",
    doc: "Runs `blocks` blocks; each of `args` points to one argument, taken now: 8 bytes, 4 for an f32, or as many as a typed array has.",
    run(fn, blocks, stream, config, args): void {
      const what = "launch_kernel_with_args_array";
      launchArgsArray(fn, blocks, ownStream(stream, what), timeoutOf(config, what), args, what);
    },
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

export const launchCalls = { ...argumentCalls, ...launches };
