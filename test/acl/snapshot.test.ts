/** Snapshots of the process: the state machine, its callbacks and codes, and what a backup keeps. */
import { acl } from "npurt/acl";
import { codeOf, covers, finish, ok, start } from "./harness";

const { rt } = acl;
const [RUNNING, LOCKED, BACKED_UP] = [0, 1, 2];
let stream: number;
beforeEach(() => {
  start();
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
});
afterEach(finish);
const state = (): number => ok(rt.snap_shot_process_get_state());

test("lock, backup, restore, unlock: memory comes back, and nothing is launched meanwhile", () => {
  covers("rt.snap_shot_process_lock", "rt.snap_shot_process_unlock", "rt.snap_shot_process_backup", "rt.snap_shot_process_restore");
  covers("rt.snap_shot_process_get_state");
  const place = ok(rt.malloc(4096, 0));
  const target = ok(rt.malloc(4096, 0));
  ok(rt.memset_async(place, 4096, 0x5a, 4096, stream)); // the lock lets it run
  ok(rt.snap_shot_process_lock(-1));
  expect(ok(rt.stream_query(stream))).toBe(0);
  expect(state()).toBe(LOCKED);
  expect(rt.memset_async(place, 4096, 0, 4096, stream)).toBe(507906);
  expect(codeOf(rt.malloc(64, 0))).toBe(507906);
  ok(rt.snap_shot_process_backup());
  expect(state()).toBe(BACKED_UP);
  const bytes = new Uint8Array(4096);
  expect(rt.memcpy(bytes, 4096, place, 4096, 2)).toBe(507908);
  ok(rt.snap_shot_process_restore());
  expect(state()).toBe(LOCKED);
  ok(rt.snap_shot_process_unlock());
  expect(state()).toBe(RUNNING);
  ok(rt.memcpy_async(target, 4096, place, 4096, 3, stream));
  ok(rt.synchronize_stream(stream));
  ok(rt.memcpy(bytes, 4096, target, 4096, 2));
  expect(bytes.every((value) => value === 0x5a)).toBe(true);
});

test("a step out of order has the code of the step and changes nothing", () => {
  const steps = {
    lock: () => rt.snap_shot_process_lock(1000),
    unlock: () => rt.snap_shot_process_unlock(),
    backup: () => rt.snap_shot_process_backup(),
    restore: () => rt.snap_shot_process_restore(),
  };
  const codes = (): number[] => [steps.unlock(), steps.backup(), steps.restore()];
  expect(codes()).toEqual([507907, 507908, 507909]);
  ok(steps.lock());
  expect([steps.lock(), steps.restore(), state()]).toEqual([507906, 507909, LOCKED]);
  ok(steps.backup());
  expect([steps.lock(), steps.unlock(), steps.backup(), state()]).toEqual([507906, 507907, 507908, BACKED_UP]);
  ok(steps.restore());
  ok(steps.backup()); // again, as long as it is locked
  ok(steps.restore());
  ok(steps.unlock());
  expect(rt.snap_shot_process_lock(0)).toBe(107000);
});

test("work that does not drain in time: 507905, and the process runs on", () => {
  const gate = ok(rt.malloc(8, 0));
  ok(rt.memset(gate, 8, 0, 8));
  ok(rt.value_wait(gate, 1, 1, stream));
  expect(rt.snap_shot_process_lock(20)).toBe(507905);
  expect(state()).toBe(RUNNING);
  ok(rt.value_write(gate, 1, 0, ok(rt.create_stream())));
  ok(rt.synchronize_stream(stream));
});

test("callbacks hear of each stage, in order; one that fails stops the step", () => {
  covers("rt.snap_shot_callback_register", "rt.snap_shot_callback_unregister");
  const heard: unknown[] = [];
  const note = (stage: number, args: unknown): void => void heard.push([stage, args, state()]);
  for (const stage of [0, 1, 2, 3, 4, 5]) ok(rt.snap_shot_callback_register(stage, note, "mine"));
  ok(rt.snap_shot_process_lock(1000));
  ok(rt.snap_shot_process_backup());
  ok(rt.snap_shot_process_restore());
  ok(rt.snap_shot_process_unlock());
  const states = [RUNNING, LOCKED, BACKED_UP, BACKED_UP, LOCKED, RUNNING];
  expect(heard).toEqual(states.map((value, stage) => [stage, "mine", value]));
  ok(rt.snap_shot_callback_unregister(0, note));
  expect(rt.snap_shot_callback_unregister(0, note)).toBe(507913);
  expect(rt.snap_shot_callback_register(6, note)).toBe(107000);
  const refuse = (): number => 7;
  ok(rt.snap_shot_callback_register(0, refuse));
  expect([rt.snap_shot_process_lock(1000), state()]).toEqual([507912, RUNNING]);
  ok(rt.snap_shot_callback_unregister(0, refuse));
  ok(
    rt.snap_shot_callback_register(1, () => {
      throw new Error("no");
    }),
  );
  ok(rt.snap_shot_process_lock(1000));
  expect([rt.snap_shot_process_backup(), state()]).toEqual([507912, LOCKED]);
  ok(rt.snap_shot_process_unlock());
});
