/** The device's records as the host uses them: one import for the namespaces of asm/abi. */
export {
  ABI_VERSION,
  Context,
  CONTEXT_LIMIT,
  Core,
  CORE_LIMIT,
  CoreState,
  DeviceState,
  EVENT_LIMIT,
  FAULT_LIMIT,
  FailureMode,
  Fault,
  Header,
  Layout,
  MAGIC,
  MAILBOX_BYTES,
  Phase,
  POOL_TAGS,
  PoolTag,
  PRIORITIES,
  SCRATCH_BYTES,
  STREAM_LIMIT,
  Thread,
  THREAD_LIMIT,
  Trace,
  WORKER_LIMIT,
} from "../../asm/abi/device";
export { Code, Trap } from "../../asm/abi/errors";
export { ARGUMENT_RING_BYTES, Event, RING_SLOTS, Stream, StreamState } from "../../asm/abi/stream";
export { Probe, Task, TaskOp } from "../../asm/abi/task";
