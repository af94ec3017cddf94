/** The load suite: from a model's file to a model that can be run, and to its first result. A fresh process per sample; runtimes take turns. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { median } from "../harness.mjs";
import { ensurePeers } from "../peers.mjs";

const SCRIPT = fileURLToPath(new URL("load.mjs", import.meta.url));
/** Models of different sizes, from kilobytes to a hundred megabytes. */
const NAMES = [
  "mnist_8",
  "ultraface_rfb_320",
  "ch_PP-OCRv4_det_infer",
  "ch_PP-OCRv4_rec_infer",
  "light_densenet121",
  "bert_4_layers_312",
  "bert_4_layers_768",
];
/** From file to ready, as fast as onnxruntime-web. */
const GOAL = 1;
const FIXED_FEEDS = {
  mnist_8: [{ name: "Input3", dtype: "float32", dims: [1, 1, 28, 28] }],
  ultraface_rfb_320: [{ name: "input", dtype: "float32", dims: [1, 3, 240, 320] }],
  light_densenet121: [{ name: "data_0", dtype: "float32", dims: [1, 3, 224, 224] }],
  bert_4_layers_312: [{ name: "ids", dtype: "int64", dims: [1, 128] }],
  bert_4_layers_768: [{ name: "ids", dtype: "int64", dims: [1, 128] }],
};

async function sample(node, runtime, { name, model, feeds }) {
  const job = JSON.stringify({ model, feeds: feeds ?? FIXED_FEEDS[name] });
  const { stdout } = await promisify(execFile)(node, ["--no-warnings", SCRIPT, runtime, job], { maxBuffer: 2 ** 24 });
  return JSON.parse(stdout);
}

export async function loadRows(cases, { node, ours, rounds }, context, progress) {
  const jobs = cases.filter(({ name }) => NAMES.includes(name));
  const runtimes = { ours: "npurt", ...(ours || !ensurePeers() ? {} : { web: "onnxruntime-web", node: "onnxruntime-node" }) };
  const bar = progress(jobs.length);
  const rows = [];
  for (const job of jobs) {
    const samples = Object.fromEntries(Object.keys(runtimes).map((key) => [key, []]));
    for (let round = 0; round < rounds; round++) {
      for (const [key, runtime] of Object.entries(runtimes)) samples[key].push(await sample(node, runtime, job));
    }
    const medians = (pick) => Object.fromEntries(Object.entries(samples).map(([key, values]) => [key, median(values.map(pick))]));
    rows.push({
      ...context.row(
        "load",
        `${job.name}: file to ready`,
        medians(({ readyMs }) => readyMs),
      ),
      goal: GOAL,
    });
    rows.push(
      context.row(
        "load",
        `${job.name}: file to first result`,
        medians(({ firstMs }) => firstMs),
      ),
    );
    bar.step(job.name);
  }
  bar.stop();
  return rows;
}
