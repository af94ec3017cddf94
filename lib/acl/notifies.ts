/** Notifies, counting or not: each is a 64-bit word of device memory that streams write to and wait for. */
import { AclError } from "../errors/acl-error";
import { PoolTag } from "../host/layout";
import { type AclContext, endedContext, isEnding, stamp } from "./contexts";
import { type AclDevice, deviceIfOpen, NOTIFY_LIMIT, NotifyWord, Shared } from "./devices";
import { encodeHandle, expectHandle, HandleType, sameGeneration } from "./handles";
import { contextEnds } from "./lifecycle";
import { exclusively } from "./process";
import { setWord } from "./waiting";

export interface AclNotify {
  readonly device: AclDevice;
  readonly index: number;
  readonly context: number;
  /** Offset of its word. */
  readonly word: number;
}

export type NotifyType = HandleType.NOTIFY | HandleType.COUNT_NOTIFY;

const WORD_BYTES = 8;
/** Flag of an export. */
export const NO_WHITE_LIST = 2;
const STATES: Readonly<Partial<Record<HandleType, number>>> = { [HandleType.NOTIFY]: 1, [HandleType.COUNT_NOTIFY]: 2 };

function get(device: AclDevice, notify: number, word: NotifyWord): number {
  return Atomics.load(device.shared, device.notifyAt(notify, word));
}

function set(device: AclDevice, notify: number, word: NotifyWord, value: number): void {
  Atomics.store(device.shared, device.notifyAt(notify, word), value);
}

/** Offset of the words of all notifies; made with the first. */
function wordsOf(device: AclDevice): number {
  let base = device.get(Shared.NOTIFY_WORDS) >>> 0;
  if (base === 0) {
    base = device.machine.allocate(NOTIFY_LIMIT * WORD_BYTES, PoolTag.SCRATCH, "the words of notifies");
    device.machine.bytes.fill(0, base, base + NOTIFY_LIMIT * WORD_BYTES);
    device.set(Shared.NOTIFY_WORDS, base | 0);
  }
  return base;
}

/** @throws AclError 207009 with nothing leaked */
export function createNotify(context: AclContext, type: NotifyType, flags: number): number {
  const { device } = context;
  return exclusively(() => {
    if (isEnding(context)) {
      throw endedContext(context, "create_notify");
    }
    const limit = Math.min(device.soc.notifies, NOTIFY_LIMIT);
    if (!device.take(Shared.NOTIFIES, limit)) {
      throw new AclError(207009, `create_notify: device ${device.index} (${device.soc.name}) has ${limit} notifies; destroy some`);
    }
    const base = wordsOf(device);
    let index = 0;
    while (get(device, index, NotifyWord.STATE) !== 0) {
      index++;
    }
    const generation = get(device, index, NotifyWord.GENERATION) + 1;
    set(device, index, NotifyWord.GENERATION, generation);
    set(device, index, NotifyWord.CONTEXT, context.index + 1);
    set(device, index, NotifyWord.FLAGS, flags);
    for (const word of [NotifyWord.EXPORTED, NotifyWord.ALLOWED, NotifyWord.IMPORTS]) {
      set(device, index, word, 0);
    }
    setWord(device.machine, base + index * WORD_BYTES, 0n);
    set(device, index, NotifyWord.STATE, STATES[type]!);
    return encodeHandle(type, device.index, stamp(device, generation), index);
  });
}

/** @throws AclError 107000 for null, 107017 for another type or a destroyed notify */
export function notifyOf(handle: number, type: NotifyType, what: string): AclNotify {
  const parts = expectHandle(handle, type, `${what}: notify`);
  const device = deviceIfOpen(parts.device);
  if (
    device === undefined ||
    get(device, parts.index, NotifyWord.STATE) !== STATES[type] ||
    !sameGeneration(parts, stamp(device, get(device, parts.index, NotifyWord.GENERATION)))
  ) {
    throw new AclError(107017, `${what}: the notify is destroyed, by itself or with its context; create another`);
  }
  const word = wordsOf(device) + parts.index * WORD_BYTES;
  return { device, index: parts.index, context: get(device, parts.index, NotifyWord.CONTEXT) - 1, word };
}

function free(device: AclDevice, index: number): void {
  set(device, index, NotifyWord.STATE, 0);
  device.give(Shared.NOTIFIES);
}

/** Ends the notify; where a thread has imported it by key, its import. @throws AclError as notifyOf */
export function destroyNotify(handle: number, type: NotifyType, what: string): void {
  exclusively(() => {
    const { device, index } = notifyOf(handle, type, what);
    const imports = get(device, index, NotifyWord.IMPORTS);
    if (imports > 0) {
      set(device, index, NotifyWord.IMPORTS, imports - 1);
    } else {
      free(device, index);
    }
  });
}

/** `flags`: see DISABLE_PID_VALIDATION. */
export function exportNotify({ device, index }: AclNotify, flags: number): void {
  set(device, index, NotifyWord.EXPORTED, 1 + flags);
}

export function allowNotify({ device, index }: AclNotify): void {
  set(device, index, NotifyWord.ALLOWED, 1);
}

/** @throws AclError 507022 if it is not exported, or this process is not on its white list */
export function importNotify({ device, index }: AclNotify, what: string): void {
  exclusively(() => {
    const exported = get(device, index, NotifyWord.EXPORTED);
    if (exported === 0 || (!((exported - 1) & NO_WHITE_LIST) && get(device, index, NotifyWord.ALLOWED) === 0)) {
      throw new AclError(
        507022,
        `${what}: process ${process.pid} is not on the notify's white list; call notify_set_import_pid with it, or export with flag 2`,
      );
    }
    set(device, index, NotifyWord.IMPORTS, get(device, index, NotifyWord.IMPORTS) + 1);
  });
}

contextEnds.push(({ device, index }) => {
  exclusively(() => {
    for (let notify = 0, left = device.get(Shared.NOTIFIES); left > 0 && notify < NOTIFY_LIMIT; notify++) {
      if (get(device, notify, NotifyWord.STATE) !== 0) {
        left--;
        if (get(device, notify, NotifyWord.CONTEXT) === index + 1) {
          free(device, notify);
        }
      }
    }
  });
});
