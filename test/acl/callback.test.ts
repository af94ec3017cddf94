/** Callbacks in stream order, host functions, exception callbacks. */
import path from "node:path";
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, probe, start } from "./harness";

const { rt, util } = acl;
afterEach(finish);

const me = (): number => util.get_thread_id();

describe("reports", () => {
  test("callbacks come in order, each when its place is reached; a blocking one holds the stream", () => {
    covers("rt.subscribe_report", "rt.unsubscribe_report", "rt.launch_callback", "rt.process_report", "util.get_thread_id");
    start();
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const word = ok(rt.malloc_host(8));
    const view = util.ptr_to_view(word, 8);
    view.fill(0);
    ok(rt.subscribe_report(me(), stream));
    const heard: unknown[] = [];
    ok(rt.launch_callback((args: unknown) => heard.push(["first", args, view[0]]), [1, "two"], 0, stream));
    ok(rt.value_write(word, 1, 0, stream));
    ok(rt.launch_callback((args: unknown) => heard.push(["second", args, view[0]]), null, 1, stream));
    ok(rt.value_write(word, 2, 0, stream));
    expect(rt.synchronize_stream_with_timeout(stream, 5)).toBe(507046); // nobody has served the blocking one
    expect(view[0]).toBe(1);
    ok(rt.process_report(1000));
    ok(rt.process_report(1000));
    expect(heard).toEqual([
      ["first", [1, "two"], 1],
      ["second", null, 1],
    ]);
    ok(rt.synchronize_stream(stream));
    expect(view[0]).toBe(2);
    expect(rt.process_report(5)).toBe(507012);
    ok(rt.unsubscribe_report(me(), stream));
    expect(rt.unsubscribe_report(me(), stream)).toBe(107011);
    expect(rt.launch_callback(() => {}, null, 0, stream)).toBe(107015);
  });

  test("who may serve what", () => {
    start();
    ok(rt.set_device(0));
    const [first, second] = [ok(rt.create_stream()), ok(rt.create_stream())];
    ok(rt.subscribe_report(me(), first));
    expect(rt.subscribe_report(me(), first)).toBe(107011);
    expect(rt.subscribe_report(me() + 1, first)).toBe(107011);
    ok(rt.subscribe_report(me(), second)); // many streams of one device
    ok(rt.create_context(1));
    expect(rt.subscribe_report(me(), ok(rt.create_stream()))).toBe(107012);
    ok(rt.set_device(0));
    expect(rt.launch_callback(() => {}, null, 2, first)).toBe(107000);
    ok(rt.unsubscribe_report(me(), first));
    ok(rt.subscribe_report(me() + 1, first));
    expect(rt.launch_callback(() => {}, null, 0, first)).toBe(207000); // a function cannot go to another thread
    expect(acl.get_recent_err_msg()).toContain("name of an export");
  });

  test("a callback that throws still lets the stream go on", () => {
    start();
    ok(rt.set_device(0));
    ok(rt.subscribe_report(me(), 0));
    const fail = (): never => {
      throw new Error("in the callback");
    };
    ok(rt.launch_callback(fail, null, 1, 0));
    expect(rt.process_report(1000)).toBe(500000);
    expect(acl.get_recent_err_msg()).toContain("in the callback");
    ok(rt.synchronize_stream(0));
  });

  test("another thread serves callbacks by the names of its module's exports", () => {
    start({ driver: "threads" });
    ok(rt.set_device(0));
    const stream = ok(rt.create_stream());
    const word = ok(rt.malloc(8, 0));
    const [context] = rt.get_context();
    const thread = ok(util.start_thread(`${path.join(__dirname, "programs", "threads.cjs")}#serve`, [context, 3]));
    ok(rt.subscribe_report(thread, stream));
    for (let i = 1; i <= 3; i++) {
      ok(rt.launch_callback("note", { word, i }, 1, stream));
    }
    ok(rt.synchronize_stream_with_timeout(stream, 20_000));
    ok(util.stop_thread(thread));
    const bytes = new Uint8Array(3);
    ok(rt.memcpy(bytes, 3, word, 3, 2));
    expect([...bytes]).toEqual([1, 2, 3]);
  });
});

