"use strict";
/**
 * A pipeline of three stages (copy in, compute, copy out) on three streams over two buffers of each kind, in virtual time: a batch comes out every
 * so often as the slowest stage takes, and no buffer is overwritten before its reader is done. Without the events that guard the buffers, one is.
 */
const assert = require("node:assert/strict");
const { acl, rt, init, ok, upload, util } = require("./common.cjs");

const [SUM, INT32] = [10, 3];
const [HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE] = [1, 2, 3];
const BYTES = 4_000_000;
const BATCHES = 8;
const DEPTH = 2;
const PASSES = 20;
/** The chip's figures: bytes per microsecond, and what a task costs at least. */
const CHIP = { soc: "Ascend310P3", deviceToDevice: 204_000, hostToDevice: 12_000, taskUs: 4 };

init({ driver: "sim", soc: CHIP.soc, memory: 160 * 2 ** 20 });
ok(rt.set_device(0));
const streams = { up: ok(rt.create_stream()), work: ok(rt.create_stream()), down: ok(rt.create_stream()) };
const buffers = () => Array.from({ length: DEPTH }, () => ok(rt.malloc(BYTES, 0)));
const [inputs, outputs] = [buffers(), buffers()];
const [source, sink] = [ok(rt.malloc_host(BATCHES * BYTES)), ok(rt.malloc_host(BATCHES * BYTES))];
const weights = upload(new Int32Array(BYTES / 4).fill(3));
const ints = (address) => {
  const bytes = util.ptr_to_view(address, BATCHES * BYTES);
  return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
};
ints(source).forEach((_, at, all) => {
  all[at] = at;
});

/** An event recorded in `stream`. */
function recorded(stream) {
  const event = ok(rt.create_event());
  ok(rt.record_event(event, stream));
  return event;
}

/** All batches through the pipeline. Milliseconds at which each was out, since the first went in. */
function run(guarded) {
  ints(sink).fill(0);
  const begin = recorded(streams.up);
  const [worked, out] = [[], []];
  for (let batch = 0; batch < BATCHES; batch++) {
    const [input, output, before] = [inputs[batch % DEPTH], outputs[batch % DEPTH], batch - DEPTH];
    if (guarded && before >= 0) ok(rt.stream_wait_event(streams.up, worked[before])); // the input has been read
    ok(rt.memcpy_async(input, BYTES, source + batch * BYTES, BYTES, HOST_TO_DEVICE, streams.up));
    ok(rt.stream_wait_event(streams.work, recorded(streams.up)));
    if (guarded && before >= 0) ok(rt.stream_wait_event(streams.work, out[before])); // the output has been fetched
    ok(rt.memcpy_async(output, BYTES, input, BYTES, DEVICE_TO_DEVICE, streams.work));
    for (let pass = 0; pass < PASSES; pass++) ok(rt.reduce_async(output, weights, BYTES, SUM, INT32, streams.work));
    worked.push(recorded(streams.work));
    ok(rt.stream_wait_event(streams.down, worked[batch]));
    ok(rt.memcpy_async(sink + batch * BYTES, BYTES, output, BYTES, DEVICE_TO_HOST, streams.down));
    out.push(recorded(streams.down));
  }
  ok(rt.synchronize_device());
  return out.map((event) => ok(rt.event_elapsed_time(begin, event)));
}

const wrong = () => ints(sink).reduce((count, value, at) => count + (value === at + 3 * PASSES ? 0 : 1), 0);

const ends = run(true);
assert.equal(wrong(), 0);
const slowestMs = ((PASSES + 1) * (BYTES / CHIP.deviceToDevice + CHIP.taskUs)) / 1000;
assert.ok(slowestMs > 1.2 * (BYTES / CHIP.hostToDevice / 1000), "the compute stage is the slowest");
const period = (ends[BATCHES - 1] - ends[1]) / (BATCHES - 2);
assert.ok(Math.abs(period / slowestMs - 1) < 0.1, `period ${period} ms, slowest stage ${slowestMs} ms`);

run(false);
assert.notEqual(wrong(), 0); // nothing but the events kept the buffers
ok(rt.reset_device(0));
ok(acl.finalize());
console.log(`a batch every ${period.toFixed(3)} ms; the slowest stage takes ${slowestMs.toFixed(3)} ms; without the guards buffers are overwritten`);
