/** What a run of the bench leaves behind: its rows, their geometric means, and on what they were measured. */
import os from "node:os";
import { GOALS, MEAN_GOAL } from "./model/catalog.mjs";

const BYTES_PER_GIB = 2 ** 30;

const machine = () => ({
  cpu: os.cpus()[0]?.model.trim() ?? "unknown",
  cores: os.cpus().length,
  memoryGiB: Math.round(os.totalmem() / BYTES_PER_GIB),
  system: `${os.platform()} ${os.release()}`,
});

/** The ratio that a row shall reach against onnxruntime-web; undefined where none is said for its group or its Node. */
export const goalOf = (group, node) => GOALS[group]?.[node.split(".")[0]];

function geometricMean(rows, peer) {
  const ratios = rows.filter((row) => row[peer] > 0 && row.oursMs > 0).map((row) => Math.log(row[peer] / row.oursMs));
  return ratios.length === 0 ? null : Math.exp(ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length);
}

const meanOf = (group, rows, goal = null) => ({
  group,
  models: rows.length,
  web: geometricMean(rows, "webMs"),
  node: geometricMean(rows, "nodeMs"),
  goal,
});

/** One entry per group, then one over all rows whose group has a goal on this Node. Empty for suites without groups. */
export function meansOf(rows) {
  const grouped = rows.filter((row) => row.group !== undefined);
  if (grouped.length === 0) return [];
  const { node } = grouped[0];
  const groups = [...new Set(grouped.map((row) => row.group))];
  const wanted = grouped.filter((row) => goalOf(row.group, node) !== undefined);
  return [
    ...groups.map((group) =>
      meanOf(
        group,
        grouped.filter((row) => row.group === group),
      ),
    ),
    ...(wanted.length === 0 ? [] : [meanOf("all with a goal", wanted, MEAN_GOAL[node.split(".")[0]] ?? null)]),
  ];
}

export function reportOf(suite, rows, { nodeVersion, kernels, threads, clock, versions, notes }) {
  return {
    suite,
    date: new Date().toISOString(),
    machine: machine(),
    node: nodeVersion,
    kernels,
    threads,
    clock,
    versions,
    rows,
    means: meansOf(rows),
    notes,
  };
}
