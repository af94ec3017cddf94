/** npurt in a process of its own. One thread means the inline driver: the caller runs everything, as the peers do with one thread. */
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { Device, Executor, Tensor } from "npurt";
import { feedData, outputSample, serve } from "./serve.mjs";

const require = createRequire(import.meta.url);
const { importOnnx } = require("../../dist/lib/import/onnx/model.js");
const { modelInfo } = require("../../dist/lib/compile/bind.js");

const threads = Number(process.argv[3]);
const device = await Device.open(
  threads > 1 ? { driver: "threads", cores: threads, memoryBytes: 2 ** 31 } : { driver: "inline", memoryBytes: 2 ** 31 },
);
await device.ready();

/** The model's inputs with open dims set to 1: what the file says before it is compiled. */
function feedsOf(model) {
  const bytes = typeof model === "string" ? fs.readFileSync(model) : model;
  const { inputs } = modelInfo(importOnnx(bytes, typeof model === "string" ? path.dirname(model) : undefined));
  return inputs.map((input) => ({ ...input, dims: input.dims.map((dim) => (typeof dim === "number" ? dim : 1)) }));
}

async function open({ model, feeds = feedsOf(model) }) {
  const shapes = Object.fromEntries(feeds.map((feed) => [feed.name, feed.dims]));
  const executor = await Executor.load(model, { device, shapes });
  const inputs = Object.fromEntries(feeds.map((feed) => [feed.name, new Tensor(feed.dtype, feed.dims, feedData(feed))]));
  return {
    run: () => executor.run(inputs),
    output: async () => outputSample((await executor.run(inputs))[executor.outputs[0].name].data),
    close: () => executor.dispose(),
  };
}

serve(open, () => {
  const { kernels } = device.info();
  return { kernels: kernels.used };
});
