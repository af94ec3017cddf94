#!/usr/bin/env node
/**
 * Times every function of the micro module, in each build that this Node can run, beside onnxruntime-web on one thread where it has the operator.
 *   node bench/kernel/micro.mjs [--filter RE] [--builds base,relaxed,wide] [--seconds n] [--json FILE] [--ours]
 * All runners take turns in short bursts and the best burst counts, so a busy machine spoils all of them alike. "x web" is the peer's time over
 * that of our highest build; the peer's time holds its copies in and out, which its caller pays, and ours is the bare kernel.
 */
import fs from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { microCases } from "./micro-cases.mjs";
import { ensurePeers, peerVersions } from "../peers.mjs";

const require = createRequire(import.meta.url);
const { chooseKernels, instantiateKernels, KERNEL_BUILDS, kernelModule, whenTieredUp } = require("../../dist/lib/host/kernels.js");

const { values: options } = parseArgs({
  options: {
    filter: { type: "string", default: "" },
    builds: { type: "string", default: KERNEL_BUILDS.join(",") },
    seconds: { type: "string", default: "0.4" },
    json: { type: "string" },
    ours: { type: "boolean", default: false },
  },
});

/** Builds that run here, each with a memory of its own that is full of small numbers. */
async function startBuilds() {
  const beds = [];
  for (const name of options.builds.split(",")) {
    const module = kernelModule(name);
    if (typeof module === "string") {
      process.stderr.write(`${name}: ${module}\n`);
      continue;
    }
    const memory = new WebAssembly.Memory({ initial: 2048, maximum: 2048, shared: true });
    const f32 = new Float32Array(memory.buffer);
    for (let i = 65536; i < f32.length; i++) f32[i] = ((i * 2654435761) % 1000) / 500 - 1;
    beds.push({ name, memory, u32: new Uint32Array(memory.buffer), e: instantiateKernels(module, memory, 65536) });
  }
  // The timer of the watch keeps no process alive.
  const awake = setInterval(() => {}, 1000);
  const wrong = await whenTieredUp();
  clearInterval(awake);
  if (wrong !== "") throw new Error(`optimised code of wide is wrong: ${wrong}`);
  return beds;
}

async function startPeer() {
  if (options.ours || !ensurePeers()) return undefined;
  const ort = createRequire(new URL("../peers/package.json", import.meta.url))("onnxruntime-web");
  ort.env.wasm.numThreads = 1;
  return ort;
}

/** A session of the peer for a case, as a function that runs it once. */
async function peerRun(ort, { model, feeds }) {
  const session = await ort.InferenceSession.create(model, { executionProviders: ["wasm"], intraOpNumThreads: 1 });
  const tensors = Object.fromEntries(
    feeds.map(({ name, dtype, dims }) => {
      const count = dims.reduce((product, dim) => product * dim, 1);
      const data =
        dtype === "uint8" ? Uint8Array.from({ length: count }, (_, i) => i % 256) : Float32Array.from({ length: count }, (_, i) => (i % 37) / 18 - 1);
      return [name, new ort.Tensor(dtype, data, dims)];
    }),
  );
  return { run: () => session.run(tensors), close: () => session.release() };
}

/** Best milliseconds per call of each runner; bursts of about half a millisecond, in turns. */
async function race(runners, seconds) {
  const state = runners.map(() => ({ best: Number.POSITIVE_INFINITY, repeats: 1 }));
  const end = performance.now() + seconds * 1000 * runners.length;
  for (let round = 0; performance.now() < end || round < 5; round++) {
    for (const [index, { run, later }] of runners.entries()) {
      const one = state[index];
      const start = performance.now();
      if (later) for (let i = 0; i < one.repeats; i++) await run();
      else for (let i = 0; i < one.repeats; i++) run();
      const time = (performance.now() - start) / one.repeats;
      if (round > 1) one.best = Math.min(one.best, time);
      one.repeats = Math.max(1, Math.min(1000, Math.round(0.5 / time)));
    }
  }
  return state.map(({ best }) => best);
}

const filter = new RegExp(options.filter, "i");
const beds = await startBuilds();
const ort = await startPeer();
const rows = [];
for (const one of microCases().filter(({ name }) => filter.test(name))) {
  const peer = ort && one.peer ? await peerRun(ort, one.peer()) : undefined;
  const runners = [...beds.map((bed) => ({ run: one.prepare(bed) })), ...(peer ? [{ run: peer.run, later: true }] : [])];
  const times = await race(runners, Number(options.seconds));
  peer?.close();
  const row = { name: one.name, node: process.versions.node, operations: one.operations };
  beds.forEach((bed, index) => (row[bed.name] = times[index]));
  if (peer) row.web = times.at(-1);
  rows.push(row);
}

const round = (value, digits) => (value === undefined ? undefined : Number(value.toFixed(digits)));
const table = rows.map((row) => {
  const shown = { name: row.name };
  for (const { name } of beds) {
    shown[`${name} us`] = round(row[name] * 1e3, 1);
    if (row.operations) shown[`${name} G/s`] = round(row.operations / row[name] / 1e6, 1);
  }
  if (row.web !== undefined) {
    shown["web us"] = round(row.web * 1e3, 1);
    shown["x web"] = round(row.web / row[beds.at(-1).name], 2);
  }
  return shown;
});
const versions = peerVersions?.();
console.log(
  `Node ${process.version}, V8 ${process.versions.v8}, highest build ${chooseKernels().used}${ort ? `, onnxruntime-web ${versions?.["onnxruntime-web"] ?? ""}` : ""}`,
);
console.table(table);
if (options.json) fs.writeFileSync(options.json, JSON.stringify(rows, null, 2));
