/** Builds the helper kernels once per machine: AssemblyScript always, C where clang and wasm-ld are at hand. */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { COMPILED_C } from "./compiled-c";

const ASC = require.resolve("assemblyscript/bin/asc.js");
const ASC_FLAGS = ["--runtime", "stub", "--importMemory", "--noExportMemory", "--noAssert", "--enable", "threads", "-O3"];
const CLANG_FLAGS = ["--target=wasm32-unknown-emscripten", "-O2", "-fPIC", "-fvisibility=hidden", "-nostdlib", "-c"];
const LD_FLAGS = ["-shared", "--experimental-pic", "--no-entry"];

/** Path of what `build` makes of `source`; made once for the same bytes. Two test processes may build at once: the result is moved into place. */
function once(source: string, build: (target: string) => void): string {
  const hash = createHash("sha256").update(fs.readFileSync(source)).update(__filename).digest("hex").slice(0, 16);
  const target = path.join(os.tmpdir(), `npurt-kernels-${hash}.wasm`);
  if (!fs.existsSync(target)) {
    const own = `${target}.${process.pid}`;
    build(own);
    fs.renameSync(own, target);
  }
  return target;
}

/** The helper kernels of helpers.ts. */
export function helperKernels(): string {
  const source = path.join(__dirname, "helpers.ts");
  return once(source, (target) => {
    execFileSync(process.execPath, [ASC, path.basename(source), ...ASC_FLAGS, "--outFile", target], { cwd: __dirname, stdio: "pipe" });
  });
}

/** AssemblyScript `text` with the flags of the helper kernels, or others. */
export function compileText(text: string, flags: readonly string[] = ASC_FLAGS): Uint8Array {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-kernel-"));
  try {
    fs.writeFileSync(path.join(folder, "kernel.ts"), text);
    execFileSync(process.execPath, [ASC, "kernel.ts", ...flags, "--outFile", "kernel.wasm"], { cwd: folder, stdio: "pipe" });
    return fs.readFileSync(path.join(folder, "kernel.wasm"));
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

const has = (command: string): boolean => spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;

/** The helper kernels of helpers.c. */
export function helperKernelsInC(): string {
  const source = path.join(__dirname, "helpers.c");
  return once(source, (target) => {
    if (has("clang") && has("wasm-ld")) {
      execFileSync("clang", [...CLANG_FLAGS, source, "-o", `${target}.o`], { stdio: "pipe" });
      execFileSync("wasm-ld", [...LD_FLAGS, `${target}.o`, "-o", target], { stdio: "pipe" });
      fs.rmSync(`${target}.o`);
    } else {
      fs.writeFileSync(target, Buffer.from(COMPILED_C, "base64"));
    }
  });
}
