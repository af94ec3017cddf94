/** The public API of npurt. The only barrel: everything else is imported from the file that has it. */
export { AclError, type AclErrorDetails, type Failure, type TaskInfo } from "./errors/acl-error";
export type { DtypeName } from "./graph/dtype";
export { attribute, defineOp, type OpDefinition } from "./ops/define";
export { registerOp } from "./ops/register";
export { rejects, type Sample, sample } from "./ops/sample";
export { DeviceBuffer, HostBuffer } from "./runtime/buffer";
export { Context, type StreamOptions } from "./runtime/context";
export { Device, type DeviceInfo, type DeviceOptions, type DeviceSummary, type DeviceToken } from "./runtime/device";
export { Event } from "./runtime/event";
export {
  Executor,
  type Feeds,
  type LoadOptions,
  type LoadProgress,
  type ModelInfo,
  type Results,
  type RunOptions,
  type RunSyncOptions,
  type ValueInfo,
} from "./runtime/executor";
export {
  Kernel,
  type KernelArg,
  KernelFunction,
  type KernelLaunchOptions,
  type KernelLoadOptions,
  type KernelParam,
  type KernelSignatures,
} from "./runtime/kernel";
export { Notify } from "./runtime/notify";
export { pickDevice, type PickOptions } from "./runtime/pick-device";
export { PreparedRun } from "./runtime/prepared";
export { type Address, type Probe, Stream, type StreamToken, type StridedView, type WaitOptions } from "./runtime/stream";
export type { TemporaryBuffer, TemporaryOptions } from "./runtime/temporary";
export { Tensor, type TensorData } from "./runtime/tensor";
