"use strict";
/** Makes and drops one of everything, many times, in a process of its own: `node --expose-gc acl-growth.cjs ROUNDS`. Prints what is held before and after. */
const fs = require("node:fs");
const { acl } = require("npurt/acl");
const { rt } = acl;

function ok(result) {
  const values = [].concat(result);
  const code = values.pop();
  if (code !== 0) throw new Error(`${code}: ${acl.get_recent_err_msg()}`);
  return values.length === 1 ? values[0] : values;
}

fs.writeFileSync(process.env.JUNK_CONFIG, JSON.stringify({ emulator: { driver: "inline", memory: 32 * 2 ** 20 } }));
ok(acl.init(process.env.JUNK_CONFIG));
ok(rt.set_device(0));
const main = ok(rt.create_context(0));

function round() {
  const context = ok(rt.create_context(0));
  const stream = ok(rt.create_stream_with_config(1, 0));
  const events = [rt.create_event(), rt.create_event_with_flag(9), rt.create_event_ex_with_flag(1)].map(ok);
  const [notify, counting] = [ok(rt.create_notify(0)), ok(rt.cnt_notify_create(0))];
  const [memory, host] = [ok(rt.malloc(1000, 0)), ok(rt.malloc_host(1000))];
  const pool = ok(rt.mem_pool_create({}));
  ok(rt.memset_async(memory, 1000, 1, 1000, stream));
  ok(rt.record_event(events[0], stream));
  ok(rt.mem_pool_free_async(ok(rt.mem_pool_malloc_async(500, pool, stream)), stream));
  ok(rt.launch_host_func(stream, () => {}, undefined));
  ok(rt.synchronize_stream(stream));
  if (rt.memset(memory, 10, 0, 1000) !== 107000) throw new Error("a wrong call went through");
  ok(rt.mem_pool_destroy(pool));
  ok(rt.free(memory));
  ok(rt.free_host(host));
  ok(rt.destroy_notify(notify));
  ok(rt.cnt_notify_destroy(counting));
  for (const event of events) ok(rt.destroy_event(event));
  ok(rt.destroy_stream(stream));
  ok(rt.destroy_context(context));
  ok(rt.set_context(main));
}

function held() {
  for (let i = 0; i < 3; i++) global.gc();
  return { device: [rt.get_mem_info(1), rt.get_stream_available_num(), rt.get_event_avail_num()], heap: process.memoryUsage().heapUsed };
}

for (let i = 0; i < 2000; i++) round(); // until V8 has compiled and learnt all there is to
const before = held();
for (let i = 0; i < Number(process.argv[2]); i++) round();
console.log(JSON.stringify({ before, after: held() }));
ok(acl.finalize());
