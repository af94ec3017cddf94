// Runs inside an installed package: `import` and `require` give one instance, a device computes, a model runs. Prints one line of JSON.
//   node smoke.mjs DRIVER MODEL.onnx DIGITS.json
import fs from "node:fs";
import { createRequire } from "node:module";
import * as imported from "npurt";

const required = createRequire(import.meta.url)("npurt");
const names = Object.keys(required).filter((name) => name !== "default");
// The namespace has one name more: its default is what `require` gives.
const same =
  names.length > 0 &&
  imported.default === required &&
  names.length + 1 === Object.keys(imported).length &&
  names.every((name) => imported[name] === required[name]);

const [driver, model, digits] = process.argv.slice(2);
const device = await required.Device.open({ driver, cores: 2 });
const stream = device.createStream();
const buffer = device.allocate(64);
const result = new Float32Array(16);
stream.memcpy(
  buffer,
  Float32Array.from({ length: 16 }, (_, i) => i / 4),
);
stream.memcpy(result, buffer);
await stream.synchronize();

const executor = await imported.Executor.load(fs.readFileSync(model), { device });
const labels = [];
for (const pixels of JSON.parse(fs.readFileSync(digits, "utf8"))) {
  const { probability } = await executor.run({ image: new imported.Tensor("float32", [1, 1, 28, 28], Float32Array.from(pixels)) });
  labels.push(probability.data.indexOf(Math.max(...probability.data)));
}
executor.dispose();
await device.close();
console.log(JSON.stringify({ same, result: [...result], labels }));
