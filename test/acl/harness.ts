/** What tests of the parity face share: a fresh process state per test, probes as tasks that fail or take long, and tags for the coverage table. */
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { acl } from "npurt/acl";
import type { EmulatorConfig } from "../../dist/lib/acl/config";
import { anyStream } from "../../dist/lib/acl/streams";
import { tableRows } from "../../dist/lib/acl/table";

export type Emulator = EmulatorConfig;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-acl-"));
process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));
let files = 0;
/** Lines of the log go there, not into the user's home. */
process.env["ASCEND_PROCESS_LOG_PATH"] ??= folder;

/** Path of a configuration file with `json` in it. */
export function configFile(json: unknown): string {
  const file = path.join(folder, `${files++}.json`);
  fs.writeFileSync(file, typeof json === "string" ? json : JSON.stringify(json));
  return file;
}

/** Initialises with small devices that run on this thread, unless told otherwise. */
export function start(emulator: Emulator = {}, rest: Readonly<Record<string, unknown>> = {}): void {
  const driver = emulator.clock === "virtual" ? "sim" : "inline";
  ok(acl.init(configFile({ ...rest, emulator: { driver, cores: 2, memory: 32 * 2 ** 20, devices: 4, ...emulator } })));
}

/** Ends whatever a test left. */
export function finish(): void {
  acl.finalize();
  acl.rt.get_last_error(0);
  acl.get_recent_err_msg();
}

/** The values of a result whose code is 0; a bare code is checked. */
export function ok<T extends readonly unknown[] | number>(
  result: T,
): T extends readonly [infer V, number] ? V : T extends readonly [...infer V, number] ? V : undefined {
  const parts = typeof result === "number" ? [result] : [...(result as readonly unknown[])];
  const code = parts.pop();
  if (code !== 0) {
    throw new Error(`code ${String(code)}: ${acl.get_recent_err_msg() ?? "no message"}`);
  }
  return (parts.length === 1 ? parts[0] : parts.length === 0 ? undefined : parts) as never;
}

/** The code of a result. */
export function codeOf(result: readonly unknown[] | number): unknown {
  return typeof result === "number" ? result : result.at(-1);
}

/** A task that fails (unreachable: 507015), or takes long (spin). */
export function probe(stream: number, kind: "unreachable" | "outOfBounds" | "spin" | "divideByZero", argument = 0): void {
  anyStream(stream, "test").core.probe(kind, argument, 0);
}

const known = new Set<string>();

/** Says that this test asserts the effect of these calls. docs/acl.md counts them as working. */
export function covers(...names: readonly string[]): void {
  if (known.size === 0) {
    for (const { name } of tableRows()) {
      known.add(name);
    }
  }
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new Error(`no such call: ${unknown.join(", ")}`);
  }
}
