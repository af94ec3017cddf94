"use strict";
/** 2_system_info: versions, run mode, half precision, sizes of dtypes. */
const assert = require("node:assert/strict");
const { acl, rt, init, ok } = require("./common.cjs");

init();
const version = ok(acl.get_version_str("runtime"));
assert.match(version, /^\d+\.\d+\.\d+$/);
assert.ok(ok(acl.get_version_num("runtime")) >= 1e7);
assert.equal(ok(rt.get_run_mode()), 1); // ACL_HOST
assert.equal(acl.float_to_float16(1.625), 0x3e80);
assert.equal(acl.float16_to_float(0x3e80), 1.625);
assert.deepEqual(
  [0, 1, 9].map((dtype) => acl.data_type_size(dtype)),
  [4, 2, 8],
);
assert.equal(acl.get_soc_name(), "Ascend910B3");
ok(acl.finalize());
console.log(`version ${version}, host mode, 1.625 = 0x3e80, 4/2/8 bytes`);
