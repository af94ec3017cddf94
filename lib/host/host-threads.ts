/**
 * Host threads that use a device have a record each. It names the system thread and when that was born, so that others can tell whether the
 * holder of a lock, or the opener of a device, still lives. Where the system does not say (no /proc), a thread counts as alive until a time-out.
 */
import fs from "node:fs";
import { AclError } from "../errors/acl-error";
import { Layout, Thread, THREAD_LIMIT } from "./layout";

export interface SystemThread {
  /** 0 where unknown. */
  readonly tid: number;
  readonly born: number;
}

/** Fields of /proc/<pid>/stat as the system numbers them, and its unit of time (USER_HZ, the same on every Linux). */
const [STATE_FIELD, USER_TIME_FIELD, SYSTEM_TIME_FIELD, START_TIME_FIELD] = [3, 14, 15, 22];
const TICK_MS = 10;

/** A field of the system's record of thread `tid` of this process, by its number; undefined if there is no such thread. */
function statOf(tid: number): ((field: number) => string) | undefined {
  try {
    const stat = fs.readFileSync(`/proc/self/task/${tid}/stat`, "latin1");
    // The name (field 2) may hold spaces and brackets: count from its last bracket.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return (field) => fields[field - STATE_FIELD] as string;
  } catch {
    return undefined;
  }
}

/** Start time of thread `tid` of this process in clock ticks; undefined if there is no such thread. */
export function birth(tid: number): number | undefined {
  const stat = statOf(tid);
  return stat && Number(stat(START_TIME_FIELD));
}

/** Processor time that thread `tid` has had, and whether it sleeps (a thread that waits for a processor does not); undefined where the system does not say. */
export function processorTime(tid: number): { readonly ms: number; readonly asleep: boolean } | undefined {
  const stat = tid === 0 ? undefined : statOf(tid);
  return stat && { ms: (Number(stat(USER_TIME_FIELD)) + Number(stat(SYSTEM_TIME_FIELD))) * TICK_MS, asleep: stat(STATE_FIELD) === "S" };
}

let current: SystemThread | undefined;

/** The calling thread. */
export function thisThread(): SystemThread {
  if (current === undefined) {
    try {
      const tid = Number(fs.readlinkSync("/proc/thread-self").split("/").pop());
      current = { tid, born: birth(tid) ?? 0 };
    } catch {
      current = { tid: 0, born: 0 };
    }
  }
  return current;
}

export type Liveness = "alive" | "dead" | "unknown";

/** Whether the thread that claimed record `index` still runs. */
export function liveness(buffer: SharedArrayBuffer, index: number): Liveness {
  const at = Layout.THREADS + index * Thread.SIZE;
  const words = new Int32Array(buffer, at, Thread.SIZE >> 2);
  if (Atomics.load(words, Thread.STATE >> 2) === 0) {
    return "dead";
  }
  const tid = Atomics.load(words, Thread.TID >> 2);
  if (tid === 0) {
    return "unknown"; // no /proc, or the record is just being filled
  }
  const born = new Float64Array(buffer, at + Thread.BORN, 1)[0];
  return birth(tid) === born ? "alive" : "dead";
}

/** Claims a record for the calling thread: the first that is free or whose thread is dead. Returns its index. */
export function claimThread(buffer: SharedArrayBuffer): number {
  for (const reclaim of [false, true]) {
    for (let index = 0; index < THREAD_LIMIT; index++) {
      if (tryClaim(buffer, index, reclaim)) {
        return index;
      }
    }
  }
  throw new AclError(207012, `a device serves at most ${THREAD_LIMIT} host threads at a time; detach or end one`);
}

function tryClaim(buffer: SharedArrayBuffer, index: number, reclaim: boolean): boolean {
  const at = Layout.THREADS + index * Thread.SIZE;
  const words = new Int32Array(buffer, at, Thread.SIZE >> 2);
  if (reclaim) {
    const tid = Atomics.load(words, Thread.TID >> 2);
    // TID goes to 0 (unknown, so nobody else reclaims it): of two threads that see the same dead record, one gets it.
    if (liveness(buffer, index) !== "dead" || Atomics.compareExchange(words, Thread.TID >> 2, tid, 0) !== tid) {
      return false;
    }
  } else if (Atomics.compareExchange(words, Thread.STATE >> 2, 0, 1) !== 0) {
    return false;
  }
  const { tid, born } = thisThread();
  Atomics.add(words, Thread.SERIAL >> 2, 1);
  new Float64Array(buffer, at + Thread.BORN, 1)[0] = born;
  Atomics.store(words, Thread.TID >> 2, tid);
  return true;
}

/** Gives the record back. Its mailbox stays for the next thread. */
export function releaseThread(buffer: SharedArrayBuffer, index: number): void {
  const words = new Int32Array(buffer, Layout.THREADS + index * Thread.SIZE, Thread.SIZE >> 2);
  Atomics.store(words, Thread.TID >> 2, 0);
  Atomics.store(words, Thread.STATE >> 2, 0);
}

/** Whether any other thread than `own` holds a record. */
export function hasOtherThreads(buffer: SharedArrayBuffer, own: number): boolean {
  for (let index = 0; index < THREAD_LIMIT; index++) {
    if (index !== own && Atomics.load(new Int32Array(buffer, Layout.THREADS + index * Thread.SIZE, 1), 0) !== 0) {
      return true;
    }
  }
  return false;
}
