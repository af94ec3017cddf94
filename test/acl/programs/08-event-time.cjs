"use strict";
/** 1_event_timestamp: the end of a task is later than its start, and a long one takes much longer than a short one. */
const assert = require("node:assert/strict");
const { acl, rt, download, init, launch, loadKernels, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
loadKernels();
const stream = ok(rt.create_stream());
const answer = upload(new Int32Array(1));
function measure(kernel) {
  const [start, end] = [ok(rt.create_event()), ok(rt.create_event())];
  ok(rt.record_event(start, stream));
  ok(launch(stream, kernel, [answer]));
  ok(rt.record_event(end, stream));
  ok(rt.synchronize_stream(stream));
  const [from, to] = [start, end].map((event) => ok(rt.event_get_timestamp(event)));
  assert.ok(kernel === "LongOP" ? to > from : to >= from); // whole microseconds: a short task may take less
  return ok(rt.event_elapsed_time(start, end));
}
measure("ShortOP"); // the first launch makes the kernel ready
const short = measure("ShortOP");
assert.equal(download(answer, new Int32Array(1))[0], 0);
const long = measure("LongOP");
assert.equal(download(answer, new Int32Array(1))[0], 1);
assert.ok(long > 2 * short, `${short} ms, ${long} ms`);
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("the long task takes longer; answers 0, then 1");
