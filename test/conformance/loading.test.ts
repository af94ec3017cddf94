/** Loading models through the compiler: sharing, shapes, giving up, what cannot be loaded. The model is the digits example's own. */
import fs from "node:fs";
import path from "node:path";
import { AclError, Device, Executor, Tensor } from "npurt";
import { model } from "../ops/models";
import { failureOf, onEachDriver } from "./drivers";

const file = path.join(__dirname, "../../examples/digits/digits.onnx");
const digits = (count: number, seed = 1): Tensor => {
  let state = seed;
  const data = Float32Array.from({ length: count * 784 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  });
  return new Tensor("float32", [count, 1, 28, 28], data);
};

onEachDriver("shapes are compiled as they come; a batch gives what its pictures give one by one", async (device) => {
  const executor = await Executor.load(file, { device });
  const name = executor.inputs[0]!.name;
  const output = executor.outputs[0]!.name;
  const three = digits(3);
  const batch = (await executor.run({ [name]: three }))[output]!;
  expect(batch.dims).toEqual([3, 10]);
  for (let i = 0; i < 3; i++) {
    const one = new Tensor("float32", [1, 1, 28, 28], (three.data as Float32Array).slice(i * 784, (i + 1) * 784));
    const single = (await executor.run({ [name]: one }))[output]!;
    const sum = [...(single.data as Float32Array)].reduce((a, b) => a + b, 0);
    expect(sum).toBeCloseTo(1, 4); // probabilities
    for (let k = 0; k < 10; k++) {
      expect((batch.data as Float32Array)[i * 10 + k]).toBeCloseTo((single.data as Float32Array)[k]!, 5);
    }
  }
  executor.dispose();
});

onEachDriver("many new shapes at once, with room for two: every answer has its shape, and memory goes back", async (device) => {
  const warm = await Executor.load(file, { device, frames: 8 });
  const name = warm.inputs[0]!.name;
  await Promise.all(Array.from({ length: 8 }, () => warm.run({ [name]: digits(1) })));
  const executor = await Executor.load(file, { device, programs: 2 });
  const counts = [1, 2, 3, 4, 5, 4, 3, 2, 1];
  const results = await Promise.all(counts.map((count) => executor.run({ [name]: digits(count) })));
  expect(results.map((result) => Object.values(result)[0]!.dims[0])).toEqual(counts);
  executor.dispose();
  warm.dispose();
  expect(device.info().usedBy).toMatchObject({ data: 0, program: 0, frame: 0, arena: 0 });
});

test("executors of the same model share its data; the last one gives it back", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
  const [a, b] = await Promise.all([Executor.load(file, { device }), Executor.load(fs.readFileSync(file), { device, folder: path.dirname(file) })]);
  const { data } = device.info().usedBy;
  const c = await Executor.load(file, { device });
  expect(device.info().usedBy.data).toBe(data);
  a.dispose();
  c.dispose();
  expect(device.info().usedBy.data).toBe(data);
  await b.warmUp();
  b.dispose();
  expect(device.info().usedBy).toMatchObject({ data: 0, program: 0, frame: 0, arena: 0 });
  const again = await Executor.load(file, { device });
  await again.warmUp({ shapes: { [again.inputs[0]!.name]: [2, 1, 28, 28] } });
  await device.close();
});

/** Windows of two by two and a sum with a weight: no program for a picture of one pixel. */
const pooled = model({
  nodes: [
    { op: "MaxPool", inputs: ["x"], outputs: ["p"], attributes: { kernel_shape: [2n, 2n], strides: [2n, 2n] } },
    { op: "Add", inputs: ["p", "w"], outputs: ["y"] },
  ],
  inputs: [{ name: "x", dtype: "float32", dims: [1, 1, "height", "width"] }],
  outputs: [{ name: "y", dtype: "float32", dims: [1, 1, "h", "w"] }],
  constants: { w: { dtype: "float32", dims: [1], data: Float64Array.of(0.5) } },
});

