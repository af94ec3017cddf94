/** Entry of the core module: functions only (`export *` would leak enum members as wasm exports). The list is lib/host/core-exports.ts. */
export { bindCore, bindThread, clock as coreTime, setCoreTime } from "./core/local";
export { recover, reap } from "./core/fault";
export { help, loop, step } from "./core/step";
export {
  arm, eventSequence, eventStream, eventTime, fence, kick, record, submit, submitMany, submitWithArguments, tail, waitEvent,
} from "./core/submit";
export { attachRing, createContext, createEvent, createStream, destroyContext, destroyEvent, destroyStream, format } from "./core/tables";
export { takeOver } from "./core/take_over";
export { bell } from "./sync/park";
export {
  allocate, allocationBytes, allocationOf, allocationOwner, allocationTag, nextAllocation, poolCount, poolFree, poolHigh, poolLargestFree, poolLive, poolPeak, poolTag,
  release,
} from "./mem/pool";
export { executeTile } from "./core/interpreter";
export { nextRegion } from "./kernels/control";
export { runDma } from "./mem/dma";
