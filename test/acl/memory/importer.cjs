"use strict";
/** What the importing thread of the sharing tests does. */
const { acl } = require("npurt/acl");
const { rt } = acl;

function ok(result) {
  const code = Array.isArray(result) ? result.at(-1) : result;
  if (code !== 0) throw new Error(`code ${code}: ${acl.get_recent_err_msg()}`);
  return Array.isArray(result) ? result[0] : undefined;
}

function codeOf(result) {
  return Array.isArray(result) ? result.at(-1) : result;
}

module.exports = {
  /** Adds 1 to each of `count` bytes behind the key. */
  increment(key, count) {
    ok(rt.set_device(0));
    const address = ok(rt.ipc_mem_import_by_key(key, 0));
    const bytes = new Uint8Array(count);
    ok(rt.memcpy(bytes, count, address, count, 2));
    ok(
      rt.memcpy(
        address,
        count,
        bytes.map((value) => value + 1),
        count,
        1,
      ),
    );
    ok(rt.ipc_mem_close(key));
  },
  expectCode(key, code) {
    ok(rt.set_device(0));
    const got = codeOf(rt.ipc_mem_import_by_key(key, 0));
    if (got !== code) throw new Error(`code ${got}, expected ${code}`);
  },
  /** In a context of its own: waits for the event behind the key, adds 1 to the word, and records the event again. */
  followEvent(key, word) {
    ok(rt.create_context(0));
    const event = ok(rt.ipc_open_event_handle(key));
    const stream = ok(rt.create_stream());
    ok(rt.stream_wait_event(stream, event));
    ok(rt.value_write(word, 2, 0, stream));
    ok(rt.record_event(event, stream));
    ok(rt.synchronize_stream(stream));
    ok(rt.destroy_event(event)); // closes it here
  },
  expectEventCode(key, code) {
    ok(rt.set_device(0));
    const got = codeOf(rt.ipc_open_event_handle(key));
    if (got !== code) throw new Error(`code ${got}, expected ${code}`);
  },
  /** Records the notify behind the key. */
  recordNotify(key) {
    ok(rt.create_context(0));
    const notify = ok(rt.notify_import_by_key(key, 0));
    const stream = ok(rt.create_stream());
    ok(rt.record_notify(notify, stream));
    ok(rt.synchronize_stream(stream));
    ok(rt.destroy_notify(notify)); // the import only
  },
  expectNotifyCode(key, code) {
    ok(rt.set_device(0));
    const got = codeOf(rt.notify_import_by_key(key, 0));
    if (got !== code) throw new Error(`code ${got}, expected ${code}`);
  },
  /** Maps imported physical memory a second time, reads `value` in it and writes the next one. */
  mapAndIncrement(shareable, sizeBytes, value) {
    ok(rt.set_device(0));
    const handle = ok(rt.mem_import_from_shareable_handle(shareable, 0));
    const range = ok(rt.reserve_mem_address(sizeBytes, 0, 0, 0));
    ok(rt.map_mem(range, sizeBytes, 0, handle, 0));
    const bytes = new Uint8Array(8);
    ok(rt.memcpy(bytes, 8, range + sizeBytes - 8, 8, 2));
    if (bytes.some((one) => one !== value)) throw new Error(`read ${bytes}`);
    const stream = ok(rt.create_stream());
    ok(rt.memset_async(range, sizeBytes, value + 1, sizeBytes, stream));
    ok(rt.synchronize_stream(stream));
    ok(rt.unmap_mem(range));
    ok(rt.free_physical(handle));
    ok(rt.release_mem_address(range));
  },
};
