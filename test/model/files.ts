/** Paths of model files by name, as the bench finds them: it is made of ES modules, so a process of its own is asked. */
import { execFileSync } from "node:child_process";
import path from "node:path";

export const ROOT = path.join(__dirname, "../..");
export const PEERS = path.join(ROOT, "bench/peers");

export function modelFiles(): Readonly<Record<string, string>> {
  const list = execFileSync(process.execPath, [path.join(ROOT, "bench/model/files.mjs"), "--list"], { encoding: "utf8" });
  return JSON.parse(list) as Record<string, string>;
}
