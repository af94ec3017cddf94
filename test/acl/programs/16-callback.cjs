"use strict";
/** 0_simple_callback: one host function and five callbacks in stream order, served by the subscribing thread in a loop. */
const assert = require("node:assert/strict");
const { acl, rt, init, ok, util } = require("./common.cjs");

init();
ok(rt.set_device(0));
const stream = ok(rt.create_stream());
const me = util.get_thread_id();
ok(rt.subscribe_report(me, stream));
const heard = [];
ok(rt.launch_host_func(stream, (data) => heard.push(["hostfunc", data]), 520));
for (let i = 0; i < 5; i++) {
  ok(rt.launch_callback((data) => heard.push(["callback", ...data]), [520, i], 1, stream));
}
for (let i = 0; i < 5; i++) ok(rt.process_report(10_000));
ok(rt.synchronize_stream(stream));
assert.equal(rt.process_report(20), 507012);
assert.deepEqual(heard, [["hostfunc", 520], ...[0, 1, 2, 3, 4].map((i) => ["callback", 520, i])]);
ok(rt.unsubscribe_report(me, stream));
ok(rt.destroy_stream(stream));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("user data 520: 1 hostfunc, 5 callbacks, in order");
