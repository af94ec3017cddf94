/** After warm-up a run with preallocated outputs allocates nothing on the device and leaves no growth on the host's heap. */
import { execFileSync } from "node:child_process";
import path from "node:path";

const ROOT = path.join(__dirname, "../..");
/** In a process of its own with --expose-gc: jest's own heap moves too much. Prints {device, heapKiB}. */
const BODY = `
const { Device, Executor, Tensor } = require(${JSON.stringify(path.join(ROOT, "dist/lib/index.js"))});
(async () => {
  const device = await Device.open(JSON.parse(process.argv[1]));
  await device.ready();
  const executor = await Executor.load(${JSON.stringify(path.join(ROOT, "examples/digits/digits.onnx"))}, { device });
  await executor.warmUp();
  const { inputs, outputs } = executor;
  const one = (value) => new Tensor(value.dtype, value.dims.map((d) => (typeof d === "number" ? d : 1)), new Float32Array(value.dims.reduce((n, d) => n * (typeof d === "number" ? d : 1), 1)));
  const feeds = { [inputs[0].name]: one(inputs[0]) };
  const into = { [outputs[0].name]: one(outputs[0]) };
  const runs = async (n) => { for (let i = 0; i < n; i++) await executor.run(feeds, { outputs: into }); };
  await runs(5000); // past the last tier-up
  gc();
  const before = { allocations: device.info().allocations, used: device.info().usedBytes, serial: device.info().peakBytes, heap: process.memoryUsage().heapUsed };
  await runs(10000);
  gc();
  const { allocations, usedBytes, peakBytes } = device.info();
  console.log(JSON.stringify({
    device: [allocations - before.allocations, usedBytes - before.used, peakBytes - before.serial],
    heapKiB: Math.round((process.memoryUsage().heapUsed - before.heap) / 1024),
  }));
  await device.close();
})();`;

test.each([
  ["inline", { driver: "inline", memoryBytes: 64 * 2 ** 20 }],
  ["threads", { driver: "threads", cores: 2, memoryBytes: 64 * 2 ** 20 }],
  ["threads without help of the caller", { driver: "threads", cores: 2, memoryBytes: 64 * 2 ** 20, helpBelowNs: 0 }],
])("10,000 runs, %s", (_, options) => {
  const output = execFileSync(process.execPath, ["--expose-gc", "-e", BODY, JSON.stringify(options)], { encoding: "utf8" });
  const { device, heapKiB } = JSON.parse(output) as { device: number[]; heapKiB: number };
  expect(device).toEqual([0, 0, 0]);
  expect(heapKiB).toBeLessThan(256);
});
