/** Streams: limits, order, modes of failure, synchronization. */
import { acl } from "npurt/acl";
import { streamView } from "../../dist/lib/acl/streams";
import { codeOf, covers, finish, ok, probe, start } from "./harness";

const { rt } = acl;
afterEach(finish);

/** A word of device memory that tasks write, so that tests see which of them ran. */
function word(): { address: number; read(): number; write(value: number, stream: number): number } {
  const address = ok(rt.malloc(8, 0));
  ok(rt.memset(address, 8, 0, 8));
  return {
    address,
    read: () => {
      const bytes = new BigUint64Array(1);
      ok(rt.memcpy(bytes, 8, address, 8, 2));
      return Number(bytes[0]);
    },
    write: (value, stream) => rt.value_write(address, value, 0, stream),
  };
}

describe("limits", () => {
  test.each([
    ["Ascend310P3", 1024],
    ["Ascend310B1", 512],
    ["Ascend910B3", 1984],
    ["Ascend910A", 2048],
  ])("%s has %i streams, default ones included; the next gives 207008 and leaks nothing", (soc, limit) => {
    covers("rt.create_stream", "rt.destroy_stream", "rt.get_stream_available_num");
    start({ soc });
    ok(rt.set_device(0));
    const streams = Array.from({ length: limit - 1 }, () => ok(rt.create_stream()));
    expect(ok(rt.get_stream_available_num())).toBe(0);
    expect(codeOf(rt.create_stream())).toBe(207008);
    expect(acl.get_recent_err_msg()).toContain(String(limit));
    expect(codeOf(rt.create_context(0))).toBe(207008); // its default stream does not fit
    expect(rt.destroy_stream(streams.pop() as number)).toBe(0);
    expect(ok(rt.get_stream_available_num())).toBe(1);
    ok(rt.create_stream());
    expect(codeOf(rt.create_stream())).toBe(207008);
  });
});

