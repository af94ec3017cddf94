#!/usr/bin/env node
/**
 * What the compiler expects of regions (lib/program/costs.ts) beside what their tiles took on one core, by kind of instruction:
 *   node bench/kernel/costs.mjs [--models DIR] [--build base|relaxed|wide] [model...]
 * Without names: all models that are there. `measured/expected` is over all regions of a kind, then come its 10th, 50th and 90th percentile. A trace
 * costs each tile about 0.3 us, and a busy machine all of them more: what counts is that the kinds agree.
 */
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { parseArgs } from "node:util";
import { CATALOG } from "../model/catalog.mjs";
import { modelFiles } from "../model/files.mjs";
import { feedData } from "../runners/serve.mjs";
import { print } from "../table.mjs";

const require = createRequire(import.meta.url);
const { Device, Executor, Tensor } = require("../../dist/lib/index.js");
const { Instruction, Program, Region } = require("../../dist/asm/abi/program.js");
const { ConvBlock, ConvMode, Opcode } = require("../../dist/asm/abi/isa.js");
const { describe } = require("../../dist/lib/compile/describe.js");
const { readTrace } = require("../../dist/lib/diag/trace.js");

const RUNS = 20;
const WARM_UP_MS = 400;

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { models: { type: "string" }, build: { type: "string" } } });
const files = modelFiles(options.models);
const device = await Device.open({ driver: "inline", trace: 2 ** 18, memoryBytes: 2 ** 31, ...(options.build ? { kernels: options.build } : {}) });
await device.ready();
const { used } = device.info().kernels;

/** Regions of a program: what they hold, and what they are expected to take. */
function regionsOf(image) {
  const view = new DataView(image.buffer, image.byteOffset);
  const u32 = (at) => view.getUint32(at, true);
  const names = u32(Program.DEBUG);
  const nodeName = (i) => new TextDecoder().decode(image.subarray(names + u32(names + 4 + 4 * i), names + u32(names + 8 + 4 * i)));
  return Array.from({ length: u32(Program.REGION_COUNT) }, (_, i) => {
    const region = u32(Program.REGIONS) + i * Region.SIZE;
    const instructions = Array.from({ length: u32(region + Region.COUNT) }, (_, k) => {
      const at = u32(Program.INSTRUCTIONS) + (u32(region + Region.FIRST) + k) * Instruction.SIZE;
      const op = Opcode[view.getUint8(at + Instruction.OP)];
      const mode = op === "CONV" ? ` ${ConvMode[u32(u32(at + Instruction.P0) + ConvBlock.MODE)]}` : "";
      return { key: `${op} ${nodeName(u32(at + Instruction.NODE))}`, kind: `${op}${mode}` };
    });
    return { instructions, tiles: u32(region + Region.TILES), expectedUs: u32(region + Region.COST_NS) / 1000 };
  }).filter(({ tiles }) => tiles > 0);
}

/** The least that the tiles of each instruction took together in a run. */
async function measure(executor, inputs) {
  const until = performance.now() + WARM_UP_MS;
  do await executor.run(inputs);
  while (performance.now() < until);
  const least = new Map();
  let { next } = readTrace(device.memory);
  for (let run = 0; run < RUNS; run++) {
    await executor.run(inputs);
    const trace = readTrace(device.memory, next);
    next = trace.next;
    const sums = new Map();
    for (const { kind, op, node, startUs, endUs } of trace.records) {
      if (kind === "tile") sums.set(`${op} ${node}`, (sums.get(`${op} ${node}`) ?? 0) + endUs - startUs);
    }
    for (const [key, us] of sums) least.set(key, Math.min(least.get(key) ?? Number.POSITIVE_INFINITY, us));
  }
  return least;
}

const kinds = new Map();
const models = [];
for (const name of positionals.length > 0 ? positionals : files.keys()) {
  const file = files.get(name);
  if (file === undefined) throw new Error(`there is no model ${name}; there are ${[...files.keys()].join(", ")}`);
  const known = CATALOG.find((entry) => entry.file === name)?.feeds;
  const whole = known === undefined ? undefined : Object.fromEntries(known.map((feed) => [feed.name, feed.dims]));
  const executor = await Executor.load(file, { device, ...(whole ? { shapes: whole } : {}) });
  const feeds = known ?? executor.inputs.map((input) => ({ ...input, dims: input.dims.map((dim) => (typeof dim === "number" ? dim : 1)) }));
  const shapes = Object.fromEntries(feeds.map((feed) => [feed.name, feed.dims]));
  const { image } = describe(fs.readFileSync(file), { folder: path.dirname(file), shapes, build: used });
  const least = await measure(executor, Object.fromEntries(feeds.map((feed) => [feed.name, new Tensor(feed.dtype, feed.dims, feedData(feed))])));
  const total = { name, regions: 0, expectedUs: 0, us: 0 };
  for (const { instructions, expectedUs } of regionsOf(image)) {
    const us = [...new Set(instructions.map(({ key }) => key))].reduce((sum, key) => sum + (least.get(key) ?? 0), 0);
    const names = new Set(instructions.map(({ kind }) => kind));
    const kind = names.size === 1 ? instructions[0].kind : "several kinds";
    const entry = kinds.get(kind) ?? { name: kind, regions: 0, expectedUs: 0, us: 0, ratios: [] };
    kinds.set(kind, entry);
    for (const each of [entry, total]) {
      each.regions++;
      each.expectedUs += expectedUs;
      each.us += us;
    }
    entry.ratios.push(us / expectedUs);
  }
  models.push(total);
  executor.dispose();
}

function report(entries, title) {
  const rows = entries.map(({ name, regions, expectedUs, us, ratios }) => {
    ratios?.sort((a, b) => a - b);
    const parts = ratios ? [0.1, 0.5, 0.9].map((part) => ratios[Math.floor(part * ratios.length)].toFixed(2)).join(" / ") : "-";
    return [name, String(regions), expectedUs.toFixed(0), us.toFixed(0), (us / expectedUs).toFixed(2), parts];
  });
  print([[title, "regions", "expected us", "measured us", "measured/expected", "10 / 50 / 90 %"], ...rows]);
}

console.log(`node ${process.versions.node}, kernels ${used}`);
report(models, "model");
report(
  [...kinds.values()].sort((a, b) => b.us - a.us),
  "kind",
);
await device.close();
