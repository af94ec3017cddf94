/** Notifies, counting notifies, and 64-bit words that streams write and wait for. */
import { Compare, Update } from "../../../asm/abi/task";
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { TaskOp } from "../../host/layout";
import { resolveWord } from "../addresses";
import { dict, handle, integer, list, pointer, text, word64 } from "../args";
import { current } from "../contexts";
import { HandleType } from "../handles";
import { isListed } from "../keys";
import {
  type AclNotify,
  allowNotify,
  createNotify,
  destroyNotify,
  exportNotify,
  importNotify,
  NO_WHITE_LIST,
  type NotifyType,
  notifyOf,
} from "../notifies";
import { type AclStream, checkLaunch, ownStream, submitTask } from "../streams";
import { makeKey, NOTIFY_KEY_BYTES, readKey, stillThere } from "../sync-keys";
import { call } from "../table";
import { setWord } from "../waiting";

const RECORDED = 1;
const CLEAR = 1;
/** aclrtCntNotifyRecordMode. */
const RECORD_MODES: Readonly<Record<number, Update>> = { 0: Update.SET, 1: Update.ADD, 2: Update.OR, 4: Update.AND };
/** aclrtCntNotifyWaitMode: less, equal, bigger, bigger or equal, with bit mask. */
const WAIT_MODES: Readonly<Record<number, Compare>> = {
  0: Compare.LESS,
  1: Compare.EQUAL,
  2: Compare.GREATER,
  3: Compare.GREATER_EQUAL,
  4: Compare.AND,
};
/** Flags of value_wait. */
const VALUE_WAITS = [Compare.GREATER_EQUAL, Compare.EQUAL, Compare.AND, Compare.NOR] as const;
const MOST_COUNT = 2 ** 32 - 1;
const NOTIFY_FLAGS = 3;

function milliseconds(seconds: number, what: string): number {
  if (seconds < 0) {
    throw invalidParam(`${what}: time-out is ${seconds} s; pass 0 (wait for ever) or more`);
  }
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

/** Notifies are recorded across contexts of a device; the stream must be the caller's own. */
function pair(notify: number, type: NotifyType, stream: number, what: string): [AclNotify, AclStream] {
  const to = ownStream(stream, what);
  checkLaunch(to, what);
  const from = notifyOf(notify, type, what);
  if (from.device !== to.device) {
    throw new AclError(107003, `${what}: the notify belongs to device ${from.device.index}, the stream to device ${to.device.index}`);
  }
  return [from, to];
}

const field = (info: Readonly<Record<string, unknown>>, key: string, fallback: number, what: string): number => {
  const value = info[key] ?? fallback;
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > MOST_COUNT) {
    throw invalidParam(`${what}: ${key} is ${String(value)}; pass a whole number from 0 to ${MOST_COUNT}`);
  }
  return value as number;
};

/** Low and high 32 bits. */
function halves(value: number | bigint): [number, number] {
  const word = BigInt.asUintN(64, BigInt(value));
  return [Number(word & 0xffff_ffffn), Number(word >> 32n)];
}

