/** Two real models through the public API: right on every driver, and bit for bit the same whatever the driver and the number of cores. */
import fs from "node:fs";
import { Device, type DeviceOptions, Executor, Tensor, type TensorData } from "npurt";
import { differences } from "../ops/compare";
import { hasSuites, modelFile, NO_SUITES, readTensor } from "../ops/suite";

const DEVICES: readonly DeviceOptions[] = [
  { driver: "inline" },
  { driver: "sim", cores: 1 },
  { driver: "sim", cores: 2, seed: 5 },
  { driver: "sim", cores: 4, seed: 6 },
  { driver: "threads", cores: 1 },
  { driver: "threads", cores: 2, helpBelowNs: 0 },
  { driver: "threads", cores: 4 },
];
/** Published tolerances of both models (their data.json). */
const CLOSE = { relative: 1e-3, absolute: 1e-4 };
const MODELS = [
  ["mnist_8", 3],
  ["super_resolution_10", 1],
] as const;

if (!hasSuites) {
  test.skip(`skipped: ${NO_SUITES}`, () => undefined);
} else {
  test.each(MODELS)("%s", async (model, sets) => {
    const reference = Array.from({ length: sets }, () => undefined as TensorData | undefined);
    for (const options of DEVICES) {
      const device = await Device.open({ memoryBytes: 256 * 2 ** 20, ...options });
      await device.ready();
      const executor = await Executor.load(modelFile(model, "model.onnx"), { device });
      for (let set = 0; set < sets; set++) {
        const feed = readFeed(model, set);
        const want = readTensor(modelFile(model, `test_data_set_${set}/output_0.pb`));
        const results = await executor.run({ [executor.inputs[0]!.name]: feed });
        const [got] = Object.values(results);
        expect(differences(got as never, want, CLOSE)).toEqual([]);
        reference[set] ??= got!.data;
        expect(Buffer.compare(bytesOf(got!.data), bytesOf(reference[set]!))).toBe(0);
      }
      await executor.dispose();
      await device.close();
    }
  });

  test("many runs of one executor are in flight at once and each gets its own result", async () => {
    const device = await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20 });
    const executor = await Executor.load(fs.readFileSync(modelFile("mnist_8", "model.onnx")), { device });
    const name = executor.inputs[0]!.name;
    const feeds = [0, 1, 2].map((set) => readFeed("mnist_8", set));
    const alone: TensorData[] = [];
    for (const feed of feeds) alone.push(Object.values(await executor.run({ [name]: feed }))[0]!.data);
    const streams = [0, 1, 2, 3].map(() => device.createStream());
    const together = await Promise.all(
      Array.from({ length: 120 }, (_, i) => executor.run({ [name]: feeds[i % 3]! }, i % 5 === 4 ? {} : { stream: streams[i % 4]! })),
    );
    together.forEach((results, i) => {
      expect(Buffer.compare(bytesOf(Object.values(results)[0]!.data), bytesOf(alone[i % 3]!))).toBe(0);
    });
    await device.close();
  });
}

/** The suite's reader widens to float64, which holds every float32. */
function readFeed(model: string, set: number): Tensor {
  const { dims, data } = readTensor(modelFile(model, `test_data_set_${set}/input_0.pb`));
  return new Tensor("float32", [...dims], Float32Array.from(data as Float64Array));
}

function bytesOf(data: TensorData): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}
