/** Runs a first model as a start does, and keeps what V8 has compiled by then (lib/packs.ts) for starts on this Node. Part of the build. */
import fs from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const { keepCode } = require("../dist/lib/packs.js");
const { Device, Executor, Tensor } = require("../dist/lib/index.js");
const model = new URL("../examples/digits/digits.onnx", import.meta.url);
const dims = [1, 1, 28, 28];

// V8's flags are part of what is kept: this build of the kernels needs none, and no core boots.
const device = await Device.open({ kernels: "base" });
const executor = await Executor.load(fs.readFileSync(model), { device, shapes: { image: dims } });
await executor.run({ image: Tensor.zeros("float32", dims) });
await device.close();
if (!keepCode()) process.exitCode = 1;
