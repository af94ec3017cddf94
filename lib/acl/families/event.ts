/** Events. */
import { AclError } from "../../errors/acl-error";
import { invalidParam } from "../../errors/make";
import { EVENT_LIMIT, TaskOp } from "../../host/layout";
import { handle, integer, text } from "../args";
import { current } from "../contexts";
import { Shared } from "../devices";
import {
  type AclEvent,
  checkEventContext,
  closeEvent,
  createEvent,
  DEFAULT_EVENT_FLAGS,
  destroyEvent,
  EventFlag,
  EventKind,
  eventOf,
  forgetReset,
  isComplete,
  noteReset,
  openEvent,
  recordOf,
} from "../events";
import { type AclStream, checkLaunch, noteTask, orderHooks, ownStream, submitTask, timeoutOf } from "../streams";
import { makeKey, readKey, stillThere } from "../sync-keys";
import { call } from "../table";
import { waitTimeoutMs } from "../timeouts";
import { blockOn } from "../waiting";

/** Waits of this thread that have been queued, by event: for query_event_wait_status. */
const waits = new Map<number, { stream: number; sequence: number }[]>();

function checkFlags(flags: number, what: string): void {
  const all = DEFAULT_EVENT_FLAGS | EventFlag.DEVICE_USE_ONLY;
  const alone = flags === EventFlag.EXTERNAL || flags === EventFlag.IPC;
  if (flags <= 0 || ((flags & ~all) !== 0 && !alone)) {
    throw invalidParam(`${what}: flag is 0x${flags.toString(16)}; pass a mix of 1, 2, 8 and 0x10, or 0x20 or 0x40 alone`);
  }
}

/** Event and stream of one context. */
function pair(event: number, stream: number, what: string): [AclEvent, AclStream] {
  const to = ownStream(stream, what);
  const from = eventOf(event, what);
  const shared = from.flags === EventFlag.IPC; // any context of the device may use it
  if (from.device !== to.device || (from.context !== to.context && !shared)) {
    throw new AclError(
      107003,
      `${what}: the event belongs to context ${from.context} of device ${from.device.index}, the stream to context ${to.context} of device ${to.device.index}; use objects of one context`,
    );
  }
  return [from, to];
}

function record(event: number, stream: number): void {
  const what = "record_event";
  const [from, to] = pair(event, stream, what);
  checkLaunch(to, what);
  const { machine } = to.device;
  forgetReset(from);
  noteTask(machine.submitBy(to.index, () => machine.core.record(to.index, from.index)));
}

function wait(stream: number, event: number, timeoutMs: number, what: string): void {
  const [from, to] = pair(event, stream, what);
  checkLaunch(to, what);
  const place = recordOf(from);
  if (place === undefined) {
    if (from.kind === EventKind.EXTENDED) {
      return; // counts as complete
    }
    throw invalidParam(`${what}: the event was never recorded, so the stream would wait for ever; call record_event first`);
  }
  for (const hook of orderHooks) {
    hook(to, place.stream, place.sequence);
  }
  if (isComplete(from, place) || place.stream === to.index) {
    return;
  }
  const low = place.sequence % 2 ** 32;
  const sequence = submitTask(to, what, TaskOp.WAIT, place.stream, low, Math.floor(place.sequence / 2 ** 32), timeoutMs);
  const list = (waits.get(event) ?? []).filter((one) => from.device.machine.core.fence(one.stream) < one.sequence);
  waits.set(event, [...list, { stream: to.index, sequence }]);
}

/** True if the latest record has run. On drivers without threads of their own, a look moves the tasks on. */
function complete(event: AclEvent): boolean {
  checkEventContext(event);
  const place = recordOf(event);
  if (place === undefined) {
    return event.kind === EventKind.EXTENDED;
  }
  const { machine } = event.device;
  if (!isComplete(event, place) && machine.driver.name !== "threads") {
    machine.step(64);
  }
  machine.progress();
  return isComplete(event, place);
}

function synchronize(handle: number, timeoutMs: number, what: string): void {
  const event = eventOf(handle, what);
  const place = recordOf(event);
  if (place !== undefined && !blockOn(event.device, place.stream, place.sequence, timeoutMs)) {
    const why = Number.isFinite(timeoutMs) ? `was not reached within ${timeoutMs} ms` : "cannot be reached any more (a deadlock)";
    throw new AclError(
      507047,
      `${what}: event ${event.index} of device ${event.device.index} ${why}: ${event.device.machine.describeHead(place.stream)}`,
    );
  }
  checkEventContext(event);
}

