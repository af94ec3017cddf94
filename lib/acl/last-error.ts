/** Errors of parity calls: caught here, turned into their code, and kept for `peek_at_last_error` and `get_recent_err_msg`. State is per Node thread. */
import { threadId } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import { errorEntry } from "../errors/table";

/** Code of an exception that is none of ours. */
const UNKNOWN = 500000;
const TRACE_FRAMES = 8;
export const SUCCESS = 0;

/** Results that CANN returns and logs as a success: they are no error of the thread. */
let lastCode = SUCCESS;
let recentText: string | undefined;
let lastError: AclError | undefined;

/** Who else wants to know of an error, for example a message that the whole process shares. */
export const listeners = new Set<(message: string) => void>();

/** Stack of the caller: our own frames are left out, so that the first one is the call in the user's file. */
function traceOf(error: Error): string {
  const origin = error.cause instanceof Error ? error.cause : error; // of an unexpected error, where it came from
  const frames = (origin.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  const foreign = frames.filter((line) => !line.includes(__dirname));
  return (foreign.length > 0 ? foreign : frames).slice(0, TRACE_FRAMES).join("\n");
}

/** The message in the shape that CANN's has. */
function render(call: string, error: AclError): string {
  const [textCode] = error.text.split(" ");
  const lines = [
    `[${process.pid}] ${new Date().toISOString()} ${error.name}(${textCode}): ${call} failed with ${error.code}: ${error.message}`,
    `        Reason: ${error.reason}`,
    `        Solution: ${error.solution}`,
    `        TraceBack (most recent call first), thread ${threadId}:`,
    traceOf(error),
  ];
  return lines.join("\n");
}

/** `thrown` as an error with a code. A user's function may throw anything, even what throws when it is looked at. */
export function asAclError(thrown: unknown): AclError {
  try {
    return thrown instanceof AclError ? thrown : new AclError(UNKNOWN, `unexpected ${String(thrown)}`, { cause: thrown });
  } catch {
    return new AclError(UNKNOWN, `unexpected ${typeof thrown} without a text`);
  }
}

/** Keeps `error` as the latest of this thread. */
export function note(call: string, error: AclError): void {
  lastCode = error.code;
  lastError = error;
  recentText = render(call, error);
  for (const listen of listeners) {
    listen(recentText);
  }
}

export function peekCode(): number {
  return lastCode;
}

export function takeCode(): number {
  const code = lastCode;
  lastCode = SUCCESS;
  return code;
}

/** The recent message, once. */
export function takeText(): string | undefined {
  const text = recentText;
  recentText = undefined;
  return text;
}

/** The error behind the last code, for verbose information. */
export function latestError(): AclError | undefined {
  return lastError;
}

/** As a sentence: what `code` means. */
export function describeCode(code: number): string {
  return errorEntry(code).text;
}

/** A fresh start, for finalize. */
export function forgetErrors(): void {
  lastCode = SUCCESS;
  lastError = undefined;
  recentText = undefined;
}
