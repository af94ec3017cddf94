/** What the commands print with: numbers, tables, errors. Results go to stdout, everything else to stderr. */
import { AclError } from "../errors/acl-error";

/** A call that cannot be understood: exit code 2. */
export class UsageError extends Error {}

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, (_, item: unknown) => (typeof item === "bigint" ? Number(item) : item), 2));
}

/** One short paragraph; the stack only when asked for. */
export function errorText(error: unknown, verbose: boolean): string {
  if (!(error instanceof Error)) return `npurt: ${String(error)}`;
  if (verbose) return `npurt: ${error.stack ?? error.message}`;
  if (!(error instanceof AclError)) return `npurt: ${error.message}`;
  const lines = [`npurt: ${error.message} (${error.code})`];
  if (error.node !== undefined && !error.message.includes(error.node)) lines.push(`  node: ${error.node}`);
  if (error.solution !== "" && !error.message.includes(error.solution)) lines.push(`  ${error.solution}`);
  return lines.join("\n");
}

export function formatMs(ms: number): string {
  if (ms < 1) return `${(ms * 1000).toPrecision(3)} us`;
  return ms < 1000 ? `${ms.toPrecision(3)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ["KiB", "MiB", "GiB"];
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${value < 1000 ? value.toPrecision(3) : Math.round(value)} ${units[power - 1]}`;
}

/** Left-aligned columns, as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[], indent = "  "): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows
    .map(
      (row) =>
        indent +
        row
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("  ")
          .trimEnd(),
    )
    .join("\n");
}

/** The value below which `share` of the sorted values lie. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
