/** Devices: who uses them, what they are, what their cores may be used for. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { StreamState } from "../../host/layout";
import { anything, callbackOrNull, handle, integer, optional, text } from "../args";
import { contextsOf, current, retainPrimary, streamsOf } from "../contexts";
import { type AclDevice, deviceIfOpen, ensureDevice, physicalIndex, Shared, userId, visibleDevices } from "../devices";
import { resetDevice } from "../lifecycle";
import { emptyStream, streamView, syncContext, timeoutOf } from "../streams";
import { call } from "../table";
import { StateCallbacks } from "../states";

const HOST_MODE = 1;
const LONGEST_ABORT_MS = 36 * 60 * 1000;
const states = new StateCallbacks("reg_device_state_callback");

function abortTasks(device: AclDevice, ms: number): void {
  if (ms < 0 || ms > LONGEST_ABORT_MS) {
    throw invalidParam(`device_task_abort: timeout is ${ms} ms; pass 0 (no limit) to ${LONGEST_ABORT_MS}`);
  }
  if (Atomics.exchange(device.shared, Shared.ABORTING, 1) !== 0) {
    throw new AclError(107022, `device_task_abort: device ${device.index} is being aborted already; wait for that call`);
  }
  try {
    for (const context of contextsOf(device)) {
      for (const stream of streamsOf(context)) {
        if (!emptyStream(streamView(device, stream), StreamState.LIVE, ms === 0 ? Number.POSITIVE_INFINITY : ms)) {
          throw new AclError(
            107035,
            `device_task_abort: stream ${stream} of device ${device.index} does not stop within ${ms} ms; reset the device by force`,
          );
        }
      }
    }
  } finally {
    device.set(Shared.ABORTING, 0);
  }
}

export const deviceCalls = {
  set_device: call({
    c: "aclrtSetDevice",
    args: [integer("deviceId")],
    returns: "ret",
    doc: "One more use of the device's default context, which the calling thread is bound to.",
    blocks: true,
    run(id): void {
      const index = physicalIndex(id, "set_device");
      states.tell(id, "SET_PRE");
      retainPrimary(ensureDevice(index));
      states.tell(id, "SET_POST");
    },
  }),
  reset_device: call({
    c: "aclrtResetDevice",
    args: [integer("deviceId")],
    returns: "ret",
    doc: "One use less; at 0 waits for the device's tasks and frees its contexts and memory.",
    blocks: true,
    run(id): void {
      reset(id, false);
    },
  }),
  reset_device_force: call({
    c: "aclrtResetDeviceForce",
    args: [integer("deviceId")],
    returns: "ret",
    doc: "Frees the device's contexts and memory at once, however many use it.",
    blocks: true,
    run(id): void {
      reset(id, true);
    },
  }),
  get_device: call({
    c: "aclrtGetDevice",
    args: [],
    returns: "[value, ret]",
    doc: "Device of the calling thread's context.",
    none: 0,
    run: () => userId(current("get_device").device.index),
  }),
  get_device_count: call({
    c: "aclrtGetDeviceCount",
    args: [],
    returns: "[value, ret]",
    doc: "Visible devices; 207004 if there is none.",
    none: 0,
    run() {
      const { length } = visibleDevices();
      if (length === 0) {
        throw new AclError(207004, "get_device_count: no device is visible; check ASCEND_RT_VISIBLE_DEVICES");
      }
      return length;
    },
  }),
  get_run_mode: call({
    c: "aclrtGetRunMode",
    args: [],
    returns: "[value, ret]",
    doc: "1: the program runs on the host (never on the device).",
    none: 0,
    run: () => HOST_MODE,
  }),
  query_device_status: call({
    c: "aclrtQueryDeviceStatus",
    args: [integer("deviceId")],
    returns: "[value, ret]",
    doc: "0 if the device works, 1 if it is lost.",
    none: 0,
    run: (id) => (deviceIfOpen(physicalIndex(id, "query_device_status"))?.machine.lost === undefined ? 0 : 1),
  }),
  device_get_stream_priority_range: call({
    c: "aclrtDeviceGetStreamPriorityRange",
    args: [],
    returns: "[...values, ret]",
    doc: "The least (7) and the greatest (0) priority of a stream.",
    none: [0, 0],
    run: (): [number, number] => [7, 0],
  }),
  set_device_sat_mode: call({
    c: "aclrtSetDeviceSatMode",
    args: [integer("mode")],
    returns: "ret",
    doc: "INFNAN (1), the only mode of the emulated arithmetic; saturation (0) gives 207000.",
    run(mode): void {
      current("set_device_sat_mode");
      if (mode !== 0 && mode !== 1) {
        throw invalidParam(`set_device_sat_mode: mode is ${mode}; pass 1 (INFNAN)`);
      }
      if (mode === 0) {
        throw new AclError(207000, "set_device_sat_mode: the device computes with infinities and NaN; saturation mode is not emulated");
      }
    },
  }),
  get_device_sat_mode: call({
    c: "aclrtGetDeviceSatMode",
    args: [],
    returns: "[value, ret]",
    doc: "1: INFNAN.",
    none: 0,
    run() {
      current("get_device_sat_mode");
      return 1;
    },
  }),
  synchronize_device: call({
    c: "aclrtSynchronizeDevice",
    args: [],
    returns: "ret",
    doc: "Waits for every stream of the current context; the first failing stream's code.",
    blocks: true,
    run(): void {
      syncContext(current("synchronize_device"), Number.POSITIVE_INFINITY, "synchronize_device");
    },
  }),
  synchronize_device_with_timeout: call({
    c: "aclrtSynchronizeDeviceWithTimeout",
    args: [integer("timeoutMs")],
    returns: "ret",
    doc: "As synchronize_device, for at most so many milliseconds (-1: no limit).",
    blocks: true,
    run(ms): void {
      const what = "synchronize_device_with_timeout";
      syncContext(current(what), timeoutOf(ms, what), what);
    },
  }),
  device_task_abort: call({
    c: "aclrtDeviceTaskAbort",
    args: [integer("deviceId"), integer("timeoutMs")],
    returns: "ret",
    doc: "Drops running and queued tasks of all streams of the device.",
    blocks: true,
    run(id, ms): void {
      const device = deviceIfOpen(physicalIndex(id, "device_task_abort"));
      if (device === undefined) {
        throw new AclError(107002, `device_task_abort: device ${id} is not in use; call set_device first`);
      }
      abortTasks(device, ms);
    },
  }),
  reg_device_state_callback: call({
    c: "aclrtRegDeviceStateCallback",
    args: [text("name"), callbackOrNull<(deviceId: number, state: number, args: unknown) => void>("callback"), optional(anything("args"))],
    returns: "ret",
    doc: "Calls the function before and after set and reset of devices; null takes it away.",
    run(name, callback, args): void {
      states.register(name, callback, args);
    },
  }),
  set_ts_device: call({
    c: "aclrtSetTsDevice",
    args: [integer("tsId")],
    returns: "ret",
    doc: "Selects the task scheduler: 0 aicore, 1 vector core; one scheduler serves both here, so both are accepted.",
    run(id): void {
      if (id !== 0 && id !== 1) {
        throw invalidParam(`set_ts_device: id is ${id}; pass 0 (aicore) or 1 (vector core)`);
      }
    },
  }),
  device_get_bare_tgid: call({
    c: "aclrtDeviceGetBareTgid",
    args: [],
    returns: "[value, ret]",
    doc: "The process id.",
    none: 0,
    run: () => process.pid,
  }),
  get_overflow_status: call({
    c: "aclrtGetOverflowStatus",
    args: [integer("outputAddr"), integer("size"), handle("stream")],
    returns: "ret",
    doc: "Only in saturation mode, which is not emulated.",
    refused: 207000,
    run(): void {
      throw new AclError(
        207000,
        "get_overflow_status: works in saturation mode only, and the device computes in INFNAN mode; look for NaN in the results",
      );
    },
  }),
  reset_overflow_status: call({
    c: "aclrtResetOverflowStatus",
    args: [handle("stream")],
    returns: "ret",
    doc: "Only in saturation mode, which is not emulated.",
    refused: 207000,
    run(): void {
      throw new AclError(207000, "reset_overflow_status: works in saturation mode only, and the device computes in INFNAN mode");
    },
  }),
};

function reset(id: number, force: boolean): void {
  const index = physicalIndex(id, force ? "reset_device_force" : "reset_device");
  states.tell(id, "RESET_PRE");
  resetDevice(deviceIfOpen(index), id, force);
  states.tell(id, "RESET_POST");
}
