"use strict";
/** The snippets on streams, memory, pools and transfers, in the rtXxx style; kernels are in programs of their own. */
const assert = require("node:assert/strict");
const { acl, init, ok } = require("./common.cjs");
const { rt, RT_MEMALLOC_DEFAULT, RT_MEMCPY_HOST_TO_DEVICE, RT_MEMCPY_DEVICE_TO_HOST } = require("npurt/rt");

const MIB = 2 ** 20;
init({ memory: 160 * MIB });
ok(rt.rtSetDevice(0));

// One stream keeps the order of what is submitted to it.
const st = ok(rt.rtStreamCreate(0));
const log = ok(rt.rtMalloc(8, RT_MEMALLOC_DEFAULT));
for (let i = 1; i <= 100; i++) ok(acl.rt.value_write(log, i, 0, st));
ok(rt.rtStreamSynchronize(st));
const seen = new BigUint64Array(1);
ok(rt.rtMemcpy(seen, log, 8, RT_MEMCPY_DEVICE_TO_HOST));
assert.equal(seen[0], 100n);

// Four streams for four independent requests.
const streams = [0, 1, 2, 3].map(() => ok(rt.rtStreamCreate(0)));
const slots = streams.map(() => ok(rt.rtMalloc(64, RT_MEMALLOC_DEFAULT)));
streams.forEach((stream, i) => ok(acl.rt.memset_async(slots[i], 64, i + 1, 64, stream)));
ok(rt.rtDeviceSynchronize());
for (const [i, slot] of slots.entries()) {
  const bytes = new Uint8Array(64);
  ok(rt.rtMemcpy(bytes, slot, 64, RT_MEMCPY_DEVICE_TO_HOST));
  assert.ok(bytes.every((byte) => byte === i + 1));
}

// Across streams an event keeps the order.
const evt = ok(rt.rtEventCreate());
ok(acl.rt.memset_async(slots[0], 64, 77, 64, streams[0]));
ok(rt.rtEventRecord(evt, streams[0]));
ok(rt.rtStreamWaitEvent(streams[1], evt));
ok(acl.rt.memcpy_async(slots[1], 64, slots[0], 64, 3, streams[1]));
ok(rt.rtStreamSynchronize(streams[1]));
const copied = new Uint8Array(64);
ok(rt.rtMemcpy(copied, slots[1], 64, RT_MEMCPY_DEVICE_TO_HOST));
assert.ok(copied.every((byte) => byte === 77));

// 64 MiB of device memory, and back.
const ptr = ok(rt.rtMalloc(64 * MIB, RT_MEMALLOC_DEFAULT));
ok(rt.rtFree(ptr));
assert.equal(rt.rtFree(ptr), 107000);

// A pool: the runtime is asked once, blocks come from the pool.
const poolSize = 32 * MIB;
const pool = ok(rt.rtMalloc(poolSize, RT_MEMALLOC_DEFAULT));
const [freeBefore] = ok(acl.rt.get_mem_info(1));
const blocks = Array.from({ length: 32 }, () => ok(rt.mem_pool_alloc(pool, poolSize, MIB)));
assert.equal(new Set(blocks).size, 32);
assert.ok(blocks.every((block) => block >= pool && block + MIB <= pool + poolSize));
assert.equal(rt.mem_pool_alloc(pool, poolSize, 1).at(-1), 207001); // it is full
for (const block of blocks) ok(rt.mem_pool_free(pool, block));
assert.equal(rt.mem_pool_free(pool, blocks[0]), 107000);
const whole = ok(rt.mem_pool_alloc(pool, poolSize, poolSize)); // the holes have grown together
ok(rt.mem_pool_free(pool, whole));
assert.equal(ok(acl.rt.get_mem_info(1))[0], freeBefore);
ok(rt.rtFree(pool));

// A transfer that blocks, and one that does not.
const host = new Uint8Array(10 * MIB).fill(5);
const dev = ok(rt.rtMalloc(10 * MIB, RT_MEMALLOC_DEFAULT));
ok(rt.rtMemcpy(dev, host, 10 * MIB, RT_MEMCPY_HOST_TO_DEVICE));
const pinned = ok(rt.rtMallocHost(10 * MIB));
ok(acl.rt.memset(pinned, 10 * MIB, 6, 10 * MIB));
ok(rt.rtMemcpyAsync(dev, pinned, 10 * MIB, RT_MEMCPY_HOST_TO_DEVICE, st));
const next = new Uint8Array(1000).fill(7); // the host prepares the next batch meanwhile
ok(rt.rtStreamSynchronize(st));
const back = new Uint8Array(10 * MIB);
ok(rt.rtMemcpy(back, dev, 10 * MIB, RT_MEMCPY_DEVICE_TO_HOST));
assert.ok(back.every((byte) => byte === 6) && next[0] === 7);

for (const stream of [st, ...streams]) ok(rt.rtStreamDestroy(stream));
ok(rt.rtDeviceReset(0));
ok(acl.finalize());
console.log("streams, event, pool and transfers as in the article");
