/**
 * Compilations in a worker thread. One worker per calling thread, started with the first request and unref'd while idle: it never keeps a process
 * alive. Models go there through shared memory and results come back as transferred buffers, so neither side copies much at a time.
 */
import path from "node:path";
import type { Worker } from "node:worker_threads";
import { AclError, type AclErrorDetails } from "../errors/acl-error";
import { aborted, internal } from "../errors/make";
import type { CompileOptions, CompileResult } from "./types";

export interface Request {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly options: CompileOptions;
}
export type Reply = { readonly id: number } & ({ readonly result: CompileResult } | { readonly error: PlainError });
/** An AclError as it crosses threads. */
export interface PlainError {
  readonly code: number | undefined;
  readonly message: string;
  readonly details: AclErrorDetails;
}

interface Pending {
  readonly request: Request;
  resolve(result: CompileResult): void;
  reject(error: unknown): void;
}

/** Bytes copied per turn of the event loop: up to 2 ms, where every page is touched for the first time. */
const CHUNK = 1024 * 1024;
const pending = new Map<number, Pending>();
let worker: Worker | undefined;
let nextId = 1;

export async function compileInWorker(bytes: Uint8Array, options: CompileOptions, signal: AbortSignal | undefined): Promise<CompileResult> {
  const shared = await toShared(bytes, signal);
  const id = nextId++;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      pending.delete(id);
      restart();
      reject(aborted("the compilation", signal?.reason));
    };
    const settle = (): void => signal?.removeEventListener("abort", onAbort);
    const request: Request = { id, bytes: shared, options };
    pending.set(id, {
      request,
      resolve: (result) => {
        settle();
        resolve(result);
      },
      reject: (error) => {
        settle();
        reject(error);
      },
    });
    signal?.addEventListener("abort", onAbort, { once: true });
    start().postMessage(request);
  });
}

async function toShared(bytes: Uint8Array, signal: AbortSignal | undefined): Promise<Uint8Array> {
  if (bytes.buffer instanceof SharedArrayBuffer) {
    return bytes;
  }
  const shared = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
  for (let at = 0; at < bytes.byteLength; at += CHUNK) {
    shared.set(bytes.subarray(at, at + CHUNK), at);
    await new Promise((resolve) => setImmediate(resolve));
    if (signal?.aborted) {
      throw aborted("the compilation", signal.reason);
    }
  }
  return shared;
}

function start(): Worker {
  if (!worker) {
    const { Worker: Thread } = require("node:worker_threads") as typeof import("node:worker_threads");
    // An eval body that requires the built file boots the same way under every loader that this module may itself be run by.
    const created = new Thread(`require(${JSON.stringify(path.join(__dirname, "worker.js"))})`, { eval: true, execArgv: [], name: "npurt compiler" });
    created.on("message", (reply: Reply) => finish(reply));
    created.on("error", (error) => failAll(created, error));
    created.on("exit", () => failAll(created, undefined));
    worker = created;
  }
  worker.ref();
  return worker;
}

function finish(reply: Reply): void {
  const waiting = pending.get(reply.id);
  pending.delete(reply.id);
  if (pending.size === 0) {
    worker?.unref();
  }
  if (waiting) {
    "result" in reply ? waiting.resolve(reply.result) : waiting.reject(revive(reply.error));
  }
}

function revive({ code, message, details }: PlainError): Error {
  return code === undefined ? internal(`the compiler failed: ${message}`) : new AclError(code, message, details);
}

/** A running compilation cannot be interrupted: its thread ends, and what else was queued there goes to a new one. */
function restart(): void {
  const old = worker;
  worker = undefined;
  old?.removeAllListeners();
  // An error of a thread that is told to end concerns nobody, but an event without a listener would end the process.
  old?.on("error", () => undefined);
  void old?.terminate();
  for (const { request } of pending.values()) {
    start().postMessage(request);
  }
}

function failAll(from: Worker, error: Error | undefined): void {
  if (from !== worker) {
    return;
  }
  worker = undefined;
  const lost = [...pending.values()];
  pending.clear();
  for (const { reject } of lost) {
    reject(
      internal(
        `the compiler's thread ended${error ? `: ${error.message}` : ""}; load the model again, with a larger heap if it is very large`,
        error,
      ),
    );
  }
}