describe("making and ending", () => {
  test("priorities, flags, ids and attributes are kept", () => {
    covers("rt.create_stream_with_config", "rt.stream_get_priority", "rt.stream_get_flags", "rt.set_stream_attribute", "rt.get_stream_attribute");
    covers("rt.device_get_stream_priority_range", "rt.set_stream_overflow_switch", "rt.get_stream_overflow_switch");
    start();
    ok(rt.set_device(0));
    expect(ok(rt.device_get_stream_priority_range())).toEqual([7, 0]);
    const stream = ok(rt.create_stream_with_config(5, 3));
    expect(ok(rt.stream_get_priority(stream))).toBe(5);
    expect(ok(rt.stream_get_flags(stream))).toBe(3);
    ok(rt.set_stream_attribute(stream, 3, { userCustomTag: 77 }));
    expect(ok(rt.get_stream_attribute(stream, 3))).toEqual({ userCustomTag: 77 });
    ok(rt.set_stream_attribute(stream, 5, { priority: 2 }));
    expect(ok(rt.stream_get_priority(stream))).toBe(2);
    ok(rt.set_stream_overflow_switch(stream, 1));
    expect(ok(rt.get_stream_overflow_switch(stream))).toBe(1);
    expect(ok(rt.get_stream_attribute(stream, 2))).toEqual({ overflowSwitch: 1 });
    expect(rt.set_stream_attribute(stream, 9, {})).toBe(107000);
    expect(codeOf(rt.create_stream_with_config(8, 0))).toBe(107000);
    expect(codeOf(rt.create_stream_with_config(0, 64))).toBe(107000);
  });

  test("what was queued on a stream of higher priority runs first, in whatever order it came; priorities may change", () => {
    covers("rt.create_stream_with_config", "rt.set_stream_attribute");
    start({ cores: 1 });
    ok(rt.set_device(0));
    const target = word();
    const [low, high] = [ok(rt.create_stream_with_config(7, 0)), ok(rt.create_stream_with_config(0, 0))];
    /** The stream that wrote last. */
    const last = (...order: readonly number[]): number => {
      for (const stream of order) ok(target.write(stream === low ? 7 : 1, stream));
      ok(rt.synchronize_device());
      return target.read() === 7 ? low : high;
    };
    expect([last(low, high), last(high, low)]).toEqual([low, low]);
    ok(rt.set_stream_attribute(low, 5, { priority: 0 }));
    ok(rt.set_stream_attribute(high, 5, { priority: 6 }));
    expect([last(low, high), last(high, low)]).toEqual([high, high]);
  });

  test("a stream from a configuration handle", () => {
    covers("rt.create_stream_config_handle", "rt.set_stream_config_opt", "rt.create_stream_v2", "rt.destroy_stream_config_handle");
    start();
    ok(rt.set_device(0));
    const config = rt.create_stream_config_handle();
    const plain = ok(rt.create_stream_v2(config));
    expect([ok(rt.stream_get_flags(plain)), ok(rt.stream_get_priority(plain))]).toEqual([0, 0]);
    expect(ok(rt.stream_get_id(plain))).toBeGreaterThanOrEqual(1);
    ok(rt.set_stream_config_opt(config, 2, 2));
    ok(rt.set_stream_config_opt(config, 3, 6));
    const made = ok(rt.create_stream_v2(config));
    expect([ok(rt.stream_get_flags(made)), ok(rt.stream_get_priority(made))]).toEqual([2, 6]);
    expect(rt.set_stream_config_opt(config, 0, 64)).toBe(107000);
    expect(rt.set_stream_config_opt(config, 9, 0)).toBe(107000);
    ok(rt.set_stream_config_opt(config, 3, 8));
    expect(codeOf(rt.create_stream_v2(config))).toBe(107000);
    ok(rt.destroy_stream_config_handle(config));
    expect(codeOf(rt.create_stream_v2(config))).toBe(107017);
    ok(rt.synchronize_stream(made));
  });

  test("destroy waits for what is queued, force drops it", () => {
    covers("rt.destroy_stream_force", "rt.value_write", "rt.value_wait");
    start();
    ok(rt.set_device(0));
    const gate = word();
    const target = word();
    const waiting = ok(rt.create_stream());
    ok(rt.value_wait(gate.address, 1, 0, waiting));
    ok(target.write(5, waiting));
    ok(rt.destroy_stream_force(waiting));
    expect(target.read()).toBe(0);
    const queued = ok(rt.create_stream());
    ok(target.write(6, queued));
    ok(rt.destroy_stream(queued));
    expect(target.read()).toBe(6);
    expect(rt.destroy_stream(queued)).toBe(107003);
    expect(target.write(7, queued)).toBe(107003);
  });

  test("a stream of another context: launch 107003, synchronize works", () => {
    start();
    ok(rt.set_device(0));
    const target = word();
    const stream = ok(rt.create_stream());
    ok(target.write(3, stream));
    ok(rt.create_context(0));
    expect(target.write(4, stream)).toBe(107003);
    expect(rt.destroy_stream(stream)).toBe(107003);
    expect(rt.synchronize_stream(stream)).toBe(0);
    expect(target.read()).toBe(3);
  });

  test("a persistent stream holds its tasks; synchronize and query mean nothing for it", () => {
    covers("rt.persistent_task_clean");
    start();
    ok(rt.set_device(0));
    const target = word();
    const stream = ok(rt.create_stream_with_config(0, 4));
    ok(target.write(1, stream));
    expect(rt.synchronize_stream(stream)).toBe(0);
    expect(ok(rt.stream_query(stream))).toBe(0);
    expect(target.read()).toBe(0);
    for (let round = 0; round < 3; round++) {
      ok(rt.persistent_task_clean(stream));
      for (let i = 0; i < 200; i++) ok(target.write(2, stream)); // more than the stream holds, all in all
    }
    expect(rt.persistent_task_clean(0)).toBe(107000);
    ok(rt.destroy_stream(stream));
    expect(target.read()).toBe(0);
  });

  test("state callbacks hear of streams", () => {
    covers("rt.reg_stream_state_callback", "rt.reg_device_state_callback");
    start();
    const heard: unknown[] = [];
    ok(rt.reg_device_state_callback("tests", (id, state, args) => heard.push([id, state, args]), "x"));
    expect(rt.reg_device_state_callback("tests", () => {})).toBe(107000);
    ok(rt.set_device(0));
    ok(rt.reg_stream_state_callback("tests", (stream, state) => heard.push([stream, state])));
    const stream = ok(rt.create_stream());
    ok(rt.destroy_stream(stream));
    ok(rt.reg_stream_state_callback("tests", null));
    ok(rt.destroy_stream(ok(rt.create_stream())));
    ok(rt.reset_device(0));
    ok(rt.reg_device_state_callback("tests", null));
    expect(heard).toEqual([
      [0, 0, "x"],
      [0, 1, "x"],
      [stream, 1],
      [stream, 2],
      [0, 2, "x"],
      [0, 3, "x"],
    ]);
  });
});

