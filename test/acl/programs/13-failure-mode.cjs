"use strict";
/** 1_stream_with_failure_mode: CONTINUE runs what follows a failure, STOP does not; then stop and abort. */
const assert = require("node:assert/strict");
const { acl, rt, download, gate, init, launch, loadKernels, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
loadKernels();
for (const [mode, expected] of [
  [0, 2],
  [1, 1],
]) {
  const context = ok(rt.create_context(0)); // STOP is a state of the whole context
  const stream = ok(rt.create_stream());
  ok(rt.set_stream_failure_mode(stream, mode));
  const answer = upload(new Int32Array(1));
  ok(launch(stream, "EasyOP", [answer]));
  ok(launch(stream, "ErrorOP", [answer]));
  const later = launch(stream, "EasyOP", [answer]); // refused if the failure was quick enough
  assert.ok(later === 0 || (mode === 1 && later === 507035), String(later));
  assert.equal(rt.synchronize_stream(stream), 507035);
  assert.equal(download(answer, new Int32Array(1))[0], expected);
  ok(rt.destroy_context(context));
}
ok(rt.set_device(0));
const [stopped, aborted] = [ok(rt.create_stream()), ok(rt.create_stream())];
const work = gate();
for (const stream of [stopped, aborted]) work.hold(stream);
assert.equal(rt.stream_stop(stopped), 0);
assert.equal(rt.stream_abort(aborted), 0);
assert.equal(rt.synchronize_stream(aborted), 107023);
for (const stream of [stopped, aborted]) ok(rt.destroy_stream_force(stream));
ok(rt.reset_device_force(0));
ok(acl.finalize());
console.log("CONTINUE: 507035 and 2; STOP: 507035 and 1; stop 0; abort 0, then 107023");
