"use strict";
/** 2_multi_stream: two streams in step by stream, event and notify; waits that time out. */
const assert = require("node:assert/strict");
const { acl, rt, download, gate, init, ok, upload } = require("./common.cjs");

init();
ok(rt.set_device(0));
const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
const word = () => upload(new BigUint64Array(1));
const read = (address) => download(address, new BigUint64Array(1))[0];

// Each way: the first stream writes 2, the second copies it; without the wait it would copy 0.
const ways = {
  stream: () => ok(rt.synchronize_stream(first)),
  event: () => {
    const event = ok(rt.create_event());
    ok(rt.record_event(event, first));
    ok(rt.stream_wait_event(second, event));
  },
  notify: () => {
    const notify = ok(rt.create_notify(0));
    ok(rt.record_notify(notify, first));
    ok(rt.wait_and_reset_notify(notify, second, 0));
  },
};
for (const [name, wait] of Object.entries(ways)) {
  const [value, answer] = [word(), word()];
  const work = gate();
  work.hold(first);
  ok(rt.value_write(value, 2, 0, first));
  if (name === "stream") work.open();
  wait();
  ok(rt.memcpy_async(answer, 8, value, 8, 3, second));
  work.open();
  ok(rt.synchronize_stream(second));
  assert.equal(read(answer), 2n, name);
}
const work = gate();
work.hold(first);
const event = ok(rt.create_event());
ok(rt.record_event(event, first));
assert.equal(rt.synchronize_stream_with_timeout(first, 1000), 507046);
assert.equal(rt.synchronize_event_with_timeout(event, 100), 507047);
work.open();
ok(rt.synchronize_stream(first));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("answer 2 three times; 507046 and 507047 on the long task");
