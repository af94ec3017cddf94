"use strict";
/**
 * 7_ and 8_physical_memory_sharing, 10_ and 11_ipc_memory: one thread exports memory that holds 123, another one imports it and reads 123; with a white
 * list of processes and without. A second process is refused with 207000 and the reason, as its devices are its own.
 */
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { isMainThread } = require("node:worker_threads");
const { acl, rt, codeOf, download, init, ok, upload, util } = require("./common.cjs");

const UNIT = 2 ** 21;
const NO_WHITE_LIST = 1;
const PROP = { handleType: 0, allocationType: 0, memAttr: 1, location: { id: 0, type: 1 }, reserve: 0 };
const read = (address) => download(address, new Int32Array(1))[0];

/** The importing thread: physical memory by its shareable handle, or device memory by its key. */
function importer(shareable, key) {
  ok(rt.set_device(0));
  if (shareable !== 0) {
    const handle = ok(rt.mem_import_from_shareable_handle(shareable, 0));
    const range = ok(rt.reserve_mem_address(UNIT, 0, 0, 0));
    ok(rt.map_mem(range, UNIT, 0, handle, 0));
    assert.equal(read(range), 123);
    ok(rt.unmap_mem(range));
    ok(rt.free_physical(handle));
    ok(rt.release_mem_address(range));
  } else {
    const address = ok(rt.ipc_mem_import_by_key(key, 0));
    assert.equal(read(address), 123);
    ok(rt.ipc_mem_close(key));
  }
  ok(rt.reset_device(0));
}

/** Who is not on the white list: 507022. */
function refused(shareable, key) {
  ok(rt.set_device(0));
  assert.equal(codeOf(shareable !== 0 ? rt.mem_import_from_shareable_handle(shareable, 0) : rt.ipc_mem_import_by_key(key, 0)), 507022);
  ok(rt.reset_device(0));
}

function inThread(name, shareable, key) {
  ok(util.stop_thread(ok(util.start_thread(`${__filename}#${name}`, [shareable, key]))));
}

/** What another process is answered: the code, and whether the message says why. */
function inProcess(shareable, key) {
  const printed = execFileSync(process.execPath, [__filename, String(shareable), key], { encoding: "utf8" });
  assert.deepEqual(JSON.parse(printed), [207000, true]);
}

function main() {
  init();
  ok(rt.set_device(0));
  const mine = ok(rt.device_get_bare_tgid());
  const range = ok(rt.reserve_mem_address(UNIT, 0, 0, 0));
  const physical = ok(rt.malloc_physical(UNIT, PROP, 0));
  ok(rt.map_mem(range, UNIT, 0, physical, 0));
  ok(rt.memcpy(range, 4, Int32Array.of(123), 4, 1));

  const listed = ok(rt.mem_export_to_shareable_handle(physical, 0, 0));
  inThread("refused", listed, "");
  ok(rt.mem_set_pid_to_shareable_handle(listed, [mine]));
  inThread("importer", listed, "");
  const open = ok(rt.mem_export_to_shareable_handle(physical, 0, NO_WHITE_LIST));
  inThread("importer", open, "");
  inProcess(open, "-");
  ok(rt.unmap_mem(range));
  ok(rt.free_physical(physical));
  ok(rt.release_mem_address(range));

  const memory = upload(Int32Array.of(123));
  const key = ok(rt.ipc_mem_get_export_key(memory, 4, 65, 0));
  inThread("refused", 0, key);
  ok(rt.ipc_mem_set_import_pid(key, [mine]));
  inThread("importer", 0, key);
  inThread("importer", 0, ok(rt.ipc_mem_get_export_key(memory, 4, 65, NO_WHITE_LIST)));
  inProcess(0, key);
  ok(rt.free(memory));
  ok(rt.reset_device(0));
  ok(acl.finalize());
  console.log("the importing thread reads 123, by handle and by key; not listed: 507022; another process: 207000");
}

/** The second process. */
function elsewhere(shareable, key) {
  init();
  ok(rt.set_device(0));
  const code = codeOf(shareable !== 0 ? rt.mem_import_from_shareable_handle(shareable, 0) : rt.ipc_mem_import_by_key(key, 0));
  console.log(JSON.stringify([code, /an emulated device lives in one process/.test(acl.get_recent_err_msg())]));
  ok(rt.reset_device(0));
  ok(acl.finalize());
}

module.exports = { importer, refused };
if (isMainThread) {
  if (process.argv.length > 2) elsewhere(Number(process.argv[2]), process.argv[3]);
  else main();
}
