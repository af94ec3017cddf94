/** The task suite: what a call costs around its kernels. One process per measurement. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";
import { median } from "../harness.mjs";
import { ensurePeers } from "../peers.mjs";

const COLD_STARTS = 5;
const script = (name) => fileURLToPath(new URL(name, import.meta.url));
const run = promisify(execFile);

async function child(node, file, ...args) {
  const { stdout } = await run(node, ["--no-warnings", script(file), ...args.map(String)], { maxBuffer: 2 ** 24 });
  return JSON.parse(stdout);
}

/** One Add of 16 elements: all that a run costs besides its kernel. */
function oneNodeCase(name) {
  const value = (tensor) => ({ name: tensor, dtype: "float32", dims: [16] });
  const feeds = [value("a"), { ...value("b"), seed: 2 }];
  const model = encodeModel({ name: "add", nodes: [{ op: "Add", inputs: ["a", "b"], outputs: ["y"] }], inputs: feeds, outputs: [value("y")] });
  return { name, feeds, model, tfjs: { op: "add" } };
}

async function coldStartRows({ node, ours }, context) {
  const runtimes = { ours: "npurt", ...(ours || !ensurePeers() ? {} : { web: "onnxruntime-web", node: "onnxruntime-node" }) };
  const samples = Object.fromEntries(Object.keys(runtimes).map((key) => [key, []]));
  // Another Node than the one that built has nothing to start with yet; its first process would leave it, were it not ended at once.
  await run(node, [script("../../lib/warm.mjs")]);
  for (let round = 0; round < COLD_STARTS; round++) {
    for (const [key, runtime] of Object.entries(runtimes)) samples[key].push(await child(node, "cold-start.mjs", runtime));
  }
  const medians = (pick) => Object.fromEntries(Object.entries(samples).map(([key, values]) => [key, median(values.map(pick))]));
  return [
    context.row(
      "task",
      "cold start: require to first digit",
      medians(({ ms }) => ms),
    ),
    context.row(
      "task",
      "cold start: process memory",
      medians(({ rssBytes }) => rssBytes / 1e6),
      "MB",
    ),
  ];
}

/** What measure.mjs measures, each in a process of its own, and the cases that come out; its answer is a list of {case, value, unit?}. */
const MEASUREMENTS = {
  "empty-tasks": ["empty task, batched, inline", "empty task, one by one, inline", "empty task, batched, threads", "empty task, one by one, threads"],
  "region-barrier": ["region barrier, 2 cores awake, 1 tile", "region barrier, 2 cores awake, 2 tiles"],
  "event-wait": ["event wait across streams, 2000 open"],
  copies: ["H2D, D2H: stream.memcpy, buffer.write, buffer.read, rt.memcpy, rt.memcpy_async, MiB"],
  spread: ["leastLoaded, skewed load"],
  device: ["device open, 2 cores up", "device close"],
  "killed-core": ["killed core replaced"],
  "delay-under-load": ["event loop delay, cores busy"],
  "delay-during-load": ["event loop delay, load of 64 MiB"],
};

export async function taskRows(options, context, { comparedRows, chosen, progress }) {
  const rows = await comparedRows(
    chosen([oneNodeCase(`one-node graph, await run, ${options.threads > 1 ? "threads" : "inline"}`)]),
    options,
    context,
  );
  const wanted = Object.keys(MEASUREMENTS).filter((name) => MEASUREMENTS[name].some((text) => options.filter.test(text)));
  const bar = progress(wanted.length + 1);
  for (const name of wanted) {
    try {
      const answers = await child(options.node, "measure.mjs", name, options.threads);
      for (const { case: text, value, unit } of answers) if (options.filter.test(text)) rows.push(context.row("task", text, { ours: value }, unit));
    } catch (error) {
      context.note(
        `${name}: ${String(error.stderr || error.message)
          .trim()
          .split("\n")
          .slice(-6)
          .join(" | ")}`,
      );
    }
    bar.step(name);
  }
  if (options.filter.test("cold start")) rows.push(...(await coldStartRows(options, context)));
  bar.step("cold start");
  bar.stop();
  return rows;
}
