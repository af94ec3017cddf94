/** Streams behind handles: lookup, submitting, waiting, destroying. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { Code, Core, Layout, Phase, Stream, STREAM_LIMIT, StreamState, type TaskOp } from "../host/layout";
import { StreamCore } from "../runtime/stream-core";
import { type AclContext, current, defaultStreamOf, endedContext, isEnding, stamp, streamsOf } from "./contexts";
import { type AclDevice, deviceIfOpen, Shared, StreamWord } from "./devices";
import { encodeHandle, expectHandle, HandleType, sameGeneration } from "./handles";
import { logLine } from "./log";
import { nap } from "./process";
import { ContextCore } from "../runtime/context-core";
import { tellExceptions, tellLongWait } from "./exceptions";
import { blockOn, blockUntil } from "./waiting";

export interface AclStream {
  readonly device: AclDevice;
  readonly index: number;
  readonly handle: number;
  readonly core: StreamCore;
  /** Index of its context. */
  readonly context: number;
  /** What the device's record of it says as long as it lives. */
  readonly generation: number;
}

/** Bits of create_stream_with_config. */
export enum StreamFlag {
  FAST_LAUNCH = 1,
  FAST_SYNC = 2,
  PERSISTENT = 4,
  HUGE = 8,
  CPU_SCHEDULE = 0x10,
  DEVICE_USE_ONLY = 0x20,
}
export const ALL_STREAM_FLAGS = 0x3f;
/** Synchronize and query say nothing about streams with one of these. */
const SPECIAL = StreamFlag.PERSISTENT | StreamFlag.CPU_SCHEDULE | StreamFlag.DEVICE_USE_ONLY;
const FOREVER = -1;
/** What the core answers for a context or stream whose life has ended. */
const GONE = -3;
const LONG_WAIT_MS = 180_000;
const LOG_ERROR = 3;
/** How often an abort that waits looks for kernels of its stream. */
const POISON_MS = 20;

/** By device and index: a stream that comes after another takes its place. */
const cache = new Map<number, AclStream>();
/** Called before a stream goes; the flag says whether its tasks are dropped. */
export const destroyHooks = new Set<(stream: AclStream) => void>();
/** Called after each successful wait for a stream, for example to give back what pools hold above their threshold. */
export const syncHooks = new Set<(device: AclDevice) => void>();
/** Called when later tasks of a stream run behind a task of another one. */
export const orderHooks = new Set<(stream: AclStream, other: number, sequence: number) => void>();
/** Called before a task is queued; throws if none may be now. */
export const launchGuards: ((what: string) => void)[] = [];
let lastTask = 0;

function field(device: AclDevice, stream: number, offset: number): number {
  return Atomics.load(device.machine.words, (Layout.STREAMS + stream * Stream.SIZE + offset) >> 2);
}

/** Grows with every stream that gets the index. */
export function generationOf(device: AclDevice, index: number): number {
  return field(device, index, Stream.GENERATION);
}

export function streamView(device: AclDevice, index: number): AclStream {
  const generation = generationOf(device, index);
  const handle = encodeHandle(HandleType.STREAM, device.index, stamp(device, generation), index);
  const slot = device.index * STREAM_LIMIT + index;
  const known = cache.get(slot);
  if (known !== undefined && known.device === device && known.handle === handle) {
    return known;
  }
  const context = field(device, index, Stream.CONTEXT);
  const made = { device, index, handle, context, generation, core: new StreamCore(ContextCore.of(device.core, context), index) };
  cache.set(slot, made);
  return made;
}

/** The stream behind `handle`, of whatever context; 0 is the default stream of the current one. @throws AclError 107002, 107017, 107003 */
export function anyStream(handle: number, what: string): AclStream {
  return streamIn(current(what), handle, what);
}

/** The stream of the last handle: a program mostly goes on with it. */
let latest: AclStream | undefined;

function isLive(stream: AclStream): boolean {
  const { device, index, generation } = stream;
  return deviceIfOpen(device.index) === device && generationOf(device, index) === generation && stateOf(stream) !== StreamState.FREE;
}

