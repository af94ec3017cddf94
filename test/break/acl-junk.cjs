"use strict";
/**
 * Junk for every call of npurt/acl and npurt/rt, in a process of its own: `node acl-junk.cjs DRIVER SEED ROUNDS`. Prints one JSON line of what was wrong:
 * a call that threw, a result of another shape, a code that no table knows, an error of our own (500000).
 * The last call is kept in a file (JUNK_LAST), so that one that hangs has a name.
 */
const fs = require("node:fs");
const path = require("node:path");
const { inspect } = require("node:util");
const dist = path.join(__dirname, "../../dist/lib");
const { acl } = require("npurt/acl");
const { rt: rtFace } = require("npurt/rt");
const { tableRows } = require(path.join(dist, "acl/table"));
const { errorEntries } = require(path.join(dist, "errors/table"));
const { Random } = require(path.join(dist, "host/random"));
const { rt, util } = acl;

const known = new Set(errorEntries().map(({ code }) => code));
const [driver, seed, rounds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const random = new Random(seed);
const pick = (list) => list[random.below(list.length)];
const MEMORY = 24 * 2 ** 20;
const config = process.env.JUNK_CONFIG;
fs.writeFileSync(config, JSON.stringify({ emulator: { driver, cores: 2, memory: MEMORY, devices: 2 } }));

/** Of these the process state is made of: called between others they would leave nothing to test. They have rounds of their own, at the end. */
const STATE = /^(init|finalize|finalize_reference|rt\.reset_device(_force)?|rt\.snap_shot_process_lock|rt.rtDeviceReset|rt\/rtDeviceReset)$/;
/** Waits in real time: their limit must be short. */
const LIMIT = /timeout|^ms$|seconds/i;
const MOST_MS = 3;

/** On worker cores only what belongs to kernels and returns at once: whoever waits there for what never comes waits for ever, as on a card. */
const KERNELS = /binary|kernel|function|symbol|exception|res_limit/;

/** A module whose functions do nothing, trap, and take (i32, i64, f32): junk arguments can not make them write anywhere. */
const MODULE = "AGFzbQEAAAABCgJgAABgA39+fQACEAEDZW52Bm1lbW9yeQIDAQEDBAMAAAEHGQMHTm90aGluZwAABFRyYXAAAQRUYWtlAAIKCwMCAAsDAAALAgAL";

function kernelHandles() {
  const bytes = Buffer.from(MODULE, "base64");
  const [binary] = rt.binary_load_from_data(bytes, bytes.length, []);
  const functions = ["Nothing", "Trap", "Take"].map((name) => rt.binary_get_function(binary, name)[0]);
  const lists = functions.map((one) => rt.kernel_args_init(one)[0]);
  const places = [rt.kernel_args_append(lists[2], new Uint8Array(4), 4)[0], rt.kernel_args_append_place_holder(lists[2])[0]];
  rt.kernel_args_finalize(lists[0]);
  return [binary, ...functions, ...lists, ...places];
}

let made = {};
/** Handles of every kind, live and gone, and addresses good and bad. */
function prepare() {
  acl.init(config);
  rt.set_device(0);
  const value = (result) => (Array.isArray(result) ? result[0] : result);
  const context = value(rt.create_context(0));
  const streams = [rt.create_stream(), rt.create_stream_with_config(3, 0)].map(value);
  const gone = { stream: value(rt.create_stream()), event: value(rt.create_event()), context: value(rt.create_context(1)) };
  rt.destroy_stream(gone.stream);
  rt.destroy_event(gone.event);
  rt.destroy_context(gone.context);
  rt.set_context(context);
  const handles = [
    ...streams,
    context,
    ...Object.values(gone),
    ...[rt.create_event(), rt.create_event_with_flag(9), rt.create_event_ex_with_flag(1), rt.create_notify(0), rt.cnt_notify_create(0)].map(value),
    ...[rt.mem_pool_create({}), rt.malloc_physical(2 ** 21, { location: { id: 0, type: 1 } }, 0), rt.create_stream_config_handle()].map(value),
  ];
  const freed = value(rt.malloc(64, 0));
  rt.free(freed);
  const view = new Uint8Array(64);
  const addresses = [
    value(rt.malloc(4096, 0)),
    value(rt.malloc_host(4096)),
    value(rt.reserve_mem_address(2 ** 21, 0, 0, 0)),
    util.bytes_to_ptr(view),
    freed,
  ];
  if (driver === "threads") handles.push(...kernelHandles());
  made = { handles, addresses: [...addresses, ...addresses.map((one) => one + 8), addresses[0] + 4090], view };
}

const NUMBERS = [
  0,
  1,
  2,
  3,
  4,
  8,
  10,
  64,
  4096,
  -1,
  -(2 ** 31),
  2 ** 31,
  2 ** 32,
  2 ** 32 + 1,
  2 ** 40,
  2 ** 44,
  2 ** 46,
  2 ** 52,
  Number.MAX_SAFE_INTEGER,
];
const ODD = [
  Number.NaN,
  1.5,
  Number.POSITIVE_INFINITY,
  -0,
  10n,
  -(2n ** 63n),
  undefined,
  null,
  "",
  "x",
  true,
  {},
  [],
  Symbol("s"),
  () => 0,
  new Date(0),
];
const TEXTS = ["", "x", "runtime", "\0", "../../etc", "a".repeat(5000), "npurt", "{}", "file.js#name", "\ud800"];

/** An argument: mostly of the type that is asked for, so that the call itself gets to see it. */
function argument({ name, type }, call) {
  if (random.below(12) === 0) return pick(ODD);
  if (type.startsWith("a list"))
    return Array.from({ length: random.below(4) }, () => argument({ name, type: type.slice(type.indexOf("item ") + 5) }, call));
  // Serving callbacks for ever (-1) is what nobody would end here.
  if (LIMIT.test(name)) return pick([0, 1, MOST_MS, -2, /process_/.test(call) ? -3 : -1]);
  if (type.includes("handle")) return pick([...made.handles, ...NUMBERS, pick(made.handles) + 1, pick(made.handles) + 2 ** 16, pick(made.addresses)]);
  if (type.includes("address")) return random.below(4) === 0 ? made.view : pick([...made.addresses, ...NUMBERS, pick(made.handles)]);
  if (type.includes("integer")) return random.below(3) === 0 ? pick([...made.addresses, ...made.handles]) : pick(NUMBERS);
  if (type.includes("function")) return pick([() => 0, (x) => x?.y, "nobody", () => rt.create_stream(), fail]);
  if (type.includes("string")) return pick(TEXTS);
  if (type.includes("object"))
    return pick([
      {},
      { type: 1, value: 1 },
      { id: 7, value: -1 },
      { location: {} },
      { numAttrs: 2 ** 40, attrs: [{}] },
      { a: null },
      Object.create(null),
    ]);
  if (type.includes("Buffer")) return pick([made.view, new Float64Array(0), Buffer.from("x"), new DataView(new ArrayBuffer(3))]);
  return pick([...NUMBERS, ...ODD, made.view]);
}

function fail() {
  throw new Error("on purpose");
}
const show = (name, args) => `${name}(${args.map((one) => inspect(one, { depth: 1, maxStringLength: 40, maxArrayLength: 4 })).join(", ")})`;
const wrong = [];
const told = new Set();
function complain(name, args, what) {
  const key = `${name}: ${what}`.slice(0, 120);
  if (!told.has(key)) {
    told.add(key);
    wrong.push(`${show(name, args)}: ${what}`);
  }
}

const last = fs.openSync(process.env.JUNK_LAST, "w");
const functionOf = (name) => (name.startsWith("rt/") ? rtFace[name.slice(3)] : name.split(".").reduce((at, part) => at[part], acl));

/** Codes are known numbers; a bare value is anything. 500000 says that something inside went wrong that nobody thought of. */
function checkResult({ name, call }, args, result) {
  if (call.returns === "value") return;
  const code = Array.isArray(result) ? result.at(-1) : result;
  const shaped =
    call.returns === "ret" ? !Array.isArray(result) : Array.isArray(result) && result.length >= (call.returns === "[value, ret]" ? 2 : 1);
  if (!shaped || typeof code !== "number" || !(code === 0 || known.has(code))) complain(name, args, `answers ${String(result)}`);
  // stop_thread says so by design when a thread's function threw.
  if (code === 500000 && name !== "util.stop_thread") complain(name, args, `answers 500000: ${acl.get_recent_err_msg()}`);
}

function check(row) {
  const { name, call } = row;
  const args = call.args.map((one) => argument(one, name));
  const few = random.below(25) === 0 ? args.slice(1) : args;
  fs.writeSync(last, show(name, few).slice(0, 400).padEnd(400), 0);
  let result;
  try {
    result = functionOf(name)(...few);
  } catch (error) {
    complain(name, few, `threw ${error.stack ?? error}`);
    return;
  }
  checkResult(row, few, result);
}

/** The device is as good as new: memory goes there and back in stream order. */
function works() {
  rt.snap_shot_process_restore();
  rt.snap_shot_process_unlock();
  while (acl.finalize_reference().at(-1) === 0);
  if (acl.init(config) !== 0 || rt.set_device(0) !== 0) throw new Error(`no device after the junk: ${acl.get_recent_err_msg()}`);
  const [stream] = rt.create_stream();
  const [address] = rt.malloc(4096, 0);
  const back = new Uint8Array(4096);
  const codes = [rt.memset_async(address, 4096, 77, 4096, stream), rt.synchronize_stream(stream), rt.memcpy(back, 4096, address, 4096, 2)];
  if (codes.some((code) => code !== 0) || back.some((byte) => byte !== 77))
    throw new Error(`the device does not work after the junk: ${codes}, ${acl.get_recent_err_msg()}`);
}

const rows = tableRows().filter(({ name, call }) => driver !== "threads" || (KERNELS.test(name) && !call.blocks));
prepare();
for (let round = 0; round < rounds; round++) {
  for (const row of rows) {
    if (!STATE.test(row.name)) check(row);
  }
  if (driver === "threads") rt.synchronize_device_with_timeout(2000); // what was launched traps or returns
  if (round % 4 === 3) {
    while (acl.finalize_reference().at(-1) === 0);
    prepare();
  }
}
for (let round = 0; round < 3 * rounds; round++) {
  for (const row of rows) {
    if (STATE.test(row.name)) check(row);
  }
}
works();
acl.finalize();
console.log(JSON.stringify(wrong));
