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

const ENTRIES: readonly ErrorEntry[] = [];
const BY_CODE = new Map(ENTRIES.map((entry) => [entry.code, entry]));

/** The entry of `code`; unknown codes are described as 500000, as CANN does. */
export function errorEntry(code: number): ErrorEntry {
  return BY_CODE.get(code) ?? { code, name: "AclError", text: `E19999 unknown error ${code}`, reason: "", solution: "" };
}
