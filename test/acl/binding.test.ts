/** The two slots that bind a thread to a context, and the device's use counts. */
import path from "node:path";
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "./harness";

const { rt } = acl;
afterEach(finish);

const NONE = 107002;
const context = (): unknown => {
  const [handle, code] = rt.get_context();
  return code === 0 ? handle : code;
};

describe("thread binding", () => {
  test("each step of the table: set, create, set_context, destroy, set, reset", () => {
    covers("rt.set_device", "rt.get_context", "rt.create_context", "rt.set_context", "rt.destroy_context", "rt.reset_device", "rt.get_device");
    start();
    expect(context()).toBe(NONE);
    expect(codeOf(rt.get_device())).toBe(NONE);
    ok(rt.set_device(1));
    const primary = context();
    expect(ok(rt.get_device())).toBe(1);
    const first = ok(rt.create_context(0));
    expect(context()).toBe(first);
    expect(ok(rt.get_device())).toBe(0);
    ok(rt.set_context(primary as number));
    expect(ok(rt.get_device())).toBe(1);
    ok(rt.set_context(first));
    ok(rt.destroy_context(first));
    expect(context()).toBe(NONE); // not the primary one
    ok(rt.set_device(1));
    expect(context()).toBe(primary);
    ok(rt.reset_device(1));
    expect(context()).toBe(primary);
    ok(rt.reset_device(1));
    expect(context()).toBe(NONE);
    expect(rt.set_context(primary as number)).toBe(NONE);
    expect(rt.set_context(first)).toBe(NONE);
  });

  test("set_device clears the explicit slot, and a context of a reset device is none", () => {
    start();
    ok(rt.set_device(0));
    const explicit = ok(rt.create_context(0));
    ok(rt.set_device(0));
    expect(context()).not.toBe(explicit);
    ok(rt.set_context(explicit));
    ok(rt.reset_device_force(0));
    expect(context()).toBe(NONE);
    expect(acl.get_recent_err_msg()).toMatch(/thread \d+ has no current context: .*(destroyed|reset)/);
    expect(rt.set_context(explicit)).toBe(NONE);
  });

  test("the primary context cannot be destroyed; null, stale and foreign handles have their codes", () => {
    start();
    ok(rt.set_device(0));
    const primary = context() as number;
    expect(rt.destroy_context(primary)).toBe(107002);
    expect(context()).toBe(primary);
    expect(rt.destroy_context(0)).toBe(107000);
    expect(rt.set_context(0)).toBe(107000);
    const stream = ok(rt.create_stream());
    expect(rt.set_context(stream)).toBe(107017);
    expect(rt.set_context(12345)).toBe(107017);
    const explicit = ok(rt.create_context(0));
    ok(rt.destroy_context(explicit));
    expect(rt.destroy_context(explicit)).toBe(107002);
    const next = ok(rt.create_context(0));
    expect(next).not.toBe(explicit); // the slot is used again, the handle is not
  });

  test("a configured default device is set by the first call that needs one", () => {
    covers("init", "finalize");
    start({}, { defaultDevice: { default_device: "2" } });
    expect(ok(rt.get_device())).toBe(2);
  });

  test("default streams: 0 and the handle of ctx_get_current_default_stream are the same", () => {
    covers("rt.ctx_get_current_default_stream", "rt.get_primary_ctx_state", "rt.stream_get_id");
    start();
    expect(ok(rt.get_primary_ctx_state(0))).toEqual([0, 0]);
    ok(rt.set_device(0));
    expect(ok(rt.get_primary_ctx_state(0))).toEqual([1, 0]);
    const stream = ok(rt.ctx_get_current_default_stream());
    expect(ok(rt.stream_get_id(0))).toBe(ok(rt.stream_get_id(stream)));
    expect(rt.destroy_stream(stream)).toBe(107000);
    expect(rt.destroy_stream(0)).toBe(107000);
  });
});

