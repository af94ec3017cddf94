/** Exception callbacks: told of every fault of every device of this thread when the thread next looks, whatever context it was in. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { Code } from "../host/layout";
import { type FaultInfo, readFault } from "../runtime/failures";
import { type AclDevice, devicesHere, userId } from "./devices";
import { HandleTable, HandleType } from "./handles";
import { type KnownLaunch, launchAt } from "./launches";
import { threadId } from "node:worker_threads";
import { callUser } from "./states";
import { turnHooks } from "./waiting";
import type { ExceptionCallback } from "./shapes";

export interface ExceptionInfo {
  readonly taskId: number;
  readonly streamId: number;
  readonly threadId: number;
  readonly deviceId: number;
  readonly errorCode: number;
  readonly text: string;
  /** Of a kernel that this thread launched. */
  readonly launch: KnownLaunch | undefined;
}
const infos = new HandleTable<ExceptionInfo>(HandleType.EXCEPTION);
const callbacks = new Set<ExceptionCallback>();
/** The one of set_exception_info_callback. */
let single: ExceptionCallback | null = null;
const LOOK_MS = 20;
let timer: NodeJS.Timeout | undefined;

function tellFault(device: AclDevice, fault: FaultInfo): void {
  tell(device, fault.task.stream, fault.task.sequence, fault.code, fault.text);
}

/** A wait has taken minutes: told like a fault, with the code of a task that takes too long. */
export function tellLongWait(device: AclDevice, stream: number, sequence: number, text: string): void {
  tell(device, stream, sequence, Code.TASK_TIMEOUT, text);
}

function tell(device: AclDevice, stream: number, sequence: number, code: number, text: string): void {
  const launch = launchAt(device, stream, sequence);
  const handle = infos.add({
    taskId: sequence % 2 ** 32,
    streamId: stream,
    threadId,
    deviceId: userId(device.index),
    errorCode: code,
    text,
    launch,
  });
  try {
    const heard = [launch?.tell, single, ...callbacks];
    for (const callback of heard) {
      callUser("exception callback", () => callback?.(handle)); // the call that finds the fault answers with the fault
    }
  } finally {
    infos.remove(handle, "exception info");
  }
}

/** Tells of what is new. Called when the thread synchronizes; while somebody listens also at every turn of a blocking call, and by a timer. */
export function tellExceptions(): void {
  for (const device of devicesHere()) {
    const count = device.faultCount;
    const from = device.faultsTold;
    device.faultsTold = count;
    for (let number = from + 1; number <= count; number++) {
      const fault = readFault(device.machine, number);
      if (fault !== undefined) {
        tellFault(device, fault);
      }
    }
  }
}

/** In CANN a thread of the runtime calls back when a task fails. Here it is this thread: at the next turn of a blocking call, or of its event loop. */
function listen(): void {
  const wanted = single !== null || callbacks.size > 0;
  if (wanted && timer === undefined) {
    turnHooks.add(tellExceptions);
    timer = setInterval(tellExceptions, LOOK_MS);
    timer.unref();
  } else if (!wanted && timer !== undefined) {
    turnHooks.delete(tellExceptions);
    clearInterval(timer);
    timer = undefined;
  }
}

export function setSingle(callback: ExceptionCallback | null): void {
  single = callback;
  listen();
}

export function registerException(callback: ExceptionCallback): void {
  if (callbacks.has(callback)) {
    throw invalidParam("exception_info_callback_register: this function is registered already");
  }
  callbacks.add(callback);
  listen();
}

export function unregisterException(callback: ExceptionCallback): void {
  if (!callbacks.delete(callback)) {
    throw new AclError(107000, "exception_info_callback_unregister: this function is not registered; pass the one that was");
  }
  listen();
}

/** @throws AclError 107017 outside of the callback that got the handle */
export function exceptionInfo(handle: number, what: string): ExceptionInfo {
  return infos.get(handle, what);
}

export function forgetExceptions(): void {
  single = null;
  callbacks.clear();
  listen();
}
