/** The naive suite: what compiling a whole model is worth, against the same kernels used operator by operator. Processes of their own for each model. */
import { compare, Runner } from "../harness.mjs";
import { bertGraph, makeBert, MODELS } from "../model/bert.mjs";
import { modelFiles } from "../model/files.mjs";

/** How many times the time and the memory of the runtime naive use shall take. */
const GOALS = { time: 3, memory: 1 / 0.6 };
/** Both run the same kernels in float32; only the order of roundings differs. */
const EQUAL = 1e-5;
const MIB = 2 ** 20;

/** Arrays that the caller holds besides what the device does. */
const hostBytesOf = ({ inputs, outputs }) =>
  [...inputs, ...outputs].reduce((sum, { dtype, dims }) => sum + dims.reduce((product, dim) => product * dim, dtype === "int64" ? 8 : 4), 0);

async function rowsOf(name, files, { node, threads, rounds }, context) {
  const runners = [new Runner("ours", "npurt.mjs", ["npurt", threads], node), new Runner("naive", "naive.mjs", ["naive", threads], node)];
  try {
    const { inputs, outputs } = bertGraph(name);
    const medians = await compare(runners, { name, model: files.get(name), feeds: inputs, tolerance: EQUAL }, { rounds, note: context.note });
    const [ours, naive] = await Promise.all(runners.map((runner) => runner.request("info")));
    context.kernels = ours.kernels;
    const peaks = { ours: (ours.peakBytes + hostBytesOf({ inputs, outputs })) / MIB, naive: naive.peakBytes / MIB };
    return [
      { ...context.row("naive", name, medians), goal: GOALS.time },
      { ...context.row("naive", `${name}, peak memory`, peaks, "MiB"), goal: GOALS.memory },
    ];
  } finally {
    for (const runner of runners) runner.close();
  }
}

export async function naiveRows(options, context, { chosen, progress }) {
  const names = chosen(Object.keys(MODELS).map((name) => ({ name }))).map(({ name }) => name);
  makeBert();
  const files = modelFiles();
  const bar = progress(names.length);
  const rows = [];
  for (const name of names) {
    rows.push(...(await rowsOf(name, files, options, context)));
    bar.step(name);
  }
  bar.stop();
  return rows;
}
