/** Limits of cores that operators may use, and other limits of a device. */
import { invalidParam } from "../../errors/make";
import { handle, integer } from "../args";
import { current } from "../contexts";
import { type AclDevice, ensureDevice, physicalIndex } from "../devices";
import {
  deviceLimit,
  resetDeviceLimits,
  resetStreamLimits,
  setDeviceLimit,
  setStreamLimit,
  streamLimit,
  threadLimit,
  unuseStream,
  useStream,
} from "../resources";
import { anyStream } from "../streams";
import { call } from "../table";

const deviceOf = (id: number, what: string): AclDevice => ensureDevice(physicalIndex(id, what));
/** aclrtDeviceLimit: stack sizes in bytes and the printf buffer. Held for the next set_device; the emulated core sizes its own stack. */
const LIMITS: Readonly<Record<number, number>> = { 0: 32 * 1024, 1: 32 * 1024, 2: 1024 * 1024, 3: 1024 * 1024 };
const limits = new Map<string, number>();

export const resourceCalls = {
  set_device_res_limit: call({
    c: "aclrtSetDeviceResLimit",
    args: [integer("deviceId"), integer("type"), integer("value")],
    returns: "ret",
    doc: "Caps the cube (0) or vector (1) cores that operators of the device may use.",
    run: (id, type, value): void => setDeviceLimit(deviceOf(id, "set_device_res_limit"), type, value, "set_device_res_limit"),
  }),
  get_device_res_limit: call({
    c: "aclrtGetDeviceResLimit",
    args: [integer("deviceId"), integer("type")],
    returns: "[value, ret]",
    doc: "The device's cap, or what the hardware has.",
    none: 0,
    run: (id, type) => deviceLimit(deviceOf(id, "get_device_res_limit"), type, "get_device_res_limit"),
  }),
  reset_device_res_limit: call({
    c: "aclrtResetDeviceResLimit",
    args: [integer("deviceId")],
    returns: "ret",
    doc: "Takes the device's caps away.",
    run: (id): void => resetDeviceLimits(deviceOf(id, "reset_device_res_limit")),
  }),
  set_stream_res_limit: call({
    c: "aclrtSetStreamResLimit",
    args: [handle("stream"), integer("type"), integer("value")],
    returns: "ret",
    doc: "Caps the cores that operators on the stream may use.",
    run: (stream, type, value): void => setStreamLimit(anyStream(stream, "set_stream_res_limit"), type, value, "set_stream_res_limit"),
  }),
  get_stream_res_limit: call({
    c: "aclrtGetStreamResLimit",
    args: [handle("stream"), integer("type")],
    returns: "[value, ret]",
    doc: "The stream's cap, else the device's, else what the hardware has.",
    none: 0,
    run: (stream, type) => streamLimit(anyStream(stream, "get_stream_res_limit"), type, "get_stream_res_limit"),
  }),
  reset_stream_res_limit: call({
    c: "aclrtResetStreamResLimit",
    args: [handle("stream")],
    returns: "ret",
    doc: "Takes the stream's caps away.",
    run: (stream): void => resetStreamLimits(anyStream(stream, "reset_stream_res_limit")),
  }),
  use_stream_res_in_current_thread: call({
    c: "aclrtUseStreamResInCurrentThread",
    args: [handle("stream")],
    returns: "ret",
    doc: "Makes the stream's caps those of the calling thread.",
    run: (stream): void => useStream(anyStream(stream, "use_stream_res_in_current_thread")),
  }),
  unuse_stream_res_in_current_thread: call({
    c: "aclrtUnuseStreamResInCurrentThread",
    args: [handle("stream")],
    returns: "ret",
    doc: "Ends that.",
    run: (stream): void => unuseStream(anyStream(stream, "unuse_stream_res_in_current_thread")),
  }),
  get_res_in_current_thread: call({
    c: "aclrtGetResInCurrentThread",
    args: [integer("type")],
    returns: "[value, ret]",
    doc: "Cores that operators launched by the calling thread may use.",
    none: 0,
    run: (type) => threadLimit(current("get_res_in_current_thread").device, type, "get_res_in_current_thread"),
  }),
  device_set_limit: call({
    c: "aclrtDeviceSetLimit",
    args: [integer("deviceId"), integer("limit"), integer("value")],
    returns: "ret",
    doc: "Keeps a stack or printf size; kernels here get their stack from their own module.",
    run(id, limit, value): void {
      const device = physicalIndex(id, "device_set_limit");
      if (LIMITS[limit] === undefined || value <= 0) {
        throw invalidParam(`device_set_limit: limit ${limit} with value ${value}; pass limit 0 to 3 and a positive size`);
      }
      limits.set(`${device}.${limit}`, value);
    },
  }),
  device_get_limit: call({
    c: "aclrtDeviceGetLimit",
    args: [integer("deviceId"), integer("limit")],
    returns: "[value, ret]",
    doc: "What device_set_limit set, or the default.",
    none: 0,
    run(id, limit) {
      const device = physicalIndex(id, "device_get_limit");
      const fallback = LIMITS[limit];
      if (fallback === undefined) {
        throw invalidParam(`device_get_limit: limit ${limit} is unknown; pass 0 to 3`);
      }
      return limits.get(`${device}.${limit}`) ?? fallback;
    },
  }),
};
