/** Opening, describing, sharing and closing devices; memory. */
import { Worker } from "node:worker_threads";
import path from "node:path";
import { Device, type DeviceOptions } from "npurt";
import { coreOf } from "../../dist/lib/runtime/internals";
import { failureOf, onEachDriver, ramp } from "./drivers";

onEachDriver("a device describes itself", async (device, driver) => {
  const info = device.info();
  expect(info).toMatchObject({ device: device.id, open: true, driver, memoryBytes: 64 << 20, killedCores: 0 });
  expect(Device.list()[device.id]).toEqual({ device: device.id, open: true });
  await device.ready();
  expect(device.info().coresUp).toBe(driver === "inline" ? 1 : driver === "sim" ? 3 : 2);
  const buffer = device.allocate(1000);
  expect(device.info().usedBy.user).toBeGreaterThanOrEqual(1000);
  expect(device.info().allocations).toBe(info.allocations + 1);
  buffer.dispose();
  expect(device.info().usedBytes).toBe(info.usedBytes);
});

onEachDriver("memory: sizes, exhaustion, handles of parts", async (device) => {
  expect((await failureOf(() => device.allocate(0))).code).toBe(107000);
  expect((await failureOf(() => device.allocate(1.5))).code).toBe(107000);
  const error = await failureOf(() => device.allocate(65 << 20));
  expect(error.code).toBe(207001);
  expect(error.message).toMatch(/needs 68157440 bytes and the largest free block has \d+/);
  const buffer = device.allocate(400);
  expect(buffer.address % 64).toBe(0);
  await buffer.write(ramp(100));
  const part = device.at(buffer.address + 40, 8);
  expect(new Int32Array((await part.read()).buffer)).toEqual(Int32Array.of(10, 11));
  part.dispose();
  expect((await buffer.read()).length).toBe(400);
  expect((await failureOf(() => device.at(buffer.address + 396, 8))).message).toMatch(/4 bytes past the allocation of 400/);
  expect((await failureOf(() => device.at(12345, 8))).code).toBe(107000);
  expect((await failureOf(buffer.write(ramp(100), 8))).message).toMatch(/bytes 8 to 408 leave the buffer of 400/);
});

test("options are checked, and misspelt ones are named", async () => {
  const text = async (options: unknown): Promise<string> => (await failureOf(Device.open(options as DeviceOptions))).message;
  expect(await text({ coers: 2 })).toMatch(/unknown option "coers"; did you mean "cores"/);
  expect(await text({ driver: "thread" })).toMatch(/did you mean "threads"/);
  expect(await text({ cores: 0 })).toMatch(/cores is 0; pass a whole number from 1 to 64/);
  expect(await text({ memoryBytes: 1 })).toMatch(/memoryBytes is 1/);
  expect(await text({ driver: "sim", faults: { stall: 2 } })).toMatch(/faults.stall is 2/);
  expect(await text({ driver: "sim", faults: { stal: 0 } })).toMatch(/did you mean "stall"/);
  expect((await failureOf(Device.open({ device: 64 }))).code).toBe(107001);
});

test("a device opens once per thread, under its number", async () => {
  const device = await Device.open({ device: 5, driver: "inline" });
  expect(device.id).toBe(5);
  expect((await failureOf(Device.open({ device: 5, driver: "inline" }))).code).toBe(507033);
  await device.close();
  await device.close();
  const again = await Device.open({ device: 5, driver: "inline" });
  await again.close();
});

test("everything of a closed device says so", async () => {
  for (const driver of ["inline", "sim", "threads"] as const) {
    const device = await Device.open({ driver, cores: 1 });
    const stream = device.createStream();
    const buffer = device.allocate(64);
    const event = device.createEvent();
    await device.close();
    for (const call of [
      () => stream.nop(),
      () => stream.synchronize(),
      () => device.allocate(64),
      () => device.info(),
      () => device.createStream(),
      () => event.query(),
      () => buffer.read(),
      () => device.ready(),
    ]) {
      expect((await failureOf(async () => call())).code).toBe(507899);
    }
    buffer.dispose();
    event.destroy();
    await stream.destroy();
  }
});

test("closing lets tasks in flight finish; closing at once tells whoever waits", async () => {
  for (const driver of ["inline", "sim", "threads"] as const) {
    const device = await Device.open({ driver, cores: 1 });
    const stream = device.createStream();
    stream.nop(200);
    stream.launch({ probe: "spin", argument: 100_000 });
    const waiting = stream.synchronize();
    await Promise.all([device.close(), waiting]);
  }
  const device = await Device.open({ driver: "threads", cores: 1 });
  const stream = device.createStream();
  stream.launch({ probe: "spin", argument: 100_000_000 });
  const waiting = failureOf(stream.synchronize());
  await device.close({ timeoutMs: 0 });
  expect((await waiting).code).toBe(507899);
});

