/** Events, notifies and counting notifies. */
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, probe, start } from "./harness";

const { rt } = acl;
afterEach(finish);

/** A gate: streams wait for it until it is opened. */
function gate(): { hold(stream: number): void; open(): void } {
  const address = ok(rt.malloc(8, 0));
  ok(rt.memset(address, 8, 0, 8));
  return {
    hold: (stream) => ok(rt.value_wait(address, 1, 1, stream)),
    open: () => ok(rt.memset(address, 8, 1, 1)),
  };
}

describe("events", () => {
  test("status of each kind before, under way and after", () => {
    covers(
      "rt.create_event",
      "rt.create_event_with_flag",
      "rt.create_event_ex_with_flag",
      "rt.record_event",
      "rt.query_event_status",
      "rt.query_event",
    );
    covers("rt.synchronize_event", "rt.destroy_event");
    start();
    ok(rt.set_device(0));
    const plain = ok(rt.create_event());
    const extended = ok(rt.create_event_ex_with_flag(1));
    expect(ok(rt.query_event_status(plain))).toBe(0);
    expect(ok(rt.query_event(plain))).toBe(1);
    expect(ok(rt.query_event_status(extended))).toBe(1);
    expect(codeOf(rt.query_event(extended))).toBe(107000);
    const held = gate();
    const stream = ok(rt.create_stream());
    held.hold(stream);
    ok(rt.record_event(plain, stream));
    ok(rt.record_event(extended, stream));
    expect([ok(rt.query_event_status(plain)), ok(rt.query_event(plain)), ok(rt.query_event_status(extended))]).toEqual([0, 1, 0]);
    held.open();
    ok(rt.synchronize_event(plain));
    ok(rt.synchronize_event(extended));
    expect([ok(rt.query_event_status(plain)), ok(rt.query_event(plain)), ok(rt.query_event_status(extended))]).toEqual([1, 0, 1]);
    ok(rt.destroy_event(plain));
    expect(codeOf(rt.query_event_status(plain))).toBe(107017);
    expect(codeOf(rt.query_event_status(stream))).toBe(107017);
    expect(codeOf(rt.query_event_status(0))).toBe(107000);
  });

  test("flags: 0, unknown bits and mixes with EXTERNAL or IPC are refused", () => {
    start();
    ok(rt.set_device(0));
    for (const flag of [0, 4, 0x21, 0x41, 0x80]) {
      expect(codeOf(rt.create_event_with_flag(flag))).toBe(107000);
    }
    for (const flag of [1, 8, 9, 0x1b, 0x20, 0x40]) {
      expect(codeOf(rt.create_event_with_flag(flag))).toBe(0);
    }
  });

  test("a wait is for the record that is the latest at the call", () => {
    covers("rt.stream_wait_event", "rt.query_event_wait_status");
    start();
    ok(rt.set_device(0));
    const [first, second, third] = [ok(rt.create_stream()), ok(rt.create_stream()), ok(rt.create_stream())];
    const event = ok(rt.create_event());
    const [one, two] = [gate(), gate()];
    one.hold(first);
    ok(rt.record_event(event, first));
    ok(rt.stream_wait_event(third, event));
    two.hold(second);
    ok(rt.record_event(event, second)); // a later record does not move the wait
    expect(ok(rt.query_event_wait_status(event))).toBe(1);
    one.open();
    expect(rt.synchronize_stream(third)).toBe(0);
    expect(ok(rt.query_event_wait_status(event))).toBe(0);
    expect(ok(rt.query_event_status(event))).toBe(0);
    two.open();
    ok(rt.synchronize_event(event));
  });

  test("a plain event that was never recorded cannot be waited for, an extended one counts as complete", () => {
    start();
    ok(rt.set_device(0));
    expect(rt.stream_wait_event(0, ok(rt.create_event()))).toBe(107000);
    expect(rt.stream_wait_event(0, ok(rt.create_event_ex_with_flag(1)))).toBe(0);
    expect(rt.synchronize_stream(0)).toBe(0);
  });

  test("reset makes an event unrecorded in stream order", () => {
    covers("rt.reset_event");
    start();
    ok(rt.set_device(0));
    const event = ok(rt.create_event());
    ok(rt.record_event(event, 0));
    ok(rt.synchronize_stream(0));
    const held = gate();
    held.hold(0);
    ok(rt.reset_event(event, 0));
    expect(ok(rt.query_event_status(event))).toBe(1); // the stream is not there yet
    held.open();
    ok(rt.synchronize_stream(0));
    expect(ok(rt.query_event_status(event))).toBe(0);
    ok(rt.record_event(event, 0));
    ok(rt.synchronize_stream(0));
    expect(ok(rt.query_event_status(event))).toBe(1);
    expect(rt.reset_event(ok(rt.create_event_with_flag(8)), 0)).toBe(107000);
    expect(rt.reset_event(ok(rt.create_event_ex_with_flag(1)), 0)).toBe(107000);
  });

  test("events and streams of different contexts do not meet; the host may wait for either", () => {
    start();
    ok(rt.set_device(0));
    const event = ok(rt.create_event());
    ok(rt.record_event(event, 0));
    const context = ok(rt.create_context(0));
    expect(rt.record_event(event, 0)).toBe(107003);
    expect(rt.stream_wait_event(0, event)).toBe(107003);
    expect(rt.synchronize_event(event)).toBe(0);
    const mine = ok(rt.create_event());
    ok(rt.destroy_context(context));
    ok(rt.set_device(0));
    expect(codeOf(rt.query_event_status(mine))).toBe(107017); // it went with its context
  });

  test("record and wait with the external flag want an external event", () => {
    covers("rt.record_event_with_flag", "rt.stream_wait_event_with_flag");
    start();
    ok(rt.set_device(0));
    const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
    const [external, plain] = [ok(rt.create_event_with_flag(0x20)), ok(rt.create_event())];
    const held = gate();
    held.hold(first);
    ok(rt.record_event_with_flag(external, first, 1));
    ok(rt.stream_wait_event_with_flag(second, external, 1));
    expect(rt.synchronize_stream_with_timeout(second, 5)).toBe(507046);
    held.open();
    expect(rt.synchronize_stream(second)).toBe(0);
    ok(rt.record_event_with_flag(plain, first, 0));
    expect(rt.record_event_with_flag(plain, first, 1)).toBe(107000);
    expect(rt.stream_wait_event_with_flag(second, plain, 2)).toBe(107000);
  });

  test("time stamps and elapsed time: virtual work of a known length lies between", () => {
    covers("rt.event_elapsed_time", "rt.event_get_timestamp");
    start({ clock: "virtual", cores: 1 });
    ok(rt.set_device(0));
    const [begin, end, never] = [ok(rt.create_event()), ok(rt.create_event()), ok(rt.create_event())];
    ok(rt.record_event(begin, 0));
    probe(0, "spin", 20_000_000);
    ok(rt.record_event(end, 0));
    expect(codeOf(rt.event_elapsed_time(begin, end))).toBe(107006);
    ok(rt.synchronize_stream(0));
    expect(ok(rt.event_elapsed_time(begin, end))).toBeGreaterThan(0);
    expect(ok(rt.event_get_timestamp(end))).toBeGreaterThan(ok(rt.event_get_timestamp(begin)));
    expect(codeOf(rt.event_elapsed_time(end, begin))).toBe(107007);
    expect(codeOf(rt.event_elapsed_time(begin, never))).toBe(107006);
    const timeless = ok(rt.create_event_with_flag(1));
    ok(rt.record_event(timeless, 0));
    ok(rt.synchronize_stream(0));
    expect(codeOf(rt.event_get_timestamp(timeless))).toBe(107000);
  });

  test("time-outs: the host's 507047, the stream's 107020", () => {
    covers("rt.synchronize_event_with_timeout", "rt.stream_wait_event_with_timeout", "rt.set_op_wait_timeout");
    start({ clock: "virtual" });
    ok(rt.set_device(0));
    const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
    const event = ok(rt.create_event());
    const held = gate();
    held.hold(first);
    ok(rt.record_event(event, first));
    expect(rt.synchronize_event_with_timeout(event, 50)).toBe(507047);
    expect(rt.synchronize_event_with_timeout(event, 0)).toBe(107000);
    ok(rt.stream_wait_event_with_timeout(second, event, 2));
    expect(rt.synchronize_stream(second)).toBe(107020);
    ok(rt.set_op_wait_timeout(3));
    ok(rt.stream_wait_event(second, event));
    expect(rt.synchronize_stream(second)).toBe(107020);
    ok(rt.set_op_wait_timeout(0));
    held.open();
    expect(rt.synchronize_stream(first)).toBe(0);
  });

  test("the event after the last gives 207007, extended ones go on; a pending event may be destroyed", () => {
    covers("rt.get_event_avail_num", "rt.get_event_id");
    start({ soc: "Ascend310P3" });
    ok(rt.set_device(0));
    const events = Array.from({ length: 1023 }, () => ok(rt.create_event()));
    expect(codeOf(rt.create_event())).toBe(207007);
    expect(ok(rt.get_event_avail_num())).toBe(0);
    ok(rt.create_event_ex_with_flag(1));
    const held = gate();
    held.hold(0);
    const pending = events.pop() as number;
    const id = ok(rt.get_event_id(pending));
    ok(rt.record_event(pending, 0));
    ok(rt.destroy_event(pending));
    expect(codeOf(rt.get_event_id(pending))).toBe(107017);
    const next = ok(rt.create_event());
    expect(ok(rt.get_event_id(next))).not.toBe(id); // its record task still writes there
    held.open();
    ok(rt.synchronize_stream(0));
    expect(codeOf(rt.create_event())).toBe(207007);
  });
});

