/** Events behind handles: lookup, state, and their deferred end. */
import { AclError } from "../errors/acl-error";
import { Event, EVENT_LIMIT, Header, Layout } from "../host/layout";
import { ContextCore } from "../runtime/context-core";
import { type AclContext, endedContext, isEnding, stamp } from "./contexts";
import { type AclDevice, deviceIfOpen, EventWord, Shared } from "./devices";
import { encodeHandle, expectHandle, HandleType, sameGeneration } from "./handles";
import { contextEnds } from "./lifecycle";

export enum EventKind {
  PLAIN = 1, // create_event
  FLAGGED,
  EXTENDED, // create_event_ex_with_flag: any number of them, recorded again without reset
}

/** Bits of create_event_with_flag. */
export enum EventFlag {
  SYNC = 1,
  CAPTURE_STREAM_PROGRESS = 2,
  TIME_LINE = 8,
  DEVICE_USE_ONLY = 0x10,
  EXTERNAL = 0x20,
  IPC = 0x40,
}
export const DEFAULT_EVENT_FLAGS = EventFlag.SYNC | EventFlag.CAPTURE_STREAM_PROGRESS | EventFlag.TIME_LINE;

export interface AclEvent {
  readonly device: AclDevice;
  readonly index: number;
  /** Grows with every event that gets the index. */
  readonly generation: number;
  readonly handle: number;
  readonly context: number;
  readonly kind: EventKind;
  readonly flags: number;
}

/** A place in a stream. */
export interface Place {
  readonly stream: number;
  readonly sequence: number;
}

/** Events that were destroyed while their record was under way: the table entry is freed when it has run. */
const leaving: { device: AclDevice; index: number; place: Place }[] = [];

function word(device: AclDevice, event: number, which: EventWord): number {
  return Atomics.load(device.shared, device.eventAt(event, which));
}

function generation(device: AclDevice, event: number): number {
  return device.machine.words[(Layout.EVENTS + event * Event.SIZE + Event.GENERATION) >> 2]!;
}

/** @throws AclError 107000 for null, 107017 for another type or a destroyed event */
export function eventOf(handle: number, what: string): AclEvent {
  const parts = expectHandle(handle, HandleType.EVENT, `${what}: event`);
  const device = deviceIfOpen(parts.device);
  const life = device === undefined ? 0 : generation(device, parts.index);
  const context = device === undefined ? 0 : word(device, parts.index, EventWord.CONTEXT);
  if (device === undefined || context === 0 || !sameGeneration(parts, stamp(device, life))) {
    throw new AclError(107017, `${what}: the event is destroyed, by itself or with its context; create another`);
  }
  return {
    device,
    index: parts.index,
    generation: life,
    handle,
    context: context - 1,
    kind: word(device, parts.index, EventWord.KIND),
    flags: word(device, parts.index, EventWord.FLAGS),
  };
}

/** @throws AclError 207007 with nothing leaked */
export function createEvent(context: AclContext, kind: EventKind, flags: number): number {
  const { device } = context;
  reapEvents();
  const counted = kind !== EventKind.EXTENDED;
  const limit = Math.min(device.soc.events, EVENT_LIMIT);
  if (counted && !device.take(Shared.EVENTS, limit)) {
    throw new AclError(
      207007,
      `create_event: device ${device.index} (${device.soc.name}) has ${limit} events; destroy some, or use create_event_ex_with_flag`,
    );
  }
  const event = device.machine.table(() => device.machine.core.createEvent());
  if (event < 0) {
    if (counted) {
      device.give(Shared.EVENTS);
    }
    throw new AclError(207007, `create_event: device ${device.index} has ${EVENT_LIMIT} events of all kinds; destroy some`);
  }
  device.shared.fill(0, device.eventAt(event, 0), device.eventAt(event, EventWord.ENDED));
  device.shared[device.eventAt(event, EventWord.FLAGS)] = flags;
  device.shared[device.eventAt(event, EventWord.KIND)] = kind;
  const life = generation(device, event);
  Atomics.store(device.shared, device.eventAt(event, EventWord.CONTEXT), context.index + 1);
  // Pairs with the claim of destroyContext, which comes before its look at CONTEXT: one of the two sees the other.
  if (isEnding(context)) {
    destroyEvent(device, event, life);
    throw endedContext(context, "create_event");
  }
  return encodeHandle(HandleType.EVENT, device.index, stamp(device, life), event);
}

