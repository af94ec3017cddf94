/** Codes that the device itself produces; the whole table with texts is lib/runtime/error-table.ts. Numbers are CANN's. */
export enum Code {
  OK = 0,
  PARAM_INVALID = 107000,
  TASK_TIMEOUT = 107020,
  STREAM_ABORT = 107023,
  TASK_ABORT_STOP = 107035,
  OUT_OF_MEMORY = 207001,
  AICORE_TIMEOUT = 507014,
  AICORE_EXCEPTION = 507015,
  AICORE_TRAP = 507016,
  VECTOR_TIMEOUT = 507034,
  VECTOR_EXCEPTION = 507035,
  VECTOR_TRAP = 507036,
  AICORE_OUT_OF_BOUNDS = 507042, // V8 does not say whether the access read or wrote
  VECTOR_OUT_OF_BOUNDS = 507044,
  DEVICE_LOST = 507899,
}

/** Why a core stopped inside a kernel, as the JS catch around it classifies the error. */
export enum Trap {
  NONE,
  UNREACHABLE,
  OUT_OF_BOUNDS,
  DIVIDE_BY_ZERO,
  INTEGER_OVERFLOW,
  UNALIGNED,
  STACK_OVERFLOW,
  POISONED,
  KILLED,
  OTHER,
}
