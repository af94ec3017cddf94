"use strict";
/** The six copy programs (host to device, device to host, device to device; now and in stream order) as one table; host to host is for memcpy only. */
const assert = require("node:assert/strict");
const { acl, rt, codeOf, init, ok, util } = require("./common.cjs");

const SIZE = 4096;
init();
ok(rt.set_device(0));
const stream = ok(rt.create_stream());
const bytes = Uint8Array.from({ length: SIZE }, (_, i) => (i * 31) & 255);
const places = {
  host: () => ok(rt.malloc_host(SIZE)),
  pageable: () => util.bytes_to_ptr(keep(new Uint8Array(SIZE))),
  device: () => ok(rt.malloc(SIZE, 0)),
};
const kept = [];
const keep = (buffer) => {
  kept.push(buffer);
  return buffer;
};
const kinds = { "host device": 1, "pageable device": 1, "device host": 2, "device pageable": 2, "device device": 3 };
for (const [pair, kind] of Object.entries(kinds)) {
  const [from, to] = pair.split(" ");
  for (const queued of [false, true]) {
    const [source, target] = [places[from](), places[to]()];
    ok(rt.memcpy(source, SIZE, bytes, SIZE, 4));
    if (queued) {
      ok(rt.memcpy_async(target, SIZE, source, SIZE, kind, stream));
      ok(rt.synchronize_stream(stream));
    } else {
      ok(rt.memcpy(target, SIZE, source, SIZE, kind));
    }
    const seen = new Uint8Array(SIZE);
    ok(rt.memcpy(seen, SIZE, target, SIZE, 4));
    assert.deepEqual(seen, bytes, `${pair} ${queued}`);
  }
}
const [a, b] = [places.host(), places.host()];
ok(rt.memcpy(a, SIZE, bytes, SIZE, 0));
ok(rt.memcpy(b, SIZE, a, SIZE, 0));
assert.deepEqual(util.ptr_to_bytes(b, SIZE), Buffer.from(bytes));
assert.equal(codeOf(rt.memcpy_async(b, SIZE, a, SIZE, 0, stream)), 207000);
ok(rt.reset_device(0));
ok(acl.finalize());
console.log("ten copies equal byte for byte; host to host in a stream: 207000");
