"use strict";
/**
 * Three threads that use, exchange and destroy each other's contexts, streams and events, in a process of its own: `node acl-threads.cjs SEED ROUNDS`.
 * Every answer must be one that such a use can have; afterwards the device is as good as new. Prints what was answered, by call and code.
 */
const fs = require("node:fs");
const path = require("node:path");
const { isMainThread } = require("node:worker_threads");
const { acl } = require("npurt/acl");
const { Random } = require(path.join(__dirname, "../../dist/lib/host/random"));
const { rt, util } = acl;

const [SLOTS, BYTES] = [8, 4096];
/** No context, of another context, bad or stale handle, wrong state, out of streams or events, another thread is at it, time-out, aborted, event waits. */
const FINE = new Set([0, 107000, 107002, 107003, 107017, 207000, 207005, 207007, 207008, 507007, 507046, 507047, 107023, 107006]);

/** Handles that all threads see: kinds of SLOTS each. */
class Table {
  constructor(shared) {
    this.words = new BigInt64Array(shared);
    this.kinds = { context: 0, stream: SLOTS, event: 2 * SLOTS, notify: 3 * SLOTS };
  }
  exchange(kind, slot, handle) {
    return Number(Atomics.exchange(this.words, this.kinds[kind] + slot, BigInt(handle)));
  }
  get(kind, slot) {
    return Number(Atomics.load(this.words, this.kinds[kind] + slot));
  }
}

function hammer(seed, rounds, shared) {
  const random = new Random(seed);
  const table = new Table(shared);
  const slot = () => random.below(SLOTS);
  const seen = {};
  /** The value of a result; its code is noted, and must be a fine one. */
  const noted = (name, result) => {
    const code = Array.isArray(result) ? result.at(-1) : result;
    seen[`${name} ${code}`] = (seen[`${name} ${code}`] ?? 0) + 1;
    if (!FINE.has(code)) throw new Error(`${name}: ${code}, ${acl.get_recent_err_msg()}`);
    return code === 0 && Array.isArray(result) ? result[0] : 0;
  };
  noted("set_device", rt.set_device(0));
  const memory = noted("malloc", rt.malloc(BYTES, 0)); // nobody else's: what writes there may come late
  const [stream, event, context, notify] = ["stream", "event", "context", "notify"].map((kind) => () => table.get(kind, slot()));
  const put = (kind, handle, destroy) => {
    const old = table.exchange(kind, slot(), handle);
    if (old !== 0) noted(`destroy ${kind}`, destroy(old));
  };
  const actions = [
    () => put("context", noted("create_context", rt.create_context(0)), rt.destroy_context),
    () => put("stream", noted("create_stream", rt.create_stream()), random.below(2) === 0 ? rt.destroy_stream : rt.destroy_stream_force),
    () => put("event", noted("create_event", rt.create_event()), rt.destroy_event),
    () => put("notify", noted("create_notify", rt.create_notify(0)), rt.destroy_notify),
    // Beside others that do the same: the table keeps the handles.
    () => noted("destroy_stream_force", rt.destroy_stream_force(stream())),
    () => noted("destroy_event", rt.destroy_event(event())),
    () => noted("destroy_notify", rt.destroy_notify(notify())),
    () => noted("set_context", rt.set_context(context())),
    () => noted("set_context", rt.set_context(context())),
    () => noted("memset_async", rt.memset_async(memory, BYTES, random.below(256), BYTES, stream())),
    () => noted("memset_async", rt.memset_async(memory, BYTES, random.below(256), BYTES, 0)),
    () => noted("record_event", rt.record_event(event(), stream())),
    () => noted("stream_wait_event", rt.stream_wait_event(stream(), event())),
    () => noted("synchronize_stream", rt.synchronize_stream_with_timeout(stream(), 20)),
    () => noted("synchronize_event", rt.synchronize_event_with_timeout(event(), 20)),
    () => noted("stream_abort", random.below(4) === 0 ? rt.stream_abort(stream()) : 0),
    () => noted("query", rt.stream_query(stream())),
    () => noted("elapsed", rt.event_elapsed_time(event(), event())),
    () => noted("confused", rt.stream_query(event())),
    () => noted("stale", rt.synchronize_stream_with_timeout(stream() + 2 ** 16, 20)),
    () => noted("synchronize_device", rt.synchronize_device_with_timeout(20)),
  ];
  for (let round = 0; round < rounds; round++) actions[random.below(actions.length)]();
  return seen;
}

/** As a thread's function: what it throws comes out of stop_thread. */
function thread(seed, rounds, shared) {
  hammer(seed, rounds, shared);
}
module.exports = { thread };

function main() {
  const [seed, rounds] = process.argv.slice(2).map(Number);
  fs.writeFileSync(process.env.JUNK_CONFIG, JSON.stringify({ emulator: { cores: 2, memory: 32 * 2 ** 20 } }));
  const check = (result) => {
    const code = [].concat(result).at(-1);
    if (code !== 0) throw new Error(`${code}: ${acl.get_recent_err_msg()}`);
    return [].concat(result)[0];
  };
  check(acl.init(process.env.JUNK_CONFIG));
  check(rt.set_device(0));
  const left = () => JSON.stringify([rt.get_mem_info(1), rt.get_stream_available_num(), rt.get_event_avail_num(), notifiesLeft()]);
  /** There is no call that tells. */
  const notifiesLeft = () => {
    const made = [];
    for (let [notify, code] = rt.create_notify(0); code === 0; [notify, code] = rt.create_notify(0)) made.push(notify);
    for (const notify of made) check(rt.destroy_notify(notify));
    return made.length;
  };
  const before = left();
  const shared = new SharedArrayBuffer(4 * SLOTS * 8);
  const threads = [1, 2].map((i) => check(util.start_thread(`${__filename}#thread`, [seed * 10 + i, rounds, shared])));
  const seen = hammer(seed * 10, rounds, shared);
  for (const id of threads) check(util.stop_thread(id));
  check(rt.set_device(0));
  check(rt.reset_device_force(0));
  check(rt.set_device(0));
  if (left() !== before) throw new Error(`memory, streams or events are missing: ${left()}, before ${before}`);
  const [address, stream] = [check(rt.malloc(BYTES, 0)), check(rt.create_stream())];
  check(rt.memset_async(address, BYTES, 6, BYTES, stream));
  check(rt.synchronize_stream_with_timeout(stream, 10_000));
  const bytes = new Uint8Array(BYTES);
  check(rt.memcpy(bytes, BYTES, address, BYTES, 2));
  if (bytes.some((byte) => byte !== 6)) throw new Error("the device does not work afterwards");
  check(acl.finalize());
  console.log(JSON.stringify(seen));
}
if (isMainThread) main();
