/** Prints rows as a table and says on what they were measured. */
import os from "node:os";

const RATIO = { webMs: "web/ours", nodeMs: "node/ours", tfjsMs: "tfjs/ours" };

function formatValue(value, unit) {
  if (value === null || value === undefined) return "-";
  if (unit !== "ms") return `${value.toPrecision(3)} ${unit}`;
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} ns`;
  if (value < 1) return `${(value * 1000).toPrecision(3)} us`;
  return `${value.toPrecision(3)} ms`;
}

const formatRatio = (peer, ours) => (peer === null || ours === null ? "-" : `${(peer / ours).toFixed(2)}x`);

function columns(row) {
  const unit = row.unit ?? "ms";
  const values = ["oursMs", "webMs", "nodeMs", "tfjsMs"].map((key) => formatValue(row[key], unit));
  return [row.case, ...values, ...Object.keys(RATIO).map((key) => formatRatio(row[key], row.oursMs))];
}

export function printTable(rows, { versions, threads, kernels, nodeVersion }) {
  const head = ["case", "ours", "web", "node", "tfjs", ...Object.values(RATIO)];
  const cells = [head, ...rows.map(columns)];
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
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