describe("host functions", () => {
  test("run in stream order while the thread blocks, before what follows them", () => {
    covers("rt.launch_host_func");
    start();
    ok(rt.set_device(0));
    const word = ok(rt.malloc_host(8));
    const view = util.ptr_to_view(word, 8);
    view.fill(0);
    const heard: unknown[] = [];
    ok(rt.value_write(word, 1, 0, 0));
    ok(rt.launch_host_func(0, (data: unknown) => heard.push([data, view[0]]), "data"));
    ok(rt.value_write(word, 2, 0, 0));
    ok(rt.launch_host_func(0, (data: unknown) => heard.push([data, view[0]]), "more"));
    ok(rt.synchronize_stream(0));
    expect(heard).toEqual([
      ["data", 1],
      ["more", 2],
    ]);
  });

  test("that throw become warnings: the call that served them goes on", () => {
    start();
    ok(rt.set_device(0));
    const warn = jest.spyOn(process, "emitWarning").mockImplementation(() => {});
    const fail = (): never => {
      throw new Error("in the function");
    };
    ok(rt.launch_host_func(0, fail, 0));
    ok(rt.synchronize_stream(0));
    expect(warn).toHaveBeenCalledWith(expect.stringContaining("in the function"), { code: "NPURT_CALLBACK" });
    warn.mockRestore();
  });

  test("run in the event loop when nobody blocks", async () => {
    start();
    ok(rt.set_device(0));
    const heard = await new Promise((resolve) => ok(rt.launch_host_func(0, resolve, 42)));
    expect(heard).toBe(42);
    ok(rt.synchronize_stream(0));
  });

  test("of a subscribed stream they are served by process_host_func", () => {
    covers("rt.subscribe_host_func", "rt.unsubscribe_host_func", "rt.process_host_func");
    start();
    ok(rt.set_device(0));
    ok(rt.subscribe_host_func(me(), 0));
    const heard: unknown[] = [];
    ok(rt.launch_host_func(0, (data: unknown) => heard.push(data), 5));
    expect(rt.synchronize_stream_with_timeout(0, 5)).toBe(507046);
    ok(rt.process_host_func(1000));
    ok(rt.synchronize_stream(0));
    expect(heard).toEqual([5]);
    expect(rt.process_host_func(5)).toBe(507012);
    ok(rt.unsubscribe_host_func(me(), 0));
    expect(rt.unsubscribe_host_func(me(), 0)).toBe(107011);
  });
});

test("exception callbacks get task, stream, device and code of every fault", () => {
  covers("rt.set_exception_info_callback", "rt.exception_info_callback_register", "rt.exception_info_callback_unregister");
  covers("rt.get_task_id_from_exception_info", "rt.get_stream_id_from_exception_info", "rt.get_device_id_from_exception_info");
  covers("rt.get_thread_id_from_exception_info", "rt.get_error_code_from_exception_info");
  start();
  ok(rt.set_device(1));
  const stream = ok(rt.create_stream());
  const heard: number[][] = [];
  let kept = 0;
  const note = (info: number): void => {
    kept = info;
    heard.push([
      rt.get_stream_id_from_exception_info(info),
      rt.get_device_id_from_exception_info(info),
      rt.get_thread_id_from_exception_info(info),
      rt.get_error_code_from_exception_info(info),
      rt.get_task_id_from_exception_info(info),
    ]);
  };
  ok(rt.set_exception_info_callback(note));
  probe(stream, "unreachable");
  const task = ok(rt.memset_async(ok(rt.malloc(8, 0)), 8, 0, 8, stream)) ?? ok(rt.get_thread_last_task_id());
  expect(rt.synchronize_stream(stream)).toBe(507015);
  expect(heard).toEqual([[ok(rt.stream_get_id(stream)), 1, me(), 507015, task - 1]]);
  expect(rt.get_error_code_from_exception_info(kept)).toBe(0xffffffff); // the handle is good inside the callback only
  ok(rt.set_exception_info_callback(null));
  ok(rt.exception_info_callback_register(note));
  expect(rt.exception_info_callback_register(note)).toBe(107000);
  probe(stream, "divideByZero");
  expect(codeOf(rt.synchronize_stream(stream))).toBe(507015);
  expect(heard).toHaveLength(2);
  ok(rt.exception_info_callback_unregister(note));
  expect(rt.exception_info_callback_unregister(note)).toBe(107000);
  probe(stream, "unreachable");
  expect(rt.synchronize_stream(stream)).toBe(507015);
  expect(heard).toHaveLength(2);
});