/** Where the latest record stands; undefined if there is none, or a reset behind it has run. */
export function recordOf({ device, index }: Pick<AclEvent, "device" | "index">): Place | undefined {
  const { core } = device.machine;
  const stream = core.eventStream(index);
  if (stream === 0) {
    return undefined;
  }
  const reset = word(device, index, EventWord.RESET_STREAM);
  if (reset !== 0) {
    const at = word(device, index, EventWord.RESET_HIGH) * 2 ** 32 + (word(device, index, EventWord.RESET_LOW) >>> 0);
    if (core.fence(reset - 1) >= at) {
      return undefined;
    }
  }
  return { stream: stream - 1, sequence: core.eventSequence(index) };
}

export function isComplete(event: Pick<AclEvent, "device">, place: Place): boolean {
  return event.device.machine.core.fence(place.stream) >= place.sequence;
}

/** From the task `sequence` of `stream` on the event counts as not recorded. */
export function noteReset({ device, index }: AclEvent, stream: number, sequence: number): void {
  device.shared[device.eventAt(index, EventWord.RESET_LOW)] = sequence | 0;
  device.shared[device.eventAt(index, EventWord.RESET_HIGH)] = Math.floor(sequence / 2 ** 32);
  Atomics.store(device.shared, device.eventAt(index, EventWord.RESET_STREAM), stream + 1);
}

export function forgetReset({ device, index }: AclEvent): void {
  Atomics.store(device.shared, device.eventAt(index, EventWord.RESET_STREAM), 0);
}

/** Another thread has it by its key. */
export function openEvent({ device, index }: AclEvent): void {
  Atomics.add(device.shared, device.eventAt(index, EventWord.OPENED), 1);
}

/** Gives one opening back. False: nobody has it open, so the event itself is meant. */
export function closeEvent({ device, index }: AclEvent): boolean {
  const at = device.eventAt(index, EventWord.OPENED);
  for (let opened = Atomics.load(device.shared, at); opened > 0; opened = Atomics.load(device.shared, at)) {
    if (Atomics.compareExchange(device.shared, at, opened, opened - 1) === opened) {
      return true;
    }
  }
  return false;
}

/** The handle is stale at once; the table entry goes when its record task has run, which writes to it. Of two threads that destroy it the second does nothing. */
export function destroyEvent(device: AclDevice, index: number, life: number): void {
  if (!device.claimEnd(device.eventAt(index, EventWord.ENDED), life)) {
    return;
  }
  if (word(device, index, EventWord.KIND) !== EventKind.EXTENDED) {
    device.give(Shared.EVENTS);
  }
  Atomics.store(device.shared, device.eventAt(index, EventWord.CONTEXT), 0);
  const { core } = device.machine;
  const stream = core.eventStream(index);
  const place = { stream: stream - 1, sequence: core.eventSequence(index) };
  if (stream !== 0 && !isComplete({ device }, place)) {
    leaving.push({ device, index, place });
  } else {
    device.machine.table(() => core.destroyEvent(index));
  }
  reapEvents();
}

function reapEvents(): void {
  for (let at = leaving.length - 1; at >= 0; at--) {
    const { device, index, place } = leaving[at]!;
    if (device.machine.lost !== undefined) {
      leaving.splice(at, 1);
    } else if (isComplete({ device }, place)) {
      device.machine.table(() => device.machine.core.destroyEvent(index));
      leaving.splice(at, 1);
    }
  }
}

contextEnds.push(({ device, index }) => {
  const high = device.machine.words[(Layout.HEADER + Header.EVENT_HIGH) >> 2]!;
  for (let event = 0; event < high; event++) {
    const life = generation(device, event);
    if (word(device, event, EventWord.CONTEXT) === index + 1) {
      destroyEvent(device, event, life);
    }
  }
});

/** Throws what a failure has latched in the event's context. */
export function checkEventContext(event: AclEvent): void {
  ContextCore.of(event.device.core, event.context).checkLatch();
}
