/** Rules that documentation blurs and no other file of this folder holds: order of codes, scope of synchronizing, lanes, what belongs to a thread. */
import path from "node:path";
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, probe, start } from "./harness";

const { rt, util } = acl;
const worker = path.join(__dirname, "rules-thread.cjs");
afterEach(finish);

const zeros = (bytes = 64): number => {
  const place = ok(rt.malloc(bytes, 0));
  ok(rt.memset(place, bytes, 0, bytes));
  return place;
};
const read = (place: number): number => {
  const data = new Uint32Array(1);
  ok(rt.memcpy(data, 4, place, 4, 2));
  return data[0]!;
};

describe("synchronizing", () => {
  test("an aborted stream says 107023 before the latch of its context; an abort itself latches nothing", () => {
    start();
    ok(rt.set_device(0));
    const context = ok(rt.create_context(0));
    const [failing, aborted] = [ok(rt.create_stream()), ok(rt.create_stream())];
    ok(rt.set_stream_failure_mode(failing, 1));
    ok(rt.value_wait(zeros(), 1, 1, aborted));
    ok(rt.stream_abort(aborted));
    ok(rt.synchronize_stream(failing));
    probe(failing, "unreachable");
    expect(rt.synchronize_stream(failing)).toBe(507015);
    expect(rt.synchronize_stream(aborted)).toBe(107023);
    expect([codeOf(rt.stream_query(failing)), rt.synchronize_device()]).toEqual([507015, 507015]);
    ok(rt.destroy_context(context));
  });

  test("synchronize_device passes over streams with special flags", () => {
    start();
    ok(rt.set_device(0));
    const word = zeros();
    const persistent = ok(rt.create_stream_with_config(0, 4));
    ok(rt.value_write(word, 1, 0, persistent)); // stays queued
    ok(rt.memset_async(word + 8, 4, 1, 4, 0));
    ok(rt.synchronize_device());
    expect([read(word), read(word + 8)]).toEqual([0, 0x01010101]);
  });

  test("507046 and 507047 name task, kind and stream that are at work", () => {
    start({ clock: "virtual" });
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    ok(rt.value_wait(zeros(), 1, 1, stream));
    const task = ok(rt.get_thread_last_task_id());
    const event = ok(rt.create_event());
    ok(rt.record_event(event, stream));
    expect(rt.synchronize_stream_with_timeout(stream, 10)).toBe(507046);
    const text = acl.get_recent_err_msg();
    expect(text).toMatch(new RegExp(`stream ${ok(rt.stream_get_id(stream))}\\b`));
    expect(text).toMatch(new RegExp(`task ${task}, a WAIT_VALUE`));
    expect(rt.synchronize_event_with_timeout(event, 10)).toBe(507047);
    expect(acl.get_recent_err_msg()).toMatch(new RegExp(`task ${task}, a WAIT_VALUE`));
  });

  test("status of an event in a stopped context is the failure, not a hang or a success", () => {
    start();
    ok(rt.set_device(0));
    ok(rt.create_context(0));
    const stream = ok(rt.create_stream());
    ok(rt.set_stream_failure_mode(stream, 1));
    const event = ok(rt.create_event());
    probe(stream, "unreachable");
    ok(rt.record_event(event, stream));
    expect(rt.synchronize_stream(stream)).toBe(507015);
    expect(codeOf(rt.query_event_status(event))).toBe(507015);
    expect(rt.synchronize_event(event)).toBe(507015);
    expect(rt.record_event(event, stream)).toBe(507015);
  });
});

