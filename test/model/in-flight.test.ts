/** Many runs of one executor at once. */
import fs from "node:fs";
import { Device, Executor, Tensor, type TensorData } from "npurt";
import { hasSuites, modelFile, NO_SUITES, readTensor } from "../ops/suite";

if (!hasSuites) {
  test.skip(`skipped: ${NO_SUITES}`, () => undefined);
} else {
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