function streamIn(context: AclContext, handle: number, what: string): AclStream {
  if (handle === 0) {
    return streamView(context.device, defaultStreamOf(context));
  }
  if (latest?.handle === handle && isLive(latest)) {
    return latest;
  }
  const parts = expectHandle(handle, HandleType.STREAM, `${what}: stream`);
  const device = deviceIfOpen(parts.device);
  const live =
    device !== undefined &&
    field(device, parts.index, Stream.STATE) !== StreamState.FREE &&
    sameGeneration(parts, stamp(device, field(device, parts.index, Stream.GENERATION)));
  if (!live) {
    throw new AclError(107003, `${what}: the stream is destroyed, with its context or by itself; create another`);
  }
  latest = streamView(device, parts.index);
  return latest;
}

/** As `anyStream`, but of the current context. @throws AclError 107003 */
export function ownStream(handle: number, what: string): AclStream {
  const context = current(what);
  const stream = streamIn(context, handle, what);
  if (stream.device !== context.device || stream.context !== context.index) {
    throw new AclError(
      107003,
      `${what}: ${stream.core.name} belongs to context ${stream.context} of device ${stream.device.index}, and the current one is ${context.core.name}; call set_context first`,
    );
  }
  return stream;
}

/** Throws what makes a launch on `stream` impossible now: 107022 while the device is being aborted, the latch of a stopped context, 107023 after an abort. */
export function checkLaunch(stream: AclStream, what: string): void {
  for (const guard of launchGuards) {
    guard(what);
  }
  if (stream.device.get(Shared.ABORTING) !== 0) {
    throw new AclError(107022, `${what}: the tasks of device ${stream.device.index} are being aborted; wait until device_task_abort has returned`);
  }
  stream.core.check();
  if (stateOf(stream) === StreamState.ABORTING) {
    throw new AclError(Code.STREAM_ABORT, `${what}: ${stream.core.name} was aborted; destroy it and create another`);
  }
}

/** Queues one task. `op` is a TaskOp with Task.FLAGS in its second byte. */
export function submitTask(stream: AclStream, what: string, op: TaskOp | number, p0 = 0, p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0): number {
  checkLaunch(stream, what);
  return noteTask(stream.device.machine.submit(stream.index, op, p0, p1, p2, p3, p4, p5));
}

/** `sequence` is the latest task of this thread. */
export function noteTask(sequence: number): number {
  lastTask = sequence;
  return sequence;
}

export function lastTaskId(): number {
  return lastTask % 2 ** 32;
}

export function stateOf(stream: AclStream): StreamState {
  return field(stream.device, stream.index, Stream.STATE);
}

function setState(stream: AclStream, state: StreamState): void {
  const { machine } = stream.device;
  Atomics.store(machine.words, (Layout.STREAMS + stream.index * Stream.SIZE + Stream.STATE) >> 2, state);
  machine.core.kick(stream.index);
  machine.driver.kick();
}

export function streamWord(stream: AclStream, word: StreamWord): number {
  return Atomics.load(stream.device.shared, stream.device.streamAt(stream.index, word));
}

export function setStreamWord(stream: AclStream, word: StreamWord, value: number): void {
  Atomics.store(stream.device.shared, stream.device.streamAt(stream.index, word), value);
}

export function isSpecial(stream: AclStream): boolean {
  return (streamWord(stream, StreamWord.FLAGS) & SPECIAL) !== 0;
}

