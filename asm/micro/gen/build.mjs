#!/usr/bin/env node
/**
 * Builds dist/asm/micro.base.wasm, micro.relaxed.wasm and micro.wide.wasm. No source file is written: the generated text goes straight to asc.
 *   node asm/micro/gen/build.mjs [base relaxed wide] [--keep DIR]   --keep also writes the generated .ts and the .wat there
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import { BUILDS } from "./builds.mjs";
import { microSource } from "./module.mjs";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const ENTRY = "asm/micro/generated.ts";

/** Compiles one build; returns its bytes, or throws with asc's own words. */
export async function compileMicro(build, { keep } = {}) {
  const source = microSource(build);
  const outputs = {};
  const flags = [
    "--runtime",
    "stub",
    // Not 3: that moves a multiply-add behind the loads of the steps after it, and V8 spills.
    "--optimizeLevel",
    "2",
    "--shrinkLevel",
    "0",
    "--noAssert",
    "--importMemory",
    "--noExportMemory",
    "--sharedMemory",
  ];
  const memory = ["--initialMemory", "1", "--maximumMemory", "65536", "--disableWarning", "201", "--debug"];
  const features = ["simd", "threads", "bulk-memory", ...(build.fused ? ["relaxed-simd"] : [])].flatMap((name) => ["--enable", name]);
  const { error, stderr } = await asc.main([ENTRY, "-o", "micro.wasm", "-t", "micro.wat", ...flags, ...memory, ...features], {
    // Paths that asc asks for are relative to the base: the generated entry, and the abi files that it imports.
    readFile: (name) => {
      if (name === ENTRY) return source;
      const file = path.join(root, name);
      return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : null;
    },
    writeFile: (name, contents) => {
      outputs[name] = contents;
    },
    listFiles: () => [],
  });
  if (keep !== undefined) {
    fs.mkdirSync(keep, { recursive: true });
    fs.writeFileSync(path.join(keep, `micro.${build.name}.ts`), source);
    if (outputs["micro.wat"]) fs.writeFileSync(path.join(keep, `micro.${build.name}.wat`), outputs["micro.wat"]);
  }
  if (error) throw new Error(`micro.${build.name}: ${stderr.toString().trim() || error.message}`);
  return outputs["micro.wasm"];
}

/** Builds the named ones into dist/asm. */
export async function buildMicro(names = Object.keys(BUILDS), options = {}) {
  const folder = path.join(root, "dist/asm");
  fs.mkdirSync(folder, { recursive: true });
  for (const name of names) fs.writeFileSync(path.join(folder, `micro.${name}.wasm`), await compileMicro(BUILDS[name], options));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const words = process.argv.slice(2);
  const keepAt = words.indexOf("--keep");
  const keep = keepAt < 0 ? undefined : words.splice(keepAt, 2)[1];
  await buildMicro(words.length > 0 ? words : undefined, { keep });
}
