"use strict";
/** 0_launch_kernel: a binary, an argument list with values, and one with a placeholder whose bytes travel with the launch. */
const assert = require("node:assert/strict");
const { acl, rt, download, init, launch, loadKernels, ok, upload, util } = require("./common.cjs");

const COUNT = 1000;
init();
ok(rt.set_device(0));
const binary = loadKernels();
const stream = ok(rt.create_stream());
const a = Float32Array.from({ length: COUNT }, (_, i) => i / 7);
const b = Float32Array.from({ length: COUNT }, (_, i) => 3 - i / 11);
const [x, y, z] = [upload(a), upload(b), ok(rt.malloc(4 * COUNT, 0))];
const check = () => {
  const sum = download(z, new Float32Array(COUNT));
  for (let i = 0; i < COUNT; i++) assert.ok(Math.abs(sum[i] - (i / 7 + 3 - i / 11)) <= 1e-3);
  ok(rt.memset(z, 4 * COUNT, 0, 4 * COUNT));
};
ok(launch(stream, "AddDo", [x, y, z, COUNT], 8));
ok(rt.synchronize_stream(stream));
check();

// y travels with the launch: the placeholder's buffer is part of the arguments.
const kernel = ok(rt.binary_get_function(binary, "AddDo"));
const list = ok(rt.kernel_args_init(kernel));
const address = (value) => BigUint64Array.of(BigInt(value));
ok(rt.kernel_args_append(list, address(x), 8));
const place = ok(rt.kernel_args_append_place_holder(list));
ok(rt.kernel_args_append(list, address(z), 8));
ok(rt.kernel_args_append(list, Int32Array.of(COUNT), 4));
const buffer = ok(rt.kernel_args_get_place_holder_buffer(list, place, 4 * COUNT));
ok(rt.memcpy(buffer, 4 * COUNT, util.bytes_to_ptr(b), 4 * COUNT, 0));
ok(rt.kernel_args_finalize(list));
ok(rt.launch_kernel_with_config(kernel, 4, stream, [], list));
ok(rt.synchronize_stream(stream));
check();
ok(rt.binary_unload(binary));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("z matches twice");
