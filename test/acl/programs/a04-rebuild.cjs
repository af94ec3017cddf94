"use strict";
/**
 * An inference pipeline rebuilt in five steps: naive, then with a pool, streams, fused operators, and transfers that do not block. Every step computes
 * the same requests, and each improves the counter that it is about without giving up what the steps before it gained.
 */
const assert = require("node:assert/strict");
const { acl, init, ok, kernelFile, util } = require("./common.cjs");
const { rt, RT_MEMALLOC_DEFAULT, RT_MEMCPY_HOST_TO_DEVICE, RT_MEMCPY_DEVICE_TO_HOST } = require("npurt/rt");

const [REQUESTS, ROWS, INNER, COLUMNS] = [8, 16, 32, 24];
const POOL_BYTES = 2 ** 20;
init();
ok(rt.rtSetDevice(0));
const binary = ok(rt.rtBinaryLoad(kernelFile()));
const kernels = Object.fromEntries(["MatMul", "AddBias", "Relu", "MatMulAddRelu"].map((name) => [name, ok(rt.rtBinaryGetFunction(binary, name))]));

// ---- what every step works on

const weights = Float32Array.from({ length: INNER * COLUMNS }, (_, i) => ((i * 7) % 11) / 11 - 0.5);
const bias = Float32Array.from({ length: COLUMNS }, (_, i) => i / 24 - 0.5);
const requests = Array.from({ length: REQUESTS }, (_, request) =>
  Float32Array.from({ length: ROWS * INNER }, (__, i) => ((i * 13 + request * 5) % 17) / 17 - 0.5),
);
/** relu(x w + b) in float64. */
const expected = requests.map((x) =>
  Float64Array.from({ length: ROWS * COLUMNS }, (_, at) => {
    const [row, column] = [Math.floor(at / COLUMNS), at % COLUMNS];
    let sum = bias[column];
    for (let k = 0; k < INNER; k++) sum += x[row * INNER + k] * weights[k * COLUMNS + column];
    return Math.max(sum, 0);
  }),
);
const OUT_BYTES = 4 * ROWS * COLUMNS;

/** Counters of one step. */
let counters;
const counted = (counter, work) => {
  counters[counter]++;
  return ok(work());
};
const blocking = (work) => counted("blockingCalls", work);
const malloc = (bytes) => counted("allocations", () => rt.rtMalloc(bytes, RT_MEMALLOC_DEFAULT));
const launch = (kernel, stream, ...args) =>
  counted("launches", () => rt.rtKernelLaunch(kernels[kernel], stream, BigUint64Array.from(args, BigInt), 8 * args.length, { blocks: 2 }));
const upload = (target, array) => blocking(() => rt.rtMemcpy(target, array, array.byteLength, RT_MEMCPY_HOST_TO_DEVICE));
const fetch = (array, source) => blocking(() => rt.rtMemcpy(array, source, array.byteLength, RT_MEMCPY_DEVICE_TO_HOST));

const [w, b] = [weights, bias].map((array) => {
  const address = ok(rt.rtMalloc(array.byteLength, RT_MEMALLOC_DEFAULT));
  ok(rt.rtMemcpy(address, array, array.byteLength, RT_MEMCPY_HOST_TO_DEVICE));
  return address;
});

/** The three operators one after the other, or as one. Returns the bytes that go between them. */
const separate = (stream, x, [product, sum, out]) => {
  launch("MatMul", stream, x, w, product, ROWS, INNER, COLUMNS);
  launch("AddBias", stream, product, b, sum, ROWS, COLUMNS);
  launch("Relu", stream, sum, out, ROWS, COLUMNS);
  counters.bytesBetween += 2 * OUT_BYTES;
};
const fused = (stream, x, [out]) => launch("MatMulAddRelu", stream, x, w, b, out, ROWS, INNER, COLUMNS);

/** Requests that are in flight at once: streams whose first task still waits while the last request is submitted. */
function inFlight(streams) {
  return streams.filter((stream) => ok(rt.rtStreamQuery(stream)) !== 0).length;
}

/** A word that holds streams back until everything is submitted, so that what is in flight can be counted. */
const gate = ok(rt.rtMalloc(8, RT_MEMALLOC_DEFAULT));

// ---- the steps: each returns the results

/** Memory per request and operator, one stream, every call waits. */
function naive() {
  const stream = ok(rt.rtStreamCreate(0));
  const results = requests.map((x) => {
    const input = malloc(x.byteLength);
    const blobs = [0, 1, 2].map(() => malloc(OUT_BYTES));
    upload(input, x);
    separate(stream, input, blobs);
    blocking(() => rt.rtStreamSynchronize(stream));
    counters.inFlight = Math.max(counters.inFlight, 1);
    const out = new Float32Array(ROWS * COLUMNS);
    fetch(out, blobs[2]);
    for (const address of [input, ...blobs]) ok(rt.rtFree(address));
    return out;
  });
  ok(rt.rtStreamDestroy(stream));
  return results;
}

