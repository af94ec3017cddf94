/** Core limits: of the device, of a stream, of the streams that this thread uses. The stream's goes first, then the device's, then the hardware's. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { type AclDevice, Shared, StreamWord } from "./devices";
import { type AclStream, setStreamWord, streamWord } from "./streams";

/** aclrtDevResLimitType. */
export enum Resource {
  CUBE_CORE,
  VECTOR_CORE,
}

const DEVICE_WORDS = [Shared.CUBE_LIMIT, Shared.VECTOR_LIMIT] as const;
const STREAM_WORDS = [StreamWord.CUBE_LIMIT, StreamWord.VECTOR_LIMIT] as const;
/** The stream whose limits the calling thread uses. */
let used: AclStream | undefined;

function hardware(device: AclDevice, type: Resource): number {
  return type === Resource.CUBE_CORE ? device.soc.cubeCores : device.soc.vectorCores;
}

function checkType(type: number, what: string): Resource {
  if (Resource[type] === undefined) {
    throw invalidParam(`${what}: resource ${type} is unknown; pass 0 (cube cores) or 1 (vector cores)`);
  }
  return type;
}

function checkValue(device: AclDevice, type: Resource, value: number, what: string): void {
  const most = hardware(device, type);
  if (value < 1 || value > most) {
    throw invalidParam(`${what}: ${value} ${Resource[type]}s; ${device.soc.name} has ${most}, pass 1 to ${most}`);
  }
}

export function setDeviceLimit(device: AclDevice, type: number, value: number, what: string): void {
  const resource = checkType(type, what);
  checkValue(device, resource, value, what);
  device.set(DEVICE_WORDS[resource], value);
}

export function deviceLimit(device: AclDevice, type: number, what: string): number {
  const resource = checkType(type, what);
  return device.get(DEVICE_WORDS[resource]) || hardware(device, resource);
}

export function resetDeviceLimits(device: AclDevice): void {
  device.set(Shared.CUBE_LIMIT, 0);
  device.set(Shared.VECTOR_LIMIT, 0);
}

export function setStreamLimit(stream: AclStream, type: number, value: number, what: string): void {
  const resource = checkType(type, what);
  checkValue(stream.device, resource, value, what);
  setStreamWord(stream, STREAM_WORDS[resource], value);
}

/** What a kernel on `stream` may use. */
export function streamLimit(stream: AclStream, type: number, what: string): number {
  const resource = checkType(type, what);
  return streamWord(stream, STREAM_WORDS[resource]) || deviceLimit(stream.device, type, what);
}

export function resetStreamLimits(stream: AclStream): void {
  setStreamWord(stream, StreamWord.CUBE_LIMIT, 0);
  setStreamWord(stream, StreamWord.VECTOR_LIMIT, 0);
}

export function useStream(stream: AclStream): void {
  used = stream;
}

export function unuseStream(stream: AclStream): void {
  if (used?.handle !== stream.handle) {
    throw new AclError(
      107000,
      "unuse_stream_res_in_current_thread: this thread does not use that stream's limits; pass the stream that was given to use_stream_res_in_current_thread",
    );
  }
  used = undefined;
}

/** What kernels of this thread may use: the used stream's limits, else the device's. */
export function threadLimit(device: AclDevice, type: number, what: string): number {
  return used?.core.live ? streamLimit(used, type, what) : deviceLimit(device, type, what);
}

export function forgetResources(): void {
  used = undefined;
}
