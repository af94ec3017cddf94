"use strict";
/** The snippets that launch: three operators on one stream run in order; a batch on one stream; four requests on four streams; a failure on one of them. */
const assert = require("node:assert/strict");
const { acl, init, kernelFile, ok } = require("./common.cjs");
const { rt, RT_MEMALLOC_DEFAULT, RT_MEMCPY_HOST_TO_DEVICE, RT_MEMCPY_DEVICE_TO_HOST } = require("npurt/rt");

init();
ok(rt.rtSetDevice(0));
const binary = ok(rt.rtBinaryLoad(kernelFile()));
const kernel = (name) => ok(rt.rtBinaryGetFunction(binary, name));
const args = (...values) => BigUint64Array.from(values, BigInt); // the struct: 8 bytes each
const word = (value) => {
  const address = ok(rt.rtMalloc(4, RT_MEMALLOC_DEFAULT));
  ok(rt.rtMemcpy(address, Int32Array.of(value), 4, RT_MEMCPY_HOST_TO_DEVICE));
  return address;
};
const read = (address) => {
  const value = new Int32Array(1);
  ok(rt.rtMemcpy(value, address, 4, RT_MEMCPY_DEVICE_TO_HOST));
  return value[0];
};

// rtKernelLaunch(op, st, &args, sizeof(args), nullptr): three operators on one stream, in the order of the calls
const st = ok(rt.rtStreamCreate(0));
const x = word(20);
const one = args(x);
ok(rt.rtKernelLaunch(kernel("EasyOP"), st, one, one.byteLength, null));
ok(rt.rtKernelLaunch(kernel("ShortOP"), st, one, one.byteLength, null));
ok(rt.rtKernelLaunch(kernel("EasyOP"), st, one, one.byteLength, null));
one.fill(0n); // the arguments were taken at the call
ok(rt.rtStreamSynchronize(st));
assert.equal(read(x), (20 + 1) * 2 + 1);

// submit_inference_task for a whole batch on the stream, then one wait
const results = Array.from({ length: 16 }, () => word(0));
results.forEach((result, task) => {
  const list = args(result, task * task);
  ok(rt.rtKernelLaunch(kernel("WriteDo"), st, list, list.byteLength));
});
ok(rt.rtStreamSynchronize(st));
results.forEach((result, task) => {
  assert.equal(read(result), task * task);
});

// a stream per request; blocks of one launch run side by side
const streams = [0, 1, 2, 3].map(() => ok(rt.rtStreamCreate(0)));
const counts = streams.map(() => ok(rt.rtMalloc(4 * 8, RT_MEMALLOC_DEFAULT)));
for (const [i, stream] of streams.entries()) {
  ok(rt.rtMemsetAsync(counts[i], 32, 0, 32, stream));
  const list = args(counts[i]);
  ok(rt.rtKernelLaunch(kernel("CountBlocks"), stream, list, 8, { blocks: 8 }));
}
ok(rt.rtDeviceSynchronize());
for (const count of counts) {
  const blocks = new Int32Array(8);
  ok(rt.rtMemcpy(blocks, count, 32, RT_MEMCPY_DEVICE_TO_HOST));
  assert.deepEqual([...blocks], [1, 1, 1, 1, 1, 1, 1, 1]);
}

// a failure is its stream's: the others do not notice
const list = args(x);
ok(rt.rtKernelLaunch(kernel("ErrorOP"), streams[0], list, 8));
ok(rt.rtKernelLaunch(kernel("RunawayPolling"), streams[1], list, 8, { timeoutUs: 20_000 }));
ok(rt.rtKernelLaunch(kernel("EasyOP"), streams[2], list, 8));
assert.deepEqual(
  streams.map((stream) => rt.rtStreamSynchronize(stream)),
  [507035, 507034, 0, 0],
);
assert.equal(rt.rtKernelLaunch(kernel("EasyOP"), st, list, 4), 107000); // half an argument
assert.equal(rt.rtKernelLaunch(kernel("EasyOP"), st, list, 8, { block: 2 }), 107000); // a misspelled option
assert.equal(rt.rtKernelLaunch(st, st, list, 8), 107017); // a stream is no kernel
assert.equal(rt.rtPeekAtLastError(0), 107017);
ok(rt.rtBinaryUnload(binary));
ok(rt.rtDeviceReset(0));
ok(acl.finalize());
console.log("one stream in order, four side by side, failures where they belong");
