/** Facts about this process and its machine that decide how npurt runs here. Reads only; what the system does not say is undefined. */
import fs from "node:fs";
import os from "node:os";
import { addonAbsence, loadAddon } from "../host/addon";
import { readTopology } from "../host/topology";
import { type WasmFeatures, wasmFeatures } from "./wasm-features";

export interface Machine {
  readonly npurt: string;
  readonly node: string;
  readonly v8: string;
  readonly platform: string;
  readonly nodeFlags: readonly string[];
  readonly cpu: {
    readonly model: string;
    readonly count: number;
    /** What Node.js says that this process may use. */
    readonly available: number;
    /** CPUs that the cpuset or the affinity mask allows. */
    readonly allowed: number | undefined;
    /** CPUs' worth of time that the cgroup allows. */
    readonly quota: number | undefined;
    /** Cores that a device gets here unless told otherwise. */
    readonly cores: number;
  };
  readonly memory: { readonly totalBytes: number; readonly limitBytes: number | undefined; readonly hugePages: string | undefined };
  readonly wasm: WasmFeatures;
  readonly addon: { readonly loaded: boolean; readonly why: string };
}

export function machine(): Machine {
  const topology = readTopology();
  return {
    npurt: (require("../../../package.json") as { version: string }).version,
    node: process.versions.node,
    v8: process.versions.v8,
    platform: `${process.platform}-${process.arch} ${os.release()}`,
    nodeFlags: [...process.execArgv, ...(process.env["NODE_OPTIONS"]?.split(/\s+/).filter(Boolean) ?? [])],
    cpu: {
      model: os.cpus()[0]?.model.trim() ?? "unknown",
      count: os.cpus().length,
      available: os.availableParallelism(),
      allowed: topology.cpus?.length,
      quota: Number.isFinite(topology.quota) ? topology.quota : undefined,
      cores: topology.cores,
    },
    memory: { totalBytes: os.totalmem(), limitBytes: memoryLimit(), hugePages: hugePages() },
    wasm: wasmFeatures(),
    addon: { loaded: loadAddon() !== undefined, why: addonAbsence() },
  };
}

function readText(file: string): string | undefined {
  try {
    return fs.readFileSync(file, "utf8").trim();
  } catch {
    return undefined;
  }
}

function memoryLimit(): number | undefined {
  const limit = Number(readText("/sys/fs/cgroup/memory.max") ?? readText("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  return limit > 0 && limit < os.totalmem() ? limit : undefined;
}

/** The mode in brackets: "always [madvise] never". */
function hugePages(): string | undefined {
  return /\[(\w+)\]/.exec(readText("/sys/kernel/mm/transparent_hugepage/enabled") ?? "")?.[1];
}

/** What would make npurt slower here than it could be, each with what to do about it. */
export function warnings(facts: Machine): string[] {
  const found: string[] = [];
  const major = Number(facts.node.split(".")[0]);
  const { cpu, memory, wasm, addon } = facts;
  if (!wasm.simd || !wasm.threads)
    found.push("WebAssembly SIMD or threads are off: npurt cannot run. Remove --jitless and flags that switch them off.");
  if (!wasm.relaxedSimd && major >= 22) found.push("relaxed SIMD is off although this Node.js has it: check the flags in NODE_OPTIONS.");
  if (cpu.quota !== undefined && cpu.quota < cpu.available) {
    found.push(`the cgroup grants ${cpu.quota} CPUs of time where ${cpu.available} are visible: a device gets ${cpu.cores} of them.`);
  }
  if (memory.limitBytes !== undefined && memory.limitBytes < 2 ** 30) {
    found.push(`the cgroup allows ${Math.round(memory.limitBytes / 2 ** 20)} MiB of memory: pass memoryBytes below that when opening a device.`);
  }
  if (!addon.loaded) found.push(`no addon (${addon.why}): threads are not pinned and memory is given back later. Everything works without it.`);
  if (facts.nodeFlags.some((flag) => flag.startsWith("--inspect")))
    found.push("a debugger port is open: WebAssembly runs slower while a debugger is attached.");
  return found;
}
