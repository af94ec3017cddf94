"use strict";
/** What the programs share: results checked, memory read and written. Each program runs by itself: `node test/acl/programs/NAME.cjs`. */
const { execFileSync } = require("node:child_process");
const { createHash } = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { acl } = require("npurt/acl");

/** The value of a result whose code is 0 (an array of them if there are several). */
function ok(result) {
  const parts = Array.isArray(result) ? [...result] : [result];
  const code = parts.pop();
  if (code !== 0) throw new Error(`code ${code}: ${acl.get_recent_err_msg()}`);
  return parts.length === 1 ? parts[0] : parts.length === 0 ? undefined : parts;
}

const codeOf = (result) => (Array.isArray(result) ? result.at(-1) : result);

/** Initialises with `emulator` settings; NPURT_ACL_DRIVER chooses another driver. */
function init(emulator = {}) {
  const driver = process.env.NPURT_ACL_DRIVER ?? "threads";
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-program-"));
  const file = path.join(folder, "acl.json");
  fs.writeFileSync(file, JSON.stringify({ emulator: { driver, cores: 2, memory: 64 * 2 ** 20, ...emulator } }));
  try {
    ok(acl.init(file));
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

/** Device memory with the bytes of `array`. */
function upload(array) {
  const address = ok(acl.rt.malloc(array.byteLength, 0));
  ok(acl.rt.memcpy(address, array.byteLength, array, array.byteLength, 1));
  return address;
}

/** Fills `array` from device memory and returns it. */
function download(address, array) {
  ok(acl.rt.memcpy(array, array.byteLength, address, array.byteLength, 2));
  return array;
}

/** A gate that holds streams until it is opened: what a long kernel is for elsewhere. */
function gate() {
  const word = upload(new BigUint64Array(1));
  return {
    hold: (stream) => ok(acl.rt.value_wait(word, 1, 0, stream)),
    open: () => ok(acl.rt.memset(word, 8, 1, 1)),
    close: () => ok(acl.rt.memset(word, 8, 0, 8)),
  };
}

let binary;

/** Path of the helper kernels, which are compiled once per machine. */
function kernelFile() {
  const source = path.join(__dirname, "..", "kernels", "helpers.ts");
  const hash = createHash("sha256").update(fs.readFileSync(source)).digest("hex").slice(0, 16);
  const target = path.join(os.tmpdir(), `npurt-programs-${hash}.wasm`);
  if (!fs.existsSync(target)) {
    const own = `${target}.${process.pid}`; // moved into place, since other programs may build at the same time
    const flags = ["--runtime", "stub", "--importMemory", "--noExportMemory", "--noAssert", "--enable", "threads", "-O3", "--outFile", own];
    execFileSync(process.execPath, [require.resolve("assemblyscript/bin/asc.js"), path.basename(source), ...flags], {
      cwd: path.dirname(source),
      stdio: "pipe",
    });
    fs.renameSync(own, target);
  }
  return target;
}

/** Loads the helper kernels for `launch`. */
function loadKernels() {
  binary = ok(acl.rt.binary_load_from_file(kernelFile(), []));
  return binary;
}

/** Launches a helper kernel: addresses and numbers as its arguments. */
function launch(stream, name, args, blocks = 1) {
  const kernel = ok(acl.rt.binary_get_function(binary, name));
  const list = ok(acl.rt.kernel_args_init(kernel));
  for (const value of args) {
    const bytes = value >= 2 ** 32 ? BigUint64Array.of(BigInt(value)) : Int32Array.of(value);
    ok(acl.rt.kernel_args_append(list, bytes, bytes.byteLength));
  }
  ok(acl.rt.kernel_args_finalize(list));
  return acl.rt.launch_kernel_with_config(kernel, blocks, stream, [], list);
}

module.exports = { acl, rt: acl.rt, util: acl.util, ok, codeOf, init, upload, download, gate, kernelFile, loadKernels, launch };
