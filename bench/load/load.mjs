/**
 * A fresh process: `node load.mjs RUNTIME JOB` loads the model of the job (JSON: {model, feeds}) once the runtime has loaded and run another, so that
 * its own start does not count. Prints {readyMs, firstMs}: from the file to a model that can be run, and to its first result.
 */
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { feedData } from "../runners/serve.mjs";

const [runtime, text] = process.argv.slice(2);
const WARM_UP = {
  model: fileURLToPath(new URL("../../examples/digits/digits.onnx", import.meta.url)),
  feeds: [{ name: "image", dtype: "float32", dims: [1, 1, 28, 28] }],
};

async function npurt() {
  const { Device, Executor, Tensor } = createRequire(import.meta.url)("npurt");
  const device = await Device.open({ driver: "inline", memoryBytes: 2 ** 30 });
  await device.ready();
  return async ({ model, feeds }) => {
    const shapes = Object.fromEntries(feeds.map(({ name, dims }) => [name, dims]));
    const executor = await Executor.load(model, { device, shapes });
    return () => executor.run(Object.fromEntries(feeds.map((feed) => [feed.name, new Tensor(feed.dtype, feed.dims, feedData(feed))])));
  };
}

async function onnxruntime() {
  const { requirePeer } = await import("../peers.mjs");
  const ort = requirePeer(runtime);
  if (runtime === "onnxruntime-web") ort.env.wasm.numThreads = 1;
  const options = runtime === "onnxruntime-web" ? { executionProviders: ["wasm"] } : { intraOpNumThreads: 1 };
  return async ({ model, feeds }) => {
    const session = await ort.InferenceSession.create(model, { ...options, logSeverityLevel: 3 });
    return () => session.run(Object.fromEntries(feeds.map((feed) => [feed.name, new ort.Tensor(feed.dtype, feedData(feed), feed.dims)])));
  };
}

const load = await (runtime === "npurt" ? npurt : onnxruntime)();
await (await load(WARM_UP))();
const startedAt = performance.now();
const run = await load(JSON.parse(text));
const readyMs = performance.now() - startedAt;
await run();
process.stdout.write(JSON.stringify({ readyMs, firstMs: performance.now() - startedAt }));
process.exit(0);