function timestampUs(handle: number, what: string): number {
  const event = eventOf(handle, what);
  if (!(event.flags & EventFlag.TIME_LINE)) {
    throw invalidParam(`${what}: event ${event.index} takes no time; create it with flag 8 (time line)`);
  }
  const place = recordOf(event);
  if (place === undefined || !isComplete(event, place)) {
    throw new AclError(
      107006,
      `${what}: event ${event.index} ${place === undefined ? "was not recorded" : "has not been reached"}; record it and synchronize first`,
    );
  }
  return event.device.machine.core.eventTime(event.index);
}

export const eventCalls = {
  create_event: call({
    c: "aclrtCreateEvent",
    args: [],
    returns: "[value, ret]",
    doc: "An event of the current context, with time.",
    none: 0,
    run: () => createEvent(current("create_event"), EventKind.PLAIN, DEFAULT_EVENT_FLAGS),
  }),
  create_event_with_flag: call({
    c: "aclrtCreateEventWithFlag",
    args: [integer("flag")],
    returns: "[value, ret]",
    doc: "An event with flags: sync 1, stream progress 2, time line 8, device use 0x10; external 0x20 and IPC 0x40 alone.",
    none: 0,
    run(flags) {
      checkFlags(flags, "create_event_with_flag");
      return createEvent(current("create_event_with_flag"), EventKind.FLAGGED, flags);
    },
  }),
  create_event_ex_with_flag: call({
    c: "aclrtCreateEventExWithFlag",
    args: [integer("flag")],
    returns: "[value, ret]",
    doc: "An event that counts against no limit and may be recorded again without reset; before its first record it counts as complete.",
    none: 0,
    run(flags) {
      checkFlags(flags, "create_event_ex_with_flag");
      return createEvent(current("create_event_ex_with_flag"), EventKind.EXTENDED, flags);
    },
  }),
  destroy_event: call({
    c: "aclrtDestroyEvent",
    args: [handle("event")],
    returns: "ret",
    doc: "Destroys the event; streams that wait for it already go on waiting.",
    run(handle): void {
      const event = eventOf(handle, "destroy_event");
      waits.delete(handle);
      if (closeEvent(event)) {
        return; // an opening by key is given back; the maker destroys the event
      }
      destroyEvent(event.device, event.index, event.generation);
    },
  }),
  record_event: call({
    c: "aclrtRecordEvent",
    args: [handle("event"), handle("stream")],
    returns: "ret",
    doc: "Marks the place in the stream; the last record counts.",
    run: record,
  }),
  reset_event: call({
    c: "aclrtResetEvent",
    args: [handle("event"), handle("stream")],
    returns: "ret",
    doc: "When the stream gets there, the event counts as not recorded. Events with the sync flag only.",
    run(event, stream): void {
      const [from, to] = pair(event, stream, "reset_event");
      if (from.kind === EventKind.EXTENDED || !(from.flags & EventFlag.SYNC)) {
        throw invalidParam("reset_event: this event needs no reset; record it again, or create it with flag 1 (sync)");
      }
      noteReset(from, to.index, submitTask(to, "reset_event", TaskOp.NOP));
    },
  }),
  stream_wait_event: call({
    c: "aclrtStreamWaitEvent",
    args: [handle("stream"), handle("event")],
    returns: "ret",
    doc: "What is queued from now on waits for the record that is the latest now.",
    run: (stream, event): void => wait(stream, event, waitTimeoutMs(), "stream_wait_event"),
  }),
  stream_wait_event_with_timeout: call({
    c: "aclrtStreamWaitEventWithTimeout",
    args: [handle("stream"), handle("event"), integer("seconds")],
    returns: "ret",
    doc: "The same for at most so many seconds (0: no limit); then the stream fails with 107020.",
    run(stream, event, seconds): void {
      if (seconds < 0) {
        throw invalidParam(`stream_wait_event_with_timeout: ${seconds} s; pass 0 (no limit) or more`);
      }
      wait(stream, event, seconds * 1000, "stream_wait_event_with_timeout");
    },
  }),
  query_event: call({
    c: "aclrtQueryEvent",
    args: [handle("event")],
    returns: "[value, ret]",
    doc: "0 complete, 1 not yet: the inverse of query_event_status.",
    none: 1,
    run(handle) {
      const event = eventOf(handle, "query_event");
      if (event.kind === EventKind.EXTENDED) {
        throw invalidParam("query_event: not for events of create_event_ex_with_flag; call query_event_status");
      }
      return complete(event) ? 0 : 1;
    },
  }),
  query_event_status: call({
    c: "aclrtQueryEventStatus",
    args: [handle("event")],
    returns: "[value, ret]",
    doc: "1 if the latest record has run, 0 if not yet or never recorded.",
    none: 0,
    run: (event) => (complete(eventOf(event, "query_event_status")) ? 1 : 0),
  }),
  query_event_wait_status: call({
    c: "aclrtQueryEventWaitStatus",
    args: [handle("event")],
    returns: "[value, ret]",
    doc: "0 if every wait that this thread queued for the event is over, 1 if not.",
    none: 1,
    run(handle) {
      const event = eventOf(handle, "query_event_wait_status");
      if (event.kind === EventKind.EXTENDED) {
        throw invalidParam("query_event_wait_status: not for events of create_event_ex_with_flag");
      }
      const { machine } = event.device;
      if (machine.driver.name !== "threads") {
        machine.step(64);
      }
      return (waits.get(handle) ?? []).some((one) => machine.core.fence(one.stream) < one.sequence) ? 1 : 0;
    },
  }),
  synchronize_event: call({
    c: "aclrtSynchronizeEvent",
    args: [handle("event")],
    returns: "ret",
    doc: "Waits until the latest record has run, whatever its context.",
    blocks: true,
    run: (event): void => synchronize(event, Number.POSITIVE_INFINITY, "synchronize_event"),
  }),
  synchronize_event_with_timeout: call({
    c: "aclrtSynchronizeEventWithTimeout",
    args: [handle("event"), integer("timeoutMs")],
    returns: "ret",
    doc: "The same for at most so many milliseconds; then 507047.",
    blocks: true,
    run(event, ms): void {
      const what = "synchronize_event_with_timeout";
      synchronize(event, timeoutOf(ms, what), what);
    },
  }),
  event_elapsed_time: call({
    c: "aclrtEventElapsedTime",
    args: [handle("start"), handle("end")],
    returns: "[value, ret]",
    doc: "Milliseconds between two events that have been reached.",
    none: 0,
    run(start, end) {
      const ms = (timestampUs(end, "event_elapsed_time: end") - timestampUs(start, "event_elapsed_time: start")) / 1000;
      if (ms < 0) {
        throw new AclError(107007, `event_elapsed_time: the end was reached ${-ms} ms before the start; swap the two`);
      }
      return Math.fround(ms);
    },
  }),
  event_get_timestamp: call({
    c: "aclrtEventGetTimestamp",
    args: [handle("event")],
    returns: "[value, ret]",
    doc: "Microseconds of the device's clock when it was reached.",
    none: 0,
    run: (event) => Math.floor(timestampUs(event, "event_get_timestamp")),
  }),
  ipc_get_event_handle: call({
    c: "aclrtIpcGetEventHandle",
    args: [handle("event")],
    returns: "[value, ret]",
    doc: "A key of 64 characters by which another thread of the process opens the event; it needs flag 0x40 (IPC).",
    none: "",
    run(handle) {
      const event = eventOf(handle, "ipc_get_event_handle");
      if (event.flags !== EventFlag.IPC) {
        throw invalidParam(`ipc_get_event_handle: event ${event.index} is not for sharing; create it with flag 0x40`);
      }
      return makeKey("event", handle);
    },
  }),
  ipc_open_event_handle: call({
    c: "aclrtIpcOpenEventHandle",
    args: [text("key")],
    returns: "[value, ret]",
    doc: "The event behind a key, for streams of every context of its device; destroy_event closes it. A key of another process gives 207000.",
    none: 0,
    run(key) {
      const what = "ipc_open_event_handle";
      current(what);
      const handle = readKey("event", key, what);
      openEvent(stillThere(() => eventOf(handle, what), what));
      return handle;
    },
  }),
  get_event_id: call({
    c: "aclrtGetEventId",
    args: [handle("event")],
    returns: "[value, ret]",
    doc: "Number of the event on its device.",
    none: 0,
    run: (event) => eventOf(event, "get_event_id").index,
  }),
  get_event_avail_num: call({
    c: "aclrtGetEventAvailNum",
    args: [],
    returns: "[value, ret]",
    doc: "Events that the current device has left.",
    none: 0,
    run() {
      const { device } = current("get_event_avail_num");
      return Math.min(device.soc.events, EVENT_LIMIT) - device.get(Shared.EVENTS);
    },
  }),
};
