/**
 * The real models of the suites folder through npurt/ort: right on every driver, and bit for bit the same whatever the driver and the number of cores.
 */
import fs from "node:fs";
import path from "node:path";
import { Device, type DeviceOptions } from "npurt";
import { InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { arrayOf, type TensorData } from "../../dist/lib/runtime/tensor";
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

if (!hasSuites) {
  console.log(`skipped: ${NO_SUITES}`);
  test.skip(`skipped: ${NO_SUITES}`, () => undefined);
} else {
  // Seven devices each, some on one thread.
  jest.setTimeout(180_000);
  test.each(fs.readdirSync(modelFile("", "")).sort())("%s", async (name) => {
    const sets = setsOf(name);
    const first: Tensor[][] = [];
    for (const options of DEVICES) {
      const device = await Device.open({ memoryBytes: 512 * 2 ** 20, ...options });
      await device.ready();
      const session = await InferenceSession.create(modelFile(name, "model.onnx"), { executionProviders: [{ name: "npurt", device }] });
      for (const [index, set] of sets.entries()) {
        const results = await runSet(session, set);
        if (first[index] === undefined) expect(wrongOnes(results, set)).toEqual([]);
        first[index] ??= results;
        results.forEach((result, i) => expect(Buffer.compare(bytesOf(result), bytesOf(first[index]![i]!))).toBe(0));
      }
      await session.release();
      await device.close();
    }
  });
}

interface DataSet {
  readonly folder: string;
  readonly tolerance: { readonly relative: number; readonly absolute: number };
}

function setsOf(name: string): DataSet[] {
  const folder = modelFile(name, "");
  const { rtol = 1e-3, atol = 1e-7 } = JSON.parse(fs.readFileSync(path.join(folder, "data.json"), "utf8")) as { rtol?: number; atol?: number };
  const names = fs.readdirSync(folder).filter((entry) => entry.startsWith("test_data_set"));
  return names.sort().map((set) => ({ folder: path.join(folder, set), tolerance: { relative: rtol, absolute: atol } }));
}

async function runSet(session: InferenceSession, { folder }: DataSet): Promise<Tensor[]> {
  const feeds = session.inputNames.map((name, i) => [name, feedOf(readTensor(path.join(folder, `input_${i}.pb`)))]);
  const results = await session.run(Object.fromEntries(feeds) as InferenceSession.FeedsType);
  return session.outputNames.map((name) => results[name]!);
}

const wrongOnes = (results: readonly Tensor[], { folder, tolerance }: DataSet): string[] =>
  results.flatMap(({ type, dims, data }, i) =>
    differences({ dtype: type, dims, data: data as never }, readTensor(path.join(folder, `output_${i}.pb`)), tolerance),
  );

/** The test's reader gives every number type but the 64-bit integers as float64. */
function feedOf({ dtype, dims, data }: ReturnType<typeof readTensor>): Tensor {
  return new Tensor(dtype as Tensor.Type, new (arrayOf(dtype))(data as TensorData) as never, dims);
}

function bytesOf({ data }: Tensor): Buffer {
  const { buffer, byteOffset, byteLength } = data as Float32Array;
  return Buffer.from(buffer, byteOffset, byteLength);
}
