// Runs inside an installed package: `import` and `require` give one instance, and a device computes. Prints one line of JSON.
import { createRequire } from "node:module";
import * as imported from "npurt";

const required = createRequire(import.meta.url)("npurt");
const names = Object.keys(required).filter((name) => name !== "default");
const same = names.length > 0 && names.length === Object.keys(imported).length && names.every((name) => imported[name] === required[name]);

const device = await required.Device.open({ driver: process.argv[2] ?? "threads", cores: 2 });
const stream = device.createStream();
const buffer = device.allocate(64);
const result = new Float32Array(16);
stream.memcpy(
  buffer,
  Float32Array.from({ length: 16 }, (_, i) => i / 4),
);
stream.memcpy(result, buffer);
await stream.synchronize();
await device.close();
console.log(JSON.stringify({ same, names, result: [...result] }));
