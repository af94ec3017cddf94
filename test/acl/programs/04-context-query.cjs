"use strict";
/** 0_context_query, and the walk-through of the programming model: the current context asserted after each line. */
const assert = require("node:assert/strict");
const { acl, rt, init, ok } = require("./common.cjs");

const NA = 107002;
/** The handle of the current context, or NA. */
function current() {
  const [handle, code] = rt.get_context();
  return code === 0 ? handle : code;
}

// at first the thread has no context
assert.equal(current(), NA);
init();
assert.equal(current(), NA);
ok(rt.set_device(0)); // makes the default context and binds it
const standard = current();
assert.notEqual(standard, NA);
assert.equal(ok(rt.get_primary_ctx_state(0))[0], 1);
assert.notEqual(ok(rt.ctx_get_current_default_stream()), 0);
for (const type of [0, 1]) assert.ok(ok(rt.get_res_in_current_thread(type)) > 0);

const ctx1 = ok(rt.create_context(0)); // binds ctx1
assert.equal(current(), ctx1);
const currentCtx = ok(rt.get_context());
assert.equal(currentCtx, ctx1);
assert.equal(current(), ctx1);
const ctx2 = ok(rt.create_context(0)); // binds ctx2
assert.equal(current(), ctx2);
ok(rt.set_context(currentCtx)); // back to ctx1
assert.equal(current(), ctx1);
ok(rt.set_context(ctx2));
assert.equal(current(), ctx2);
ok(rt.destroy_context(ctx2)); // the thread is bound to ctx2: it has none now
assert.equal(current(), NA);
assert.equal(rt.create_stream().at(-1), NA);
ok(rt.set_context(ctx1));
assert.equal(current(), ctx1);
assert.equal(rt.set_context(ctx2), NA); // destroyed: the binding stays as it was
assert.equal(current(), ctx1);
ok(rt.destroy_context(ctx1));
assert.equal(current(), NA);
assert.equal(rt.destroy_context(standard), NA); // the default context is not the user's to destroy
ok(rt.reset_device_force(0));
assert.equal(current(), NA);
assert.equal(rt.set_context(standard), NA);
ok(acl.finalize());
console.log("every line left the context that the manual says");
