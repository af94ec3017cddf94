/** Helpers of pyACL: addresses of buffers, threads. */
import { threadId } from "node:worker_threads";
import { invalidParam } from "../../errors/make";
import { resolve } from "../addresses";
import { anything, bytes, integer, list, text } from "../args";
import { addressOfView } from "../host-memory";
import { call } from "../table";
import { startThread, stopThread } from "../threads";

function view(address: number, size: number, what: string): Uint8Array {
  if (size < 0) {
    throw invalidParam(`${what}: size is ${size}; pass at least 0`);
  }
  const spot = resolve(address, size, what);
  if (spot.device !== undefined) {
    spot.device.machine.exposed = true; // this memory is seen from outside: another device must not get it
  }
  return spot.bytes;
}

export const utilCalls = {
  bytes_to_ptr: call({
    c: "pyACL bytes_to_ptr",
    args: [bytes("buffer")],
    returns: "value",
    doc: "Address of a buffer's bytes. It does not keep the buffer alive.",
    none: 0,
    run: (buffer) => addressOfView(buffer),
  }),
  ptr_to_bytes: call({
    c: "pyACL ptr_to_bytes",
    args: [integer("ptr"), integer("size")],
    returns: "value",
    doc: "A copy of host memory as a Buffer.",
    none: Buffer.alloc(0),
    run: (ptr, size): Buffer => Buffer.from(view(ptr, size, "ptr_to_bytes")),
  }),
  numpy_to_ptr: call({
    c: "pyACL numpy_to_ptr",
    args: [bytes("array")],
    returns: "value",
    doc: "As bytes_to_ptr, for any typed array.",
    none: 0,
    run: (array) => addressOfView(array),
  }),
  ptr_to_view: call({
    c: "npurt ptr_to_view",
    args: [integer("ptr"), integer("size")],
    returns: "value",
    doc: "Host memory itself, not a copy: bytes of malloc_host or of a buffer.",
    none: new Uint8Array(0),
    run: (ptr, size) => view(ptr, size, "ptr_to_view"),
  }),
  start_thread: call({
    c: "pyACL start_thread",
    args: [text("target"), list("args", anything)],
    returns: "[value, ret]",
    doc: 'Runs the export of a module, "file#name", in a thread of its own. Functions do not cross threads in JavaScript.',
    none: 0,
    run: startThread,
  }),
  stop_thread: call({
    c: "pyACL stop_thread",
    args: [integer("threadId")],
    returns: "ret",
    doc: "Waits for the thread's function; 500000 with its message if it threw.",
    blocks: true,
    run: stopThread,
  }),
  get_thread_id: call({
    c: "npurt get_thread_id",
    args: [],
    returns: "value",
    doc: "Id of the calling thread, as subscribe_report takes it; 0 is the main thread.",
    none: 0,
    run: () => threadId,
  }),
};
