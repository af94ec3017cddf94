/** Errors: the last code of the thread, the recent message, and what an error was about. */
import type { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { integer } from "../args";
import { latestError, peekCode, takeCode, takeText } from "../last-error";
import { config, takeProcessText } from "../process";
import { call } from "../table";

const THREAD_LEVEL = 0;

function checkLevel(level: number, what: string): void {
  if (level !== THREAD_LEVEL) {
    throw invalidParam(`${what}: level is ${level}; the only one is 0 (thread)`);
  }
}

/** What get_error_verbose tells. */
export interface ErrorVerbose {
  /** 0 none, 1 memory, 2 L2, 3 aicore, 4 link, 5 other. */
  readonly errorType: number;
  readonly code: number;
  readonly message: string;
  /** 1 if repair_error may help. */
  readonly tryRepair: number;
}

function classify(error: AclError): number {
  const { code } = error;
  if (code >= 507053 && code <= 507055) {
    return 1;
  }
  if (code === 507056 || code === 507057) {
    return 4;
  }
  const kernel = (code >= 507014 && code <= 507018) || (code >= 507034 && code <= 507036) || (code >= 507042 && code <= 507045);
  return kernel ? 3 : 5;
}

export const errorRuntimeCalls = {
  peek_at_last_error: call({
    c: "aclrtPeekAtLastError",
    args: [integer("level")],
    returns: "ret",
    doc: "The last error code of this thread; it stays.",
    quiet: true,
    run(level) {
      checkLevel(level, "peek_at_last_error");
      return peekCode();
    },
  }),
  get_last_error: call({
    c: "aclrtGetLastError",
    args: [integer("level")],
    returns: "ret",
    doc: "The last error code of this thread, which is 0 from then on.",
    quiet: true,
    run(level) {
      checkLevel(level, "get_last_error");
      return takeCode();
    },
  }),
  get_error_verbose: call({
    c: "aclrtGetErrorVerbose",
    args: [integer("deviceId")],
    returns: "[value, ret]",
    doc: "What kind of error the latest of this thread was, and whether a repair may help.",
    none: undefined,
    quiet: true,
    run(): ErrorVerbose {
      const error = latestError();
      if (error === undefined) {
        return { errorType: 0, code: 0, message: "", tryRepair: 0 };
      }
      const errorType = classify(error);
      return { errorType, code: error.code, message: error.message, tryRepair: errorType === 1 || errorType === 4 ? 1 : 0 };
    },
  }),
};

export const errorCalls = {
  get_recent_err_msg: call({
    c: "aclGetRecentErrMsg",
    args: [],
    returns: "value",
    doc: "The recent error message of this thread (or of the process, by err_msg_mode), once; null if there is none.",
    none: null,
    quiet: true,
    run(): string | null {
      return (config().errorScope === 1 ? takeProcessText() : takeText()) ?? null;
    },
  }),
};
