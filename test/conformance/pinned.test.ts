/** Feeds and outputs in pinned memory: used in place, in stream order, and never where that would change a result. */
import { type Device, type Executor, type HostBuffer, Tensor } from "npurt";
import { Probe } from "../../dist/asm/abi/task";
import { failureOf, onEachDriver, ramp } from "./drivers";
import { copy, executorOf, handMade, probe } from "./programs";

const COUNT = 16;
const BYTES = COUNT * 4;
const copier = (device: Device): Executor => executorOf(device, handMade([[copy]]));
const tensor = (data: Int32Array): Tensor => new Tensor("int32", [data.length], data);

function view(buffer: HostBuffer, offset = 0): Int32Array {
  const whole = buffer.view("int32") as Int32Array;
  return offset === 0 && whole.length === COUNT ? whole : whole.subarray(offset / 4, offset / 4 + COUNT);
}

function pinned(device: Device, sizeBytes = BYTES): Int32Array {
  const made = view(device.allocatePinned(sizeBytes));
  made.fill(0);
  return made;
}

onEachDriver("nothing is copied, on any path to a run", async (device) => {
  const executor = copier(device);
  const feed = pinned(device);
  const outputs = { y: tensor(pinned(device)) };
  const stream = device.createStream();
  const before = device.info().copiedBytes;
  const paths = [
    () => executor.run({ x: feed }, { outputs }),
    () => executor.run({ x: tensor(feed) }, { outputs, stream }),
    () => executor.run({ x: feed }, { outputs, signal: new AbortController().signal }),
    async () => executor.runSync({ x: feed }, { outputs, allowMainThread: true }),
  ];
  for (const [round, path] of paths.entries()) {
    feed.set(ramp(COUNT, 100 * round));
    expect((await path()).y).toBe(outputs.y);
    expect(outputs.y.data).toEqual(ramp(COUNT, 100 * round));
  }
  expect(device.info().copiedBytes).toBe(before);
  await executor.run({ x: ramp(COUNT) });
  expect(device.info().copiedBytes).toBe(before + 2 * BYTES);
});

onEachDriver("a frame goes back to its own memory afterwards", async (device) => {
  const executor = executorOf(device, handMade([[copy]]), 1);
  const feed = pinned(device);
  const outputs = { y: tensor(pinned(device)) };
  feed.set(ramp(COUNT, 5));
  await executor.run({ x: feed }, { outputs });
  const own = await executor.run({ x: ramp(COUNT, 1000) });
  expect(own.y!.data).toEqual(ramp(COUNT, 1000));
  expect(outputs.y.data).toEqual(ramp(COUNT, 5));
  expect(feed).toEqual(ramp(COUNT, 5));
});

onEachDriver("views inside a larger pinned buffer work, aligned or not", async (device) => {
  const executor = copier(device);
  const large = device.allocatePinned(1024);
  (large.view("int32") as Int32Array).fill(-1);
  const [feed, odd, target] = [view(large, 128), view(large, 260), view(large, 512)];
  feed.set(ramp(COUNT));
  odd.set(ramp(COUNT, 50));
  const before = device.info().copiedBytes;
  await executor.run({ x: feed }, { outputs: { y: tensor(target) } });
  expect(device.info().copiedBytes).toBe(before);
  expect(target).toEqual(ramp(COUNT));
  await executor.run({ x: odd }, { outputs: { y: tensor(target) } });
  expect(device.info().copiedBytes).toBe(before + BYTES);
  expect(target).toEqual(ramp(COUNT, 50));
  const bytes = large.view("int32") as Int32Array;
  expect([bytes[31], bytes[48], bytes[127], bytes[144]]).toEqual([-1, -1, -1, -1]);
});

/** y = x, y + 1, and y = x once more: one too much if y lies over x. */
const reread = handMade([[copy], [probe(Probe.COUNT, 0, COUNT)], [copy]]);

onEachDriver("an output over its own feed does not disturb the run", async (device) => {
  const executor = executorOf(device, reread);
  const both = pinned(device);
  both.set(ramp(COUNT, 7));
  await executor.run({ x: both }, { outputs: { y: tensor(both) } });
  expect(both).toEqual(ramp(COUNT, 7));
});

onEachDriver("pinned feeds of queued runs are read when the run comes to them", async (device) => {
  const executor = executorOf(device, handMade([[copy]]), 1);
  const stream = device.createStream();
  const gate = device.allocate(8);
  await gate.write(new Uint8Array(8));
  const feed = pinned(device);
  const later = pinned(device);
  later.set(ramp(COUNT, 900));
  stream.waitValue(gate.address, 1n, { compare: "==" });
  stream.memcpy(feed, later);
  const runs = Array.from({ length: 3 }, () => executor.run({ x: feed }, { stream }));
  device.createStream().writeValue(gate.address, 1n);
  for (const { y } of await Promise.all(runs)) {
    expect(y!.data).toEqual(ramp(COUNT, 900));
  }
});

onEachDriver("memory that was disposed is refused, and the next run is right", async (device) => {
  const executor = copier(device);
  const buffer = device.allocatePinned(BYTES);
  const gone = view(buffer);
  const part = gone.subarray(0);
  buffer.dispose();
  await device.synchronize();
  for (const feeds of [{ x: gone }, { x: part }]) {
    expect((await failureOf(executor.run(feeds))).message).toMatch(/pinned buffer of a tensor was disposed/);
  }
  expect((await failureOf(executor.run({ x: ramp(COUNT) }, { outputs: { y: tensor(gone) } }))).code).toBe(107000);
  for (let i = 0; i < 8; i++) {
    expect((await executor.run({ x: ramp(COUNT, i) })).y!.data).toEqual(ramp(COUNT, i));
  }
});
