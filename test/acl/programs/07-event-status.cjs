"use strict";
/** 0_event_status: 0 before the record, 0 while the work before it runs, 1 after the synchronization. */
const assert = require("node:assert/strict");
const { acl, rt, download, gate, init, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
const stream = ok(rt.create_stream());
const event = ok(rt.create_event());
const answer = upload(new BigUint64Array(1));
const before = ok(rt.query_event_status(event));
const work = gate(); // the long operator
work.hold(stream);
ok(rt.value_write(answer, 1, 0, stream));
ok(rt.record_event(event, stream));
const recorded = ok(rt.query_event_status(event));
work.open();
ok(rt.synchronize_stream(stream));
const after = ok(rt.query_event_status(event));
assert.deepEqual([before, recorded, after], [0, 0, 1]);
assert.equal(download(answer, new BigUint64Array(1))[0], 1n);
ok(rt.destroy_event(event));
ok(rt.destroy_stream(stream));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log(`event status ${before}, ${recorded}, ${after}; answer 1`);
