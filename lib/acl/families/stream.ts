/** Streams. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { Context, Layout, Stream, STREAM_LIMIT, StreamState } from "../../host/layout";
import { anything, callbackOrNull, dict, handle, integer, optional, text } from "../args";
import { current, defaultStreamOf } from "../contexts";
import { Shared, StreamWord } from "../devices";
import {
  abortStream,
  awaitAbort,
  ALL_STREAM_FLAGS,
  type AclStream,
  anyStream,
  createStream,
  destroyHooks,
  destroyStream,
  emptyStream,
  isSpecial,
  lastTaskId,
  ownStream,
  setStreamWord,
  StreamFlag,
  stopStream,
  streamWord,
  syncStream,
  timeoutOf,
} from "../streams";
import { StateCallbacks } from "../states";
import { call } from "../table";

const LOWEST_PRIORITY = 7;
/** A kernel that does not poll is killed after a quarter of a second; beyond this something else is wrong. */
const ABORT_MS = 10_000;
enum Mode {
  CONTINUE,
  STOP,
}
/** aclrtStreamAttr. */
enum Attribute {
  FAILURE_MODE = 1,
  FLOAT_OVERFLOW_CHECK,
  USER_CUSTOM_TAG,
  CACHE_OP_INFO,
  PRIORITY,
}
/** Keys that hold the value of an attribute, and the word that keeps it. */
const ATTRIBUTES: Readonly<Record<number, readonly [key: string, word: StreamWord]>> = {
  [Attribute.FLOAT_OVERFLOW_CHECK]: ["overflowSwitch", StreamWord.OVERFLOW],
  [Attribute.USER_CUSTOM_TAG]: ["userCustomTag", StreamWord.TAG],
  [Attribute.CACHE_OP_INFO]: ["cacheOpInfoSwitch", StreamWord.CACHE_INFO],
};

const states = new StateCallbacks("reg_stream_state_callback");
destroyHooks.add((stream) => states.tell(stream.handle, "DESTROY_PRE"));

function create(priority: number, flags: number): number {
  if (priority < 0 || priority > LOWEST_PRIORITY) {
    throw invalidParam(`create_stream_with_config: priority is ${priority}; pass 0 (served first) to ${LOWEST_PRIORITY}`);
  }
  if (flags < 0 || (flags & ~ALL_STREAM_FLAGS) !== 0) {
    throw invalidParam(`create_stream_with_config: flag is 0x${flags.toString(16)}; the bits are 1, 2, 4, 8, 0x10 and 0x20`);
  }
  const stream = createStream(current("create_stream"), priority, flags);
  states.tell(stream.handle, "CREATE_POST");
  return stream.handle;
}

function destroy(handle: number, force: boolean, what: string): void {
  const stream = ownStream(handle, what);
  if (defaultStreamOf(current(what)) === stream.index) {
    throw invalidParam(`${what}: this is the default stream of its context and ends with it; destroy the context or reset the device`);
  }
  destroyStream(stream, force);
}

/** Configured mode, current state (2: stopped by a failure) and the rules between them. STOP on one stream makes the whole context stop at failures. */
function setMode(stream: AclStream, mode: number, what: string): void {
  if (mode !== Mode.CONTINUE && mode !== Mode.STOP) {
    throw invalidParam(`${what}: mode is ${mode}; pass 0 (continue) or 1 (stop)`);
  }
  const { core, device } = stream;
  const configured = streamWord(stream, StreamWord.MODE);
  const at = (Layout.CONTEXTS + stream.context * Context.SIZE) >> 2;
  const latched = Atomics.load(device.machine.words, at + (Context.ERROR >> 2)) !== 0;
  const failed = Atomics.load(device.machine.words, (Layout.STREAMS + stream.index * Stream.SIZE + Stream.ERROR) >> 2) !== 0;
  if (latched && failed) {
    throw new AclError(
      207000,
      `${what}: ${core.name} was stopped by a failure and keeps that state until its context is destroyed or the device reset`,
    );
  }
  if (mode === configured) {
    return;
  }
  if (mode === Mode.CONTINUE) {
    throw new AclError(207000, `${what}: ${core.name} is in mode STOP and cannot go back to CONTINUE; destroy it and create another`);
  }
  setStreamWord(stream, StreamWord.MODE, Mode.STOP);
  core.context.setMode("STOP");
}

