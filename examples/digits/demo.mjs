#!/usr/bin/env node
/**
 * Hand-written digits through all of npurt: `node examples/digits/demo.mjs [--json]`. A device is opened, digits.onnx is compiled for it, 2,000 digits
 * that its training never saw are classified one by one and from several streams at once, and a timeline of what the cores did is written.
 * Exit code 1 if fewer than 97 % of the digits are recognised.
 */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Device, Executor, Tensor } from "npurt";
import { writeTimeline } from "npurt/timeline";
import { loadDigits, PIXELS, SIDE } from "./dataset.mjs";
import { bar, bold, dim, draw, green, pixelsOf, red } from "./picture.mjs";

const MODEL = fileURLToPath(new URL("digits.onnx", import.meta.url));
const REQUIRED_ACCURACY = 0.97;
const MEASURE_MS = 800;
/** Requests in flight (per stream): enough that the device never runs dry while the caller looks at a result. */
const IN_FLIGHT = 8;

const json = process.argv.includes("--json");
const say = (text) => json || console.log(text);
const title = (text) => say(`\n${bold(text)}`);
const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
const image = (pixels) => ({ image: new Tensor("float32", [pixels.length / PIXELS, 1, SIDE, SIDE], pixels) });

function best(probabilities) {
  const label = probabilities.indexOf(Math.max(...probabilities));
  return { label, confidence: probabilities[label] };
}

/** Every digit as a request of its own, IN_FLIGHT of them at a time; runs without a stream are independent of each other. */
async function classifyAll(executor, digits) {
  const answers = [];
  const classifyFrom = async (first) => {
    for (let i = first; i < digits.count; i += IN_FLIGHT) {
      const { probability } = await executor.run(image(pixelsOf(digits, i)));
      answers[i] = best(probability.data);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, (_, first) => classifyFrom(first)));
  return answers;
}

/** Five digits spread over the classes, and one that the network gets wrong: no network is perfect. */
function chooseExamples(digits, answers) {
  const right = [7, 2, 0, 5, 9].map((label) => digits.labels.findIndex((l, i) => l === label && i % 7 === 0 && answers[i].label === label));
  const wrong = answers.findIndex((answer, i) => answer.label !== digits.labels[i]);
  return [...right, wrong].filter((i) => i >= 0);
}

function showExamples(digits, answers) {
  const chosen = chooseExamples(digits, answers);
  for (let from = 0; from < chosen.length; from += 3) {
    const row = chosen.slice(from, from + 3);
    const captions = row.map((i) => {
      const { label, confidence } = answers[i];
      const correct = label === digits.labels[i];
      return { text: `${label} (${(100 * confidence).toFixed(1)} %)${correct ? "" : `, is ${digits.labels[i]}`}`, paint: correct ? green : red };
    });
    say(
      `${draw(
        row.map((i) => pixelsOf(digits, i)),
        captions,
      )}\n`,
    );
  }
}

/** Digits per second with `count` streams, each kept full of single-digit requests. */
async function throughput(device, executor, digits, count) {
  const streams = Array.from({ length: count }, () => device.createStream());
  const until = performance.now() + MEASURE_MS;
  let done = 0;
  const request = async (stream, first) => {
    for (let i = first; performance.now() < until; i++) {
      await executor.run(image(pixelsOf(digits, i % digits.count)), { stream });
      done++;
    }
  };
  const start = performance.now();
  await Promise.all(streams.flatMap((stream, s) => Array.from({ length: IN_FLIGHT }, (_, r) => request(stream, 97 * s + 13 * r))));
  const perSecond = done / ((performance.now() - start) / 1000);
  for (const stream of streams) await stream.destroy();
  return perSecond;
}

async function showThroughput(device, executor, digits) {
  const results = [];
  for (const count of [1, 2, 4]) results.push({ count, perSecond: await throughput(device, executor, digits, count) });
  const highest = Math.max(...results.map(({ perSecond }) => perSecond));
  for (const { count, perSecond } of results) {
    const name = `${count} stream${count > 1 ? "s" : " "}`;
    say(`  ${name}  ${Math.round(perSecond).toLocaleString("en").padStart(8)} digits/s  ${green(bar(perSecond / highest))}`);
  }
  return results;
}

/** A device of its own with tracing on, so that what is measured above is not slowed down by it. */
async function writeTimelineOf(digits) {
  const device = await Device.open({ trace: true });
  await device.ready();
  const executor = await Executor.load(MODEL, { device, shapes: { image: [64, 1, SIDE, SIDE] } });
  const batch = digits.pixels.subarray(0, 64 * PIXELS);
  for (let round = 0; round < 4; round++) {
    const streams = [0, 1].map(() => device.createStream());
    await Promise.all(streams.flatMap((stream) => Array.from({ length: 4 }, () => executor.run(image(batch), { stream }))));
    for (const stream of streams) await stream.destroy();
  }
  const file = path.join(os.tmpdir(), "npurt-digits-timeline.json");
  const { events } = writeTimeline(device, file);
  await device.close();
  return { file, events };
}

async function main() {
  const { test: digits } = loadDigits();
  const rssBefore = process.memoryUsage.rss();
  const device = await Device.open();
  const startedAt = performance.now();
  const executor = await Executor.load(MODEL, { device, shapes: { image: [1, 1, SIDE, SIDE] } });
  const loadMs = performance.now() - startedAt;
  const { cores, kernels } = device.info();
  say(`${bold("npurt digits")} ${dim(`node ${process.versions.node}, ${cores} cores, kernels ${kernels.used}`)}`);
  say(dim(`digits.onnx: ${(fs.statSync(MODEL).size / 1000).toFixed(1)} kB, loaded in ${loadMs.toFixed(1)} ms\n`));

  const classifyAt = performance.now();
  const answers = await classifyAll(executor, digits);
  const classifyMs = performance.now() - classifyAt;
  showExamples(digits, answers);
  const right = answers.filter(({ label }, i) => label === digits.labels[i]).length;
  const accuracy = right / digits.count;
  const enough = accuracy >= REQUIRED_ACCURACY;
  title("Accuracy");
  say(
    `  ${(enough ? green : red)(`${(100 * accuracy).toFixed(2)} %`)} of ${digits.count.toLocaleString("en")} digits that training never saw, each a request of its own, in ${Math.round(classifyMs)} ms`,
  );

  title("Throughput, one digit per request");
  await device.ready();
  const throughputs = await showThroughput(device, executor, digits);

  title("Memory");
  const { usedBytes, peakBytes } = device.info();
  const rss = process.memoryUsage.rss();
  say(`  device pool ${mebibytes(usedBytes)} live, ${mebibytes(peakBytes)} peak`);
  say(`  process ${mebibytes(rss)}; ${mebibytes(rssBefore)} before the device was opened, after the digits were read`);
  await device.close();

  const { file, events } = await writeTimelineOf(digits);
  title("Timeline");
  say(`  ${events.toLocaleString("en")} events in ${file}; drop it on https://ui.perfetto.dev`);
  if (json) console.log(JSON.stringify({ accuracy, loadMs, throughput: throughputs, usedBytes, peakBytes, rssBytes: rss, timeline: file, events }));
  if (!enough) {
    console.error(red(`\nbelow ${100 * REQUIRED_ACCURACY} %`));
    process.exitCode = 1;
  }
}

await main();