describe("hardware lanes", () => {
  /** Virtual milliseconds that four streams with 10 ms of work each take on four cores. */
  function span(lanes: number): number {
    start({ clock: "virtual", cores: 4, lanes });
    ok(rt.set_device(0));
    const streams = Array.from({ length: 4 }, () => ok(rt.create_stream()));
    const [begin, ...ends] = Array.from({ length: 5 }, () => ok(rt.create_event()));
    ok(rt.record_event(begin!, 0));
    ok(rt.synchronize_stream(0));
    streams.forEach((stream, i) => {
      for (let part = 0; part < 10; part++) probe(stream, "spin", 1_000_000);
      ok(rt.record_event(ends[i]!, stream));
    });
    ok(rt.synchronize_device());
    const longest = Math.max(...ends.map((end) => ok(rt.event_elapsed_time(begin!, end))));
    finish();
    return longest;
  }

  test("more streams than lanes wait for a lane; all of them finish", () => {
    const free = span(0);
    expect(free).toBeGreaterThan(9.9);
    expect(free).toBeLessThan(19); // less than two lanes could do
    expect(span(2)).toBeGreaterThan(19.9);
    expect(span(1)).toBeGreaterThan(39.9);
    expect(span(4)).toBeLessThan(19);
  });

  test("a stream that waits for another one holds no lane, so one lane is no deadlock", () => {
    start({ lanes: 1 });
    ok(rt.set_device(0));
    const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
    const [gate, event] = [zeros(), ok(rt.create_event())];
    ok(rt.value_wait(gate, 1, 1, first));
    ok(rt.record_event(event, first));
    ok(rt.stream_wait_event(second, event));
    ok(rt.value_write(gate, 1, 0, 0)); // the default stream lets the first go, that one the second
    ok(rt.synchronize_stream(second));
  });
});

describe("copies between devices", () => {
  test.each(["inline", "threads"] as const)("%s: run in stream order and do not block the caller", (driver) => {
    start({ driver, cores: 1 });
    ok(rt.set_device(1));
    const far = zeros();
    ok(rt.set_device(0));
    ok(rt.device_enable_peer_access(1, 0));
    const [stream, gate, near] = [ok(rt.create_stream()), zeros(), zeros()];
    ok(rt.value_wait(gate, 1, 1, stream));
    ok(rt.memset_async(near, 64, 7, 64, stream));
    ok(rt.memcpy_async(far, 64, near, 64, 3, stream));
    ok(rt.memset_async(near, 64, 9, 64, stream));
    ok(rt.memcpy2d_async(far + 32, 8, near, 8, 8, 2, 3, stream));
    expect([ok(rt.stream_query(stream)), read(far)]).toEqual([1, 0]); // behind the gate
    ok(rt.value_write(gate, 1, 0, 0));
    ok(rt.synchronize_stream(stream));
    const bytes = new Uint8Array(64);
    ok(rt.memcpy(bytes, 64, far, 64, 2));
    expect([bytes[0], bytes[31], bytes[32], bytes[47], bytes[48], bytes[63]]).toEqual([7, 7, 9, 9, 7, 7]);
    ok(rt.value_wait(gate, 5, 1, stream));
    ok(rt.memcpy_async(far, 64, near, 64, 3, stream));
    ok(rt.stream_abort(stream)); // and the copy with it
    expect(read(far)).toBe(0x07070707);
  });
});

test("the last error is the thread's own", () => {
  covers("rt.peek_at_last_error", "rt.get_last_error");
  start({ driver: "threads", cores: 1 });
  ok(rt.set_device(0));
  expect(codeOf(rt.malloc(0, 0))).toBe(107000);
  ok(util.stop_thread(ok(util.start_thread(`${worker}#ownErrors`, []))));
  expect(rt.peek_at_last_error(0)).toBe(107000);
  expect(rt.get_last_error(0)).toBe(107000);
  expect(rt.get_last_error(0)).toBe(0);
});