describe("device use counts", () => {
  const cases: [string, ("set" | "reset" | "force")[], number[]][] = [
    ["set, reset", ["set", "reset", "reset"], [0, 0, 507007]],
    ["set twice", ["set", "set", "reset", "reset", "reset"], [0, 0, 0, 0, 507007]],
    ["set, force", ["set", "force", "force"], [0, 0, 507007]],
    ["set twice, force", ["set", "set", "force", "reset"], [0, 0, 0, 507007]],
    ["set twice, reset, force", ["set", "set", "reset", "force"], [0, 0, 0, 0]],
  ];
  test.each(cases)("%s", (_, steps, codes) => {
    covers("rt.reset_device_force");
    start();
    const call = { set: rt.set_device, reset: rt.reset_device, force: rt.reset_device_force };
    expect(steps.map((step) => call[step](0))).toEqual(codes);
  });

  test("the device lives between the first and the last reset of two sets", () => {
    start();
    ok(rt.set_device(0));
    ok(rt.set_device(0));
    ok(rt.reset_device(0));
    const address = ok(rt.malloc(64, 0));
    expect(rt.memset(address, 64, 1, 64)).toBe(0);
    ok(rt.reset_device(0));
    expect(codeOf(rt.malloc(64, 0))).toBe(107002);
    expect(rt.free(address)).toBe(507899); // its memory went with it
    expect(acl.get_recent_err_msg()).toContain("reset");
  });
});

describe("several threads", () => {
  const helper = path.join(__dirname, "programs", "threads.cjs");

  test("counts are the process's: the second force reset fails, in whichever thread", () => {
    covers("util.start_thread", "util.stop_thread");
    start({ driver: "threads" });
    ok(rt.set_device(0));
    const thread = ok(acl.util.start_thread(`${helper}#setAndForce`, []));
    ok(acl.util.stop_thread(thread));
    expect(rt.reset_device_force(0)).toBe(507007);
    expect(context()).toBe(107002); // the primary context of this thread's slot is gone
  });

  test("another thread binds a context, uses its stream, and destroys it", () => {
    start({ driver: "threads" });
    const handle = ok(rt.create_context(0));
    const stream = ok(rt.create_stream());
    const address = ok(rt.malloc(64, 0));
    ok(acl.util.stop_thread(ok(acl.util.start_thread(`${helper}#useStream`, [handle, stream, address]))));
    ok(rt.synchronize_stream(stream));
    const bytes = new Uint8Array(4);
    ok(rt.memcpy(bytes, 4, address, 4, 2));
    expect([...bytes]).toEqual([9, 9, 9, 9]);
    ok(acl.util.stop_thread(ok(acl.util.start_thread(`${helper}#destroy`, [handle]))));
    expect(context()).toBe(107002); // found out lazily, here
    expect(codeOf(rt.create_stream())).toBe(107002);
  });

  test("a device whose opening thread has ended is opened anew by the next set_device", async () => {
    start({ driver: "threads" });
    const thread = ok(acl.util.start_thread(`${helper}#openAndEnd`, []));
    ok(acl.util.stop_thread(thread));
    await new Promise((resolve) => setTimeout(resolve, 300)); // the worker is gone
    ok(rt.set_device(3));
    const address = ok(rt.malloc(64, 0));
    ok(rt.memset_async(address, 64, 5, 64, 0));
    ok(rt.synchronize_stream(0));
    const bytes = new Uint8Array(1);
    ok(rt.memcpy(bytes, 1, address, 1, 2));
    expect(bytes[0]).toBe(5);
    ok(rt.reset_device(3));
    expect(rt.reset_device(3)).toBe(507007); // the dead thread's use does not count
  });

  test("what a thread's function throws comes out of stop_thread", () => {
    start({ driver: "threads" });
    const thread = ok(acl.util.start_thread(`${helper}#fail`, []));
    expect(acl.util.stop_thread(thread)).toBe(500000);
    expect(acl.get_recent_err_msg()).toContain("on purpose");
    expect(acl.util.stop_thread(thread)).toBe(107000);
    expect(codeOf(acl.util.start_thread("no-name", []))).toBe(107000);
  });
});
