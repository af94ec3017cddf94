#!/usr/bin/env node
/** npm run bench -- kernel|task|model [--filter RE] [--threads n] [--json FILE] [--node PATH] [--models DIR] [--rounds n] [--ours] */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { compare, Runner } from "./harness.mjs";
import { kernelCases } from "./kernel/cases.mjs";
import { modelCases } from "./model/cases.mjs";
import { ensurePeers, peerVersions } from "./peers.mjs";
import { printTable } from "./table.mjs";
import { taskRows } from "./task/suite.mjs";

const USAGE = `usage: npm run bench -- kernel|task|model [options]
  --filter RE    only cases whose name matches
  --threads n    cores of our device and threads of the peers (default 1: ours runs inline)
  --json FILE    write the rows as JSON
  --node PATH    the Node.js that runs every runner (default: this one)
  --models DIR   model suite: every .onnx below DIR as well
  --rounds n     blocks per case and runner (default 7)
  --ours         leave the peers out`;

const NOTE_LENGTH = 300;
const { SingleBar, Presets } = createRequire(import.meta.url)("cli-progress");

function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      filter: { type: "string", default: "" },
      threads: { type: "string", default: "1" },
      json: { type: "string" },
      node: { type: "string", default: process.execPath },
      models: { type: "string" },
      rounds: { type: "string", default: "7" },
      ours: { type: "boolean", default: false },
    },
  });
  const options = {
    ...values,
    suite: positionals[0],
    filter: new RegExp(values.filter, "i"),
    threads: Number(values.threads),
    rounds: Number(values.rounds),
  };
  const counts = [options.threads, options.rounds].every((count) => Number.isInteger(count) && count > 0);
  if (positionals.length !== 1 || !["kernel", "task", "model"].includes(options.suite) || !counts) throw new Error("wrong arguments");
  return options;
}

/** The kernel suite has a second form: feeds and outputs where the device can use them in place. */
function startRunners({ suite, threads, node, ours }) {
  const runners = [new Runner("ours", "npurt.mjs", ["npurt", threads], node)];
  if (suite === "kernel") runners.push(new Runner("pinned", "npurt.mjs", ["pinned", threads], node));
  if (!ours && ensurePeers()) {
    runners.push(new Runner("web", "ort.mjs", ["onnxruntime-web", threads], node));
    runners.push(new Runner("node", "ort.mjs", ["onnxruntime-node", threads], node));
    if (suite === "kernel") runners.push(new Runner("nodePinned", "ort.mjs", ["onnxruntime-node", threads, "preallocated"], node));
    runners.push(new Runner("tfjs", "tfjs.mjs", ["tfjs", threads], node));
  }
  return runners;
}

/** Only on a terminal: a log wants the notes and the table, not the bar. */
function progress(total) {
  if (!process.stderr.isTTY) return { step() {}, stop() {} };
  const bar = new SingleBar({ format: "{bar} {value}/{total} {name} ETA {eta_formatted}", clearOnComplete: true }, Presets.shades_classic);
  bar.start(total, 0, { name: "" });
  return { step: (name) => bar.increment(1, { name }), stop: () => bar.stop() };
}

async function comparedRows(cases, options, context) {
  const runners = startRunners(options);
  const bar = progress(cases.length);
  const rows = [];
  try {
    context.kernels = (await runners[0].request("info")).kernels;
    for (const job of cases) {
      const medians = await compare(runners, job, { rounds: options.rounds, note: context.note });
      rows.push({ ...context.row(options.suite, job.name, medians), ...(job.group ? { group: job.group } : {}) });
      bar.step(job.name);
    }
  } finally {
    bar.stop();
    for (const runner of runners) runner.close();
  }
  return rows;
}

async function main() {
  const options = readArguments();
  const notes = [];
  const context = {
    nodeVersion: execFileSync(options.node, ["-p", "process.versions.node"], { encoding: "utf8" }).trim(),
    kernels: null,
    note: (text) => notes.push(text),
    row: (suite, name, { ours = null, web = null, node = null, tfjs = null, pinned, nodePinned = null }, unit) => ({
      suite,
      case: name,
      threads: options.threads,
      node: context.nodeVersion,
      kernels: context.kernels,
      oursMs: ours,
      webMs: web,
      nodeMs: node,
      tfjsMs: tfjs,
      ...(pinned === undefined ? {} : { pinnedMs: pinned, nodePinnedMs: nodePinned }),
      ...(unit ? { unit } : {}),
    }),
  };
  const chosen = (cases) => cases.filter((job) => options.filter.test(job.name));
  let rows;
  if (options.suite === "task") rows = await taskRows(options, context, { comparedRows, chosen, progress });
  else rows = await comparedRows(chosen(options.suite === "kernel" ? kernelCases() : modelCases(options.models, context.note)), options, context);
  printTable(rows, { ...context, versions: options.ours ? {} : peerVersions(), threads: options.threads });
  for (const note of notes) console.log(`note: ${note.length > NOTE_LENGTH ? `${note.slice(0, NOTE_LENGTH)} ...` : note}`);
  if (options.json) fs.writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`);
}

main().catch((error) => {
  const usage = error.message === "wrong arguments" || error.code?.startsWith("ERR_PARSE_ARGS");
  process.stderr.write(usage ? `${error.message}\n${USAGE}\n` : `${error.stack}\n`);
  process.exitCode = usage ? 2 : 1;
});
