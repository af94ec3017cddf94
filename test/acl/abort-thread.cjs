"use strict";
/** What other threads do in the tests of aborts. */
const { acl } = require("npurt/acl");
const { rt } = acl;

function ok(result) {
  const code = Array.isArray(result) ? result.at(-1) : result;
  if (code !== 0) throw new Error(`code ${code}: ${acl.get_recent_err_msg()}`);
  return Array.isArray(result) ? result[0] : undefined;
}

module.exports = {
  /** Launches kernels that never end, with a limit, and blocks. */
  runaway(file) {
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const word = ok(rt.malloc(64, 0));
    ok(rt.memset(word, 64, 0, 64));
    const binary = ok(rt.binary_load_from_file(file));
    for (const name of ["RunawayPolling", "Runaway"]) {
      const fn = ok(rt.binary_get_function(binary, name));
      ok(rt.launch_kernel_with_args_array(fn, 1, stream, [{ id: 8, value: 20000 }], [BigUint64Array.of(BigInt(word))]));
      const code = rt.synchronize_stream(stream);
      if (code !== 507034) throw new Error(`${name}: code ${code}`);
    }
  },
  /** Launches until the abort of the main thread is seen, and until it is over. */
  launchWhileAborting(word) {
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const seen = new Set();
    for (const end = Date.now() + 20_000; !(seen.has(107022) && seen.has("over")); ) {
      const code = rt.value_write(word, 1, 0, stream);
      if (code === 107022) {
        const second = rt.device_task_abort(0, 1000);
        if (second !== 107022 && second !== 0) throw new Error(`second abort: ${second}`);
        seen.add(107022);
      } else if (code !== 0) throw new Error(`code ${code}`);
      else if (seen.has(107022)) seen.add("over");
      if (Date.now() > end) throw new Error(`saw ${[...seen]}`);
    }
  },
};