test("labels and their lists live and end; jumps need a model instance", () => {
  covers("rt.create_label", "rt.destroy_label", "rt.create_label_list", "rt.destroy_label_list");
  start();
  ok(rt.set_device(0));
  const stream = ok(rt.create_stream());
  const [a, b] = [ok(rt.create_label()), ok(rt.create_label())];
  const list = ok(rt.create_label_list([a, b]));
  expect(rt.destroy_label(a)).toBe(107000); // the list names it
  expect(rt.set_label(a, stream)).toBe(107005);
  expect(acl.get_recent_err_msg()).toContain("no model instance");
  expect(rt.switch_label_by_index(zeros(), 2, list, stream)).toBe(107005);
  expect(rt.switch_label_by_index(zeros(), 3, list, stream)).toBe(107000);
  expect(rt.active_stream(stream, stream)).toBe(107005);
  expect(rt.switch_stream(zeros(), 0, zeros(), 0, stream, 0, stream)).toBe(107005);
  ok(rt.destroy_label_list(list));
  expect(rt.destroy_label_list(list)).toBe(107017);
  ok(rt.destroy_label(a));
  expect(rt.set_label(a, stream)).toBe(107017);
  ok(rt.create_context(0));
  expect(rt.destroy_label(b)).toBe(507031);
  ok(rt.set_device(0));
  ok(rt.destroy_label(b));
  const context = ok(rt.create_context(0));
  const own = ok(rt.create_label());
  ok(rt.create_label_list([own]));
  ok(rt.destroy_context(context)); // takes them along
  ok(rt.set_device(0));
  expect(rt.destroy_label(own)).toBe(107017);
});

test("the 65536th label gives 207012 and leaks nothing", () => {
  start();
  ok(rt.set_device(0));
  const all = Array.from({ length: 65535 }, () => ok(rt.create_label()));
  expect(codeOf(rt.create_label())).toBe(207012);
  ok(rt.destroy_label(all.pop() as number));
  ok(rt.create_label());
  expect(codeOf(rt.create_label())).toBe(207012);
});

test("temporary memory makes room and is computed again; what cannot be is lost with a code", () => {
  covers("rt.malloc_temporary", "rt.use_temporary", "rt.get_temporary_evictions", "rt.free_temporary");
  const MIB = 2 ** 20;
  start({ memory: 32 * MIB });
  ok(rt.set_device(0));
  const stream = ok(rt.create_stream());
  const keep = ok(rt.malloc(4 * MIB, 0));
  ok(rt.memset(keep, 4 * MIB, 0x5a, 4 * MIB));
  const caches = Array.from({ length: 5 }, (_, i) => {
    const cache = ok(rt.malloc_temporary(8 * MIB, (ptr: number, on: number) => void ok(rt.memset_async(ptr, 8 * MIB, i + 1, 8 * MIB, on)))); // 40 MiB: more than there is
    if (ok(rt.get_temporary_evictions(cache)) === 0) ok(rt.memset_async(ok(rt.use_temporary(cache, stream)), 8 * MIB, i + 1, 8 * MIB, stream));
    return cache;
  });
  const word = new Uint32Array(1);
  for (let round = 0; round < 3; round++) {
    caches.forEach((cache, i) => {
      const place = ok(rt.use_temporary(cache, stream));
      ok(rt.memcpy_async(word, 4, place + 8 * MIB - 4, 4, 2, stream));
      expect(word[0]).toBe((i + 1) * 0x01010101);
    });
  }
  expect(caches.reduce((sum, cache) => sum + ok(rt.get_temporary_evictions(cache)), 0)).toBeGreaterThan(5);
  expect(read(keep)).toBe(0x5a5a5a5a);
  for (const cache of caches) ok(rt.free_temporary(cache));
  expect(rt.free_temporary(caches[0]!)).toBe(107017);
  const [left] = ok(rt.get_mem_info(1));
  const lost = ok(rt.malloc_temporary(12 * MIB, null));
  const large = ok(rt.malloc(14 * MIB, 0)); // takes its place
  expect(codeOf(rt.use_temporary(lost, stream))).toBe(207001);
  expect(codeOf(rt.malloc(14 * MIB, 0))).toBe(207001); // nothing is left to evict
  ok(rt.free(large));
  ok(rt.free_temporary(lost));
  expect(ok(rt.get_mem_info(1))[0]).toBe(left); // nothing leaked
});
