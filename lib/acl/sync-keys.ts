/**
 * Keys by which threads of this process give each other events and notifies. An opened object is the same object under the same handle: closing it takes
 * one use back, and only the maker's destroy ends it. Another process has another device: its keys are refused.
 */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { decodeHandle } from "./handles";

const KEY = /^npurt-(event|notify)-([0-9a-f]{8})-([0-9a-f]{14})0*$/;
/** Characters of a key of an event, as in C. */
export const EVENT_KEY_BYTES = 64;
/** Characters of a key of a notify, and the 0 behind it that C needs. */
export const NOTIFY_KEY_BYTES = 65;

export function makeKey(kind: "event" | "notify", handle: number): string {
  const pid = process.pid.toString(16).padStart(8, "0");
  return `npurt-${kind}-${pid}-${handle.toString(16).padStart(14, "0")}`.padEnd(EVENT_KEY_BYTES, "0");
}

/** The handle behind a key. @throws AclError 107000 for what is no key, 207000 for one of another process */
export function readKey(kind: "event" | "notify", text: string, what: string): number {
  const match = KEY.exec(text.replace(/\0+$/, ""));
  const handle = Number.parseInt(match?.[3] ?? "", 16);
  if (match === null || match[1] !== kind || decodeHandle(handle) === undefined) {
    throw invalidParam(`${what}: "${text.slice(0, 80)}" is no key of ${kind === "event" ? "an event" : "a notify"}; pass what the export returned`);
  }
  const pid = Number.parseInt(match[2] as string, 16);
  if (pid !== process.pid) {
    throw new AclError(
      207000,
      `${what}: the key was made by process ${pid}, and this is ${process.pid}: an emulated device lives in one process; share with worker threads`,
    );
  }
  return handle;
}

/** What was exported may be gone. */
export function stillThere<T>(find: () => T, what: string): T {
  try {
    return find();
  } catch (error) {
    throw error instanceof AclError ? new AclError(507022, `${what}: what the key names is destroyed; export it again`, { cause: error }) : error;
  }
}
