#!/usr/bin/env node
/** npm run bench -- kernel|task|model|load|naive [--filter RE] [--threads n] [--json FILE] [--node PATH] [--models DIR] [--rounds n] [--ours] */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { compare, Runner } from "./harness.mjs";
import { kernelCases } from "./kernel/cases.mjs";
import { loadRows } from "./load/suite.mjs";
import { modelCases } from "./model/cases.mjs";
import { naiveRows } from "./naive/suite.mjs";
import { ensurePeers, peerVersions } from "./peers.mjs";
import { reportOf } from "./report.mjs";
import { printReport } from "./table.mjs";
import { taskRows } from "./task/suite.mjs";

const SUITES = ["kernel", "task", "model", "load", "naive"];
const USAGE = `usage: npm run bench -- ${SUITES.join("|")} [options]
  --filter RE    only cases whose name matches
  --threads n    cores of our device and threads of the peers (default 1: ours runs inline)
  --json FILE    write rows, means, versions and machine as JSON
  --node PATH    the Node.js that runs every runner (default: this one)
  --models DIR   model and load suites: every .onnx below DIR as well (default: what NPURT_SUITES names)
  --rounds n     blocks per case and runner (default 7)
  --ours         leave the peers out
  --clock cpu    processor time of each runner instead of the clock on the wall: for machines that are not quiet; one thread only`;

const NOTE_LENGTH = 300;
const { SingleBar, Presets } = createRequire(import.meta.url)("cli-progress");

class UsageError extends Error {}

function patternOf(text) {
  try {
    return new RegExp(text, "i");
  } catch (error) {
    throw new UsageError(`--filter: ${error.message}`);
  }
}

function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      filter: { type: "string", default: "" },
      threads: { type: "string", default: "1" },
      json: { type: "string" },
      node: { type: "string", default: process.execPath },
      models: { type: "string", default: process.env.NPURT_SUITES },
      rounds: { type: "string", default: "7" },
      ours: { type: "boolean", default: false },
      clock: { type: "string", default: "wall" },
      help: { type: "boolean", default: false },
    },
  });
  const options = {
    ...values,
    suite: positionals[0],
    filter: patternOf(values.filter),
    threads: Number(values.threads),
    rounds: Number(values.rounds),
  };
  if (options.help) return options;
  const counts = [options.threads, options.rounds].every((count) => Number.isInteger(count) && count > 0);
  const clock = options.clock === "wall" || (options.clock === "cpu" && options.threads === 1);
  if (positionals.length !== 1) throw new UsageError(positionals.length === 0 ? "name a suite" : "one suite at a time");
  if (!SUITES.includes(options.suite)) throw new UsageError(`there is no suite "${options.suite}"`);
  if (!counts) throw new UsageError("--threads and --rounds are whole numbers above 0");
  if (!clock) throw new UsageError("--clock is wall, or cpu with one thread");
  return options;
}

/** The kernel suite has a second form: feeds and outputs where the device can use them in place; with several cores also on one alone. */
function startRunners({ suite, threads, node, ours }) {
  const runners = [new Runner("ours", "npurt.mjs", ["npurt", threads], node)];
  if (suite === "kernel") runners.push(new Runner("pinned", "npurt.mjs", ["pinned", threads], node));
  if (suite === "kernel" && threads > 1) runners.push(new Runner("single", "npurt.mjs", ["pinned", 1], node));
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

/** What a row says about its case besides times. */
function marksOf({ group, goals, threadedGoals }, { threads, suite }, { nodeVersion }) {
  const goal = (suite === "kernel" && threads > 1 ? threadedGoals : goals)?.[nodeVersion.split(".")[0]];
  return { ...(group === undefined ? {} : { group }), ...(goal === undefined ? {} : { goal }) };
}

async function comparedRows(cases, options, context) {
  const runners = startRunners(options);
  const bar = progress(cases.length);
  const rows = [];
  try {
    context.kernels = (await runners[0].request("info")).kernels;
    for (const job of cases) {
      const medians = await compare(runners, job, { rounds: options.rounds, note: context.note });
      rows.push({ ...context.row(options.suite, job.name, medians), ...marksOf(job, options, context) });
      bar.step(job.name);
    }
  } finally {
    bar.stop();
    for (const runner of runners) runner.close();
  }
  return rows;
}

const models = (options, context, { chosen }) => chosen(modelCases(options.models, (name) => options.filter.test(name), context.note));
const RUN = {
  task: taskRows,
  naive: naiveRows,
  kernel: (options, context, { chosen }) => comparedRows(chosen(kernelCases()), options, context),
  model: (options, context, tools) => comparedRows(models(options, context, tools), options, context),
  load: (options, context, tools) => loadRows(models(options, context, tools), options, context, tools.progress),
};

async function main() {
  const options = readArguments();
  if (options.help) {
    process.stdout.write(`${USAGE}\n`);
    return;
  }
  process.env.NPURT_BENCH_CLOCK = options.clock; // for the runners
  const notes = [];
  const context = {
    nodeVersion: execFileSync(options.node, ["-p", "process.versions.node"], { encoding: "utf8" }).trim(),
    kernels: null,
    note: (text) => notes.push(text.length > NOTE_LENGTH ? `${text.slice(0, NOTE_LENGTH)} ...` : text),
    row: (suite, name, { ours = null, web = null, node = null, tfjs = null, pinned, single, nodePinned = null, naive }, unit) => ({
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
      ...(single === undefined ? {} : { singleMs: single }),
      ...(naive === undefined ? {} : { naiveMs: naive }),
      ...(unit ? { unit } : {}),
    }),
  };
  const chosen = (cases) => cases.filter((job) => options.filter.test(job.name));
  const rows = await RUN[options.suite](options, context, { comparedRows, chosen, progress });
  const versions = options.ours ? {} : peerVersions();
  const report = reportOf(options.suite, rows, { ...context, versions, threads: options.threads, clock: options.clock, notes });
  printReport(report);
  if (options.json) fs.writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
}

main().catch((error) => {
  const usage = error instanceof UsageError || String(error.code).startsWith("ERR_PARSE_ARGS");
  process.stderr.write(usage ? `${error.message}\n${USAGE}\n` : `${error.stack}\n`);
  process.exitCode = usage ? 2 : 1;
});
