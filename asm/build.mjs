#!/usr/bin/env node
// Builds what the package ships: dist/asm/*.wasm (asc), dist/lib (tsc), dist/index.mjs, and the addon if a compiler is at hand.
// Nothing goes to stdout: `npm pack --json` runs this through `prepare`.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const all = process.argv.includes("--all");
const run = (file, args) => execFileSync(process.execPath, [path.join(root, file), ...args], { cwd: root, stdio: ["ignore", 2, 2] });

fs.mkdirSync(path.join(root, "dist/asm"), { recursive: true });
run("node_modules/assemblyscript/bin/asc.js", ["asm/index.ts", "--config", "asm/asconfig.json", "--target", "base"]);
if (all) {
  run("node_modules/typescript/bin/tsc", ["-p", "tsconfig.json"]);
}
