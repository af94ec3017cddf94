/** One-line constructors for the errors that many call sites throw. Others: `new AclError(code, message)`. */
import { AclError, type AclErrorDetails } from "./acl-error";

/** 107000: a parameter has a value that it cannot have. */
export function invalidParam(message: string, details?: AclErrorDetails): AclError {
  return new AclError(107000, message, details);
}

/** 107017: the handle was disposed, or never was one. */
export function invalidHandle(message: string): AclError {
  return new AclError(107017, message);
}

/** 207000: what was asked is not supported in this state or on this driver. */
export function notSupported(message: string): AclError {
  return new AclError(207000, message);
}

/** 507899: the device is closed, or its opening thread has ended. */
export function deviceLost(device: number, why: string): AclError {
  return new AclError(507899, `device ${device} is gone: ${why}; open it again`);
}

/** 207001: device memory cannot hold the request. */
export function outOfMemory(device: number, sizeBytes: number, largestFree: number, what: string): AclError {
  return new AclError(
    207001,
    `device ${device}: ${what} needs ${sizeBytes} bytes and the largest free block has ${largestFree}; free buffers or executors, or open the device with a larger memoryBytes`,
  );
}

/** 107035: work was given up because its AbortSignal fired. */
export function aborted(what: string, cause: unknown): AclError {
  return new AclError(107035, `${what} was aborted by its signal; start it again if it is still wanted`, { cause });
}

/** 507000: one of our own rules is broken. */
export function internal(message: string, cause?: unknown): AclError {
  return new AclError(507000, message, { cause });
}

/** Edits (insert, delete, replace) between two names, for "did you mean". */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, replace));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The member of `known` that is closest to `name`. */
export function nearestName(name: string, known: readonly string[], mostEdits = Number.POSITIVE_INFINITY): string | undefined {
  let best: string | undefined;
  let least = mostEdits + 1;
  for (const candidate of known) {
    const edits = distance(name.toLowerCase(), candidate.toLowerCase());
    if (edits < least) {
      least = edits;
      best = candidate;
    }
  }
  return best;
}

/** What was given, for error texts: String(value) throws for some values and says little for others. */
export function kindOf(value: unknown): string {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) {
    return typeof value === "string" ? JSON.stringify(value) : `${String(value)}${typeof value === "bigint" ? "n" : ""}`;
  }
  return typeof value === "function" ? "a function" : `an object (${(value as object).constructor?.name ?? "without class"})`;
}

/** Throws 107000 unless `signal` is undefined or can be listened to. */
export function checkSignal(where: string, signal: unknown): void {
  if (signal === undefined) {
    return;
  }
  // By what it does, since it may be of another realm.
  const { addEventListener, removeEventListener, aborted: fired } = (signal ?? {}) as AbortSignal;
  if (typeof addEventListener !== "function" || typeof removeEventListener !== "function" || typeof fired !== "boolean") {
    throw invalidParam(`${where}: signal is ${kindOf(signal)}; pass an AbortSignal`);
  }
}

/** Throws 107000 unless `value` is a function. */
export function checkFunction(where: string, name: string, value: unknown): void {
  if (typeof value !== "function") {
    throw invalidParam(`${where}: ${name} is ${kindOf(value)}; pass a function`);
  }
}

/** Throws 107000 if `options` is no plain object or has a key outside `known`; the text names the nearest valid key. */
export function checkOptions(where: string, options: unknown, known: readonly string[]): void {
  if (options === undefined) {
    return;
  }
  if (options === null || typeof options !== "object" || Array.isArray(options)) {
    throw invalidParam(`${where}: options must be an object, not ${options === null ? "null" : typeof options}`);
  }
  // Own keys only: what somebody has added to Object.prototype is no option.
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw invalidParam(`${where}: unknown option "${key}"; did you mean "${nearestName(key, known)}"? Valid: ${known.join(", ")}`);
    }
  }
}

/** Throws 107000 unless `value` is undefined or a whole number in [least, most]. */
export function checkInteger(where: string, name: string, value: unknown, least: number, most: number): void {
  if (value !== undefined) {
    requireInteger(where, name, value, least, most);
  }
}

/** Throws 107000 unless `value` is a whole number in [least, most]. */
export function requireInteger(where: string, name: string, value: unknown, least: number, most: number): void {
  if (!Number.isInteger(value) || (value as number) < least || (value as number) > most) {
    throw invalidParam(`${where}: ${name} is ${kindOf(value)}; pass a whole number from ${least} to ${most}`);
  }
}
