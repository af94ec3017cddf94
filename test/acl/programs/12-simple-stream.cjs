"use strict";
/** 0_simple_stream: the default stream, a stream of one's own, 3,000 tasks, a query: 1, 2, status 0, 3002. */
const assert = require("node:assert/strict");
const { acl, rt, download, init, launch, loadKernels, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
loadKernels();
const answer = upload(new Int32Array(1));
const read = () => download(answer, new Int32Array(1))[0];
ok(launch(0, "EasyOP", [answer])); // on the default stream
ok(rt.synchronize_stream(0));
assert.equal(read(), 1);
const stream = ok(rt.create_stream());
ok(launch(stream, "EasyOP", [answer]));
ok(rt.synchronize_stream(stream));
assert.equal(read(), 2);
for (let task = 0; task < 3000; task++) ok(launch(stream, "EasyOP", [answer]));
ok(rt.synchronize_stream(stream));
assert.equal(ok(rt.stream_query(stream)), 0);
assert.equal(read(), 3002);
ok(rt.destroy_stream(stream));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("1, 2, status 0, 3002");
