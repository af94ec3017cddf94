/**
 * What all Node threads of the process share: init counts, device counts, the configuration, and which thread has a device's memory to hand over.
 * A small shared memory travels to worker threads as environment data, so `npurt/acl` has to be loaded before the workers start;
 * device memories come later, through a channel that is read without an event loop.
 */
import { BroadcastChannel, getEnvironmentData, receiveMessageOnPort, setEnvironmentData, threadId } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import type { MachineToken } from "../host/types";
import { type Config, readConfig } from "./config";

const KEY = "npurt.acl";
const TEXT_AT = 4096;
const CONFIG_BYTES = 32768;
const ERROR_AT = TEXT_AT + CONFIG_BYTES;
const ERROR_BYTES = 8192;
const LOCK_LIMIT_MS = 5000;
const FIND_LIMIT_MS = 5000;
/** Ids of callbacks that are remembered, so that one that is posted twice runs once. */
const GOT_KEPT = 4096;

/** Words of the process. */
export enum Word {
  INIT_COUNT,
  CONFIG_LENGTH,
  ERROR_LENGTH,
  LOCK,
  NAP, // nobody writes it: a place to sleep on
  PID,
  WORLD,
  WAIT_TIMEOUT, // ms that a stream waits for an event, 0 = for ever
  EXECUTE_INTERVALS, // time limit of kernels, 0 = the default
  OPTIONS, // eight words: process-wide system parameters, value + 1
  THREADS = 20, // ids given to threads of util.start_thread
  SNAPSHOT, // SnapshotState
  SNAPSHOT_THREAD, // thread id + 1 that locked the process
  FIRST_DEVICE = 64,
}
const DEVICE_WORDS = 8;

/** Words of a device, from FIRST_DEVICE on. */
export enum DeviceWord {
  STATE, // 0 closed, 1 opening, 2 open
  REFS, // set_device minus reset_device
  EPOCH, // grows with each opening, so that handles of an earlier one are stale
}

interface World {
  readonly buffer: SharedArrayBuffer;
  readonly thread: number;
  readonly posts: readonly DevicePost[];
}

/** What a thread needs to attach to a device. */
export interface DevicePost {
  readonly token: MachineToken;
  readonly shared: SharedArrayBuffer;
}

type Message =
  | { readonly kind: "device"; readonly post: DevicePost }
  | { readonly kind: "who"; readonly device: number }
  | { readonly kind: "callback"; readonly thread: number; readonly id: string; readonly body: unknown }
  | { readonly kind: "got"; readonly id: string }
  | { readonly kind: "ready"; readonly thread: number }
  | { readonly kind: "look"; readonly device: number };

const posts = new Map<number, DevicePost>();
/** Callbacks on their way to other threads, until those have them: a thread that has just started missed what was posted before. */
const underWay = new Map<string, Message & { kind: "callback" }>();
const got = new Set<string>();
let sent = 0;
let saidReady = false;
/** Handlers of callbacks that are for this thread. */
export const callbackSinks = new Set<(body: never) => void>();

/** Called when another thread waits for a device: the thread that opened it looks after its cores. */
export const lookSinks = new Set<(device: number) => void>();

function enterWorld(): SharedArrayBuffer {
  const known = getEnvironmentData(KEY) as unknown as World | undefined;
  // A world that this very thread made belongs to another copy of this module.
  if (known !== undefined && known.thread !== threadId) {
    for (const post of known.posts) {
      posts.set(post.token.device, post);
    }
    return known.buffer;
  }
  const buffer = new SharedArrayBuffer(ERROR_AT + ERROR_BYTES);
  const ints = new Int32Array(buffer);
  ints[Word.PID] = process.pid;
  ints[Word.WORLD] = (Math.random() * 2 ** 31) | 0;
  return buffer;
}

const buffer = enterWorld();
export const words = new Int32Array(buffer);
const textBytes = Buffer.from(buffer);
const origin = (getEnvironmentData(KEY) as unknown as World | undefined)?.thread;
const owner = origin !== undefined && origin !== threadId ? origin : threadId;

function publish(): void {
  const world: World = { buffer, thread: owner, posts: [...posts.values()] };
  setEnvironmentData(KEY, world as unknown as string);
}
publish();

const channel = new BroadcastChannel(`${KEY}.${process.pid}.${words[Word.WORLD]}`);
channel.onmessage = (event) => receive((event as unknown as { data: Message }).data);
channel.unref();

