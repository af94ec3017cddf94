/** Time limits of waits and of kernels, for the whole process. */
import { invalidParam } from "../../errors/make";
import { integer } from "../args";
import { executeTimeoutUs, INTERVAL_US, setExecuteTimeout, setWaitTimeout } from "../timeouts";
import { call } from "../table";

const MOST_INTERVALS = 254;

function execute(us: number, what: string): number {
  if (us < 0) {
    throw invalidParam(`${what}: the time-out is negative; pass 0 (the default) or more`);
  }
  const intervals = us === 0 ? MOST_INTERVALS : Math.min(MOST_INTERVALS, Math.max(1, Math.ceil(us / INTERVAL_US)));
  return setExecuteTimeout(intervals * INTERVAL_US);
}

export const timeoutCalls = {
  set_op_wait_timeout: call({
    c: "aclrtSetOpWaitTimeout",
    args: [integer("seconds")],
    returns: "ret",
    doc: "How long a stream waits for an event before the wait fails with 107020; 0: for ever.",
    run(seconds): void {
      if (seconds < 0) {
        throw invalidParam(`set_op_wait_timeout: ${seconds} s; pass 0 (no limit) or more`);
      }
      setWaitTimeout(seconds * 1000);
    },
  }),
  set_op_execute_time_out: call({
    c: "aclrtSetOpExecuteTimeOut",
    args: [integer("seconds")],
    returns: "ret",
    doc: "How long a kernel may run, in seconds; rounded up to intervals, at most 254 of them.",
    run(seconds): void {
      execute(seconds * 1e6, "set_op_execute_time_out");
    },
  }),
  set_op_execute_time_out_with_ms: call({
    c: "aclrtSetOpExecuteTimeOutWithMs",
    args: [integer("ms")],
    returns: "ret",
    doc: "The same in milliseconds.",
    run(ms): void {
      execute(ms * 1e3, "set_op_execute_time_out_with_ms");
    },
  }),
  set_op_execute_timeout_v2: call({
    c: "aclrtSetOpExecuteTimeOutV2",
    args: [integer("us")],
    returns: "[value, ret]",
    doc: "The same in microseconds; returns what it was rounded to.",
    none: 0,
    run: (us) => execute(us, "set_op_execute_timeout_v2"),
  }),
  get_op_timeout_interval: call({
    c: "aclrtGetOpTimeOutInterval",
    args: [],
    returns: "[value, ret]",
    doc: "Microseconds of one interval.",
    none: 0,
    run: () => INTERVAL_US,
  }),
  get_op_execute_timeout: call({
    c: "aclrtGetOpExecuteTimeout",
    args: [],
    returns: "[value, ret]",
    doc: "The limit in force, in milliseconds.",
    none: 0,
    run: () => Math.round(executeTimeoutUs() / 1000),
  }),
};
