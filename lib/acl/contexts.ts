/** Contexts behind handles, and the two slots that bind a thread to one: an explicit context, or a device's primary one. Per Node thread, never async-local. */
import { threadId } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import { Context, CONTEXT_LIMIT, Layout, Stream, STREAM_LIMIT, StreamState } from "../host/layout";
import { ContextCore } from "../runtime/context-core";
import { type AclDevice, ContextWord, deviceIfOpen, ensureDevice, Shared, StreamWord, physicalIndex } from "./devices";
import { encodeHandle, expectHandle, HandleType, sameGeneration } from "./handles";
import { config, DeviceWord, deviceWord, exclusively, words } from "./process";

export interface AclContext {
  readonly device: AclDevice;
  readonly index: number;
  readonly handle: number;
  readonly core: ContextCore;
}

/** The two slots. */
interface Slots {
  /** Physical index of the device whose primary context is bound. */
  ref: number | undefined;
  /** Handle of the explicit context that is bound; 0 = none. */
  ctx: number;
}
const slots: Slots = { ref: undefined, ctx: 0 };
/** Why this thread has no context, for the text of 107002. */
let story = "it never set a device or a context";
/** By device and index: a context that comes after another takes its place. */
const cache = new Map<number, AclContext>();

/** Epoch and generation in one: a handle of an earlier opening of the device is stale too. */
export function stamp(device: AclDevice, generation: number): number {
  return ((device.epoch & 0xff) << 16) | (generation & 0xffff);
}

function word(device: AclDevice, context: number, field: number): number {
  return Atomics.load(device.machine.words, (Layout.CONTEXTS + context * Context.SIZE + field) >> 2);
}

/** Grows with every context that gets the index. */
export function contextGeneration(device: AclDevice, index: number): number {
  return word(device, index, Context.GENERATION);
}

export function contextHandle(device: AclDevice, index: number): number {
  return encodeHandle(HandleType.CONTEXT, device.index, stamp(device, contextGeneration(device, index)), index);
}

function viewOf(device: AclDevice, index: number): AclContext {
  const handle = contextHandle(device, index);
  const slot = device.index * CONTEXT_LIMIT + index;
  const known = cache.get(slot);
  if (known !== undefined && known.device === device && known.handle === handle) {
    return known;
  }
  const made = { device, index, handle, core: ContextCore.of(device.core, index) };
  cache.set(slot, made);
  return made;
}

/** Makes a context with its default stream. @throws AclError 207008 if there is no stream for it, 207005 if there are no more contexts */
export function makeContext(device: AclDevice): AclContext {
  const { machine, soc } = device;
  if (!device.take(Shared.STREAMS, Math.min(soc.streams, STREAM_LIMIT))) {
    throw new AclError(
      207008,
      `create_context: device ${device.index} has no stream left for the default stream (limit ${soc.streams}); destroy streams first`,
    );
  }
  const index = machine.table(() => machine.core.createContext());
  if (index < 0) {
    device.give(Shared.STREAMS);
    throw new AclError(207005, `create_context: device ${device.index} has ${CONTEXT_LIMIT} contexts; destroy some`);
  }
  const stream = machine.table(() => machine.core.createStream(index, 0));
  if (stream < 0) {
    device.give(Shared.STREAMS);
    throw new AclError(107002, `create_context: device ${device.index} was reset by another thread meanwhile; call set_device again`);
  }
  machine.words[(Layout.CONTEXTS + index * Context.SIZE + Context.DEFAULT_STREAM) >> 2] = stream;
  device.shared.fill(0, device.streamAt(stream, 0), device.streamAt(stream, StreamWord.ENDED));
  device.shared.fill(0, device.contextAt(index, 0), device.contextAt(index, ContextWord.ENDED));
  return viewOf(device, index);
}

export function defaultStreamOf(context: AclContext): number {
  return word(context.device, context.index, Context.DEFAULT_STREAM);
}

/** Whether a thread destroys the context, or has. What is made in it after this said no is found by that thread. */
export function isEnding({ device, index, handle }: AclContext): boolean {
  const ended = Atomics.load(device.shared, device.contextAt(index, ContextWord.ENDED));
  return ended === contextGeneration(device, index) || contextHandle(device, index) !== handle;
}

export function endedContext(context: AclContext, what: string): AclError {
  return new AclError(107002, `${what}: ${context.core.name} is being destroyed; create another`);
}