export const notifyCalls = {
  create_notify: call({
    c: "aclrtCreateNotify",
    args: [integer("flag")],
    returns: "[value, ret]",
    doc: "A notify of the current context: a flag that one stream records and another waits for.",
    none: 0,
    run(flag) {
      if (flag < 0 || flag > NOTIFY_FLAGS) {
        throw invalidParam(`create_notify: flag is ${flag}; pass 0 to ${NOTIFY_FLAGS}`);
      }
      return createNotify(current("create_notify"), HandleType.NOTIFY, flag);
    },
  }),
  destroy_notify: call({
    c: "aclrtDestroyNotify",
    args: [handle("notify")],
    returns: "ret",
    doc: "Destroys a notify.",
    run: (notify): void => destroyNotify(notify, HandleType.NOTIFY, "destroy_notify"),
  }),
  record_notify: call({
    c: "aclrtRecordNotify",
    args: [handle("notify"), handle("stream")],
    returns: "ret",
    doc: "Sets the notify when the stream gets there.",
    run(notify, stream): void {
      const [{ word }, to] = pair(notify, HandleType.NOTIFY, stream, "record_notify");
      submitTask(to, "record_notify", TaskOp.WRITE_VALUE, word, RECORDED, 0, Update.SET);
    },
  }),
  wait_and_reset_notify: call({
    c: "aclrtWaitAndResetNotify",
    args: [handle("notify"), handle("stream"), integer("seconds")],
    returns: "ret",
    doc: "The stream waits until the notify is set, and clears it; after so many seconds (0: never) it fails with 107020.",
    run(notify, stream, seconds): void {
      const what = "wait_and_reset_notify";
      const timeout = milliseconds(seconds, what);
      const [{ word }, to] = pair(notify, HandleType.NOTIFY, stream, what);
      submitTask(to, what, TaskOp.WAIT_VALUE, word, RECORDED, 0, timeout, Compare.GREATER_EQUAL, CLEAR);
    },
  }),
  get_notify_id: call({
    c: "aclrtGetNotifyId",
    args: [handle("notify")],
    returns: "[value, ret]",
    doc: "Number of the notify on its device.",
    none: 0,
    run: (notify) => notifyOf(notify, HandleType.NOTIFY, "get_notify_id").index,
  }),
  notify_get_export_key: call({
    c: "aclrtNotifyGetExportKey",
    args: [handle("notify"), integer("len"), integer("flag")],
    returns: "[value, ret]",
    doc: "A key by which other threads of the process get the notify. Flag 2: everybody may, without notify_set_import_pid.",
    none: "",
    run(notify, length, flag) {
      const what = "notify_get_export_key";
      if (length < NOTIFY_KEY_BYTES || (flag !== 0 && flag !== NO_WHITE_LIST)) {
        throw invalidParam(`${what}: len is ${length} and flag ${flag}; a key has ${NOTIFY_KEY_BYTES} bytes, and flag is 0 or 2 (no white list)`);
      }
      exportNotify(notifyOf(notify, HandleType.NOTIFY, what), flag);
      return makeKey("notify", notify);
    },
  }),
  notify_set_import_pid: call({
    c: "aclrtNotifySetImportPid",
    args: [handle("notify"), list("pids", integer)],
    returns: "ret",
    doc: "White list of processes. This process is the only one that can import.",
    run(notify, pids): void {
      const what = "notify_set_import_pid";
      const own = notifyOf(notify, HandleType.NOTIFY, what);
      if (isListed(pids, what)) {
        allowNotify(own);
      }
    },
  }),
  notify_import_by_key: call({
    c: "aclrtNotifyImportByKey",
    args: [text("key"), integer("flag")],
    returns: "[value, ret]",
    doc: "The notify behind a key, for streams of every context of its device; flag 2 (peer access) is always given. destroy_notify ends the import.",
    none: 0,
    run(key, flag) {
      const what = "notify_import_by_key";
      current(what);
      if (flag !== 0 && flag !== NO_WHITE_LIST) {
        throw invalidParam(`${what}: flag is ${flag}; pass 0, or 2 (peer access)`);
      }
      const found = readKey("notify", key, what);
      importNotify(
        stillThere(() => notifyOf(found, HandleType.NOTIFY, what), what),
        what,
      );
      return found;
    },
  }),
  notify_batch_reset: call({
    c: "aclrtNotifyBatchReset",
    args: [list("notifies", handle)],
    returns: "ret",
    doc: "Clears several notifies now.",
    run(notifies): void {
      if (notifies.length === 0) {
        throw invalidParam("notify_batch_reset: the list is empty; pass at least one notify");
      }
      for (const { device, word } of notifies.map((one) => notifyOf(one, HandleType.NOTIFY, "notify_batch_reset"))) {
        setWord(device.machine, word, 0n);
      }
    },
  }),
  cnt_notify_create: call({
    c: "aclrtCntNotifyCreate",
    args: [integer("flag")],
    returns: "[value, ret]",
    doc: "A counting notify: a 32-bit number that streams change and wait for.",
    none: 0,
    run(flag) {
      const context = current("cnt_notify_create");
      if (!context.device.soc.modern) {
        throw new AclError(
          207000,
          `cnt_notify_create: ${context.device.soc.name} has no counting notifies; use create_notify, or configure emulator.soc "Ascend910B3"`,
        );
      }
      if (flag < 0 || flag > NOTIFY_FLAGS) {
        throw invalidParam(`cnt_notify_create: flag is ${flag}; pass 0 to ${NOTIFY_FLAGS}`);
      }
      return createNotify(context, HandleType.COUNT_NOTIFY, flag);
    },
  }),
  cnt_notify_destroy: call({
    c: "aclrtCntNotifyDestroy",
    args: [handle("notify")],
    returns: "ret",
    doc: "Destroys a counting notify.",
    run: (notify): void => destroyNotify(notify, HandleType.COUNT_NOTIFY, "cnt_notify_destroy"),
  }),
  cnt_notify_record: call({
    c: "aclrtCntNotifyRecord",
    args: [handle("notify"), handle("stream"), dict("info")],
    returns: "ret",
    doc: "Changes the number in stream order: {mode: set 0, add 1, or 2, and 4; value}.",
    run(notify, stream, info): void {
      const what = "cnt_notify_record";
      const update = RECORD_MODES[field(info, "mode", 0, what)];
      if (update === undefined) {
        throw invalidParam(`${what}: mode is ${String(info["mode"])}; pass 0 (set), 1 (add), 2 (or) or 4 (and)`);
      }
      const value = field(info, "value", 0, what);
      const [{ word }, to] = pair(notify, HandleType.COUNT_NOTIFY, stream, what);
      submitTask(to, what, TaskOp.WRITE_VALUE, word, value, 0, update);
    },
  }),
  cnt_notify_wait_with_timeout: call({
    c: "aclrtCntNotifyWaitWithTimeout",
    args: [handle("notify"), handle("stream"), dict("info")],
    returns: "ret",
    doc: "The stream waits for the number: {mode: < 0, = 1, > 2, >= 3, any bit of value 4; value; timeout in s, 0 = for ever; isClear}.",
    run(notify, stream, info): void {
      const what = "cnt_notify_wait_with_timeout";
      const compare = WAIT_MODES[field(info, "mode", 1, what)];
      if (compare === undefined) {
        throw invalidParam(`${what}: mode is ${String(info["mode"])}; pass 0 (<), 1 (=), 2 (>), 3 (>=) or 4 (bit mask)`);
      }
      const value = field(info, "value", 0, what);
      const timeout = milliseconds(field(info, "timeout", 0, what), what);
      const [{ word }, to] = pair(notify, HandleType.COUNT_NOTIFY, stream, what);
      submitTask(to, what, TaskOp.WAIT_VALUE, word, value, 0, timeout, compare, info["isClear"] ? CLEAR : 0);
    },
  }),
  cnt_notify_reset: call({
    c: "aclrtCntNotifyReset",
    args: [handle("notify"), handle("stream")],
    returns: "ret",
    doc: "Sets the number to 0 in stream order.",
    run(notify, stream): void {
      const [{ word }, to] = pair(notify, HandleType.COUNT_NOTIFY, stream, "cnt_notify_reset");
      submitTask(to, "cnt_notify_reset", TaskOp.WRITE_VALUE, word, 0, 0, Update.SET);
    },
  }),
  cnt_notify_get_id: call({
    c: "aclrtCntNotifyGetId",
    args: [handle("notify")],
    returns: "[value, ret]",
    doc: "Number of the counting notify on its device.",
    none: 0,
    run: (notify) => notifyOf(notify, HandleType.COUNT_NOTIFY, "cnt_notify_get_id").index,
  }),
  value_write: call({
    c: "aclrtValueWrite",
    args: [pointer("addr"), word64("value"), integer("flag"), handle("stream")],
    returns: "ret",
    doc: "Writes a 64-bit word in stream order; the flag is reserved.",
    run(address, value, flag, stream): void {
      const to = ownStream(stream, "value_write");
      if (flag !== 0) {
        throw invalidParam(`value_write: flag is ${flag}; it is reserved, pass 0`);
      }
      const offset = resolveWord(to.device, address, "value_write: address");
      submitTask(to, "value_write", TaskOp.WRITE_VALUE, offset, ...halves(value), Update.SET);
    },
  }),
  value_wait: call({
    c: "aclrtValueWait",
    args: [pointer("addr"), word64("value"), integer("flag"), handle("stream")],
    returns: "ret",
    doc: "The stream waits until the word is >= (0), = (1), shares a bit with (2), or is not NOR (3) of the value.",
    run(address, value, flag, stream): void {
      const to = ownStream(stream, "value_wait");
      const compare = VALUE_WAITS[flag];
      if (compare === undefined) {
        throw invalidParam(`value_wait: flag is ${flag}; pass 0 (>=), 1 (=), 2 (and) or 3 (nor)`);
      }
      const offset = resolveWord(to.device, address, "value_wait: address");
      submitTask(to, "value_wait", TaskOp.WAIT_VALUE, offset, ...halves(value), 0, compare);
    },
  }),
};
