/** `npurt/rt`: the small rtXxx face. Each call is one of the table's with other arguments: out-parameters come first in the result, the code last. */
import "./acl";
import { integer, handle, pointer } from "./args";
import { contextCalls } from "./families/context";
import { copyCalls } from "./families/copy";
import { deviceCalls } from "./families/device";
import { eventCalls } from "./families/event";
import { memoryCalls } from "./families/memory";
import { streamCalls } from "./families/stream";
import { poolAllocate, poolFree } from "./sub-pool";
import { bind, call } from "./table";

/** Where rtMalloc allocates; the emulated device has one kind of memory. */
export const RT_MEMALLOC_DEFAULT = 0;
export const RT_MEMCPY_HOST_TO_HOST = 0;
export const RT_MEMCPY_HOST_TO_DEVICE = 1;
export const RT_MEMCPY_DEVICE_TO_HOST = 2;
export const RT_MEMCPY_DEVICE_TO_DEVICE = 3;

const rtFamily = {
  rtSetDevice: call({ ...deviceCalls.set_device, c: "rtSetDevice" }),
  rtDeviceReset: call({ ...deviceCalls.reset_device, c: "rtDeviceReset" }),
  rtGetDeviceCount: call({ ...deviceCalls.get_device_count, c: "rtGetDeviceCount" }),
  rtDeviceSynchronize: call({ ...deviceCalls.synchronize_device, c: "rtDeviceSynchronize" }),
  rtCtxCreate: call({ ...contextCalls.create_context, c: "rtCtxCreate" }),
  rtCtxDestroy: call({ ...contextCalls.destroy_context, c: "rtCtxDestroy" }),
  rtCtxSetCurrent: call({ ...contextCalls.set_context, c: "rtCtxSetCurrent" }),
  rtCtxGetCurrent: call({ ...contextCalls.get_context, c: "rtCtxGetCurrent" }),
  rtStreamCreate: call({
    c: "rtStreamCreate",
    args: [integer("priority")],
    returns: "[value, ret]",
    doc: "A stream with a priority.",
    none: 0,
    run: (priority) => streamCalls.create_stream_with_config.run(priority, 0),
  }),
  rtStreamDestroy: call({ ...streamCalls.destroy_stream, c: "rtStreamDestroy" }),
  rtStreamSynchronize: call({ ...streamCalls.synchronize_stream, c: "rtStreamSynchronize" }),
  rtStreamQuery: call({ ...streamCalls.stream_query, c: "rtStreamQuery" }),
  rtStreamWaitEvent: call({ ...eventCalls.stream_wait_event, c: "rtStreamWaitEvent" }),
  rtEventCreate: call({ ...eventCalls.create_event, c: "rtEventCreate" }),
  rtEventDestroy: call({ ...eventCalls.destroy_event, c: "rtEventDestroy" }),
  rtEventRecord: call({ ...eventCalls.record_event, c: "rtEventRecord" }),
  rtEventSynchronize: call({ ...eventCalls.synchronize_event, c: "rtEventSynchronize" }),
  rtEventElapsedTime: call({ ...eventCalls.event_elapsed_time, c: "rtEventElapsedTime" }),
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
  mem_pool_alloc: call({
    c: "mem_pool_alloc",
    args: [integer("pool"), integer("poolSize"), integer("size")],
    returns: "[value, ret]",
    doc: "A block inside memory that rtMalloc gave.",
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

export const rt = bind("rt/", rtFamily);
