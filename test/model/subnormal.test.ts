/** Weights and biases below the smallest normal float32 are packed as zeros, and nobody can tell from the results. */
import { Device, Executor, Tensor } from "npurt";
import { compileModel } from "../../dist/lib/compile/compile";
import { model } from "../ops/models";

const CHANNELS = 24;
const TINY = 1e-40;

/** Every third one is subnormal. */
const weightAt = (i: number): number => (i % 3 === 0 ? TINY : Math.fround(Math.sin(i)));
const weights = Float32Array.from({ length: CHANNELS * CHANNELS }, (_, i) => weightAt(i));
const bias = Float32Array.from({ length: CHANNELS }, (_, i) => (i % 2 === 0 ? TINY : i));
const values = Float32Array.from({ length: CHANNELS }, (_, i) => Math.fround(Math.cos(i)));

const conv = (): Uint8Array =>
  model({
    inputs: [{ name: "x", dtype: "float32", dims: [1, CHANNELS, 1, 1] }],
    constants: {
      w: { dtype: "float32", dims: [CHANNELS, CHANNELS, 1, 1], data: Float64Array.from(weights) },
      b: { dtype: "float32", dims: [CHANNELS], data: Float64Array.from(bias) },
    },
    nodes: [{ op: "Conv", inputs: ["x", "w", "b"], outputs: ["y"] }],
    outputs: [{ name: "y", dtype: "float32", dims: [1, CHANNELS, 1, 1] }],
  });

test("no subnormal number reaches the device's data", () => {
  const { data } = compileModel(conv());
  const words = data.flatMap(({ bytes }) => [...new Uint32Array(bytes.slice().buffer)]);
  expect(words.length).toBeGreaterThanOrEqual(CHANNELS * CHANNELS);
  expect(words.filter((word) => (word & 0x7f80_0000) === 0 && (word & 0x007f_ffff) !== 0)).toEqual([]);
});

test("results are those of float64 with all weights", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 64 * 2 ** 20 });
  const executor = await Executor.load(conv(), { device });
  const { y } = await executor.run({ x: new Tensor("float32", [1, CHANNELS, 1, 1], values) });
  const got = y!.data as Float32Array;
  for (let out = 0; out < CHANNELS; out++) {
    const want = values.reduce((sum, value, k) => sum + value * weights[out * CHANNELS + k]!, bias[out]!);
    expect(Math.abs(got[out]! - want)).toBeLessThanOrEqual(1e-5 * CHANNELS);
  }
  await device.close();
});
