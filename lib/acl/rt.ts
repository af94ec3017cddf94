/** `npurt/rt`: the small rtXxx face. Each call is one of the table's with other arguments: out-parameters come first in the result, the code last. */
import "./acl";
import { checkInteger, checkOptions } from "../errors/make";
import { dict, handle, integer, optional, pointer, text } from "./args";
import { contextCalls } from "./families/context";
import { copyCalls } from "./families/copy";
import { deviceCalls } from "./families/device";
import { errorRuntimeCalls } from "./families/error";
import { eventCalls } from "./families/event";
import { kernelCalls } from "./families/kernel";
import { memoryCalls } from "./families/memory";
import { streamCalls } from "./families/stream";
import { launchHostArgs } from "./kernels";
import { ownStream } from "./streams";
import { poolAllocate, poolFree } from "./sub-pool";
import { bind, call } from "./table";

/** Where rtMalloc allocates; the emulated device has one kind of memory. */
export const RT_MEMALLOC_DEFAULT = 0;
export const RT_MEMCPY_HOST_TO_HOST = 0;
export const RT_MEMCPY_HOST_TO_DEVICE = 1;
export const RT_MEMCPY_DEVICE_TO_HOST = 2;
export const RT_MEMCPY_DEVICE_TO_DEVICE = 3;

/** How a kernel is launched. */
export interface RtLaunchConfig {
  /** Blocks, spread over the cores. Default 1. */
  readonly blocks?: number;
  /** Most that a block may run, in microseconds. Default: what set_op_execute_time_out says. */
  readonly timeoutUs?: number;
}

const deviceFamily = {
  rtSetDevice: call({ ...deviceCalls.set_device, c: "rtSetDevice" }),
  rtGetDevice: call({ ...deviceCalls.get_device, c: "rtGetDevice" }),
  rtDeviceReset: call({ ...deviceCalls.reset_device, c: "rtDeviceReset" }),
  rtGetDeviceCount: call({ ...deviceCalls.get_device_count, c: "rtGetDeviceCount" }),
  rtDeviceSynchronize: call({ ...deviceCalls.synchronize_device, c: "rtDeviceSynchronize" }),
  rtCtxCreate: call({ ...contextCalls.create_context, c: "rtCtxCreate" }),
  rtCtxDestroy: call({ ...contextCalls.destroy_context, c: "rtCtxDestroy" }),
  rtCtxSetCurrent: call({ ...contextCalls.set_context, c: "rtCtxSetCurrent" }),
  rtCtxGetCurrent: call({ ...contextCalls.get_context, c: "rtCtxGetCurrent" }),
  rtGetLastError: call({ ...errorRuntimeCalls.get_last_error, c: "rtGetLastError" }),
  rtPeekAtLastError: call({ ...errorRuntimeCalls.peek_at_last_error, c: "rtPeekAtLastError" }),
};

const streamFamily = {
  rtStreamCreate: call({
    c: "rtStreamCreate",
    args: [integer("priority")],
    returns: "[value, ret]",
    doc: "A stream with a priority: 0 (served first) to 7.",
    none: 0,
    run: (priority) => streamCalls.create_stream_with_config.run(priority, 0),
  }),
  rtStreamDestroy: call({ ...streamCalls.destroy_stream, c: "rtStreamDestroy" }),
  rtStreamSynchronize: call({ ...streamCalls.synchronize_stream, c: "rtStreamSynchronize" }),
  rtStreamSynchronizeWithTimeout: call({ ...streamCalls.synchronize_stream_with_timeout, c: "rtStreamSynchronizeWithTimeout" }),
  rtStreamQuery: call({ ...streamCalls.stream_query, c: "rtStreamQuery" }),
  rtStreamAbort: call({ ...streamCalls.stream_abort, c: "rtStreamAbort" }),
  rtStreamWaitEvent: call({ ...eventCalls.stream_wait_event, c: "rtStreamWaitEvent" }),
  rtEventCreate: call({ ...eventCalls.create_event, c: "rtEventCreate" }),
  rtEventDestroy: call({ ...eventCalls.destroy_event, c: "rtEventDestroy" }),
  rtEventRecord: call({ ...eventCalls.record_event, c: "rtEventRecord" }),
  rtEventQuery: call({ ...eventCalls.query_event_status, c: "rtEventQuery" }),
  rtEventSynchronize: call({ ...eventCalls.synchronize_event, c: "rtEventSynchronize" }),
  rtEventElapsedTime: call({ ...eventCalls.event_elapsed_time, c: "rtEventElapsedTime" }),
};

