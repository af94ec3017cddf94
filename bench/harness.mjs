/**
 * Compares runners case by case. Each runner is a process of its own; blocks of runs alternate between them, so that a slow minute
 * of the machine hits all alike; the medians of the blocks are compared.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const BLOCK_MS = 30;
/** Outputs of two runners agree within this part of their size. */
const TOLERANCE = 1e-3;
const REQUEST_LIMIT_MS = 120_000;
/** Runners that are npurt. */
const OURS = new Set(["ours", "pinned", "single"]);

/** A runner in a child process. `request` waits for the one answer to its question. */
export class Runner {
  #child;
  #pending;
  #dead;

  constructor(name, file, args, execPath) {
    this.name = name;
    this.#child = fork(fileURLToPath(new URL(`runners/${file}`, import.meta.url)), args.map(String), {
      execPath,
      serialization: "advanced",
      stdio: ["ignore", 2, 2, "ipc"],
    });
    this.#child.on("message", ({ value, error }) => (error === undefined ? this.#pending?.resolve(value) : this.#pending?.reject(new Error(error))));
    const end = (reason) => {
      this.#dead ??= new Error(`the ${name} runner ended (${reason})`);
      this.#pending?.reject(this.#dead);
    };
    this.#child.on("exit", (code, signal) => end(signal ?? code));
    // A message to a process that just ended.
    this.#child.on("error", (error) => end(error.message));
  }

  async request(type, payload) {
    if (this.#dead) throw this.#dead;
    let timer;
    try {
      return await new Promise((resolve, reject) => {
        this.#pending = { resolve, reject };
        timer = setTimeout(() => reject(new Error(`${this.name}: no answer to ${type}`)), REQUEST_LIMIT_MS);
        this.#child.send({ type, payload });
      });
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  close() {
    this.#child.kill();
  }
}

export const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};

/** Largest difference relative to the size of the reference; outputs of another length are infinitely far away. */
function difference(output, reference) {
  if (output.length !== reference.length) return Number.POSITIVE_INFINITY;
  const scale = Math.max(1e-6, ...reference.map(Math.abs));
  return Math.max(...output.map((value, i) => Math.abs(value - reference[i]))) / scale;
}

/** Opens the job in every runner that can run it; says why another cannot when it is ours. */
async function openAll(runners, job, note) {
  const ready = [];
  for (const runner of runners) {
    try {
      const { output } = await runner.request("open", job);
      const ms = await runner.request("warmUp", { ms: 200 });
      ready.push({ runner, output, count: Math.max(1, Math.floor(BLOCK_MS / Math.max(ms, 1e-4))), samples: [] });
    } catch (error) {
      if (OURS.has(runner.name) || process.env.NPURT_BENCH_DEBUG) note(`${job.name}: ${error.message}`);
    }
  }
  return ready;
}

/** Medians in ms per runner name; a name is missing where its runner cannot run the case. */
export async function compare(runners, job, { rounds = 7, note }) {
  const ready = await openAll(runners, job, note);
  for (let round = 0; round < rounds; round++) {
    for (const entry of ready) entry.samples.push(await entry.runner.request("sample", { count: entry.count }));
  }
  for (const { runner } of ready) await runner.request("close");
  const reference = ready.find(({ runner, output }) => !OURS.has(runner.name) && output)?.output;
  for (const { runner, output } of ready) {
    if (!reference || !OURS.has(runner.name)) continue;
    const distance = difference(output, reference);
    if (!(distance < (job.tolerance ?? TOLERANCE)))
      note(`${job.name}: the output of ${runner.name} differs from the peer's by ${distance.toPrecision(2)} of its size`);
  }
  return Object.fromEntries(ready.map(({ runner, samples }) => [runner.name, median(samples)]));
}
