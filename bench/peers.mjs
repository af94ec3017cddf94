#!/usr/bin/env node
/** Installs the runtimes that npurt is compared with into bench/peers (git-ignored) on first use, or by itself: `node bench/peers.mjs`. They never become its dependencies. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("peers", import.meta.url));

const PACKAGES = {
  "onnxruntime-web": "1.30.0",
  "onnxruntime-node": "1.30.0",
  "@tensorflow/tfjs-core": "4.22.0",
  "@tensorflow/tfjs-backend-wasm": "4.22.0",
  "@tensorflow/tfjs-backend-cpu": "4.22.0",
};

const installed = (name) => {
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, "node_modules", name, "package.json"), "utf8")).version;
  } catch {
    return undefined;
  }
};

/** True when every peer is there afterwards. Without a network the bench goes on with ours alone. */
export function ensurePeers() {
  if (Object.entries(PACKAGES).every(([name, version]) => installed(name) === version)) return true;
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, "package.json"), `${JSON.stringify({ private: true, dependencies: PACKAGES }, null, 2)}\n`);
  process.stderr.write(`installing ${Object.keys(PACKAGES).join(", ")} into bench/peers (once)\n`);
  try {
    execFileSync("npm", ["install", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], {
      cwd: folder,
      stdio: ["ignore", 2, 2],
      env: { ...process.env, ONNXRUNTIME_NODE_INSTALL: "skip" },
    });
    return true;
  } catch (error) {
    process.stderr.write(`peers not installed (${error.message.split("\n")[0]}): their columns stay empty\n`);
    return false;
  }
}

export function peerVersions() {
  return Object.fromEntries(Object.keys(PACKAGES).map((name) => [name, installed(name) ?? null]));
}

/** `require` as a module inside bench/peers sees it. */
export const requirePeer = createRequire(path.join(folder, "index.js"));

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = ensurePeers() ? 0 : 1;