describe("notifies", () => {
  test("a wait goes through once per record", () => {
    covers("rt.create_notify", "rt.record_notify", "rt.wait_and_reset_notify", "rt.destroy_notify", "rt.get_notify_id", "rt.notify_batch_reset");
    start();
    ok(rt.set_device(0));
    const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
    const notify = ok(rt.create_notify(0));
    ok(rt.wait_and_reset_notify(notify, first, 0));
    expect(rt.synchronize_stream_with_timeout(first, 5)).toBe(507046);
    ok(rt.record_notify(notify, second));
    expect(rt.synchronize_stream(first)).toBe(0);
    ok(rt.wait_and_reset_notify(notify, first, 0));
    expect(rt.synchronize_stream_with_timeout(first, 5)).toBe(507046); // it was cleared
    ok(rt.record_notify(notify, second));
    expect(rt.synchronize_stream(first)).toBe(0);
    ok(rt.record_notify(notify, second));
    ok(rt.synchronize_stream(second));
    ok(rt.notify_batch_reset([notify]));
    ok(rt.wait_and_reset_notify(notify, first, 0));
    expect(rt.synchronize_stream_with_timeout(first, 5)).toBe(507046);
    expect(rt.notify_batch_reset([])).toBe(107000);
    expect(ok(rt.get_notify_id(ok(rt.create_notify(0))))).not.toBe(ok(rt.get_notify_id(notify)));
    ok(rt.destroy_notify(notify));
    expect(rt.record_notify(notify, second)).toBe(107017);
  });

  test("a wait with a time-out fails the stream with 107020 when its virtual seconds are over", () => {
    start({ clock: "virtual" });
    ok(rt.set_device(0));
    const notify = ok(rt.create_notify(0));
    ok(rt.wait_and_reset_notify(notify, 0, 3));
    expect(rt.synchronize_stream(0)).toBe(107020);
    expect(rt.wait_and_reset_notify(notify, 0, -1)).toBe(107000);
  });

  test("the limit gives 207009", () => {
    start({ soc: "Ascend310B1" });
    ok(rt.set_device(0));
    const notifies = Array.from({ length: 1024 }, () => ok(rt.create_notify(0)));
    expect(codeOf(rt.create_notify(0))).toBe(207009);
    ok(rt.destroy_notify(notifies[5] as number));
    ok(rt.create_notify(0));
    expect(codeOf(rt.create_notify(0))).toBe(207009);
    expect(codeOf(rt.cnt_notify_create(0))).toBe(207000); // an old chip
  });

  const LESS = 0,
    EQUAL = 1,
    MORE = 2,
    AT_LEAST = 3,
    MASK = 4;
  test.each([
    [LESS, 5, 4, 5],
    [EQUAL, 5, 5, 4],
    [MORE, 5, 6, 5],
    [AT_LEAST, 5, 5, 4],
    [MASK, 6, 2, 1],
  ])("counting: wait mode %i for %i goes through at %i, not at %i", (mode, value, good, bad) => {
    covers(
      "rt.cnt_notify_create",
      "rt.cnt_notify_record",
      "rt.cnt_notify_wait_with_timeout",
      "rt.cnt_notify_destroy",
      "rt.cnt_notify_reset",
      "rt.cnt_notify_get_id",
    );
    start();
    ok(rt.set_device(0));
    const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
    const notify = ok(rt.cnt_notify_create(0));
    expect(ok(rt.cnt_notify_get_id(notify))).toBe(0);
    ok(rt.cnt_notify_record(notify, second, { mode: 0, value: bad }));
    ok(rt.synchronize_stream(second));
    ok(rt.cnt_notify_wait_with_timeout(notify, first, { mode, value, timeout: 0, isClear: false }));
    expect(rt.synchronize_stream_with_timeout(first, 5)).toBe(507046);
    ok(rt.cnt_notify_record(notify, second, { mode: 0, value: good }));
    expect(rt.synchronize_stream(first)).toBe(0);
    ok(rt.cnt_notify_destroy(notify));
    expect(rt.cnt_notify_reset(notify, first)).toBe(107017);
  });

  test("counting: add, or, and, clear", () => {
    start();
    ok(rt.set_device(0));
    const notify = ok(rt.cnt_notify_create(0));
    const expectValue = (value: number, isClear = false): void => {
      ok(rt.cnt_notify_wait_with_timeout(notify, 0, { mode: EQUAL, value, timeout: 0, isClear }));
      expect(rt.synchronize_stream_with_timeout(0, 5)).toBe(0);
    };
    ok(rt.cnt_notify_record(notify, 0, { mode: 1, value: 5 }));
    expectValue(5);
    ok(rt.cnt_notify_record(notify, 0, { mode: 2, value: 8 }));
    expectValue(13);
    ok(rt.cnt_notify_record(notify, 0, { mode: 4, value: 9 }));
    expectValue(9, true);
    expectValue(0);
    ok(rt.cnt_notify_record(notify, 0, { mode: 0, value: 3 }));
    ok(rt.cnt_notify_reset(notify, 0));
    expectValue(0);
    expect(rt.cnt_notify_record(notify, 0, { mode: 3, value: 1 })).toBe(107000);
  });
});