function receive(message: Message): void {
  if (message.kind === "device") {
    posts.set(message.post.token.device, message.post);
    publish();
  } else if (message.kind === "who") {
    const post = posts.get(message.device);
    if (post !== undefined) {
      channel.postMessage({ kind: "device", post } satisfies Message);
    }
  } else if (message.kind === "got") {
    underWay.delete(message.id);
  } else if (message.kind === "ready") {
    for (const one of underWay.values()) {
      if (one.thread === message.thread) {
        channel.postMessage(one);
      }
    }
  } else if (message.kind === "look") {
    for (const sink of lookSinks) {
      sink(message.device);
    }
  } else if (message.thread === threadId && !got.has(message.id)) {
    got.add(message.id);
    if (got.size > 2 * GOT_KEPT) {
      for (const id of [...got].slice(0, GOT_KEPT)) {
        got.delete(id); // its sender has long been told
      }
    }
    channel.postMessage({ kind: "got", id: message.id } satisfies Message);
    for (const sink of callbackSinks) {
      sink(message.body as never);
    }
  }
}

/** This thread serves callbacks from now on: whoever has some under way for it posts them again. */
export function sayReady(): void {
  if (!saidReady) {
    saidReady = true;
    channel.postMessage({ kind: "ready", thread: threadId } satisfies Message);
  }
}

/** Whether other threads may ask this one for something soon. */
export function expectsMessages(): boolean {
  return underWay.size > 0;
}

/** Reads what other threads have sent; blocking calls do so while they wait. */
export function drain(): void {
  for (let next = receiveMessageOnPort(channel as never); next !== undefined; next = receiveMessageOnPort(channel as never)) {
    receive(next.message as Message);
  }
}

export function postDevice(post: DevicePost): void {
  posts.set(post.token.device, post);
  publish();
  channel.postMessage({ kind: "device", post } satisfies Message);
}

/** Asks whoever opened the device to look for kernels that take too long: only there can a core be replaced. */
export function askToLook(device: number): void {
  channel.postMessage({ kind: "look", device } satisfies Message);
}

export function postCallback(thread: number, body: unknown): void {
  const message = { kind: "callback", thread, id: `${threadId}.${sent++}`, body } as const;
  underWay.set(message.id, message);
  channel.postMessage(message);
}

/** The memory of a device that another thread has opened. @throws AclError 507033 if nobody hands it over */
export function findDevice(device: number): DevicePost {
  const end = performance.now() + FIND_LIMIT_MS;
  let asked = false;
  for (;;) {
    drain();
    const post = posts.get(device);
    if (post !== undefined) {
      return post;
    }
    if (!asked) {
      channel.postMessage({ kind: "who", device } satisfies Message);
      asked = true;
    }
    if (performance.now() > end) {
      throw new AclError(
        507033,
        `set_device: device ${device} is open in another thread that does not answer; load npurt/acl in the main thread before you start workers`,
      );
    }
    nap(1);
  }
}

/** Sleeps without an event loop. */
export function nap(ms: number): void {
  Atomics.wait(words, Word.NAP, 0, ms);
}

export function deviceWord(device: number, word: DeviceWord): number {
  return Word.FIRST_DEVICE + device * DEVICE_WORDS + word;
}

/** Runs `body` while no other thread of the process changes devices. The lock names its holder; a holder that died is waited for and then passed over. */
export function exclusively<T>(body: () => T): T {
  const name = threadId + 1;
  const end = performance.now() + LOCK_LIMIT_MS;
  for (let held = Atomics.compareExchange(words, Word.LOCK, 0, name); held !== 0; held = Atomics.compareExchange(words, Word.LOCK, 0, name)) {
    if (held === name) {
      return body(); // a call inside a call of the same thread
    }
    drain();
    if (performance.now() > end) {
      Atomics.compareExchange(words, Word.LOCK, held, 0);
    }
    Atomics.wait(words, Word.LOCK, held, 1);
  }
  try {
    return body();
  } finally {
    Atomics.store(words, Word.LOCK, 0);
    Atomics.notify(words, Word.LOCK);
  }
}

// ---- texts

let configText: string | undefined;
let parsed: Config = readConfig({});

/** The configuration that the first init of the process left; the default before. */
export function config(): Config {
  const length = Atomics.load(words, Word.CONFIG_LENGTH);
  const text = length === 0 ? "{}" : textBytes.toString("utf8", TEXT_AT, TEXT_AT + length);
  if (text !== configText) {
    parsed = readConfig(JSON.parse(text) as Record<string, unknown>);
    configText = text;
  }
  return parsed;
}

export function storeConfig(text: string): void {
  const length = Buffer.byteLength(text);
  if (length > CONFIG_BYTES) {
    throw new AclError(100005, `init: the configuration has ${length} bytes; keep it below ${CONFIG_BYTES}`);
  }
  textBytes.write(text, TEXT_AT);
  Atomics.store(words, Word.CONFIG_LENGTH, length);
}

/** The recent message of the process, once. */
export function takeProcessText(): string | undefined {
  const length = Atomics.exchange(words, Word.ERROR_LENGTH, 0);
  return length === 0 ? undefined : textBytes.toString("utf8", ERROR_AT, ERROR_AT + length);
}

export function storeProcessText(text: string): void {
  const length = textBytes.write(text, ERROR_AT, ERROR_BYTES);
  Atomics.store(words, Word.ERROR_LENGTH, length);
}
