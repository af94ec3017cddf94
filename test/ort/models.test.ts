/** The real models of the suites folder through npurt/ort in this process, as its runner does it in another: numbers of the reference, 1e-3 and 1e-7. */
import fs from "node:fs";
import path from "node:path";
import { Device } from "npurt";
import { InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { arrayOf, type TensorData } from "../../dist/lib/runtime/tensor";
import { differences } from "../ops/compare";
import { hasSuites, modelFile, NO_SUITES, readTensor } from "../ops/suite";

if (!hasSuites) {
  console.log(`skipped: ${NO_SUITES}`);
  test.skip(`skipped: ${NO_SUITES}`, () => undefined);
} else {
  let device: Device;
  beforeAll(async () => {
    device = await Device.open({ cores: 2 });
    await device.ready();
  });
  afterAll(() => device.close());

  const models = fs.readdirSync(modelFile("", "")).sort();
  test.each(models)("%s", async (name) => {
    const folder = modelFile(name, "");
    const tolerance = JSON.parse(fs.readFileSync(path.join(folder, "data.json"), "utf8")) as { rtol?: number; atol?: number };
    const session = await InferenceSession.create(path.join(folder, "model.onnx"));
    for (const set of fs.readdirSync(folder).filter((entry) => entry.startsWith("test_data_set"))) {
      const read = (kind: string) => (_: string, i: number) => readTensor(path.join(folder, set, `${kind}_${i}.pb`));
      const inputs = session.inputNames.map(read("input"));
      const feeds = Object.fromEntries(session.inputNames.map((input, i) => [input, feedOf(inputs[i]!)]));
      const results = await session.run(feeds);
      session.outputNames.map(read("output")).forEach((want, i) => {
        const { type, dims, data } = results[session.outputNames[i]!]!;
        const got = { dtype: type, dims, data: data as never };
        expect(differences(got, want, { relative: tolerance.rtol ?? 1e-3, absolute: tolerance.atol ?? 1e-7 })).toEqual([]);
      });
    }
    await session.release();
  });
}

function feedOf({ dtype, dims, data }: ReturnType<typeof readTensor>): Tensor {
  // The test's reader gives every number type but the 64-bit integers as float64.
  return new Tensor(dtype as Tensor.Type, new (arrayOf(dtype))(data as TensorData) as never, dims);
}