test("value_wait compares >=, =, and, nor; addresses are 8-aligned", () => {
  start();
  ok(rt.set_device(0));
  const address = ok(rt.malloc(16, 0));
  const stream = ok(rt.create_stream());
  const cases: [number, bigint, bigint, bigint][] = [
    [0, 2n ** 40n, 2n ** 40n - 1n, 2n ** 40n],
    [1, 7n, 8n, 7n],
    [2, 6n, 9n, 4n],
    [3, 2n ** 64n - 2n, 1n, 0n],
  ];
  for (const [flag, value, bad, good] of cases) {
    ok(rt.value_write(address, bad, 0, 0));
    ok(rt.synchronize_stream(0));
    ok(rt.value_wait(address, value, flag, stream));
    expect([flag, rt.synchronize_stream_with_timeout(stream, 5)]).toEqual([flag, 507046]);
    ok(rt.value_write(address, good, 0, 0));
    expect([flag, rt.synchronize_stream(stream)]).toEqual([flag, 0]);
  }
  expect(rt.value_write(address + 4, 1, 0, 0)).toBe(107008);
  expect(rt.value_wait(address, 1, 4, 0)).toBe(107000);
  expect(rt.value_write(address, 1, 1, 0)).toBe(107000);
  expect(rt.value_write(address + 16, 1, 0, 0)).toBe(107000);
});
