/** Error codes as data. Numbers are CANN's and are never used for something else. */
export interface ErrorEntry {
  readonly code: number;
  /** Name of the error as `error.name`. */
  readonly name: string;
  /** CANN's text code and the short text. */
  readonly text: string;
  readonly reason: string;
  readonly solution: string;
}

let byCode: ReadonlyMap<number, ErrorEntry> | undefined;

/** The rows are loaded with the first error: a process without one never reads them. */
function table(): ReadonlyMap<number, ErrorEntry> {
  if (byCode === undefined) {
    const device = require("./codes-device") as typeof import("./codes-device");
    const user = require("./codes-user") as typeof import("./codes-user");
    const entries = new Map<number, ErrorEntry>();
    for (const rows of [user.ACL_ROWS, user.RUNTIME_ROWS, user.GE_ROWS, device.RESOURCE_ROWS, device.INTERNAL_ROWS]) {
      for (const [code, name, textCode, text, reason, solution] of rows) {
        entries.set(code, { code, name: `${name}Error`, text: `${textCode} ${text}`, reason, solution });
      }
    }
    byCode = entries;
  }
  return byCode;
}

/** The entry of `code`; unknown codes are described as 500000, as CANN does. */
export function errorEntry(code: number): ErrorEntry {
  return table().get(code) ?? { ...(table().get(500000) as ErrorEntry), code };
}

/** Every entry, in the order of the tables: docs and tests. */
export function errorEntries(): readonly ErrorEntry[] {
  return [...table().values()];
}
