#!/usr/bin/env node
/**
 * docs/performance.md: `node bench/performance.mjs [--node PATH]... [--models DIR] [--rounds n] [--suites LIST] [--results DIR]` runs every suite
 * (or those of the list) with every Node that is named, keeps one JSON report per run in the results folder, and writes the page from all reports there.
 * `--write` leaves out the running.
 */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { meansTable, tableOf, versionsText } from "./table.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const RUNS = [
  { suite: "model", threads: 1 },
  { suite: "model", threads: 2 },
  { suite: "kernel", threads: 1 },
  { suite: "kernel", threads: 2 },
  { suite: "naive", threads: 1 },
  { suite: "naive", threads: 2 },
  { suite: "load", threads: 1 },
  { suite: "task", threads: 1 },
];
/** Suites in the order of the page: head, and what its rows are. */
const SECTIONS = {
  model: ["Models", "One inference: feeds in JavaScript arrays to results in JavaScript arrays, awaited, one after another."],
  kernel: [
    "Kernels",
    "Models of one operator. `pinned` has feeds and results in memory that the device uses in place; `node out` is onnxruntime-node with preallocated results.",
  ],
  naive: [
    "A compiled model against operators one by one",
    "`naive` runs the same kernels operator by operator: buffers allocated for each of them, operands copied to the device and results back, no fusion, no reuse of memory.",
  ],
  load: [
    "Loading",
    "From a model's file to a model that can be run, and to its first result; a fresh process per sample, after the runtime ran another model.",
  ],
  task: ["Calls and devices", "What a call costs around its kernels."],
};

function readArguments() {
  const { values } = parseArgs({
    options: {
      node: { type: "string", multiple: true, default: [process.execPath] },
      models: { type: "string", default: process.env.NPURT_SUITES },
      rounds: { type: "string", default: "7" },
      suites: { type: "string", default: Object.keys(SECTIONS).join(",") },
      results: { type: "string", default: here("results") },
      output: { type: "string", default: here("../docs/performance.md") },
      write: { type: "boolean", default: false },
    },
  });
  const suites = values.suites.split(",");
  const unknown = suites.find((suite) => SECTIONS[suite] === undefined);
  if (unknown !== undefined) throw new Error(`there is no suite "${unknown}"; suites are ${Object.keys(SECTIONS).join(", ")}`);
  return { ...values, suites };
}

function measure({ node, models, rounds, suites, results }) {
  fs.mkdirSync(results, { recursive: true });
  for (const binary of node) {
    const version = execFileSync(binary, ["-p", "process.versions.node"], { encoding: "utf8" }).trim();
    for (const { suite, threads } of RUNS.filter(({ suite }) => suites.includes(suite))) {
      const file = path.join(results, `${suite}-node${version.split(".")[0]}-${threads}.json`);
      const args = [here("main.mjs"), suite, "--node", binary, "--threads", threads, "--rounds", rounds, "--json", file];
      execFileSync(process.execPath, [...args, ...(models ? ["--models", models] : [])].map(String), { stdio: "inherit" });
    }
  }
}

function markdown([head, ...rows]) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map((_, column) => (column === 0 ? "---" : "---:"))), ...rows.map(line)].join("\n");
}

function partOf({ rows, means, node, kernels, threads, clock, date, notes }) {
  const measured = `measured ${date.slice(0, 10)}${clock === "cpu" ? " in processor time" : ""}`;
  const lines = [
    `### Node ${node}, ${threads} thread${threads > 1 ? "s" : ""}${kernels ? `, kernels \`${kernels}\`` : ""}`,
    `(${measured})`,
    markdown(tableOf(rows)),
  ];
  if (means.length > 0) lines.push(markdown(meansTable(means)));
  if (notes.length > 0) lines.push(notes.map((note) => `* ${note}`).join("\n"));
  return lines.join("\n\n");
}

/** The page, from reports as main.mjs writes them. */
function pageOf(reports) {
  const [{ machine, versions }] = reports;
  const other = reports.find((report) => JSON.stringify(report.machine) !== JSON.stringify(machine));
  if (other) throw new Error(`reports of two machines: ${machine.cpu} and ${other.machine.cpu}; remove one of them`);
  const sections = Object.entries(SECTIONS).flatMap(([suite, [head, text]]) => {
    const parts = reports.filter((report) => report.suite === suite && report.rows.length > 0);
    parts.sort((a, b) => a.node.localeCompare(b.node, "en", { numeric: true }) || a.threads - b.threads);
    return parts.length === 0 ? [] : [`## ${head}\n\n${text}`, ...parts.map(partOf)];
  });
  return `${[
    "# Performance",
    "<!-- Written by bench/performance.mjs: do not edit. -->",
    `Machine: ${machine.cores} x ${machine.cpu}, ${machine.memoryGiB} GiB, ${machine.system}. Against ${versionsText(versions)}. How it is measured: [bench/README.md](../bench/README.md). Medians; a ratio above 1 means that npurt is faster; a goal is for the ratio against onnxruntime-web (or naive use).`,
    ...sections,
  ].join("\n\n")}\n`;
}

const options = readArguments();
if (!options.write) measure(options);
const files = fs.existsSync(options.results) ? fs.readdirSync(options.results).filter((file) => file.endsWith(".json")) : [];
if (files.length === 0) {
  console.error(`no reports in ${options.results}: run without --write first`);
  process.exitCode = 1;
} else {
  fs.writeFileSync(options.output, pageOf(files.sort().map((file) => JSON.parse(fs.readFileSync(path.join(options.results, file), "utf8")))));
  console.log(`${options.output}: from ${files.length} reports`);
}
