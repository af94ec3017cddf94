/** Rows as a table: on a terminal and in Markdown. */

/** Times of rows, in the order of their columns; a column stands where some row has it. `pinned`: feeds and outputs in place (kernel suite). */
const TIMES = {
  oursMs: "ours",
  pinnedMs: "pinned",
  singleMs: "1 core",
  naiveMs: "naive",
  webMs: "web",
  nodeMs: "node",
  nodePinnedMs: "node out",
  tfjsMs: "tfjs",
};
/** Whose time over which of ours. onnxruntime-web copies in any case, so its one time stands against both forms of ours. */
const RATIOS = {
  "web/ours": ["webMs", "oursMs"],
  "node/ours": ["nodeMs", "oursMs"],
  "tfjs/ours": ["tfjsMs", "oursMs"],
  "naive/ours": ["naiveMs", "oursMs"],
  "1 core/pinned": ["singleMs", "pinnedMs"],
  "web/pinned": ["webMs", "pinnedMs"],
  "node out/pinned": ["nodePinnedMs", "pinnedMs"],
};

function formatValue(value, unit) {
  if (value === null || value === undefined) return "-";
  if (unit !== "ms") return `${value.toPrecision(3)} ${unit}`;
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} ns`;
  if (value < 1) return `${(value * 1000).toPrecision(3)} us`;
  return value < 1000 ? `${value.toPrecision(3)} ms` : `${(value / 1000).toPrecision(3)} s`;
}

const isNumber = (value) => typeof value === "number";
const formatRatio = (ratio) => (isNumber(ratio) ? `${ratio.toFixed(2)}x` : "-");

/** The ratio that a row's goal is about: naive use where that is compared, else onnxruntime-web, against the form without copies where there is one. */
function judged(row) {
  const own = row.pinnedMs ?? row.oursMs;
  const other = row.naiveMs ?? row.webMs;
  return isNumber(own) && isNumber(other) ? other / own : null;
}

/** A goal with a mark where it is missed. */
function formatGoal(goal, ratio) {
  if (!isNumber(goal)) return "-";
  return `${isNumber(ratio) && ratio < goal ? "missed " : ""}${goal.toFixed(2)}x`;
}

/** Heads and, per row, cells. */
export function tableOf(rows) {
  const has = (...keys) => rows.some((row) => keys.every((key) => isNumber(row[key])));
  const times = Object.entries(TIMES).filter(([key]) => has(key));
  const ratios = Object.entries(RATIOS).filter(([, keys]) => has(...keys));
  const goals = has("goal");
  const cells = (row) => [
    row.case,
    ...times.map(([key]) => formatValue(row[key], row.unit ?? "ms")),
    ...ratios.map(([, [peer, ours]]) => formatRatio(isNumber(row[peer]) && isNumber(row[ours]) ? row[peer] / row[ours] : null)),
    ...(goals ? [formatGoal(row.goal, judged(row))] : []),
  ];
  return [["case", ...times.map(([, head]) => head), ...ratios.map(([head]) => head), ...(goals ? ["goal"] : [])], ...rows.map(cells)];
}

export function meansTable(means) {
  return [
    ["geometric mean", "models", "web/ours", "node/ours", "goal"],
    ...means.map(({ group, models, web, node, goal }) => [group, String(models), formatRatio(web), formatRatio(node), formatGoal(goal, web)]),
  ];
}

export const versionsText = (versions) =>
  Object.entries(versions)
    .filter(([name, version]) => version && name !== "@tensorflow/tfjs-core" && name !== "@tensorflow/tfjs-backend-cpu")
    .map(([name, version]) => `${name} ${version}`)
    .join(", ") || "no peers";

export function print(cells) {
  const widths = cells[0].map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) => row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]))).join("  ");
  console.log([line(cells[0]), widths.map((width) => "-".repeat(width)).join("  "), ...cells.slice(1).map(line)].join("\n"));
}

export function printReport({ rows, means, machine, node, kernels, threads, clock, versions, notes }) {
  print(tableOf(rows));
  if (means.length > 0) {
    console.log();
    print(meansTable(means));
  }
  console.log(`\nnode ${node}, kernels ${kernels ?? "-"}, ${threads} thread${threads > 1 ? "s" : ""}; ${versionsText(versions)}`);
  console.log(
    `${machine.cores} x ${machine.cpu}, ${machine.system}; ${clock === "cpu" ? "processor time, " : ""}medians of interleaved blocks; a ratio above 1 means that ours is faster`,
  );
  for (const note of notes) console.log(`note: ${note}`);
}
