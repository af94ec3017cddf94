"use strict";
/** 0_hello_cann: init, device, stream, tensors, one add, synchronize, free. */
const assert = require("node:assert/strict");
const { acl, rt, download, init, launch, loadKernels, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
const stream = ok(rt.create_stream());
const x = upload(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8));
const y = upload(Float32Array.of(0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4));
const z = ok(rt.malloc(32, 0));
const binary = loadKernels();
ok(launch(stream, "AddDo", [x, y, z, 8]));
ok(rt.synchronize_stream(stream));
const sum = [...download(z, new Float32Array(8))];
assert.deepEqual(sum, [1.5, 3, 4.5, 6, 7.5, 9, 10.5, 12]);
for (const address of [x, y, z]) ok(rt.free(address));
ok(rt.binary_unload(binary));
ok(rt.destroy_stream(stream));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log(sum.join(" "));
