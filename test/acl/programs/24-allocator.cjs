"use strict";
/**
 * 0_custom_allocator: an allocator of one's own is bound to a stream. Asked for as the stream's, it gives 256 bytes and, advised, 128, and takes both back;
 * then the runtime uses it for the data of two launches.
 */
const assert = require("node:assert/strict");
const { acl, rt, download, init, kernelFile, ok } = require("./common.cjs");

init();
ok(rt.set_device(0));
const stream = ok(rt.create_stream());
const calls = [];
const owner = { live: 0 };
const allocate = (size) => {
  owner.live++;
  return { address: ok(rt.malloc(size, 0)) };
};
const functions = {
  alloc(object, size) {
    assert.equal(object, owner);
    calls.push(`alloc ${size}`);
    return allocate(size);
  },
  advise(object, size, address) {
    assert.equal(object, owner);
    assert.ok(address > 0);
    calls.push(`advise ${size}`);
    return allocate(size);
  },
  free(object, block) {
    calls.push("free");
    object.live--;
    ok(rt.free(block.address));
  },
  addressOf: (block) => block.address,
};
const descriptor = rt.allocator_create_desc();
ok(rt.allocator_set_obj_to_desc(descriptor, owner));
ok(rt.allocator_set_alloc_func_to_desc(descriptor, functions.alloc));
ok(rt.allocator_set_free_func_to_desc(descriptor, functions.free));
ok(rt.allocator_set_alloc_advise_func_to_desc(descriptor, functions.advise));
ok(rt.allocator_set_get_addr_from_block_func_to_desc(descriptor, functions.addressOf));
ok(rt.allocator_register(stream, descriptor));
const [freeBefore] = ok(rt.get_mem_info(1));

// As the stream's allocator: two blocks, the second one advised, and both back.
const [found, object, alloc, free, advise, addressOf] = ok(rt.allocator_get_by_stream(stream));
assert.equal(found, descriptor);
const first = alloc(object, 256);
const second = advise(object, 128, addressOf(first));
ok(rt.memset_async(addressOf(second), 128, 1, 128, stream));
ok(rt.synchronize_stream(stream));
for (const block of [first, second]) free(object, block);
assert.deepEqual(calls.splice(0), ["alloc 256", "advise 128", "free", "free"]);

// By the runtime: data of a launch that its stream has no room for.
const BYTES = 4096;
const binary = ok(rt.binary_load_from_file(kernelFile(), []));
const sumBytes = ok(rt.binary_get_function(binary, "SumBytes"));
const total = ok(rt.malloc(4, 0));
const list = ok(rt.kernel_args_init(sumBytes));
const place = ok(rt.kernel_args_append_place_holder(list));
ok(rt.kernel_args_append(list, Int32Array.of(BYTES), 4));
ok(rt.kernel_args_append(list, BigUint64Array.of(BigInt(total)), 8));
const buffer = ok(rt.kernel_args_get_place_holder_buffer(list, place, BYTES));
ok(rt.kernel_args_finalize(list));
for (const value of [3, 5]) {
  ok(rt.memset(buffer, BYTES, value, BYTES));
  ok(rt.launch_kernel_with_config(sumBytes, 1, stream, [], list));
  ok(rt.synchronize_stream(stream));
  assert.equal(download(total, new Int32Array(1))[0], value * BYTES);
}
assert.deepEqual(calls, [`alloc ${BYTES}`, "free", `advise ${BYTES}`, "free"]);
assert.equal(owner.live, 0);
ok(rt.binary_unload(binary));
ok(rt.free(total));
assert.equal(ok(rt.get_mem_info(1))[0], freeBefore);
ok(rt.allocator_unregister(stream));
assert.equal(rt.allocator_get_by_stream(stream).at(-1), 107000);
ok(rt.allocator_destroy_desc(descriptor));
ok(rt.destroy_stream(stream));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("alloc 256, advise 128, two frees; the same for the data of two launches");
