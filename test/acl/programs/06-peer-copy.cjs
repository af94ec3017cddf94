"use strict";
/** 2_device_P2P: a value goes from device 0 to device 1 and from there to the host. */
const assert = require("node:assert/strict");
const { acl, rt, codeOf, download, init, ok, upload } = require("./common.cjs");

init({ devices: 2 });
ok(rt.set_device(0));
const source = upload(Int32Array.of(103));
ok(rt.set_device(1));
const target = ok(rt.malloc(4, 0));
assert.equal(ok(rt.device_can_access_peer(1, 0)), 1);
assert.equal(rt.memcpy(target, 4, source, 4, 3), 107000); // no access yet
assert.equal(ok(rt.device_peer_access_status(1, 0)), 0);
ok(rt.device_enable_peer_access(0, 0));
assert.equal(ok(rt.device_peer_access_status(1, 0)), 1);
assert.equal(ok(rt.device_peer_access_status(0, 1)), 0); // one way
assert.notEqual(rt.device_enable_peer_access(0, 0), 0); // twice
assert.equal(rt.device_enable_peer_access(1, 0), 107000); // itself
ok(rt.memcpy(target, 4, source, 4, 3));
assert.deepEqual(download(target, new Int32Array(1)), Int32Array.of(103));
ok(rt.memset(target, 4, 0, 4));
const stream = ok(rt.create_stream());
ok(rt.memcpy_async(target, 4, source, 4, 3, stream));
ok(rt.synchronize_stream(stream));
assert.deepEqual(download(target, new Int32Array(1)), Int32Array.of(103));
ok(rt.device_disable_peer_access(0));
assert.notEqual(rt.device_disable_peer_access(0), 0);
assert.equal(codeOf(rt.memcpy(target, 4, source, 4, 3)), 107000);
ok(rt.reset_device(1));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("device 0 -> device 1 -> host: 103");