function setAttribute(stream: AclStream, attribute: number, value: Readonly<Record<string, unknown>>): void {
  const what = "set_stream_attribute";
  const number = (key: string): number => {
    const given = value[key];
    if (typeof given !== "number" || !Number.isInteger(given) || given < 0 || given >= 2 ** 31) {
      throw invalidParam(`${what}: attribute ${attribute} needs {${key}: a whole number}, not ${JSON.stringify(value)}`);
    }
    return given;
  };
  if (attribute === Attribute.FAILURE_MODE) {
    setMode(stream, number("failureMode"), what);
    return;
  }
  if (attribute === Attribute.PRIORITY) {
    const priority = number("priority");
    if (priority > LOWEST_PRIORITY) {
      throw invalidParam(`${what}: priority is ${priority}; pass 0 to ${LOWEST_PRIORITY}`);
    }
    // A ready bit of the old priority may be left: it is stale, which a core finds out when it looks.
    Atomics.store(stream.device.machine.words, (Layout.STREAMS + stream.index * Stream.SIZE + Stream.PRIORITY) >> 2, priority);
    stream.device.machine.core.kick(stream.index);
    return;
  }
  const entry = ATTRIBUTES[attribute];
  if (entry === undefined) {
    throw invalidParam(`${what}: attribute ${attribute} is unknown; pass 1 (failure mode), 2 (overflow), 3 (tag), 4 (cache info) or 5 (priority)`);
  }
  setStreamWord(stream, entry[1], number(entry[0]));
}

function getAttribute(stream: AclStream, attribute: number): Record<string, number> {
  if (attribute === Attribute.FAILURE_MODE) {
    return { failureMode: streamWord(stream, StreamWord.MODE) };
  }
  if (attribute === Attribute.PRIORITY) {
    return { priority: priorityOf(stream) };
  }
  const entry = ATTRIBUTES[attribute];
  if (entry === undefined) {
    throw invalidParam(`get_stream_attribute: attribute ${attribute} is unknown; pass 1 to 5`);
  }
  return { [entry[0]]: streamWord(stream, entry[1]) };
}

function priorityOf(stream: AclStream): number {
  return stream.device.machine.words[(Layout.STREAMS + stream.index * Stream.SIZE + Stream.PRIORITY) >> 2]!;
}