describe("synchronization", () => {
  test("0 and below -1 are no time-outs; -1 waits", () => {
    covers("rt.synchronize_stream", "rt.synchronize_stream_with_timeout", "rt.stream_query");
    start();
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    for (const ms of [0, -2]) {
      expect(rt.synchronize_stream_with_timeout(stream, ms)).toBe(107000);
    }
    const target = word();
    ok(target.write(1, stream));
    expect(rt.synchronize_stream_with_timeout(stream, -1)).toBe(0);
    expect(ok(rt.stream_query(stream))).toBe(0);
    expect(target.read()).toBe(1);
  });

  test("507046 after the virtual time has passed, naming the task at the head", () => {
    start({ clock: "virtual" });
    ok(rt.set_device(0));
    const gate = word();
    const stream = ok(rt.create_stream());
    ok(rt.value_wait(gate.address, 1, 0, stream));
    expect(ok(rt.stream_query(stream))).toBe(1);
    const { driver } = streamView(require("../../dist/lib/acl/devices").deviceIfOpen(0), 1).device.machine;
    const before = driver.now();
    expect(rt.synchronize_stream_with_timeout(stream, 1000)).toBe(507046);
    expect(driver.now() - before).toBeGreaterThanOrEqual(1_000_000);
    expect(acl.get_recent_err_msg()).toMatch(/WAIT_VALUE/);
    ok(gate.write(1, 0));
    expect(rt.synchronize_stream_with_timeout(stream, 1000)).toBe(0);
  });

  test("work that takes longer than one look of the waiting thread is waited for", () => {
    start({ clock: "virtual", cores: 1 });
    ok(rt.set_device(0));
    const [begin, end] = [ok(rt.create_event()), ok(rt.create_event())];
    ok(rt.record_event(begin, 0));
    probe(0, "spin", 220_000_000); // a nanosecond each on the virtual clock
    ok(rt.record_event(end, 0));
    expect(rt.synchronize_stream(0)).toBe(0);
    expect(ok(rt.event_elapsed_time(begin, end))).toBeGreaterThanOrEqual(220);
  });

  test("a wait of minutes is told every three of them, and goes on", () => {
    start({ clock: "virtual" });
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const notify = ok(rt.create_notify(0));
    ok(rt.wait_and_reset_notify(notify, stream, 600)); // fails by itself after ten minutes
    const told: number[] = [];
    ok(rt.set_exception_info_callback((info) => told.push(rt.get_error_code_from_exception_info(info))));
    expect(rt.synchronize_stream(stream)).toBe(107020);
    expect(told).toEqual([107020, 107020, 107020]);
  });

  test("synchronize_device waits for the current context's streams only, and gives the first failing one's code", () => {
    covers("rt.synchronize_device", "rt.synchronize_device_with_timeout");
    start();
    ok(rt.set_device(0));
    const gate = word();
    const mine = word();
    ok(rt.create_context(0));
    const blocked = ok(rt.create_stream());
    ok(rt.value_wait(gate.address, 1, 0, blocked));
    expect(rt.synchronize_device_with_timeout(5)).toBe(507046);
    ok(rt.set_device(0));
    ok(mine.write(8, 0));
    expect(rt.synchronize_device()).toBe(0); // the other context's stream is still blocked
    expect(mine.read()).toBe(8);
    const failing = ok(rt.create_stream());
    probe(failing, "unreachable");
    expect(rt.synchronize_device_with_timeout(1000)).toBe(507015);
    expect(rt.synchronize_device()).toBe(0);
  });

  test("the last task of the thread has a number that grows", () => {
    covers("rt.get_thread_last_task_id");
    start();
    ok(rt.set_device(0));
    const target = word();
    ok(target.write(1, 0));
    const first = ok(rt.get_thread_last_task_id());
    ok(target.write(2, 0));
    expect(ok(rt.get_thread_last_task_id())).toBe(first + 1);
  });
});

