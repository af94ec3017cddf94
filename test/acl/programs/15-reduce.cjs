"use strict";
/** built_in_task/0_reduce_task: the copy engine folds one array into another in stream order: sum, then maximum and minimum. */
const assert = require("node:assert/strict");
const { acl, rt, codeOf, download, init, ok, upload } = require("./common.cjs");

const [SUM, MAX, MIN] = [10, 11, 12];
const FLOAT = 0;
init();
ok(rt.set_device(0));
const stream = ok(rt.create_stream());
const fold = (kind, into, from) => {
  const [target, source] = [upload(Float32Array.from(into)), upload(Float32Array.from(from))];
  ok(rt.reduce_async(target, source, 4 * into.length, kind, FLOAT, stream));
  ok(rt.synchronize_stream(stream));
  assert.deepEqual(download(source, new Float32Array(from.length)), Float32Array.from(from)); // only the target changes
  return [...download(target, new Float32Array(into.length))];
};
const sum = fold(SUM, [1, 2, 3, 4], [1, 2, 3, 4]);
assert.deepEqual(sum, [2, 4, 6, 8]);
assert.deepEqual(fold(MAX, [1, -5, 3, 7], [2, -6, 3, -7]), [2, -5, 3, 7]);
assert.deepEqual(fold(MIN, [1, -5, 3, 7], [2, -6, 3, -7]), [1, -6, 3, -7]);
const [x, y] = [upload(new Float32Array(4)), upload(new Float32Array(4))];
assert.equal(codeOf(rt.reduce_async(x, y, 16, 99, FLOAT, stream)), 107000); // no such fold
assert.equal(codeOf(rt.reduce_async(x, y, 16, SUM, 999, stream)), 107000); // no such dtype
ok(rt.destroy_stream(stream));
ok(rt.reset_device(0));
ok(acl.finalize());
console.log(sum.join(" "));
