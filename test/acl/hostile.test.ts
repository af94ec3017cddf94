/** What programs do that nobody should: callbacks that wait for themselves, destroy what holds them, reset, finalize or throw; handles and arrays that are gone. */
import { acl } from "npurt/acl";
import { codeOf, finish, ok, probe, start } from "./harness";

const { rt, util } = acl;
afterEach(finish);

const DRIVERS = ["inline", "sim", "threads"] as const;
const me = (): number => util.get_thread_id();

/** Runs `body` as a host function of a stream of its own; returns what it did, and what the synchronization that served it says. */
function inHostFunction<T>(body: (stream: number) => T): [T | undefined, number] {
  const stream = ok(rt.create_stream());
  let did: T | undefined;
  ok(
    rt.launch_host_func(
      stream,
      () => {
        did = body(stream);
      },
      0,
    ),
  );
  const code = rt.synchronize_stream(stream);
  return [did, code];
}

describe.each(DRIVERS)("%s: inside a host function", (driver) => {
  beforeEach(() => {
    start({ driver, cores: 2 });
    ok(rt.set_device(0));
  });

  test("a wait for the function's own stream is a deadlock that is found, and the stream goes on", () => {
    expect(inHostFunction((stream) => rt.synchronize_stream(stream))).toEqual([507046, 0]);
    expect(acl.get_recent_err_msg()).toContain("deadlock");
    expect(inHostFunction((stream) => rt.synchronize_stream_with_timeout(stream, 60_000))).toEqual([507046, 0]);
    expect(inHostFunction(() => rt.synchronize_device())).toEqual([507046, 0]);
  });

  test("a wait for another stream goes through; for one with a host function of its own it cannot", () => {
    const other = ok(rt.create_stream());
    const place = ok(rt.malloc(8, 0));
    const work = (): number => rt.memset_async(place, 8, 3, 8, other) || rt.synchronize_stream(other);
    expect(inHostFunction(work)).toEqual([0, 0]);
    let later = 0;
    const nested = (): number => rt.launch_host_func(other, () => later++, 0) || rt.synchronize_stream(other);
    expect(inHostFunction(nested)).toEqual([507046, 0]);
    ok(rt.synchronize_stream(other));
    expect(later).toBe(1);
  });

  test("the stream, its context and the device may end; the wait outside has its code", () => {
    expect(inHostFunction((stream) => rt.destroy_stream(stream))).toEqual([0, 107023]);
    expect(inHostFunction((stream) => rt.destroy_stream_force(stream))).toEqual([0, 107023]);
    const context = ok(rt.create_context(0));
    expect(inHostFunction(() => rt.destroy_context(context))).toEqual([0, 107023]);
    ok(rt.set_device(0));
    expect(inHostFunction(() => rt.reset_device_force(0))).toEqual([0, 107023]);
    expect(codeOf(rt.get_context())).toBe(107002);
    ok(rt.set_device(0));
    expect(inHostFunction(() => acl.finalize())).toEqual([0, 507899]);
  });

  test("a stream that takes the place of a destroyed one is not let go by the old one's function", () => {
    const behind = ok(rt.malloc_host(8));
    const view = util.ptr_to_view(behind, 8).fill(0);
    const heard: unknown[] = [];
    const [next] = inHostFunction((stream) => {
      ok(rt.destroy_stream_force(stream));
      const fresh = ok(rt.create_stream());
      ok(rt.launch_host_func(fresh, () => heard.push(view[0]), 0));
      ok(rt.value_write(behind, 1, 0, fresh));
      return fresh;
    });
    ok(rt.synchronize_stream(next as number));
    expect([heard, view[0]]).toEqual([[0], 1]);
  });

  test("functions that launch functions, a hundred deep", () => {
    let count = 0;
    const stream = ok(rt.create_stream());
    const again = (): void => {
      if (++count < 100) ok(rt.launch_host_func(stream, again, 0));
    };
    again();
    while (count < 100) ok(rt.synchronize_stream(stream));
    ok(rt.synchronize_stream(stream));
    expect(count).toBe(100);
  });
});

describe.each(DRIVERS)("%s: inside a report's callback", (driver) => {
  test("serving again finds nothing, and a reset ends the stream", () => {
    start({ driver, cores: 2 });
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    ok(rt.subscribe_report(me(), stream));
    let inner = -1;
    for (const body of [() => rt.process_report(30), () => rt.synchronize_stream(stream)]) {
      ok(
        rt.launch_callback(
          () => {
            inner = body();
          },
          [],
          1,
          stream,
        ),
      );
      ok(rt.process_report(5000));
      expect(inner === 507012 || inner === 507046).toBe(true);
      ok(rt.synchronize_stream(stream));
    }
    ok(
      rt.launch_callback(
        () => {
          inner = rt.reset_device(0);
        },
        [],
        1,
        stream,
      ),
    );
    ok(rt.process_report(5000));
    expect(inner).toBe(0);
    expect(rt.synchronize_stream(stream)).toBe(107002);
    ok(rt.set_device(0));
    expect(rt.synchronize_stream(stream)).toBe(107003);
  });
});

