/**
 * Host callbacks in stream order. A callback is a marker in its stream; when the marker is reached, the subscribed thread runs the function, and
 * a blocking one then writes the word that the stream waits for. Functions stay in the thread that gave them: across threads a callback is a name.
 */
import { createRequire } from "node:module";
import { threadId } from "node:worker_threads";
import { Compare } from "../../asm/abi/task";
import { AclError } from "../errors/acl-error";
import { PoolTag, STREAM_LIMIT, StreamState, TaskOp } from "../host/layout";
import { type AclDevice, deviceIfOpen, Shared, StreamWord } from "./devices";
import { callbackSinks, drain, exclusively, nap, postCallback, sayReady } from "./process";
import { callUser } from "./states";
import { type AclStream, destroyHooks, generationOf, setStreamWord, stateOf, streamWord, submitTask } from "./streams";
import { addHostCall, blockUntil, setWord, whileHolding } from "./waiting";

type Callback = (argument: unknown) => unknown;

/** A callback that is due when `stream` has reached `marker`. Can be posted to another thread if `run` is a name. */
interface Report {
  readonly device: number;
  readonly stream: number;
  readonly marker: number;
  /** Of the stream: another one may have its index by the time that the function returns. */
  readonly generation: number;
  /** The word's value that lets a blocked stream go on; 0 if nothing waits. */
  readonly release: number;
  readonly run: Callback | string;
  readonly argument: unknown;
}

const WORD_BYTES = 8;
const LOOK_MS = 1;
const MOST_THREAD = 2 ** 30;
/** Reports that this thread is to serve, oldest first. */
const due: Report[] = [];
/** Streams that this thread is subscribed to, for host functions of its own. */
const hostSubscriptions = new Set<number>();
const hostDue: Report[] = [];
/** Where names of callbacks are looked up: the module that start_thread ran. */
let callbackModule: Readonly<Record<string, unknown>> = {};
let subscribedDevice: { index: number; streams: number } | undefined;

callbackSinks.add(((report: Report) => due.push(report)) as never);

/** The exports that callbacks of other threads are looked up in. */
export function setCallbackModule(exports: Readonly<Record<string, unknown>>): void {
  callbackModule = exports;
}

export function loadModule(path: string): Record<string, unknown> {
  return createRequire(`${process.cwd()}/`)(path) as Record<string, unknown>;
}

/** Offset of the words that blocking callbacks release, one per stream. */
function signalWord(device: AclDevice, stream: number): number {
  let base = device.get(Shared.SIGNALS) >>> 0;
  if (base === 0) {
    base = device.machine.allocate(STREAM_LIMIT * WORD_BYTES, PoolTag.SCRATCH, "the words of callbacks");
    device.machine.bytes.fill(0, base, base + STREAM_LIMIT * WORD_BYTES);
    device.set(Shared.SIGNALS, base | 0);
  }
  return base + stream * WORD_BYTES;
}

function serve({ device: index, stream, generation, marker, release, run, argument }: Report): void {
  const device = deviceIfOpen(index);
  try {
    const body = typeof run === "function" ? run : callbackModule[run];
    if (typeof body !== "function") {
      throw new AclError(
        107015,
        `process_report: the thread's module exports no function "${String(run)}"; export it, or pass another name to launch_callback`,
      );
    }
    if (release !== 0 && device !== undefined) {
      whileHolding({ device, stream, marker }, () => (body as Callback)(argument));
    } else {
      (body as Callback)(argument);
    }
  } finally {
    if (release !== 0 && device !== undefined && generationOf(device, stream) === generation) {
      setWord(device.machine, signalWord(device, stream), BigInt(release));
    }
  }
}

/** Queues the marker, and the wait of a blocking callback. Returns the report. */
function enqueue(stream: AclStream, run: Callback | string, argument: unknown, blocking: boolean, what: string): Report {
  return exclusively(() => {
    const { device, index } = stream;
    const word = signalWord(device, index);
    const number = streamWord(stream, StreamWord.CALLBACKS) + 1;
    if (number === 1) {
      setWord(device.machine, word, 0n); // an earlier stream of this index may have left a number
    }
    const marker = submitTask(stream, what, TaskOp.NOP);
    setStreamWord(stream, StreamWord.CALLBACKS, number);
    if (blocking) {
      submitTask(stream, what, TaskOp.WAIT_VALUE, word, number, 0, 0, Compare.GREATER_EQUAL);
    }
    return { device: device.index, stream: index, generation: stream.generation, marker, release: blocking ? number : 0, run, argument };
  });
}

export function launchCallback(stream: AclStream, run: Callback | string, argument: unknown, blocking: boolean): void {
  const subscriber = streamWord(stream, StreamWord.SUBSCRIBER) - 1;
  if (subscriber < 0) {
    throw new AclError(107015, `launch_callback: no thread serves the callbacks of ${stream.core.name}; call subscribe_report first`);
  }
  if (subscriber !== threadId && typeof run === "function") {
    throw new AclError(
      207000,
      `launch_callback: thread ${subscriber} serves ${stream.core.name}, and a function cannot go to another thread; pass the name of an export of the module given to util.start_thread`,
    );
  }
  const report = enqueue(stream, run, argument, blocking, "launch_callback");
  if (subscriber === threadId) {
    due.push(report);
  } else {
    postCallback(subscriber, report);
  }
}

