/** The one error class of npurt. Every layer throws it; codes and their texts come from table.ts. */
import { errorEntry } from "./table";

export interface AclErrorDetails {
  /** Why it happened, where the general reason of the code is not enough. */
  readonly reason?: string;
  /** What to do about it, where the general solution of the code is not enough. */
  readonly solution?: string;
  /** Every failure behind this error, in order; the error itself carries the code that CANN would return. */
  readonly failures?: readonly Failure[];
  /** The task that failed, for errors that the device reports. */
  readonly task?: TaskInfo;
  /** Model node that failed. */
  readonly node?: string;
  /** Where the failing work was submitted, when diagnostics record it. */
  readonly trace?: string;
  readonly cause?: unknown;
}

export interface TaskInfo {
  readonly device: number;
  readonly stream: number;
  readonly sequence: number;
  readonly op: string;
}

export interface Failure {
  readonly code: number;
  readonly text: string;
  readonly node?: string;
  readonly task?: TaskInfo;
}

export class AclError extends Error {
  /** CANN's number (for example 107002). */
  readonly code: number;
  /** CANN's text code (for example EE1003), the general text of `code`, its reason and what to do. */
  readonly text: string;
  readonly reason: string;
  readonly solution: string;
  readonly failures: readonly Failure[];
  readonly task: TaskInfo | undefined;
  readonly node: string | undefined;
  readonly trace: string | undefined;

  /** @param message what happened, where, and what to do, in one sentence or two */
  constructor(code: number, message: string, details: AclErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    const entry = errorEntry(code);
    this.code = code;
    this.name = entry.name;
    this.text = entry.text;
    this.reason = details.reason ?? entry.reason;
    this.solution = details.solution ?? entry.solution;
    this.failures = details.failures ?? [];
    this.task = details.task;
    this.node = details.node;
    this.trace = details.trace;
  }
}