test.each(DRIVERS)("%s: a reset by force with work in flight leaves nothing, and the device is as new", (driver) => {
  start({ driver, cores: 2 });
  ok(rt.set_device(0));
  const [free] = ok(rt.get_mem_info(1));
  const stream = ok(rt.create_stream());
  const event = ok(rt.create_event());
  const place = ok(rt.malloc(64, 0));
  ok(rt.memset(place, 64, 0, 64));
  ok(rt.value_wait(place, 1, 1, stream));
  for (let i = 0; i < 200; i++) ok(rt.memset_async(place + 8, 8, i, 8, stream));
  ok(rt.record_event(event, stream));
  ok(rt.reset_device_force(0));
  expect([rt.synchronize_stream(stream), codeOf(rt.malloc(64, 0)), rt.memset(place, 64, 0, 64)]).toEqual([107002, 107002, 107002]);
  ok(rt.set_device(0));
  expect([rt.synchronize_stream(stream), rt.record_event(event, 0), rt.free(place), rt.memset(place, 64, 0, 64)]).toEqual([
    107003, 107017, 107000, 107000,
  ]);
  expect(ok(rt.get_mem_info(1))[0]).toBe(free);
  ok(rt.synchronize_stream(ok(rt.create_stream())));
});

test("an exception callback that throws changes no code, and the next one is called", () => {
  start();
  ok(rt.set_device(0));
  const warn = jest.spyOn(process, "emitWarning").mockImplementation(() => {});
  const stream = ok(rt.create_stream());
  let heard = 0;
  ok(
    rt.set_exception_info_callback(() => {
      throw Object.create(null);
    }),
  );
  ok(rt.exception_info_callback_register(() => void heard++));
  probe(stream, "unreachable");
  expect(rt.synchronize_stream(stream)).toBe(507015);
  expect([heard, warn.mock.calls.length]).toEqual([1, 1]);
  ok(rt.set_exception_info_callback(() => void ok(rt.reset_device_force(0))));
  probe(stream, "unreachable");
  expect(rt.synchronize_stream(stream)).toBe(507015);
  warn.mockRestore();
});

test("state callbacks that make, destroy and reset what they are told of", () => {
  start();
  ok(rt.set_device(0));
  ok(rt.reg_stream_state_callback("make", () => void rt.create_stream(), 0));
  const stream = ok(rt.create_stream());
  ok(rt.reg_stream_state_callback("make", null));
  ok(rt.reg_stream_state_callback("end", (told: number) => void rt.destroy_stream(told), 0));
  ok(rt.destroy_stream(stream));
  expect(rt.destroy_stream(stream)).toBe(107003);
  ok(rt.reg_stream_state_callback("end", null));
  ok(rt.reg_device_state_callback("reset", () => void rt.reset_device(1), 0));
  expect([rt.set_device(1), rt.reset_device(1)]).toEqual([0, 507007]);
});

test("arrays whose buffers went elsewhere or shrank have codes", () => {
  start();
  ok(rt.set_device(0));
  const place = ok(rt.malloc(8192, 0));
  const sent = new Uint8Array(64);
  const address = util.bytes_to_ptr(sent);
  structuredClone(sent.buffer, { transfer: [sent.buffer] });
  expect([rt.memcpy(place, 64, address, 64, 1), rt.memcpy(place, 64, sent, 64, 1)]).toEqual([107000, 107000]);
  expect(rt.memcpy(place, 64, sent, 0, 1)).toBe(0);
  const buffer = new (ArrayBuffer as unknown as new (size: number, options: object) => ArrayBuffer & { resize(size: number): void })(8192, {
    maxByteLength: 16384,
  });
  const view = new Uint8Array(buffer);
  const start64 = util.bytes_to_ptr(view);
  ok(rt.memcpy(place, 8192, start64, 8192, 1));
  buffer.resize(100);
  expect(rt.memcpy(place, 8192, start64, 8192, 1)).toBe(107000);
  expect(acl.get_recent_err_msg()).toContain("made smaller");
  expect(rt.memcpy(place, 8192, view, 8192, 1)).toBe(107000);
  ok(rt.memcpy(start64, 100, place, 100, 2));
});
