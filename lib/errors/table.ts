/** Error codes as data. Numbers are CANN's and are never used for something else. */
import { INTERNAL_ROWS, RESOURCE_ROWS } from "./codes-device";
import { ACL_ROWS, GE_ROWS, RUNTIME_ROWS } from "./codes-user";

export interface ErrorEntry {
  readonly code: number;
  /** Name of the error as `error.name`. */
  readonly name: string;
  /** CANN's text code and the short text. */
  readonly text: string;
  readonly reason: string;
  readonly solution: string;
}

/** code, name without "Error", text code, text, reason, solution */
export type ErrorRow = readonly [number, string, string, string, string, string];

const BY_CODE = new Map<number, ErrorEntry>();
for (const rows of [ACL_ROWS, RUNTIME_ROWS, GE_ROWS, RESOURCE_ROWS, INTERNAL_ROWS]) {
  for (const [code, name, textCode, text, reason, solution] of rows) {
    BY_CODE.set(code, { code, name: `${name}Error`, text: `${textCode} ${text}`, reason, solution });
  }
}

/** The entry of `code`; unknown codes are described as 500000, as CANN does. */
export function errorEntry(code: number): ErrorEntry {
  return BY_CODE.get(code) ?? { ...(BY_CODE.get(500000) as ErrorEntry), code };
}

/** Every entry, in the order of the tables: docs and tests. */
export function errorEntries(): readonly ErrorEntry[] {
  return [...BY_CODE.values()];
}