/** @throws AclError 207008 with nothing leaked, 107002 while the context is being destroyed */
export function createStream(context: AclContext, priority: number, flags: number): AclStream {
  const { device } = context;
  if (isEnding(context)) {
    throw endedContext(context, "create_stream");
  }
  const limit = Math.min(device.soc.streams, STREAM_LIMIT);
  if (!device.take(Shared.STREAMS, limit)) {
    throw new AclError(
      207008,
      `create_stream: device ${device.index} (${device.soc.name}) has ${limit} streams, default streams included; destroy some or share them`,
    );
  }
  const index = device.machine.table(() => device.machine.core.createStream(context.index, priority));
  if (index < 0) {
    device.give(Shared.STREAMS);
    throw index === GONE
      ? endedContext(context, "create_stream")
      : new AclError(207008, `create_stream: device ${device.index} has no stream left; destroy some`);
  }
  device.shared.fill(0, device.streamAt(index, 0), device.streamAt(index, StreamWord.ENDED));
  const stream = streamView(device, index);
  setStreamWord(stream, StreamWord.FLAGS, flags);
  if (flags & StreamFlag.PERSISTENT) {
    setState(stream, StreamState.STOPPED); // its tasks stay until a model instance runs them, or persistent_task_clean
  }
  return stream;
}

/** -1 waits for ever. @throws AclError 107000 for 0 and below -1 */
export function timeoutOf(ms: number, what: string): number {
  if (ms === FOREVER) {
    return Number.POSITIVE_INFINITY;
  }
  if (ms < 1) {
    throw invalidParam(`${what}: timeout is ${ms} ms; pass -1 to wait for ever, or at least 1`);
  }
  return ms;
}

/** Waits until the stream is empty and throws what went wrong: time-out, abort, the context's latch, the stream's own error, in this order. */
export function syncStream(stream: AclStream, timeoutMs: number, what: string): void {
  if (isSpecial(stream)) {
    return;
  }
  if (isQuiet(stream)) {
    callSyncHooks(stream.device);
    return;
  }
  const { machine } = stream.device;
  checkStopped(stream, what);
  stream.core.context.check();
  const done = waitLong(stream, timeoutMs, what);
  tellExceptions();
  if (!done) {
    checkStopped(stream, what);
    const why = Number.isFinite(timeoutMs) ? `is not done after ${timeoutMs} ms` : "waits for something that cannot happen any more (a deadlock)";
    throw new AclError(507046, `${what}: ${stream.core.name} ${why}: ${machine.describeHead(stream.index)}`);
  }
  callSyncHooks(stream.device);
  stream.core.report();
}

/** Nothing to wait for, to report or to tell anybody: what most synchronizations find, so it takes few looks. */
function isQuiet(stream: AclStream): boolean {
  const { device, index, core } = stream;
  const { machine } = device;
  return (
    machine.lost === undefined &&
    machine.completions.count === 0 &&
    machine.core.fence(index) >= machine.core.tail(index) &&
    stateOf(stream) === StreamState.LIVE &&
    core.isClean &&
    device.faultsTold === device.faultCount
  );
}

function callSyncHooks(device: AclDevice): void {
  for (const hook of syncHooks) {
    hook(device);
  }
}

/** Waits; every three minutes of a wait it writes into the log and tells the exception callbacks what the stream is at, and goes on waiting. */
function waitLong(stream: AclStream, timeoutMs: number, what: string): boolean {
  const { device, index } = stream;
  const { machine } = device;
  const tail = machine.core.tail(index);
  if (machine.core.fence(index) >= tail) {
    machine.progress();
    return true;
  }
  for (let leftMs = timeoutMs; ; leftMs -= LONG_WAIT_MS) {
    const outcome = blockUntil(device, index, tail, Math.min(leftMs, LONG_WAIT_MS));
    if (outcome !== "timeout" || leftMs <= LONG_WAIT_MS) {
      return outcome === "reached";
    }
    const text = `${what}: ${stream.core.name} still waits: ${machine.describeHead(index)}`;
    logLine(LOG_ERROR, "RUNTIME", text);
    tellLongWait(device, index, machine.core.fence(index) + 1, text);
  }
}

/** A stopped stream keeps its tasks for ever: waiting for them would hang. */
function checkStopped(stream: AclStream, what: string): void {
  if (stateOf(stream) === StreamState.STOPPED) {
    throw new AclError(Code.STREAM_ABORT, `${what}: ${stream.core.name} was stopped and keeps its tasks; abort or destroy it`);
  }
}