describe("failure modes", () => {
  test("CONTINUE: later failures overwrite, the rest runs, the next synchronize reports once", () => {
    covers("rt.set_stream_failure_mode", "rt.get_last_error", "rt.peek_at_last_error");
    start();
    ok(rt.set_device(0));
    const target = word();
    const stream = ok(rt.create_stream());
    probe(stream, "unreachable");
    probe(stream, "outOfBounds");
    ok(target.write(2, stream));
    expect(rt.synchronize_stream(stream)).toBe(507042);
    expect(target.read()).toBe(2);
    expect(rt.synchronize_stream(stream)).toBe(0);
    expect(rt.peek_at_last_error(0)).toBe(507042);
  });

  test("STOP on one stream stops the whole context, releases waiters, and stays until the context goes", () => {
    start();
    ok(rt.set_device(0));
    const target = word();
    const context = ok(rt.create_context(0));
    const failing = ok(rt.create_stream());
    const other = ok(rt.create_stream());
    ok(rt.set_stream_failure_mode(other, 1)); // the other one's mode stops the failing one too
    expect(ok(rt.get_stream_attribute(failing, 1))).toEqual({ failureMode: 0 });
    const event = ok(rt.create_event());
    probe(failing, "unreachable");
    ok(rt.record_event(event, failing));
    ok(rt.stream_wait_event(other, event));
    ok(target.write(1, failing));
    ok(target.write(2, other));
    expect(rt.synchronize_stream(failing)).toBe(507015);
    expect(rt.synchronize_stream(other)).toBe(507015);
    expect(target.read()).toBe(0);
    expect(target.write(3, failing)).toBe(507015);
    expect(target.write(3, other)).toBe(507015);
    expect(codeOf(rt.stream_query(other))).toBe(507015);
    expect(rt.synchronize_device()).toBe(507015);
    expect(rt.synchronize_stream(failing)).toBe(507015); // sticky
    expect(rt.set_stream_failure_mode(failing, 1)).toBe(207000); // ABORT does not become STOP
    ok(rt.set_device(0)); // another context of the device is untouched
    ok(target.write(4, 0));
    expect(rt.synchronize_stream(0)).toBe(0);
    expect(target.read()).toBe(4);
    ok(rt.destroy_context(context));
    ok(rt.create_context(0));
    ok(target.write(5, 0));
    expect(rt.synchronize_stream(0)).toBe(0);
    expect(target.read()).toBe(5);
  });

  test("the mode is one way, and only for streams of the current context", () => {
    start();
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    expect(rt.set_stream_failure_mode(stream, 0)).toBe(0);
    ok(rt.set_stream_failure_mode(stream, 1));
    expect(rt.set_stream_failure_mode(stream, 1)).toBe(0);
    expect(rt.set_stream_failure_mode(stream, 0)).toBe(207000);
    expect(rt.set_stream_failure_mode(stream, 2)).toBe(107000);
    ok(rt.create_context(0));
    expect(rt.set_stream_failure_mode(stream, 1)).toBe(107003);
  });

  test("stop keeps what is queued, abort drops it, and both end in 107023", () => {
    covers("rt.stream_stop", "rt.stream_abort", "rt.device_task_abort");
    start();
    ok(rt.set_device(0));
    const target = word();
    const stopped = ok(rt.create_stream());
    ok(rt.stream_stop(stopped));
    ok(target.write(1, stopped));
    expect(rt.synchronize_stream_with_timeout(stopped, 10)).toBe(107023);
    expect(target.read()).toBe(0);
    ok(rt.destroy_stream(stopped));
    const aborted = ok(rt.create_stream());
    const gate = word();
    ok(rt.value_wait(gate.address, 1, 0, aborted));
    ok(target.write(2, aborted));
    ok(rt.stream_abort(aborted));
    expect(rt.synchronize_stream(aborted)).toBe(107023);
    expect(target.write(3, aborted)).toBe(107023);
    expect(target.read()).toBe(0);
    ok(rt.destroy_stream(aborted));
  });

  test("device_task_abort empties every stream and leaves them usable", () => {
    start();
    ok(rt.set_device(0));
    const target = word();
    const gate = word();
    const stream = ok(rt.create_stream());
    ok(rt.value_wait(gate.address, 1, 0, stream));
    ok(target.write(2, stream));
    ok(rt.device_task_abort(0, 1000));
    expect(ok(rt.stream_query(stream))).toBe(0);
    expect(target.read()).toBe(0);
    ok(target.write(3, stream));
    expect(rt.synchronize_stream(stream)).toBe(0);
    expect(target.read()).toBe(3);
    expect(rt.device_task_abort(0, -1)).toBe(107000);
  });
});
