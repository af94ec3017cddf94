#!/usr/bin/env node
/**
 * Builds what the package ships: dist/asm/*.wasm (asc), dist/lib (tsc), packed for a quick start (lib/pack.mjs), dist/*.mjs (wrappers for
 * import), prebuilds/ (addon).
 *   node asm/build.mjs [--asm] [--micro] [--lib] [--addon] [--all]   builds these parts (none named: --asm)
 *   node asm/build.mjs --stale                                       builds the parts whose sources are newer than their output
 * After the library comes what V8 makes of its packs (dist/cache, see lib/packs.ts), for the Node that runs this.
 * The parts run at the same time. Nothing goes to stdout: `npm pack --json` runs this through `prepare`.
 */
import { spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { pack } from "../lib/pack.mjs";
import { BUILDS } from "./micro/gen/builds.mjs";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const at = (...parts) => path.join(root, ...parts);
const say = (text) => process.stderr.write(`build: ${text}\n`);

/** Files below `folder` (absolute) that `keep` accepts; none if the folder is absent. */
function filesIn(folder, keep = () => true) {
  if (!fs.existsSync(folder)) return [];
  const entries = fs.readdirSync(folder, { withFileTypes: true, recursive: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .filter(keep);
}

const newest = (files) => Math.max(0, ...files.map((file) => fs.statSync(file).mtimeMs));
/** `files` and their folders: a folder is newer than its files when one of them was removed. */
const withFolders = (files) => [...files, ...new Set(files.map((file) => path.dirname(file)))];
/** Time of the oldest output, 0 if one is missing: sources newer than that have to be built. */
const oldest = (files) => Math.min(...files.map((file) => (fs.existsSync(file) ? fs.statSync(file).mtimeMs : 0)));

/** Runs a program with its output on stderr; rejects with its exit code. `quiet` keeps the output back and adds its last line to the error. */
function run(file, args, { quiet = false, env = process.env } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { cwd: root, env, stdio: ["ignore", quiet ? "pipe" : 2, quiet ? "pipe" : 2] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
    child.on("error", reject);
    child.on("close", (code) => {
      const line =
        output
          .split("\n")
          .reverse()
          .find((text) => /error/i.test(text)) ?? "";
      return code === 0 ? resolve() : reject(new Error(`${path.basename(args[0] ?? file)} ended with code ${code} ${line}`.trim()));
    });
  });
}
const node = (script, args, options) => run(process.execPath, [at(script), ...args], options);

/** Runs the scripts `*.build.mjs` of a folder: they write sources into a folder `generated` beside them, which is never committed. */
const generate = (folder) => Promise.all(filesIn(at(folder), (file) => file.endsWith(".build.mjs")).map((file) => run(process.execPath, [file])));
const isWritten = (file) => !file.includes(`${path.sep}generated${path.sep}`);

/** The targets of asm/asconfig.json that every build makes, with their output. */
function coreTargets() {
  const { targets } = JSON.parse(fs.readFileSync(at("asm/asconfig.json"), "utf8"));
  return Object.entries(targets)
    .filter(([name]) => name !== "checked")
    .map(([name, target]) => ({ name, output: path.join(at("asm"), target.outFile), entry: target.entry ?? "asm/index.ts" }));
}

const asm = {
  sources: () => withFolders(filesIn(at("asm"), (file) => isWritten(file) && file !== at("asm/build.mjs") && !file.startsWith(at("asm/micro/gen")))),
  outputs: () => coreTargets().map((target) => target.output),
  async build() {
    fs.mkdirSync(at("dist/asm"), { recursive: true });
    await generate("asm");
    await Promise.all(
      coreTargets().map(({ name, entry }) =>
        node("node_modules/assemblyscript/bin/asc.js", [entry, "--config", "asm/asconfig.json", "--target", name]),
      ),
    );
  },
};

/** The micro modules, one per kernel build: generated text, compiled by its own script. */
const micro = {
  sources: () => withFolders([...filesIn(at("asm/micro/gen")), ...filesIn(at("asm/abi"))]),
  outputs: () => Object.keys(BUILDS).map((name) => at(`dist/asm/micro.${name}.wasm`)),
  build: () => node("asm/micro/gen/build.mjs", []),
};

/** Entries of package.json#exports that have an .mjs wrapper. */
function wrappers() {
  const { exports } = JSON.parse(fs.readFileSync(at("package.json"), "utf8"));
  return Object.values(exports).flatMap((entry) =>
    entry.import ? [{ esm: at(entry.import.default), types: at(entry.import.types), cjs: at(entry.require.default) }] : [],
  );
}

/** Removes what tsc made from sources that are gone: it would be packed. */
function prune() {
  for (const file of filesIn(at("dist/lib")).concat(filesIn(at("dist/asm/abi")))) {
    const source = at(path.relative(at("dist"), file).replace(/(\.d\.ts|\.js)$/, ".ts"));
    if (/\.(d\.ts|js)$/.test(file) && !fs.existsSync(source)) fs.rmSync(file);
  }
}

/** `import` gets the instance that `require` gets: the wrapper names the exports of the CommonJS build one by one. */
function writeWrapper({ esm, types, cjs }) {
  const specifier = `./${path.relative(path.dirname(esm), cjs).replaceAll("\\", "/")}`;
  const names = Object.keys(createRequire(import.meta.url)(cjs))
    .filter((name) => name !== "default")
    .sort();
  fs.writeFileSync(esm, `import npurt from "${specifier}";\nexport const { ${names.join(", ")} } = npurt;\nexport default npurt;\n`);
  fs.writeFileSync(types, `import * as npurt from "${specifier}";\nexport * from "${specifier}";\nexport default npurt;\n`);
}

const lib = {
  sources() {
    const sources = [...withFolders([...filesIn(at("lib"), isWritten), ...filesIn(at("asm/abi"))]), at("tsconfig.json"), at("package.json")];
    // A bare tsc leaves the packs behind: then its output is newer than the wrappers, which are written last.
    const emitted = at("dist/lib/index.js");
    return fs.existsSync(emitted) ? [...sources, emitted] : sources;
  },
  outputs: () => wrappers().map((wrapper) => wrapper.esm),
  async build() {
    await generate("lib");
    // With an error in the types tsc has written its output all the same: it is packed, or nothing would run until the error is gone.
    const failed = await node("node_modules/typescript/bin/tsc", ["-p", "tsconfig.json"]).catch((error) => error);
    prune();
    pack(root);
    const binary = at("dist/lib/cli/main.js");
    if (fs.existsSync(binary)) fs.chmodSync(binary, 0o755);
    for (const wrapper of wrappers()) {
      if (fs.existsSync(wrapper.cjs)) writeWrapper(wrapper);
      else say(`${path.relative(root, wrapper.cjs)} is missing: no ${path.relative(root, wrapper.esm)}`);
    }
    if (failed) throw failed;
  },
};

const addon = {
  sources: () => [...filesIn(at("native")), at("binding.gyp")],
  outputs: () => {
    const built = filesIn(at("prebuilds", `${process.platform}-${process.arch}`), (file) => file.endsWith(".node"));
    return built.length > 0 ? built : [at("prebuilds/none")];
  },
  /** Best effort: npurt runs without the addon, so a machine without a compiler only gets to know. */
  async build() {
    const env = { ...process.env };
    // Headers beside the running node spare a download; npm's own `nodedir` setting wins.
    const prefix = path.dirname(path.dirname(fs.realpathSync(process.execPath)));
    if (!env.npm_config_nodedir && fs.existsSync(path.join(prefix, "include/node/node_api.h"))) env.npm_config_nodedir = prefix;
    env.PATH = `${at("node_modules/.bin")}${path.delimiter}${env.PATH}`;
    try {
      // Node 20.10 is the oldest that the package supports; Node-API keeps the binary good for all later ones.
      await node("node_modules/prebuildify/bin.js", ["--napi", "--strip", "--tag-libc", "--target", "20.10.0"], { quiet: true, env });
    } catch (error) {
      say(`no addon, npurt will use its JavaScript fallbacks (${error.message})`);
    }
  },
};

const parts = { asm, micro, lib, addon };
const named = Object.keys(parts).filter((name) => process.argv.includes(`--${name}`));
const asked = process.argv.includes("--all") || process.argv.includes("--stale") ? Object.keys(parts) : named.length > 0 ? named : ["asm"];
const stale = (part) => newest(part.sources()) > oldest(part.outputs());
// The addon and the micro modules take the longest and change the least: they are only ever built when they are stale.
const SLOW = ["micro", "addon"];
const chosen = asked.filter((name) => (process.argv.includes("--stale") || SLOW.includes(name) ? stale(parts[name]) : true));

const results = await Promise.allSettled(chosen.map((name) => parts[name].build()));
for (const result of results) {
  if (result.status === "rejected") {
    say(result.reason.message);
    process.exitCode = 1;
  }
}
// Best effort as well: the first process that runs a model does the same, if it may write there.
if (asked.includes("lib") && process.exitCode === undefined) {
  await node("lib/warm.mjs", [], { quiet: true }).catch((error) => say(`no code cache (${error.message})`));
}
