"use strict";
/** Functions that tests start in threads of their own. */
const { acl } = require("npurt/acl");
const { rt } = acl;

function ok(result) {
  const code = Array.isArray(result) ? result.at(-1) : result;
  if (code !== 0) throw new Error(`code ${code}: ${acl.get_recent_err_msg()}`);
  return Array.isArray(result) ? result[0] : undefined;
}

module.exports = {
  setAndForce() {
    ok(rt.set_device(0));
    ok(rt.reset_device_force(0));
  },
  useStream(context, stream, address) {
    if (rt.memset_async(address, 64, 9, 64, stream) !== 107002) throw new Error("a thread without context could launch");
    ok(rt.set_context(context));
    ok(rt.memset_async(address, 64, 9, 64, stream));
  },
  destroy(context) {
    ok(rt.destroy_context(context));
  },
  /** Opens device 3, the first of the process to do so, and ends without a reset. */
  openAndEnd() {
    ok(rt.set_device(3));
    ok(rt.memset_async(ok(rt.malloc(64, 0)), 64, 1, 64, 0));
    ok(rt.synchronize_stream(0));
  },
  /** Serves `count` callbacks. */
  serve(context, count) {
    ok(rt.set_context(context));
    for (let served = 0; served < count; served++) ok(rt.process_report(20_000));
  },
  /** A callback: writes byte `i` behind `word`. */
  note({ word, i }) {
    ok(rt.memset(word + i - 1, 1, i, 1));
  },
  fail() {
    throw new Error("on purpose");
  },
};
