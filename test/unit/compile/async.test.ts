/** Compiling beside the event loop: worker thread, abort, errors that cross threads. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { Worker } from "node:worker_threads";
import { AclError } from "../../../dist/lib/errors/acl-error";
import { compileAsync, compileModel } from "../../../dist/lib/compile/compile";
import { tensor } from "../../../dist/lib/graph/tensor";
import { model } from "../../ops/models";

const chain = (op: string, size: number) =>
  model({
    nodes: [
      { op: "MatMul", inputs: ["x", "w"], outputs: ["a"] },
      { op, inputs: ["a"], outputs: ["y"] },
    ],
    inputs: [{ name: "x", dims: ["N", size] }],
    outputs: [{ name: "y" }],
    constants: {
      w: tensor(
        "float32",
        [size, size],
        Array.from({ length: size * size }, (_, i) => i % 7),
      ),
    },
  });
const small = chain("Relu", 16);
const large = chain("Relu", 320);
const OPTIONS = { shapes: { x: [2, 320] } };
const plain = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

test("gives the same program on the calling thread and in the worker", async () => {
  expect(small.byteLength).toBeLessThan(256 * 1024);
  expect(large.byteLength).toBeGreaterThan(256 * 1024);
  for (const [bytes, options] of [
    [small, {}],
    [large, OPTIONS],
  ] as const) {
    const [here, there] = [compileModel(bytes, options), await compileAsync(bytes, options)];
    expect(plain(there.program.image).equals(plain(here.program.image))).toBe(true);
    expect(there.data.map(({ key, offsetBytes }) => [key, offsetBytes])).toEqual(here.data.map(({ key, offsetBytes }) => [key, offsetBytes]));
    expect(there.data.every(({ bytes: data }, i) => plain(data).equals(plain(here.data[i]!.bytes)))).toBe(true);
    expect({ ...there, data: 0, program: 0 }).toEqual({ ...here, data: 0, program: 0 });
  }
});

test("several at once, and from a path", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-compile-"));
  fs.writeFileSync(path.join(folder, "m.onnx"), large);
  const results = await Promise.all([
    compileAsync(large, OPTIONS),
    compileAsync({ path: path.join(folder, "m.onnx") }, { shapes: { x: [5, 320] } }),
    compileAsync(small),
  ]);
  expect(results.map(({ program }) => program.inputs[0]!.dims)).toEqual([
    [2, 320],
    [5, 320],
    [1, 16],
  ]);
  fs.rmSync(folder, { recursive: true });
  await expect(compileAsync({ path: path.join(folder, "m.onnx") })).rejects.toMatchObject({ code: 100003 });
});

test("an error of the worker arrives as what it was", async () => {
  const error: AclError = await compileAsync(chain("Reluu", 320), OPTIONS).catch((reason) => reason);
  expect(error).toBeInstanceOf(AclError);
  expect([error.code, error.failures.length, error.message]).toEqual([100024, 1, expect.stringMatching(/Reluu/)]);
});

test("an abort before, during and after", async () => {
  await expect(compileAsync(large, OPTIONS, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 107035 });
  const controller = new AbortController();
  const [first, second] = [compileAsync(large, OPTIONS, { signal: controller.signal }), compileAsync(large, { shapes: { x: [3, 320] } })];
  setImmediate(() => controller.abort());
  await expect(first).rejects.toBeInstanceOf(AclError);
  expect((await second).program.inputs[0]!.dims).toEqual([3, 320]);
  const late = new AbortController();
  await compileAsync(large, OPTIONS, { signal: late.signal });
  late.abort();
});

test("the event loop keeps turning", async () => {
  await compileAsync(large, OPTIONS);
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await Promise.all(Array.from({ length: 4 }, (_, i) => compileAsync(large, { shapes: { x: [i + 1, 320] } })));
  delay.disable();
  expect(delay.percentile(50) / 1e6).toBeLessThan(20);
});

test("works inside another worker thread, which then ends by itself", async () => {
  const body = `const { parentPort, workerData } = require("node:worker_threads");
    require(workerData.module).compileAsync(workerData.bytes, workerData.options).then((result) => parentPort.postMessage(result.program.instructionCount));`;
  const worker = new Worker(body, {
    eval: true,
    workerData: { module: path.join(__dirname, "../../../dist/lib/compile/compile.js"), bytes: large, options: OPTIONS },
  });
  const [count, code] = await Promise.all([
    new Promise((resolve) => worker.once("message", resolve)),
    new Promise((resolve) => worker.once("exit", resolve)),
  ]);
  expect([count, code]).toEqual([1, 0]);
});