/** The live context behind `handle`. @throws AclError 107000 for null, 107017 for another type, 107002 if it is destroyed */
export function contextOf(handle: number, what: string): AclContext {
  const parts = expectHandle(handle, HandleType.CONTEXT, what);
  const device = deviceIfOpen(parts.device);
  const live =
    device !== undefined &&
    word(device, parts.index, Context.STATE) === 1 &&
    sameGeneration(parts, stamp(device, word(device, parts.index, Context.GENERATION)));
  if (!live) {
    throw new AclError(107002, `${what}: the context is destroyed, or its device was reset; create another`);
  }
  return viewOf(device, parts.index);
}

/** The primary context of `device`; undefined while it is not active. */
export function primaryOf(device: AclDevice): AclContext | undefined {
  const index = device.get(Shared.PRIMARY) - 1;
  return index < 0 ? undefined : viewOf(device, index);
}

function noContext(what: string): AclError {
  return new AclError(107002, `${what}: thread ${threadId} has no current context: ${story}; call set_device, create_context or set_context first`);
}

/** What the calling thread works in: the explicit slot if it is filled (a dead context there means none), else the primary one, else the configured default. */
export function currentOrNone(): AclContext | undefined {
  if (slots.ctx !== 0) {
    try {
      return contextOf(slots.ctx, "current context");
    } catch (error) {
      if (error instanceof AclError) {
        slots.ctx = 0;
        story = "the context that it used was destroyed, or its device was reset";
        return undefined;
      }
      throw error;
    }
  }
  if (slots.ref !== undefined) {
    const device = deviceIfOpen(slots.ref);
    return device === undefined ? undefined : primaryOf(device);
  }
  const { defaultDevice } = config();
  if (defaultDevice !== undefined && story.startsWith("it never")) {
    retainPrimary(ensureDevice(physicalIndex(defaultDevice, "default_device")));
    return currentOrNone();
  }
  return undefined;
}

/** @throws AclError 107002 */
export function current(what: string): AclContext {
  const context = currentOrNone();
  if (context === undefined) {
    throw noContext(what);
  }
  return context;
}

/** set_device: one more user of the primary context; binds the thread to it. */
export function retainPrimary(device: AclDevice): void {
  exclusively(() => {
    if (!device.active) {
      const primary = makeContext(device);
      device.set(Shared.PRIMARY_GENERATION, word(device, primary.index, Context.GENERATION));
      device.set(Shared.PRIMARY, primary.index + 1);
    }
    Atomics.add(words, deviceWord(device.index, DeviceWord.REFS), 1);
  });
  slots.ref = device.index;
  slots.ctx = 0;
  story = `device ${device.index} was reset`;
}

/** create_context and set_context. */
export function bindContext(context: AclContext): void {
  slots.ref = undefined;
  slots.ctx = context.handle;
}

/** The context with `handle` goes: if this thread has it bound, it has none from now on. */
export function unbind(handle: number): void {
  if (slots.ctx === handle) {
    slots.ctx = 0;
    slots.ref = undefined;
    story = "it destroyed the context that it was bound to";
  }
}

/** reset_device has reached 0. */
export function unbindDevice(device: AclDevice): void {
  if (slots.ref === device.index) {
    slots.ref = undefined;
    story = `device ${device.index} was reset`;
  }
}

/** finalize: as if the thread had just started. */
export function forgetBinding(): void {
  slots.ref = undefined;
  slots.ctx = 0;
  story = "it never set a device or a context";
  cache.clear();
}

/** Live streams of a context, the default one too. */
export function streamsOf(context: AclContext): number[] {
  const { machine } = context.device;
  const found: number[] = [];
  for (let stream = 0; stream < machine.streamHigh; stream++) {
    const at = (Layout.STREAMS + stream * Stream.SIZE) >> 2;
    if (Atomics.load(machine.words, at + (Stream.STATE >> 2)) !== StreamState.FREE && machine.words[at + (Stream.CONTEXT >> 2)] === context.index) {
      found.push(stream);
    }
  }
  return found;
}

/** Live contexts of a device. */
export function contextsOf(device: AclDevice): AclContext[] {
  const found: AclContext[] = [];
  for (let index = 0; index < CONTEXT_LIMIT; index++) {
    if (word(device, index, Context.STATE) === 1) {
      found.push(viewOf(device, index));
    } else if (word(device, index, Context.GENERATION) === 0) {
      break; // never used, and so is everything behind it
    }
  }
  return found;
}