onEachDriver("a model whose open dims cannot be 1 is compiled when it is first run", async (device) => {
  const executor = await Executor.load(pooled, { device, programs: 2 });
  expect(executor.inputs).toEqual([{ name: "x", dtype: "float32", dims: [1, 1, "height", "width"] }]);
  const errors = [() => executor.program, () => executor.outputShapes, () => executor.prepare(), () => executor.warmUp()];
  for (const each of errors) {
    const { code, message } = await failureOf(each as () => Promise<unknown>);
    expect({ code, message }).toEqual({ code: 100019, message: expect.stringMatching(/open dims.*window of \[2,2\].*pass shapes/) });
  }
  for (const [height, width] of [
    [2, 4],
    [4, 2],
    [6, 2],
    [2, 4],
  ] as const) {
    const x = new Tensor(
      "float32",
      [1, 1, height, width],
      Float32Array.from({ length: height * width }, (_, i) => i),
    );
    const { y } = await executor.run({ x });
    // The greatest of a window is its last.
    const expected = Array.from({ length: (height * width) / 4 }, (_, i) => {
      const [row, column] = [Math.floor(i / (width / 2)), i % (width / 2)];
      return (2 * row + 1) * width + 2 * column + 1.5;
    });
    expect([...(y!.data as Float32Array)]).toEqual(expected);
  }
  expect(executor.outputShapes).toEqual({ y: [1, 1, 1, 2] });
  expect((await failureOf(() => executor.run({ x: new Tensor("float32", [1, 1, 1, 1], Float32Array.of(1)) }))).code).toBe(100021);
  expect((await failureOf(() => Executor.load(pooled, { device, shapes: { x: [1, 1, 1, 5] } }))).code).toBe(100021);
  const other = await Executor.load(pooled, { device, programs: 2 });
  other.dispose();
  executor.dispose();
  expect(device.info().usedBy).toMatchObject({ data: 0, program: 0, frame: 0, arena: 0 });
});

test("models that differ in one weight are different models, also when they are loaded at once", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
  const bytes = fs.readFileSync(file);
  // 64 bytes of weights near the end of the file become 3.0.
  const changed = Uint8Array.from(bytes);
  const at = bytes.length - (bytes.length % 4) - 4096;
  changed.fill(0x40, at, at + 64);
  const [one, other, again] = await Promise.all([bytes, changed, bytes].map((model) => Executor.load(model, { device })));
  expect(device.info().usedBy.data).toBeGreaterThan(1.5 * bytes.length);
  const feeds = { [one!.inputs[0]!.name]: digits(1) };
  const [a, b, c] = await Promise.all([one!, other!, again!].map(async (each) => Object.values(await each.run(feeds))[0]!.data as Float32Array));
  expect(a!.some((value, i) => value !== b![i])).toBe(true);
  expect(a!.every((value, i) => value === c![i])).toBe(true);
  await device.close();
});

test("one who gives up a shared load does not spoil it for the other", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
  const controller = new AbortController();
  const given = failureOf(Executor.load(file, { device, signal: controller.signal }));
  const kept = Executor.load(file, { device });
  controller.abort("changed my mind");
  expect((await given).code).toBe(107035);
  const executor = await kept;
  await executor.warmUp();
  executor.dispose();
  const alone = new AbortController();
  const lonely = failureOf(Executor.load(file, { device, signal: alone.signal }));
  await new Promise((resolve) => setImmediate(resolve));
  alone.abort();
  expect((await lonely).code).toBe(107035);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(device.info().usedBy).toMatchObject({ data: 0, program: 0, frame: 0, arena: 0 });
  await device.close();
});

test("what cannot be loaded is a typed error, and the device still works", async () => {
  const device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
  const bytes = fs.readFileSync(file);
  expect((await failureOf(Executor.load("/does/not/exist.onnx", { device }))).code).toBe(100003);
  expect((await failureOf(Executor.load(12 as never, { device }))).code).toBe(107000);
  expect((await failureOf(Executor.load(file, { devise: device } as never))).message).toMatch(/did you mean "device"/);
  expect((await failureOf(Executor.load(file, { device, frames: 0 }))).code).toBe(107000);
  expect((await failureOf(Executor.load(file, { device, shapes: { nonsense: [1] } }))).code).toBe(100017);
  expect((await failureOf(Executor.load(file, { device, signal: AbortSignal.abort() }))).code).toBe(107035);
  for (let length = 0; length < bytes.length; length += Math.ceil(bytes.length / 40)) {
    await expect(Executor.load(bytes.subarray(0, length), { device })).rejects.toBeInstanceOf(AclError);
  }
  const executor = await Executor.load(bytes, { device });
  await executor.warmUp();
  const small = await Device.open({ driver: "inline", memoryBytes: 16 << 20 });
  const memory = small.allocate(small.info().largestFreeBytes - 4096);
  expect((await failureOf(Executor.load(file, { device: small }))).code).toBe(207001);
  memory.dispose();
  await (await Executor.load(file, { device: small })).warmUp();
  await small.close();
  await device.close();
  expect((await failureOf(executor.run({ [executor.inputs[0]!.name]: digits(1) }))).code).toBe(507899);
});
