#!/usr/bin/env node
/**
 * Classifies 2,000 hand-written digits in batches on several streams: `node examples/batch/batch.mjs [streams] [batch] [--json]` (default 4 and 50).
 * Each stream is a worker of its own: it takes the next batch, copies it into a run that it has prepared once (so nothing is allocated or copied
 * per batch beyond that), launches it, and reads the results when the stream has come to its end.
 */
import { fileURLToPath } from "node:url";
import { Device, Executor } from "npurt";
import { loadDigits, PIXELS, SIDE } from "../digits/dataset.mjs";

const MODEL = fileURLToPath(new URL("../digits/digits.onnx", import.meta.url));
const CLASSES = 10;

const args = process.argv.slice(2);
const json = args.includes("--json");
const [streams = 4, batch = 50] = args.filter((arg) => !arg.startsWith("--")).map(Number);
if (!Number.isInteger(streams) || !Number.isInteger(batch) || streams < 1 || batch < 1) {
  console.error("usage: node examples/batch/batch.mjs [streams] [batch] [--json], both whole numbers above 0");
  process.exit(2);
}

const best = (scores) => scores.indexOf(Math.max(...scores));

/** Takes batches from `next` until there are none, one at a time. */
async function work(device, executor, digits, next, answers) {
  const stream = device.createStream();
  const prepared = executor.prepare();
  let batches = 0;
  for (let first = next(); first < digits.count; first = next()) {
    // The last batch may be short: then the rest of the input is what the batch before has left there, and its answers are not read.
    const count = Math.min(batch, digits.count - first);
    prepared.inputs.image.set(digits.pixels.subarray(first * PIXELS, (first + count) * PIXELS));
    stream.launch(prepared);
    await stream.synchronize();
    for (let i = 0; i < count; i++) answers[first + i] = best([...prepared.outputs.probability.subarray(i * CLASSES, (i + 1) * CLASSES)]);
    batches++;
  }
  prepared.dispose();
  await stream.destroy();
  return batches;
}

const { test: digits } = loadDigits();
const device = await Device.open();
const executor = await Executor.load(MODEL, { device, shapes: { image: [batch, 1, SIDE, SIDE] } });
await device.ready();
await executor.warmUp();

let taken = 0;
const next = () => {
  const first = taken;
  taken += batch;
  return first;
};
const answers = new Array(digits.count);
const startedAt = performance.now();
const shares = await Promise.all(Array.from({ length: streams }, () => work(device, executor, digits, next, answers)));
const ms = performance.now() - startedAt;
await device.close();

const right = answers.filter((answer, i) => answer === digits.labels[i]).length;
if (json) {
  console.log(JSON.stringify({ count: digits.count, right, ms, shares }));
} else {
  console.log(
    `${digits.count} digits in batches of ${batch} on ${streams} streams: ${ms.toFixed(0)} ms, ${Math.round((1000 * digits.count) / ms)} per second`,
  );
  console.log(`batches per stream: ${shares.join(", ")}`);
  console.log(`${((100 * right) / digits.count).toFixed(2)} % recognised`);
}
if (right < 0.97 * digits.count) process.exitCode = 1;
