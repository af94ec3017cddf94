/** A fresh process: from `require` to the first classified digit, for the runtime that the first argument names. Prints {ms, rssBytes}. */
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";

const runtime = process.argv[2];
const model = fileURLToPath(new URL("../../examples/digits/digits.onnx", import.meta.url));
const dims = [1, 1, 28, 28];
const pixels = new Float32Array(784).fill(0.5);

const FIRST_RESULT = {
  async npurt() {
    const { Device, Executor, Tensor } = createRequire(import.meta.url)("npurt");
    const device = await Device.open();
    const executor = await Executor.load(model, { device, shapes: { image: dims } });
    await executor.run({ image: new Tensor("float32", dims, pixels) });
  },
  async onnxruntime() {
    const { requirePeer } = await import("../peers.mjs");
    const ort = requirePeer(runtime);
    const session = await ort.InferenceSession.create(model);
    await session.run({ image: new ort.Tensor("float32", pixels, dims) });
  },
};

const startedAt = performance.now();
await FIRST_RESULT[runtime === "npurt" ? "npurt" : "onnxruntime"]();
const ms = performance.now() - startedAt;
process.stdout.write(JSON.stringify({ ms, rssBytes: process.memoryUsage.rss() }));
process.exit(0);