test("memories are reused, and come back clean", async () => {
  for (let round = 0; round < 20; round++) {
    const device = await Device.open({ driver: "inline", memoryBytes: 32 << 20 });
    const second = await Device.open({ driver: "inline", memoryBytes: 32 << 20 });
    expect(coreOf.device(second as never).machine.memory).not.toBe(coreOf.device(device as never).machine.memory);
    const buffer = device.allocate(1 << 20);
    const bytes = await buffer.read();
    expect(bytes.every((byte) => byte === 0)).toBe(true);
    await buffer.write(new Uint8Array(1 << 20).fill(round + 1));
    const stream = device.createStream();
    stream.launch({ probe: "unreachable" });
    expect((await failureOf(stream.synchronize())).task?.sequence).toBe(1);
    await Promise.all([device.close(), device.close(), second.close()]);
  }
});

/** Runs `body` in a worker thread with the built package as `npurt`; resolves to what it posts. */
function inThread(body: string, workerData: unknown): { worker: Worker; result: Promise<unknown> } {
  const entry = JSON.stringify(path.join(__dirname, "../../dist/lib/index.js"));
  const source = `const npurt = require(${entry}); const { parentPort, workerData } = require("node:worker_threads");
    (async () => { ${body} })().catch((error) => parentPort.postMessage({ code: error.code, message: String(error.stack) }));`;
  const worker = new Worker(source, { eval: true, workerData });
  return { worker, result: new Promise((resolve) => worker.once("message", resolve)) };
}

test("another thread attaches, shares streams and memory, and lets go", async () => {
  const device = await Device.open({ driver: "threads", cores: 1, memoryBytes: 64 << 20 });
  const stream = device.createStream();
  const buffer = device.allocate(400);
  await buffer.write(ramp(100));
  const { worker, result } = inThread(
    `const device = npurt.Device.attach(workerData.device);
     const stream = npurt.Stream.attach(device, workerData.stream);
     const own = device.allocate(400);
     stream.memcpy(own, workerData.address, 400);
     const bytes = new Int32Array(100);
     stream.memcpy(bytes, own);
     stream.memset(workerData.address, 1, 400);
     await stream.synchronize();
     own.dispose();
     const executor = await npurt.Executor.load(workerData.model, { device });
     await executor.warmUp(); // and forgets to dispose it
     await device.close();
     parentPort.postMessage([...bytes]);`,
    { device: device.share(), stream: stream.share(), address: buffer.address, model: path.join(__dirname, "../../examples/digits/digits.onnx") },
  );
  expect(await result).toEqual([...ramp(100)]);
  expect((await buffer.read()).every((byte) => byte === 1)).toBe(true);
  expect(device.info().usedBy).toMatchObject({ user: 448, data: 0, program: 0, frame: 0, arena: 0 });
  await worker.terminate();
  await device.close();
});

test("when the opening thread ends or is terminated, attached threads are told within a second or two", async () => {
  for (const ending of ["process.exit(0)", "closed", "terminated"]) {
    const { worker, result } = inThread(
      `const device = await npurt.Device.open({ driver: "threads", cores: 1, memoryBytes: 64 << 20, watchdogMs: 60000 });
       await device.ready();
       parentPort.postMessage(device.share());
       parentPort.on("message", async () => { ${ending === "closed" ? "await device.close({ timeoutMs: 100 });" : ending === "terminated" ? "" : ending} });`,
      {},
    );
    const device = Device.attach((await result) as Parameters<typeof Device.attach>[0]);
    const stream = device.createStream();
    stream.launch({ probe: "runaway" });
    const waiting = failureOf(stream.synchronize());
    await new Promise((resolve) => setTimeout(resolve, 50));
    const started = performance.now();
    if (ending === "terminated") {
      void worker.terminate();
    } else {
      worker.postMessage(0);
    }
    expect((await waiting).code).toBe(507899);
    expect(performance.now() - started).toBeLessThan(3000);
    expect((await failureOf(async () => stream.nop())).code).toBe(507899);
    await device.close();
    await worker.terminate();
  }
});

test("devices that cannot be shared say why", async () => {
  const device = await Device.open({ driver: "inline" });
  expect((await failureOf(() => device.share())).code).toBe(207000);
  expect((await failureOf(() => Device.attach({} as never))).code).toBe(107000);
  await device.close();
});
