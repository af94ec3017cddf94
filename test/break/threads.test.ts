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