/** As naive, but blocks come from memory that was allocated once. */
function pooled(streamCount = 1, run = separate, blobCount = 3) {
  const pool = malloc(POOL_BYTES);
  const take = (bytes) => ok(rt.mem_pool_alloc(pool, POOL_BYTES, bytes));
  const streams = Array.from({ length: streamCount }, () => ok(rt.rtStreamCreate(0)));
  const results = [];
  for (let first = 0; first < REQUESTS; first += streamCount) {
    ok(rt.rtMemset(gate, 8, 0, 8));
    const group = streams.map((stream, i) => {
      const x = requests[first + i];
      const input = take(x.byteLength);
      const blobs = Array.from({ length: blobCount }, () => take(OUT_BYTES));
      upload(input, x);
      ok(acl.rt.value_wait(gate, 1, 0, stream));
      run(stream, input, blobs);
      return { stream, input, blobs };
    });
    counters.inFlight = Math.max(counters.inFlight, inFlight(streams));
    ok(rt.rtMemset(gate, 8, 1, 1));
    blocking(() => rt.rtDeviceSynchronize());
    for (const { input, blobs } of group) {
      const out = new Float32Array(ROWS * COLUMNS);
      fetch(out, blobs.at(-1));
      results.push(out);
      for (const address of [input, ...blobs]) ok(rt.mem_pool_free(pool, address));
    }
  }
  for (const stream of streams) ok(rt.rtStreamDestroy(stream));
  ok(rt.rtFree(pool));
  return results;
}

/** Pinned memory, transfers in stream order, one wait for all: while one request is computed, another one is on its way. */
function asynchronous() {
  const pool = malloc(POOL_BYTES);
  const take = (bytes) => ok(rt.mem_pool_alloc(pool, POOL_BYTES, bytes));
  const pinned = ok(rt.rtMallocHost(REQUESTS * OUT_BYTES));
  const staged = ok(rt.rtMallocHost(REQUESTS * requests[0].byteLength));
  const streams = Array.from({ length: 4 }, () => ok(rt.rtStreamCreate(0)));
  const buffers = streams.map(() => ({ input: take(requests[0].byteLength), out: take(OUT_BYTES) }));
  requests.forEach((x, i) => {
    util.ptr_to_view(staged + i * x.byteLength, x.byteLength).set(new Uint8Array(x.buffer));
  });
  ok(rt.rtMemset(gate, 8, 0, 8));
  for (const stream of streams) ok(acl.rt.value_wait(gate, 1, 0, stream));
  requests.forEach((x, i) => {
    const [stream, { input, out }] = [streams[i % 4], buffers[i % 4]];
    ok(rt.rtMemcpyAsync(input, staged + i * x.byteLength, x.byteLength, RT_MEMCPY_HOST_TO_DEVICE, stream));
    fused(stream, input, [out]);
    ok(rt.rtMemcpyAsync(pinned + i * OUT_BYTES, out, OUT_BYTES, RT_MEMCPY_DEVICE_TO_HOST, stream));
  });
  counters.inFlight = inFlight(streams);
  ok(rt.rtMemset(gate, 8, 1, 1));
  blocking(() => rt.rtDeviceSynchronize());
  const results = requests.map((_, i) => new Float32Array(Uint8Array.from(util.ptr_to_view(pinned + i * OUT_BYTES, OUT_BYTES)).buffer));
  for (const stream of streams) ok(rt.rtStreamDestroy(stream));
  for (const address of [pinned, staged]) ok(rt.rtFreeHost(address));
  ok(rt.rtFree(pool));
  return results;
}

const steps = [
  ["naive", naive],
  ["pool", () => pooled(), "allocations"],
  ["streams", () => pooled(4), "inFlight"],
  ["fusion", () => pooled(4, fused, 1), "launches"],
  ["async", asynchronous, "blockingCalls"],
];
const better = (counter, now, before) => (counter === "inFlight" ? now > before : now < before);
let previous;
const [freeBefore] = ok(rt.rtMemGetInfo());
for (const [name, step, improved] of steps) {
  counters = { allocations: 0, inFlight: 0, launches: 0, bytesBetween: 0, blockingCalls: 0 };
  const results = step();
  assert.equal(results.length, REQUESTS);
  results.forEach((result, i) => {
    assert.ok(
      result.every((value, at) => Math.abs(value - expected[i][at]) <= 1e-4),
      `${name}: request ${i}`,
    );
  });
  if (previous !== undefined) {
    assert.ok(better(improved, counters[improved], previous[improved]), `${name}: ${improved} ${previous[improved]} -> ${counters[improved]}`);
    for (const counter of Object.keys(counters)) {
      assert.ok(!better(counter, previous[counter], counters[counter]), `${name} gave up ${counter}: ${previous[counter]} -> ${counters[counter]}`);
    }
  }
  assert.equal(ok(rt.rtMemGetInfo())[0], freeBefore, `${name} leaves memory behind`);
  console.log(`${name.padEnd(8)} ${JSON.stringify(counters)}`);
  previous = counters;
}
assert.deepEqual(previous, { allocations: 1, inFlight: 4, launches: REQUESTS, bytesBetween: 0, blockingCalls: 1 });
ok(rt.rtBinaryUnload(binary));
ok(rt.rtDeviceReset(0));
ok(acl.finalize());
