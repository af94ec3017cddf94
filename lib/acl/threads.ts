/** Threads of util.start_thread: worker threads that run an export of a module, as JavaScript has no other function that another thread could run. */
import path from "node:path";
import { threadId, Worker } from "node:worker_threads";
import { AclError } from "../errors/acl-error";
import { drain } from "./process";

const DONE = 1;
const FAILED = 2;
const TEXT_AT = 8;
const CONTROL_BYTES = 4096;
const SLICE_MS = 5;

interface Thread {
  readonly worker: Worker;
  readonly control: SharedArrayBuffer;
}

const threads = new Map<number, Thread>();

/** The worker's program: loads this library first, so that it joins the process's devices, then the user's module. */
const BODY = `"use strict";
const { workerData: d } = require("node:worker_threads");
const ints = new Int32Array(d.control, 0, 2), text = Buffer.from(d.control, ${TEXT_AT});
const end = (state, message) => {
  if (message) ints[1] = text.write(message);
  Atomics.store(ints, 0, state);
  Atomics.notify(ints, 0);
};
(async () => {
  const { loadModule, setCallbackModule } = require(d.reports);
  const module = loadModule(d.file);
  setCallbackModule(module);
  if (typeof module[d.name] !== "function") throw new Error(d.file + " exports no function " + d.name);
  await module[d.name](...d.args);
})().then(() => end(${DONE}), (error) => end(${FAILED}, String((error && error.stack) || error)));`;

/** Starts `args` in the export that "file#name" names. Returns the thread's id. */
export function startThread(target: string, args: readonly unknown[]): number {
  const at = target.lastIndexOf("#");
  if (at <= 0 || at === target.length - 1) {
    throw new AclError(
      107000,
      `start_thread: "${target}" names no function; pass "path/of/module.js#export", since a function cannot go to another thread`,
    );
  }
  const control = new SharedArrayBuffer(CONTROL_BYTES);
  const file = path.resolve(target.slice(0, at));
  const workerData = { control, file, name: target.slice(at + 1), args, reports: path.join(__dirname, "reports.js") };
  let worker: Worker;
  try {
    worker = new Worker(BODY, { eval: true, workerData, execArgv: [] });
  } catch (error) {
    throw new AclError(107000, `start_thread: the arguments cannot be given to another thread: ${(error as Error).message}`, { cause: error });
  }
  worker.on("error", () => {}); // what the function threw is told by stop_thread
  const id = worker.threadId;
  threads.set(id, { worker, control });
  return id;
}

/** Blocks until the thread's function has returned. @throws AclError 500000 with what the function threw */
export function stopThread(id: number): void {
  const thread = threads.get(id);
  if (thread === undefined) {
    throw new AclError(107000, `stop_thread: thread ${id} was not started by thread ${threadId}, or was stopped already`);
  }
  const ints = new Int32Array(thread.control, 0, 2);
  while (Atomics.load(ints, 0) === 0) {
    drain();
    Atomics.wait(ints, 0, 0, SLICE_MS);
  }
  threads.delete(id);
  if (ints[0] === FAILED) {
    const text = Buffer.from(thread.control, TEXT_AT, ints[1]).toString();
    throw new AclError(500000, `stop_thread: the function of thread ${id} threw: ${text}`);
  }
}
