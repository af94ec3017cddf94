"use strict";
/** 2_callback_exception: a good and a failing task with an exception callback, which is told ids and code. */
const assert = require("node:assert/strict");
const { acl, rt, download, init, launch, loadKernels, ok, upload, util } = require("./common.cjs");

init();
ok(rt.set_device(0));
loadKernels();
const stream = ok(rt.create_stream());
const answer = upload(new Int32Array(1));
const told = [];
ok(
  rt.set_exception_info_callback((info) => {
    told.push({
      task: rt.get_task_id_from_exception_info(info),
      stream: rt.get_stream_id_from_exception_info(info),
      thread: rt.get_thread_id_from_exception_info(info),
      device: rt.get_device_id_from_exception_info(info),
      code: rt.get_error_code_from_exception_info(info),
    });
  }),
);
ok(launch(stream, "EasyOP", [answer]));
ok(launch(stream, "ErrorOP", [answer]));
const task = ok(rt.get_thread_last_task_id());
assert.equal(rt.synchronize_stream(stream), 507035);
assert.deepEqual(told, [{ task, stream: ok(rt.stream_get_id(stream)), thread: util.get_thread_id(), device: 0, code: 507035 }]);
assert.equal(download(answer, new Int32Array(1))[0], 1);
ok(rt.set_exception_info_callback(null));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log(`task ${task} failed with 507035; the easy result is 1`);
