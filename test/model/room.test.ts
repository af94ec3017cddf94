/** Programs of shapes that nobody runs now make room for a new one: the shapes together need more than the device has, each alone does not. */
import { Device, Executor, Tensor } from "npurt";
import { model } from "../ops/models";

const INNER = 64;
const WIDE = 4096;
const MEMORY = 128 * 2 ** 20;
const ROWS = [1200, 1100, 1000, 900, 800];

/** sum over j of (x W)[i, j], with a W of one row of weights per inner dim: x W is what the arena holds. */
const sumOfProducts = (weights: Float64Array): Uint8Array =>
  model({
    inputs: [{ name: "x", dtype: "float32", dims: ["n", INNER] }],
    constants: {
      w: { dtype: "float32", dims: [INNER, WIDE], data: weights },
      axes: { dtype: "int64", dims: [1], data: BigInt64Array.of(1n) as never },
    },
    nodes: [
      { op: "MatMul", inputs: ["x", "w"], outputs: ["product"] },
      { op: "ReduceSum", inputs: ["product", "axes"], outputs: ["y"] },
    ],
    outputs: [{ name: "y", dtype: "float32", dims: ["n", 1] }],
  });

test("five shapes on a device with room for two", async () => {
  const weights = Float64Array.from({ length: INNER * WIDE }, (_, i) => Math.fround(Math.sin(i)));
  const rowSums = Array.from({ length: INNER }, (_, k) => weights.subarray(k * WIDE, (k + 1) * WIDE).reduce((sum, value) => sum + value, 0));
  const device = await Device.open({ cores: 2, memoryBytes: MEMORY });
  await device.ready();
  const executor = await Executor.load(sumOfProducts(weights), { device, shapes: { x: [ROWS[0]!, INNER] } });
  let arenas = 0;
  for (const rows of ROWS) {
    const x = Float32Array.from({ length: rows * INNER }, (_, i) => Math.fround(Math.cos(i)));
    const { y } = await executor.run({ x: new Tensor("float32", [rows, INNER], x) });
    arenas += executor.program.arenaBytes * 3;
    for (const row of [0, rows - 1]) {
      const want = rowSums.reduce((sum, weight, k) => sum + weight * x[row * INNER + k]!, 0);
      expect(Math.abs((y!.data as Float32Array)[row]! - want)).toBeLessThan(1e-2);
    }
  }
  expect(arenas).toBeGreaterThan(MEMORY);
  await device.close();
});

test("a shape with room for one run at a time: runs take turns", async () => {
  const weights = Float64Array.from({ length: INNER * WIDE }, () => 1);
  const device = await Device.open({ cores: 2, memoryBytes: MEMORY });
  await device.ready();
  const executor = await Executor.load(sumOfProducts(weights), { device, shapes: { x: [4000, INNER] } });
  expect(executor.program.arenaBytes * 3).toBeGreaterThan(MEMORY);
  const runs = [1, 2, 3, 4].map((value) => executor.run({ x: new Tensor("float32", [4000, INNER], new Float32Array(4000 * INNER).fill(value)) }));
  for (const [i, { y }] of (await Promise.all(runs)).entries()) expect((y!.data as Float32Array)[3999]).toBe((i + 1) * INNER * WIDE);
  await device.close();
});
