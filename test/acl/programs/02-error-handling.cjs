"use strict";
/** 1_error_handling: a failing call, then the last error and the message, which are gone the second time. */
const assert = require("node:assert/strict");
const { acl, rt, codeOf, init, ok } = require("./common.cjs");

init();
ok(rt.set_device(0));
const ret = codeOf(rt.get_mem_info(-1)); // JavaScript has no null out-parameter: a bad attribute stands for it
const peek = rt.peek_at_last_error(0);
const last = rt.get_last_error(0);
assert.ok(ret !== 0 && ret === peek && peek === last);
const [verbose, code] = rt.get_error_verbose(0);
assert.equal(code, 0);
assert.equal(verbose.code, ret);
assert.match(acl.get_recent_err_msg(), /get_mem_info/);
assert.deepEqual([rt.peek_at_last_error(0), rt.get_last_error(0), acl.get_recent_err_msg()], [0, 0, null]);
ok(rt.reset_device(0));
ok(acl.finalize());
console.log(`ret ${ret} = peek ${peek} = last ${last}; then 0, 0 and no message`);
