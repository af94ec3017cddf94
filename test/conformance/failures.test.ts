/** What happens when tasks fail: failure modes, their scope, what the error says, stuck and killed cores. */
import { Device, type DeviceOptions, Executor, type Probe } from "npurt";
import { model } from "../ops/models";
import { DRIVERS, failureOf, onEachDriver } from "./drivers";

const FAULTS: readonly [Probe["probe"], number, RegExp][] = [
  ["unreachable", 507015, /PROBE task executed an illegal instruction/],
  ["outOfBounds", 507042, /accessed an address outside the device's memory/],
  ["divideByZero", 507015, /divided an integer by zero/],
];

onEachDriver("CONTINUE: the next synchronize reports a failure once, later tasks run", async (device) => {
  const stream = device.createStream();
  const word = device.allocate(4);
  expect(stream.failureMode).toBe("CONTINUE");
  for (const [probe, code, text] of FAULTS) {
    stream.memset(word, 0);
    stream.launch({ probe });
    stream.memset(word, 9);
    const error = await failureOf(stream.synchronize());
    expect(error.code).toBe(code);
    expect(error.message).toMatch(text);
    expect(error.task).toMatchObject({ device: device.id, stream: stream.id, op: "PROBE" });
    expect(error.failures).toHaveLength(1);
    expect([...(await word.read())]).toEqual([9, 9, 9, 9]);
    await stream.synchronize();
  }
});

onEachDriver("an index out of range is named with its node, and the next run is right", async (device) => {
  const bytes = model({
    opset: 18,
    nodes: [{ op: "Gather", name: "rows", inputs: ["x", "at"], outputs: ["y"] }],
    inputs: [
      { name: "x", dtype: "float32", dims: [3, 2] },
      { name: "at", dtype: "int64", dims: [2] },
    ],
    outputs: [{ name: "y" }],
  });
  const executor = await Executor.load(bytes, { device });
  const x = Float32Array.of(1, 2, 3, 4, 5, 6);
  for (const at of [BigInt64Array.of(0n, 3n), BigInt64Array.of(-4n, 0n)]) {
    const error = await failureOf(executor.run({ x, at }));
    expect([error.code, error.node]).toEqual([507015, "rows"]);
    expect(error.message).toMatch(/node "rows" met an index out of range/);
  }
  const { y } = await executor.run({ x, at: BigInt64Array.of(2n, -3n) });
  expect(y!.data).toEqual(Float32Array.of(5, 6, 1, 2));
});

onEachDriver("CONTINUE: the latest failure gives the code, `failures` has all in order", async (device) => {
  const stream = device.createStream();
  stream.launch({ probe: "divideByZero" });
  stream.nop();
  stream.launch({ probe: "outOfBounds" });
  const error = await failureOf(stream.synchronize());
  expect(error.code).toBe(507042);
  expect(error.failures.map(({ code }) => code)).toEqual([507015, 507042]);
  await stream.synchronize();
});

onEachDriver("CONTINUE: a failure stays with its stream", async (device) => {
  const [bad, good] = [device.createStream(), device.createStream()];
  bad.launch({ probe: "unreachable" });
  good.nop(10);
  await good.synchronize();
  expect((await failureOf(device.synchronize())).code).toBe(507015);
  await device.synchronize();
});

onEachDriver("STOP: one failure stops every stream of the context until reset", async (device) => {
  const context = device.createContext();
  const [bad, other] = [context.createStream(), context.createStream()];
  const outside = device.createStream();
  const word = device.allocate(4);
  other.memset(word, 1);
  await other.synchronize();
  bad.setFailureMode("STOP");
  bad.setFailureMode("STOP");
  expect(other.failureMode).toBe("STOP");
  const event = context.createEvent();
  bad.launch({ probe: "divideByZero" });
  bad.memset(word, 2);
  bad.record(event);
  for (let i = 0; i < 2; i++) {
    expect((await failureOf(bad.synchronize())).code).toBe(507015);
    expect((await failureOf(other.synchronize())).code).toBe(507015);
  }
  expect((await failureOf(() => other.nop())).code).toBe(507015);
  expect((await failureOf(() => other.query())).code).toBe(507015);
  await event.synchronize(); // waiters are let go, not hung
  expect([...(await word.read())]).toEqual([1, 1, 1, 1]);
  outside.nop();
  await outside.synchronize(); // other contexts go on
  expect((await failureOf(() => bad.setFailureMode("CONTINUE"))).code).toBe(207000);
  await context.reset();
  bad.memset(word, 3);
  await bad.synchronize();
  expect([...(await word.read())]).toEqual([3, 3, 3, 3]);
  await context.destroy();
});

onEachDriver("endless probes are refused where they would hang the caller", async (device, driver) => {
  if (driver !== "threads") {
    expect((await failureOf(() => device.createStream().launch({ probe: "runaway" }))).code).toBe(207000);
  }
});

async function withThreads(options: DeviceOptions, body: (device: Device) => Promise<void>): Promise<void> {
  const device = await Device.open({ memoryBytes: 64 << 20, driver: "threads", cores: 2, ...options });
  try {
    await device.ready();
    await body(device);
  } finally {
    await device.close({ timeoutMs: 0 });
  }
}

test("a kernel that polls is stopped by the watchdog, and no core is lost", () =>
  withThreads({ watchdogMs: 100 }, async (device) => {
    const stream = device.createStream();
    stream.launch({ probe: "runawayPolling" });
    const error = await failureOf(stream.synchronize());
    expect(error.code).toBe(507014);
    expect(error.message).toMatch(/longer than the watchdog allows and was stopped/);
    expect(device.info().killedCores).toBe(0);
    stream.nop();
    await stream.synchronize();
  }));

test("a core that never returns is killed and replaced; other streams never notice", () =>
  withThreads({ watchdogMs: 300 }, async (device) => {
    const [bad, good] = [device.createStream(), device.createStream()];
    for (let round = 1; round <= 3; round++) {
      bad.launch({ probe: "runaway" });
      let settled = false;
      const stuck = failureOf(bad.synchronize()).finally(() => {
        settled = true;
      });
      let turns = 0;
      while (!settled) {
        good.nop(20);
        await good.synchronize();
        turns += settled ? 0 : 1;
      }
      expect(turns).toBeGreaterThan(0); // about half a second has gone by
      const error = await stuck;
      expect(error.code).toBe(507014);
      expect(error.message).toMatch(/its core was terminated and replaced/);
      expect(device.info().killedCores).toBe(round);
      bad.nop();
      await bad.synchronize();
    }
    for (let wait = 0; device.info().coresUp < 2 && wait < 500; wait++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(device.info().coresUp).toBe(2);
  }));

test("all cores stuck at once are all replaced", () =>
  withThreads({ watchdogMs: 100 }, async (device) => {
    const streams = [device.createStream(), device.createStream(), device.createStream()];
    for (const stream of streams) {
      stream.launch({ probe: "runaway" });
    }
    const codes = await Promise.all(streams.map(async (stream) => (await failureOf(stream.synchronize())).code));
    expect(codes).toEqual([507014, 507014, 507014]);
    expect(device.info().killedCores).toBe(3);
  }));

test("traps in a row leave the device as it was", async () => {
  for (const driver of DRIVERS) {
    const device = await Device.open({ memoryBytes: 64 << 20, ...driver });
    const stream = device.createStream();
    const used = device.info().usedBytes;
    for (let i = 0; i < (driver.driver === "threads" ? 300 : 1000); i++) {
      stream.launch({ probe: FAULTS[i % 3]![0] });
      expect((await failureOf(stream.synchronize())).code).toBe(FAULTS[i % 3]![1]);
    }
    stream.nop();
    await stream.synchronize();
    expect(device.info().usedBytes - used).toBeLessThan(65536); // the ring of the stream
    await device.close();
  }
});
