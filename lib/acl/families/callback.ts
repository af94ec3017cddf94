/** Callbacks of streams, host functions, and callbacks of exceptions. */
import { invalidParam } from "../../errors/make";
import { anything, callback, callbackOrNull, handle, integer } from "../args";
import { exceptionInfo, registerException, setSingle, unregisterException } from "../exceptions";
import type { ExceptionCallback } from "../shapes";
import { addressOfView } from "../host-memory";
import type { KnownLaunch } from "../launches";
import {
  launchCallback,
  launchHostFunction,
  processHostFunction,
  processReport,
  subscribe,
  subscribeHost,
  unsubscribe,
  unsubscribeHost,
} from "../reports";
import { ownStream } from "../streams";
import { call } from "../table";

const FOREVER = -1;

function limit(ms: number, what: string): number {
  if (ms < FOREVER) {
    throw invalidParam(`${what}: time-out is ${ms} ms; pass -1 to wait for ever, or at least 0`);
  }
  return ms === FOREVER ? Number.POSITIVE_INFINITY : ms;
}

/** A getter of the handle that an exception callback gets. */
function getter(c: string, key: "taskId" | "streamId" | "threadId" | "deviceId" | "errorCode", doc: string) {
  return call({
    c,
    args: [handle("info")],
    returns: "value",
    doc,
    none: 0xffff_ffff,
    run: (info) => exceptionInfo(info, c)[key],
  });
}

/** @throws AclError 107000 for a task that was no kernel of this thread */
function launchOf(info: number, what: string): KnownLaunch {
  const { launch, taskId } = exceptionInfo(info, what);
  if (launch === undefined) {
    throw invalidParam(`${what}: task ${taskId} is no kernel that this thread launched; ask in the thread that did`);
  }
  return launch;
}

export const callbackCalls = {
  subscribe_report: call({
    c: "aclrtSubscribeReport",
    args: [integer("threadId"), handle("stream")],
    returns: "ret",
    doc: "The thread serves the stream's callbacks: it calls process_report in a loop.",
    run: (thread, stream): void => subscribe(ownStream(stream, "subscribe_report"), thread),
  }),
  unsubscribe_report: call({
    c: "aclrtUnSubscribeReport",
    args: [integer("threadId"), handle("stream")],
    returns: "ret",
    doc: "Ends that.",
    run: (thread, stream): void => unsubscribe(ownStream(stream, "unsubscribe_report"), thread),
  }),
  launch_callback: call({
    c: "aclrtLaunchCallback",
    args: [callback("fn"), anything("args"), integer("blockType"), handle("stream")],
    returns: "ret",
    doc: "When the stream gets there, the subscribed thread calls fn(args); with block type 1 the stream waits for it.",
    run(fn, args, block, stream): void {
      if (block !== 0 && block !== 1) {
        throw invalidParam(`launch_callback: blockType is ${block}; pass 0 (go on) or 1 (wait for the callback)`);
      }
      launchCallback(ownStream(stream, "launch_callback"), fn as (argument: unknown) => unknown, args, block === 1);
    },
  }),
  process_report: call({
    c: "aclrtProcessReport",
    args: [integer("timeoutMs")],
    returns: "ret",
    doc: "Serves one callback; 507012 if none comes due in time (-1: waits for ever).",
    blocks: true,
    run: (ms): void => processReport(limit(ms, "process_report")),
  }),
  launch_host_func: call({
    c: "aclrtLaunchHostFunc",
    args: [handle("stream"), callback("fn"), anything("userData")],
    returns: "ret",
    doc: "When the stream gets there, fn(userData) runs in this thread, while it blocks in a call or in its event loop; the stream waits for it.",
    run(stream, fn, data): void {
      if (typeof fn !== "function") {
        throw invalidParam("launch_host_func: pass a function");
      }
      launchHostFunction(ownStream(stream, "launch_host_func"), fn as (argument: unknown) => unknown, data);
    },
  }),
  subscribe_host_func: call({
    c: "aclrtSubscribeHostFunc",
    args: [integer("threadId"), handle("stream")],
    returns: "ret",
    doc: "Host functions of the stream are served by process_host_func of this thread.",
    run: (_, stream): void => subscribeHost(ownStream(stream, "subscribe_host_func")),
  }),
  unsubscribe_host_func: call({
    c: "aclrtUnSubscribeHostFunc",
    args: [integer("threadId"), handle("stream")],
    returns: "ret",
    doc: "Ends that.",
    run: (_, stream): void => unsubscribeHost(ownStream(stream, "unsubscribe_host_func")),
  }),
  process_host_func: call({
    c: "aclrtProcessHostFunc",
    args: [integer("timeoutMs")],
    returns: "ret",
    doc: "Serves one host function; 507012 if none comes due in time.",
    blocks: true,
    run: (ms): void => processHostFunction(limit(ms, "process_host_func")),
  }),
  set_exception_info_callback: call({
    c: "aclrtSetExceptionInfoCallback",
    args: [callbackOrNull<ExceptionCallback>("fn")],
    returns: "ret",
    doc: "Calls fn(info) for every fault of a task, when this thread next synchronizes; null takes it away.",
    run: setSingle,
  }),
  exception_info_callback_register: call({
    c: "aclrtExceptionInfoCallbackRegister",
    args: [callback("fn")],
    returns: "ret",
    doc: "As set_exception_info_callback, beside others.",
    run: (fn): void => registerException(fn as unknown as ExceptionCallback),
  }),
  exception_info_callback_unregister: call({
    c: "aclrtExceptionInfoCallbackUnregister",
    args: [callback("fn")],
    returns: "ret",
    doc: "Takes one of those away.",
    run: (fn): void => unregisterException(fn as unknown as ExceptionCallback),
  }),
  get_task_id_from_exception_info: getter("aclrtGetTaskIdFromExceptionInfo", "taskId", "Number of the task that failed."),
  get_stream_id_from_exception_info: getter("aclrtGetStreamIdFromExceptionInfo", "streamId", "Number of its stream."),
  get_thread_id_from_exception_info: getter("aclrtGetThreadIdFromExceptionInfo", "threadId", "Number of the thread that is told."),
  get_device_id_from_exception_info: getter("aclrtGetDeviceIdFromExceptionInfo", "deviceId", "Its device."),
  get_args_from_exception_info: call({
    c: "aclrtGetArgsFromExceptionInfo",
    args: [handle("info")],
    returns: "[...values, ret]",
    doc: "Address and bytes of the arguments, 8 bytes each, of a kernel that this thread launched: in device memory, or a host copy of what the launch took.",
    none: [0, 0],
    run(info) {
      const { args, argsBytes } = launchOf(info, "get_args_from_exception_info");
      return [typeof args === "number" ? args : addressOfView(args), argsBytes];
    },
  }),
  get_func_handle_from_exception_info: call({
    c: "aclrtGetFuncHandleFromExceptionInfo",
    args: [handle("info")],
    returns: "[value, ret]",
    doc: "Function of the kernel that failed, if this thread launched it.",
    none: 0,
    run: (info) => launchOf(info, "get_func_handle_from_exception_info").fn,
  }),
  get_error_code_from_exception_info: getter("aclrtGetErrorCodeFromExceptionInfo", "errorCode", "Its error code."),
};
