/** Prints rows as a table and says on what they were measured. */
import os from "node:os";

const TIMES = { oursMs: "ours", webMs: "web", nodeMs: "node", tfjsMs: "tfjs" };
/** The form with feeds and outputs in place; only the kernel suite has it. */
const PINNED_TIMES = { pinnedMs: "pinned", nodePinnedMs: "node out" };
/** Whose time over which of ours. onnxruntime-web copies in any case, so its one time stands against both. */
const RATIOS = { "web/ours": ["webMs", "oursMs"], "node/ours": ["nodeMs", "oursMs"], "tfjs/ours": ["tfjsMs", "oursMs"] };
const PINNED_RATIOS = { "web/pinned": ["webMs", "pinnedMs"], "node out/pinned": ["nodePinnedMs", "pinnedMs"] };

function formatValue(value, unit) {
  if (value === null || value === undefined) return "-";
  if (unit !== "ms") return `${value.toPrecision(3)} ${unit}`;
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} ns`;
  if (value < 1) return `${(value * 1000).toPrecision(3)} us`;
  return `${value.toPrecision(3)} ms`;
}

const formatRatio = (peer, ours) => (typeof peer === "number" && typeof ours === "number" ? `${(peer / ours).toFixed(2)}x` : "-");

/** Heads and, per row, cells. */
function tableOf(rows) {
  const pinned = rows.some((row) => row.pinnedMs !== undefined);
  const times = { ...TIMES, ...(pinned ? PINNED_TIMES : {}) };
  const ratios = { ...RATIOS, ...(pinned ? PINNED_RATIOS : {}) };
  const cells = (row) => [
    row.case,
    ...Object.keys(times).map((key) => formatValue(row[key], row.unit ?? "ms")),
    ...Object.values(ratios).map(([peer, ours]) => formatRatio(row[peer], row[ours])),
  ];
  return [["case", ...Object.values(times), ...Object.keys(ratios)], ...rows.map(cells)];
}

export function printTable(rows, { versions, threads, kernels, nodeVersion }) {
  const cells = tableOf(rows);
  const widths = cells[0].map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  const line = (row) => row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]))).join("  ");
  console.log([line(cells[0]), widths.map((width) => "-".repeat(width)).join("  "), ...cells.slice(1).map(line)].join("\n"));
  const peers = Object.entries(versions)
    .filter(([name, version]) => version && name !== "@tensorflow/tfjs-core" && name !== "@tensorflow/tfjs-backend-cpu")
    .map(([name, version]) => `${name} ${version}`);
  console.log(`\nnode ${nodeVersion}, kernels ${kernels ?? "-"}, ${threads} thread${threads > 1 ? "s" : ""}; ${peers.join(", ") || "no peers"}`);
  console.log(
    `${os.cpus().length} x ${os.cpus()[0]?.model.trim()}, ${os.platform()} ${os.release()}; medians of interleaved blocks; a ratio above 1 means that ours is faster`,
  );
}