export const streamCalls = {
  create_stream: call({
    c: "aclrtCreateStream",
    args: [],
    returns: "[value, ret]",
    doc: "A stream of the current context with the highest priority.",
    none: 0,
    run: () => create(0, 0),
  }),
  create_stream_with_config: call({
    c: "aclrtCreateStreamWithConfig",
    args: [integer("priority"), integer("flag")],
    returns: "[value, ret]",
    doc: "A stream with a priority (0 first, 7 last) and flags.",
    none: 0,
    run: create,
  }),
  destroy_stream: call({
    c: "aclrtDestroyStream",
    args: [handle("stream")],
    returns: "ret",
    doc: "Waits for the stream's tasks and frees it.",
    blocks: true,
    run: (stream): void => destroy(stream, false, "destroy_stream"),
  }),
  destroy_stream_force: call({
    c: "aclrtDestroyStreamForce",
    args: [handle("stream")],
    returns: "ret",
    doc: "Drops the stream's tasks that have not run, and frees it.",
    blocks: true,
    run: (stream): void => destroy(stream, true, "destroy_stream_force"),
  }),
  synchronize_stream: call({
    c: "aclrtSynchronizeStream",
    args: [handle("stream")],
    returns: "ret",
    doc: "Waits until the stream is empty; its failure since the last report.",
    blocks: true,
    run: (stream): void => syncStream(anyStream(stream, "synchronize_stream"), Number.POSITIVE_INFINITY, "synchronize_stream"),
  }),
  synchronize_stream_with_timeout: call({
    c: "aclrtSynchronizeStreamWithTimeout",
    args: [handle("stream"), integer("timeoutMs")],
    returns: "ret",
    doc: "As synchronize_stream, for at most so many milliseconds (-1: no limit); then 507046.",
    blocks: true,
    run(stream, ms): void {
      const what = "synchronize_stream_with_timeout";
      const timeout = timeoutOf(ms, what);
      syncStream(anyStream(stream, what), timeout, what);
    },
  }),
  stream_query: call({
    c: "aclrtStreamQuery",
    args: [handle("stream")],
    returns: "[value, ret]",
    doc: "0 if the stream is empty, 1 if it is not.",
    none: 1,
    run(handle) {
      const stream = anyStream(handle, "stream_query");
      return isSpecial(stream) || stream.core.query() ? 0 : 1;
    },
  }),
  set_stream_failure_mode: call({
    c: "aclrtSetStreamFailureMode",
    args: [handle("stream"), integer("mode")],
    returns: "ret",
    doc: "0: go on after a failed task; 1: stop every stream of the context, for good.",
    run: (stream, mode): void => setMode(ownStream(stream, "set_stream_failure_mode"), mode, "set_stream_failure_mode"),
  }),
  stream_stop: call({
    c: "aclrtStreamStop",
    args: [handle("stream")],
    returns: "ret",
    doc: "Stops executing; what is queued stays.",
    run: (stream): void => stopStream(ownStream(stream, "stream_stop")),
  }),
  stream_abort: call({
    c: "aclrtStreamAbort",
    args: [handle("stream")],
    returns: "ret",
    doc: "Drops running and queued tasks, and returns when nothing runs any more; later synchronizations give 107023.",
    blocks: true,
    run(handle): void {
      const stream = ownStream(handle, "stream_abort");
      abortStream(stream);
      if (!awaitAbort(stream, ABORT_MS)) {
        throw new AclError(107035, `stream_abort: ${stream.core.name} does not stop within ${ABORT_MS} ms; reset the device by force`);
      }
    },
  }),
  set_stream_attribute: call({
    c: "aclrtSetStreamAttribute",
    args: [handle("stream"), integer("attribute"), dict("value")],
    returns: "ret",
    doc: "Sets failureMode (1), overflowSwitch (2), userCustomTag (3), cacheOpInfoSwitch (4) or priority (5).",
    run: (stream, attribute, value): void => setAttribute(ownStream(stream, "set_stream_attribute"), attribute, value),
  }),
  get_stream_attribute: call({
    c: "aclrtGetStreamAttribute",
    args: [handle("stream"), integer("attribute")],
    returns: "[value, ret]",
    doc: "Reads an attribute, as an object with its key.",
    none: {},
    run: (stream, attribute) => getAttribute(ownStream(stream, "get_stream_attribute"), attribute),
  }),
  stream_get_id: call({
    c: "aclrtStreamGetId",
    args: [handle("stream")],
    returns: "[value, ret]",
    doc: "Number of the stream on its device.",
    none: 0,
    run: (stream) => anyStream(stream, "stream_get_id").index,
  }),
  stream_get_flags: call({
    c: "aclrtStreamGetFlags",
    args: [handle("stream")],
    returns: "[value, ret]",
    doc: "Flags it was created with.",
    none: 0,
    run: (stream) => streamWord(anyStream(stream, "stream_get_flags"), StreamWord.FLAGS),
  }),
  stream_get_priority: call({
    c: "aclrtStreamGetPriority",
    args: [handle("stream")],
    returns: "[value, ret]",
    doc: "Its priority.",
    none: 0,
    run: (stream) => priorityOf(anyStream(stream, "stream_get_priority")),
  }),
  get_stream_available_num: call({
    c: "aclrtGetStreamAvailableNum",
    args: [],
    returns: "[value, ret]",
    doc: "Streams that the current device has left.",
    none: 0,
    run() {
      const { device } = current("get_stream_available_num");
      return Math.min(device.soc.streams, STREAM_LIMIT) - device.get(Shared.STREAMS);
    },
  }),
  set_stream_overflow_switch: call({
    c: "aclrtSetStreamOverflowSwitch",
    args: [handle("stream"), integer("flag")],
    returns: "ret",
    doc: "Keeps the overflow check's switch; the check itself is of saturation mode.",
    run(stream, flag): void {
      if (flag !== 0 && flag !== 1) {
        throw invalidParam(`set_stream_overflow_switch: flag is ${flag}; pass 0 or 1`);
      }
      setStreamWord(ownStream(stream, "set_stream_overflow_switch"), StreamWord.OVERFLOW, flag);
    },
  }),
  get_stream_overflow_switch: call({
    c: "aclrtGetStreamOverflowSwitch",
    args: [handle("stream")],
    returns: "[value, ret]",
    doc: "The overflow check's switch.",
    none: 0,
    run: (stream) => streamWord(ownStream(stream, "get_stream_overflow_switch"), StreamWord.OVERFLOW),
  }),
  persistent_task_clean: call({
    c: "aclrtPersistentTaskClean",
    args: [handle("stream")],
    returns: "ret",
    doc: "Empties a PERSISTENT stream.",
    run(handle): void {
      const stream = ownStream(handle, "persistent_task_clean");
      if (!(streamWord(stream, StreamWord.FLAGS) & StreamFlag.PERSISTENT)) {
        throw invalidParam("persistent_task_clean: the stream is not persistent; create it with flag 4");
      }
      emptyStream(stream, StreamState.STOPPED, Number.POSITIVE_INFINITY);
    },
  }),
  reg_stream_state_callback: call({
    c: "aclrtRegStreamStateCallback",
    args: [text("name"), callbackOrNull<(stream: number, state: number, args: unknown) => void>("callback"), optional(anything("args"))],
    returns: "ret",
    doc: "Calls the function after a stream is made and before it goes; null takes it away.",
    run: (name, callback, args): void => states.register(name, callback, args),
  }),
  get_thread_last_task_id: call({
    c: "aclrtGetThreadLastTaskId",
    args: [],
    returns: "[value, ret]",
    doc: "Number of the task that this thread launched last.",
    none: 0,
    run: lastTaskId,
  }),
};