/** Drops what is queued, and what runs as soon as it can be stopped. */
export function abortStream(stream: AclStream): void {
  setState(stream, StreamState.ABORTING);
  poison(stream);
}

/** User kernels of the stream trap at their next poll; the watchdog kills those that do not poll. */
function poison({ device, index }: AclStream): void {
  const { words } = device.machine;
  for (let core = 0; core < device.machine.cores; core++) {
    const at = (Layout.CORES + core * Core.SIZE) >> 2;
    if (Atomics.load(words, at + (Core.PHASE >> 2)) === Phase.KERNEL && words[at + (Core.STREAM >> 2)] === index + 1) {
      Atomics.store(words, at + (Core.POISON >> 2), 1);
    }
  }
}

/** Waits until nothing of an aborted stream runs any more. A tile that began meanwhile has cleared its word, so it is set again and again. */
export function awaitAbort(stream: AclStream, timeoutMs: number): boolean {
  const { machine } = stream.device;
  const end = machine.driver.now() + timeoutMs * 1000;
  for (;;) {
    poison(stream);
    const leftMs = (end - machine.driver.now()) / 1000;
    const outcome = blockUntil(stream.device, stream.index, machine.core.tail(stream.index), Math.min(leftMs, POISON_MS));
    if (outcome !== "timeout" || leftMs <= POISON_MS) {
      return outcome === "reached";
    }
  }
}

export function stopStream(stream: AclStream): void {
  setState(stream, StreamState.STOPPED);
}

/** Drops what is queued and leaves the stream as `state`, without an error. */
export function emptyStream(stream: AclStream, state: StreamState, timeoutMs: number): boolean {
  abortStream(stream);
  const empty = awaitAbort(stream, timeoutMs);
  if (empty) {
    stream.core.forgetErrors();
    setState(stream, state);
  }
  return empty;
}

/** Waits for the stream's tasks (`force`: drops them) and frees it. @throws AclError 107003 if another thread is at it */
export function destroyStream(stream: AclStream, force: boolean): void {
  const { device, index, generation } = stream;
  const { machine } = device;
  if (!device.claimEnd(device.streamAt(index, StreamWord.ENDED), generation) || !isLive(stream)) {
    throw new AclError(107003, `${stream.core.name} is being destroyed by another thread, or was; let one thread do it`);
  }
  for (const hook of destroyHooks) {
    hook(stream);
  }
  const blocked = stateOf(stream) !== StreamState.LIVE;
  if (force || blocked || !blockOn(device, index, machine.core.tail(index), Number.POSITIVE_INFINITY)) {
    abortStream(stream);
    awaitAbort(stream, Number.POSITIVE_INFINITY);
  }
  // 0: a core has not let go of OWNER yet, which follows the fence within microseconds.
  const end = (): number => machine.table(() => machine.core.destroyStream(index, generation));
  let ended = end();
  for (; ended === 0; ended = end()) {
    if (machine.driver.name === "threads") {
      nap(0.05);
    } else {
      machine.step(64);
    }
  }
  stream.core.live = false;
  if (ended !== GONE) {
    device.give(Shared.STREAMS);
  }
}

/** Synchronizes every stream of a context; the first failure is thrown after all have been waited for. */
export function syncContext(context: AclContext, timeoutMs: number, what: string): void {
  const { driver } = context.device.machine;
  const end = driver.now() + timeoutMs * 1000;
  let failure: unknown;
  for (const index of streamsOf(context)) {
    const stream = streamView(context.device, index);
    if (stateOf(stream) === StreamState.STOPPED) {
      continue;
    }
    try {
      syncStream(stream, Math.max(0.001, (end - driver.now()) / 1000), what);
    } catch (error) {
      failure ??= error;
      if (error instanceof AclError && error.code === 507046) {
        break;
      }
    }
  }
  if (failure !== undefined) {
    throw failure;
  }
}

export function forgetStreams(): void {
  cache.clear();
  latest = undefined;
  lastTask = 0;
}
