"use strict";
/** 1_device_multi_thread: two threads with a context each, one vector core, 1,024 sums; the limit reads back as 1. */
const assert = require("node:assert/strict");
const { isMainThread } = require("node:worker_threads");
const { acl, rt, download, init, launch, loadKernels, ok, upload, util } = require("./common.cjs");

const COUNT = 1024;
const VECTOR_CORE = 1;

/** What each thread does on its device. */
function work(device) {
  ok(rt.set_device(device));
  const context = ok(rt.create_context(device));
  ok(rt.set_device_res_limit(device, VECTOR_CORE, 1));
  assert.equal(ok(rt.get_device_res_limit(device, VECTOR_CORE)), 1);
  assert.equal(ok(rt.get_res_in_current_thread(VECTOR_CORE)), 1);
  loadKernels();
  const stream = ok(rt.create_stream());
  const x = upload(Float32Array.from({ length: COUNT }, (_, i) => i));
  const z = ok(rt.malloc(4 * COUNT, 0));
  ok(launch(stream, "AddDo", [x, x, z, COUNT]));
  ok(rt.synchronize_stream(stream));
  assert.deepEqual(
    download(z, new Float32Array(COUNT)),
    Float32Array.from({ length: COUNT }, (_, i) => 2 * i),
  );
  ok(rt.destroy_stream(stream));
  ok(rt.destroy_context(context));
  ok(rt.reset_device(device));
}

function main() {
  init({ devices: 2 });
  const threads = [0, 1].map((device) => ok(util.start_thread(`${__filename}#work`, [device])));
  for (const thread of threads) ok(util.stop_thread(thread));
  ok(acl.finalize());
  console.log("result[i] = 2 i in both threads; limit 1");
}

module.exports = { work };
if (isMainThread) main();
