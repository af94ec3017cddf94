/** Devices whose threads go away. */
import path from "node:path";
import { Worker } from "node:worker_threads";
import { AclError, Device } from "npurt";

const NPURT = JSON.stringify(path.resolve(__dirname, "../../dist/lib/index.js"));
const thread = (body: string, workerData?: unknown): Worker =>
  new Worker(
    `const { Device, Stream } = require(${NPURT}); const { parentPort, workerData } = require("node:worker_threads"); (async () => { ${body} })();`,
    {
      eval: true,
      workerData,
    },
  );
// biome-ignore lint/suspicious/noExplicitAny: messages have no type
const message = (worker: Worker): Promise<any> =>
  new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });

const OPENER = `const device = await Device.open({ cores: 1 }); await device.ready();
  const stream = device.createStream(); stream.launch({ probe: "runawayPolling" });
  parentPort.postMessage({ device: device.share(), stream: stream.share() }); setInterval(() => {}, 1000);`;

test("a thread that blocks in synchronizeSync is told when the opener is terminated", async () => {
  const opener = thread(OPENER);
  const tokens = await message(opener);
  const blocked = thread(
    `const stream = Stream.attach(Device.attach(workerData.device), workerData.stream);
     parentPort.postMessage("blocks"); try { stream.synchronizeSync(); } catch (error) { parentPort.postMessage(error.code); }`,
    tokens,
  );
  expect(await message(blocked)).toBe("blocks");
  const told = message(blocked);
  await opener.terminate();
  expect(await told).toBe(507899);
  await blocked.terminate();
});

test("a token that outlives its device meets no other device", async () => {
  const options = { cores: 1, memoryBytes: 32 * 2 ** 20 };
  const first = await Device.open(options);
  const token = first.share();
  await first.close();
  const second = await Device.open(options);
  const late = thread(
    `try { Device.attach(workerData); parentPort.postMessage("attached"); } catch (error) { parentPort.postMessage(error.code); }`,
    token,
  );
  expect(await message(late)).toBe(507899);
  await late.terminate();
  await second.close();
  for (const memory of [new WebAssembly.Memory({ initial: 1, maximum: 1 }), new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })]) {
    expect(() => Device.attach({ ...token, memory })).toThrow(AclError);
  }
});

test("threads that are terminated in the middle of runs leave the stream that they shared, and the device, at work", async () => {
  const device = await Device.open({ cores: 2, memoryBytes: 128 * 2 ** 20 });
  const stream = device.createStream();
  const model = path.resolve(__dirname, "../../examples/digits/digits.onnx");
  for (let round = 0; round < 12; round++) {
    const runs = new Int32Array(new SharedArrayBuffer(4));
    const runner = thread(
      `const { Executor, Tensor } = require(${NPURT});
       const device = Device.attach(workerData.device), stream = Stream.attach(device, workerData.stream);
       const executor = await Executor.load(workerData.model, { device, shapes: { image: [1, 1, 28, 28] } });
       for (;;) { await executor.run({ image: Tensor.zeros("float32", [1, 1, 28, 28]) }, { stream }); Atomics.add(workerData.runs, 0, 1); }`,
      { device: device.share(), stream: stream.share(), model, runs },
    );
    while (Atomics.load(runs, 0) < 10 + round) await new Promise((resolve) => setTimeout(resolve, 1));
    await runner.terminate();
    stream.nop();
    await stream.synchronize({ timeoutMs: 20_000 });
  }
  await device.close();
}, 120_000);
