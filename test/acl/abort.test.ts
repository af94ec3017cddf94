/** Kernels that run when they should not: stopped from a blocked thread, from any thread, and by their time limits. Nobody here gives the event loop a turn. */
import path from "node:path";
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "./harness";
import { helperKernels } from "./kernels/build";

const { rt, util } = acl;
const worker = path.join(__dirname, "abort-thread.cjs");
let stream = 0;
let binary = 0;

function begin(emulator: Parameters<typeof start>[0] = {}): void {
  start({ driver: "threads", cores: 2, ...emulator });
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
  binary = ok(rt.binary_load_from_file(helperKernels()));
}
afterEach(finish);

const address = (value: number): BigUint64Array => BigUint64Array.of(BigInt(value));
const zeros = (): number => {
  const place = ok(rt.malloc(64, 0));
  ok(rt.memset(place, 64, 0, 64));
  return place;
};
const read = (place: number): number => {
  const data = new Int32Array(1);
  ok(rt.memcpy(data, 4, place, 4, 2));
  return data[0]!;
};
function launch(name: string, on = stream, word = zeros(), us = 0): number {
  const config = us === 0 ? [] : [{ id: 8, value: us }];
  ok(rt.launch_kernel_with_args_array(ok(rt.binary_get_function(binary, name)), 1, on, config, [address(word)]));
  return word;
}
/** Waits until a core runs a kernel: the stream behind an event has started. */
function letStart(): void {
  const end = performance.now() + 30;
  while (performance.now() < end) {
    // a kernel is picked up within microseconds; cores are up as the test's first launch has run
  }
}
function warm(): void {
  const word = launch("EasyOP");
  ok(rt.synchronize_stream(stream));
  expect(read(word)).toBe(1);
}

describe.each(["Runaway", "RunawayPolling"])("%s", (name) => {
  test("a time limit of the launch stops it while the caller blocks, and the core works on", () => {
    begin();
    for (let i = 0; i < 3; i++) {
      launch(name, stream, zeros(), 20_000);
      const next = launch("EasyOP");
      expect(rt.synchronize_stream(stream)).toBe(507034);
      expect(read(next)).toBe(1); // CONTINUE: what was queued behind it ran
      expect(rt.synchronize_stream(stream)).toBe(0);
    }
  });

  test("device_task_abort stops it from a blocked call; every stream is empty and works again", () => {
    covers("rt.device_task_abort");
    begin();
    warm();
    const other = ok(rt.create_stream());
    launch(name);
    const dropped = launch("EasyOP");
    ok(rt.value_wait(zeros(), 1, 1, other));
    letStart();
    ok(rt.device_task_abort(0, 10_000));
    expect(read(dropped)).toBe(0);
    expect([rt.synchronize_stream(stream), rt.synchronize_stream(other)]).toEqual([0, 0]);
    warm();
  });

  test("stream_abort stops it; the stream gives 107023 from then on, others go on", () => {
    covers("rt.stream_abort");
    begin();
    warm();
    const other = ok(rt.create_stream());
    launch(name);
    const dropped = launch("EasyOP");
    letStart();
    ok(rt.stream_abort(stream));
    const after = launch("EasyOP", other);
    ok(rt.synchronize_stream(other));
    expect([read(dropped), read(after)]).toEqual([0, 1]);
    expect(rt.synchronize_stream(stream)).toBe(107023);
    expect(rt.memset_async(after, 4, 0, 4, stream)).toBe(107023);
    ok(rt.destroy_stream(stream));
    stream = other;
    warm();
  });

  test("destroy_stream_force and reset_device_force do not wait for it", () => {
    begin();
    warm();
    launch(name);
    letStart();
    ok(rt.destroy_stream_force(stream));
    stream = ok(rt.create_stream());
    warm();
    launch(name);
    letStart();
    ok(rt.reset_device_force(0));
    begin2();
    warm();
  });
});

function begin2(): void {
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
  binary = ok(rt.binary_load_from_file(helperKernels()));
}

test("the process-wide limit of kernels holds for launches that bring none", () => {
  covers("rt.set_op_execute_time_out", "rt.get_op_execute_timeout");
  begin();
  ok(rt.set_op_execute_time_out(1)); // one interval of the hardware
  const limit = ok(rt.get_op_execute_timeout());
  expect(limit).toBe(Math.round(ok(rt.get_op_timeout_interval()) / 1000));
  launch("RunawayPolling");
  const began = performance.now();
  expect(rt.synchronize_stream(stream)).toBe(507034);
  expect(performance.now() - began).toBeGreaterThan(limit - 200); // not stopped by anything earlier
});

test("a thread that did not open the device has its runaway kernel stopped as well", () => {
  begin();
  warm();
  const thread = ok(util.start_thread(`${worker}#runaway`, [helperKernels()]));
  ok(util.stop_thread(thread));
  warm();
});

test("while device_task_abort runs, launches give 107022 in every thread; a second abort too", () => {
  begin();
  warm();
  launch("Runaway");
  letStart();
  const word = zeros();
  const thread = ok(util.start_thread(`${worker}#launchWhileAborting`, [word]));
  for (const end = Date.now() + 20_000; read(word) === 0; ) {
    expect(Date.now()).toBeLessThan(end); // the other thread is at work
  }
  // The kernel does not poll, so the abort takes a quarter of a second: long enough for the other thread to see it.
  ok(rt.device_task_abort(0, 10_000));
  ok(util.stop_thread(thread));
  expect(codeOf(rt.device_task_abort(0, -1))).toBe(107000);
});