/** A function that the runtime serves: while this thread blocks, or in its event loop. The stream waits for it. */
export function launchHostFunction(stream: AclStream, run: Callback, argument: unknown): void {
  const report = enqueue(stream, run, argument, true, "launch_host_func");
  if (hostSubscriptions.has(stream.handle)) {
    hostDue.push(report);
  } else {
    // Whatever call blocks just then serves it, and has no part in what the function throws.
    const serveApart = (): void => callUser(`launch_host_func: function "${run.name}"`, () => serve(report));
    addHostCall({ device: stream.device, stream: stream.index, marker: report.marker, serve: serveApart });
  }
}

/** Work of the runtime itself in stream order, done by this thread like a host function; not if the stream was stopped meanwhile. */
export function runInStream(stream: AclStream, work: () => void, what: string): void {
  const run = (): void => {
    if (stream.core.live && stateOf(stream) === StreamState.LIVE && !stream.core.context.latched) {
      work();
    }
  };
  const report = enqueue(stream, run, undefined, true, what);
  addHostCall({ device: stream.device, stream: stream.index, marker: report.marker, serve: () => serve(report) });
}

export function subscribe(stream: AclStream, thread: number): void {
  if (thread < 0 || thread > MOST_THREAD) {
    throw new AclError(
      107000,
      `subscribe_report: thread ${thread} does not exist; pass a thread id: 0 is the main thread, others come from util.start_thread`,
    );
  }
  if (thread === threadId) {
    if (subscribedDevice !== undefined && subscribedDevice.streams > 0 && subscribedDevice.index !== stream.device.index) {
      throw new AclError(107012, `subscribe_report: thread ${thread} serves streams of device ${subscribedDevice.index}; a thread serves one device`);
    }
    subscribedDevice = { index: stream.device.index, streams: (subscribedDevice?.streams ?? 0) + 1 };
  }
  const at = stream.device.streamAt(stream.index, StreamWord.SUBSCRIBER);
  const before = Atomics.compareExchange(stream.device.shared, at, 0, thread + 1);
  if (before !== 0) {
    if (thread === threadId && subscribedDevice !== undefined) {
      subscribedDevice.streams--;
    }
    throw new AclError(107011, `subscribe_report: thread ${before - 1} serves ${stream.core.name} already; one thread serves a stream`);
  }
}

export function unsubscribe(stream: AclStream, thread: number): void {
  const at = stream.device.streamAt(stream.index, StreamWord.SUBSCRIBER);
  if (Atomics.compareExchange(stream.device.shared, at, thread + 1, 0) !== thread + 1) {
    throw new AclError(107011, `unsubscribe_report: thread ${thread} does not serve ${stream.core.name}; pass the thread that subscribed`);
  }
  if (thread === threadId && subscribedDevice !== undefined) {
    subscribedDevice.streams--;
  }
}

destroyHooks.add((stream) => {
  hostSubscriptions.delete(stream.handle);
  if (streamWord(stream, StreamWord.SUBSCRIBER) === threadId + 1 && subscribedDevice !== undefined) {
    subscribedDevice.streams--;
  }
});

export function subscribeHost(stream: AclStream): void {
  if (hostSubscriptions.has(stream.handle)) {
    throw new AclError(107011, `subscribe_host_func: ${stream.core.name} is subscribed already`);
  }
  hostSubscriptions.add(stream.handle);
}

export function unsubscribeHost(stream: AclStream): void {
  if (!hostSubscriptions.delete(stream.handle)) {
    throw new AclError(107011, `unsubscribe_host_func: ${stream.core.name} is not subscribed`);
  }
}

/** Takes the first report whose marker is reached; its stream may have been destroyed meanwhile, then it is dropped. */
function takeReached(list: Report[]): Report | undefined {
  for (let at = 0; at < list.length; at++) {
    const report = list[at]!;
    const device = deviceIfOpen(report.device);
    if (device === undefined || device.machine.lost !== undefined) {
      list.splice(at--, 1);
    } else if (device.machine.core.fence(report.stream) >= report.marker) {
      list.splice(at, 1);
      return report;
    }
  }
  return undefined;
}

/** Lets something move towards the oldest report. False: nothing can. */
function waitForReport(list: readonly Report[], leftMs: number): boolean {
  const [first] = list;
  const device = first === undefined ? undefined : deviceIfOpen(first.device);
  if (first === undefined || device === undefined) {
    nap(Math.min(LOOK_MS, leftMs));
    return true; // another thread may launch one
  }
  const threads = device.machine.driver.name === "threads";
  const outcome = blockUntil(device, first.stream, first.marker, Math.min(leftMs, threads ? LOOK_MS : Number.POSITIVE_INFINITY));
  return outcome === "reached" || (threads && outcome === "timeout");
}

/** Serves one callback. @throws AclError 507012 after `timeoutMs` */
function processOne(list: Report[], timeoutMs: number, what: string): void {
  const end = performance.now() + timeoutMs;
  sayReady();
  for (;;) {
    drain();
    const report = takeReached(list);
    if (report !== undefined) {
      serve(report);
      return;
    }
    const leftMs = end - performance.now();
    if (leftMs <= 0 || !waitForReport(list, leftMs)) {
      throw new AclError(507012, `${what}: no callback came due within ${timeoutMs} ms`);
    }
  }
}

export function processReport(timeoutMs: number): void {
  processOne(due, timeoutMs, "process_report");
}

export function processHostFunction(timeoutMs: number): void {
  processOne(hostDue, timeoutMs, "process_host_func");
}

export function forgetReports(): void {
  due.length = 0;
  hostDue.length = 0;
  hostSubscriptions.clear();
  subscribedDevice = undefined;
}