const memoryFamily = {
  rtMalloc: call({
    c: "rtMalloc",
    args: [integer("size"), integer("type")],
    returns: "[value, ret]",
    doc: "Device memory.",
    none: 0,
    run: (size, type) => memoryCalls.malloc.run(size, type),
  }),
  rtFree: call({ ...memoryCalls.free, c: "rtFree" }),
  rtMallocHost: call({ ...memoryCalls.malloc_host, c: "rtMallocHost" }),
  rtFreeHost: call({ ...memoryCalls.free_host, c: "rtFreeHost" }),
  rtMemGetInfo: call({
    c: "rtMemGetInfo",
    args: [],
    returns: "[...values, ret]",
    doc: "Free and total bytes of the current device.",
    none: [0, 0],
    run: () => memoryCalls.get_mem_info.run(1),
  }),
  rtMemcpy: call({
    c: "rtMemcpy",
    args: [pointer("dst"), pointer("src"), integer("count"), integer("kind")],
    returns: "ret",
    doc: "Copies now.",
    blocks: true,
    run: (dst, src, count, kind): void => copyCalls.memcpy.run(dst, count, src, count, kind),
  }),
  rtMemcpyAsync: call({
    c: "rtMemcpyAsync",
    args: [pointer("dst"), pointer("src"), integer("count"), integer("kind"), handle("stream")],
    returns: "ret",
    doc: "Copies in stream order.",
    run: (dst, src, count, kind, stream): void => copyCalls.memcpy_async.run(dst, count, src, count, kind, stream),
  }),
  rtMemset: call({ ...copyCalls.memset, c: "rtMemset" }),
  rtMemsetAsync: call({ ...copyCalls.memset_async, c: "rtMemsetAsync" }),
  mem_pool_alloc: call({
    c: "mem_pool_alloc",
    args: [integer("pool"), integer("poolSize"), integer("size")],
    returns: "[value, ret]",
    doc: "A block inside memory that rtMalloc gave; the runtime is not asked.",
    none: 0,
    run: poolAllocate,
  }),
  mem_pool_free: call({
    c: "mem_pool_free",
    args: [integer("pool"), integer("ptr")],
    returns: "ret",
    doc: "Gives the block back to its pool.",
    run: poolFree,
  }),
};

const kernelFamily = {
  rtBinaryLoad: call({
    c: "rtBinaryLoad",
    args: [text("path")],
    returns: "[value, ret]",
    doc: "Loads a kernel binary (a WebAssembly module) on the current device.",
    none: 0,
    run: (path) => kernelCalls.binary_load_from_file.run(path, undefined),
  }),
  rtBinaryUnload: call({ ...kernelCalls.binary_unload, c: "rtBinaryUnload" }),
  rtBinaryGetFunction: call({ ...kernelCalls.binary_get_function, c: "rtBinaryGetFunction" }),
  rtKernelLaunch: call({
    c: "rtKernelLaunch",
    args: [handle("kernel"), handle("stream"), pointer("args"), integer("argsSize"), optional(dict<RtLaunchConfig>("config"))],
    returns: "ret",
    doc: "Launches what rtBinaryGetFunction gave; the arguments, 8 bytes each, are taken now. What became of it says the next synchronize.",
    run(kernel, streamHandle, args, argsSize, config): void {
      const what = "rtKernelLaunch";
      checkOptions(`${what}: config`, config, ["blocks", "timeoutUs"]);
      checkInteger(what, "timeoutUs", config?.timeoutUs, 1, Number.MAX_SAFE_INTEGER);
      launchHostArgs(kernel, config?.blocks ?? 1, ownStream(streamHandle, what), config?.timeoutUs ?? 0, args, argsSize, [], what);
    },
  }),
};

export const rt = {
  ...bind("rt/", deviceFamily),
  ...bind("rt/", streamFamily),
  ...bind("rt/", memoryFamily),
  ...bind("rt/", kernelFamily),
};
