/** Time limits that hold for the whole process. Kernels look at `executeTimeoutUs` when they are launched, waits at `waitTimeoutMs`. */
import { Word, words } from "./process";

/** The hardware counts kernel time in intervals; the default limit is 254 of them, about 1091 s. */
export const INTERVAL_US = 4_295_276;
const DEFAULT_INTERVALS = 254;

export function setWaitTimeout(ms: number): void {
  Atomics.store(words, Word.WAIT_TIMEOUT, Math.min(ms, 2 ** 31 - 1));
}

/** 0 = for ever. */
export function waitTimeoutMs(): number {
  return Atomics.load(words, Word.WAIT_TIMEOUT);
}

/** Returns the limit. */
export function setExecuteTimeout(us: number): number {
  Atomics.store(words, Word.EXECUTE_INTERVALS, Math.round(us / INTERVAL_US));
  return us;
}

export function executeTimeoutUs(): number {
  return (Atomics.load(words, Word.EXECUTE_INTERVALS) || DEFAULT_INTERVALS) * INTERVAL_US;
}
