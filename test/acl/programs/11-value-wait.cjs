"use strict";
/** 9_multistream_sync_memory: stream A waits for a word that stream B writes; A is done only after the write. */
const assert = require("node:assert/strict");
const { acl, rt, download, gate, init, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
const [a, b] = [ok(rt.create_stream()), ok(rt.create_stream())];
const flag = upload(new BigUint64Array(1));
const done = upload(new BigUint64Array(1));
const work = gate();
ok(rt.value_wait(flag, 123, 1, a));
ok(rt.value_write(done, 1, 0, a));
work.hold(b);
ok(rt.value_write(flag, 123, 0, b));
assert.equal(rt.synchronize_stream_with_timeout(a, 50), 507046);
assert.equal(download(done, new BigUint64Array(1))[0], 0n);
work.open();
ok(rt.synchronize_stream(a));
assert.equal(download(done, new BigUint64Array(1))[0], 1n);
assert.equal(download(flag, new BigUint64Array(1))[0], 123n);
ok(rt.synchronize_stream(b));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("A waited for B; flag 123");
