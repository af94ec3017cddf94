/** How many cores a device should have here: the CPUs that this process may use, cut to the CPU time that its control groups grant. */
import fs from "node:fs";
import path from "node:path";
import { loadAddon } from "./addon";

export interface Topology {
  /** CPUs that this thread may run on (affinity mask, cpuset); undefined where the system does not say. */
  readonly cpus: readonly number[] | undefined;
  /** CPU time granted, in CPUs: 1.5 = 150 ms per 100 ms. Infinity without a limit. */
  readonly quota: number;
  /** Cores that can run at once; at least 1. A fraction of a CPU is no core: a core that spins would only get throttled. */
  readonly cores: number;
}

/** Reads anew each time, since a container's limits may change while it runs. `root` is where /proc and /sys are found. */
export function readTopology(root = "/"): Topology {
  const cpus = allowedCpus(root);
  const quota = cpuQuota(root);
  const parallel = cpus?.length ?? (require("node:os") as typeof import("node:os")).availableParallelism();
  return { cpus, quota, cores: Math.max(1, Math.min(parallel, Math.floor(quota))) };
}

/** Pins the calling thread. False where the system refuses or cannot; the thread then runs where it ran. */
export function pinThread(cpus: readonly number[]): boolean {
  return loadAddon()?.setAffinity(cpus) === 0;
}

/**
 * The CPU of each of `cores` cores where there are exactly as many CPUs, else undefined. Left alone, two cores that wake each other tend to end up behind
 * one another on one CPU when anything else runs; with CPUs to spare the system finds an idle one.
 */
export function cpuPerCore(cores: number, root = "/"): readonly number[] | undefined {
  const cpus = allowedCpus(root);
  return cores > 1 && cpus?.length === cores ? cpus : undefined;
}

/** The system's id of the calling thread, 0 where there is none. */
export function threadId(): number {
  const addon = loadAddon();
  if (addon !== undefined) return addon.threadId();
  try {
    return Number(path.basename(fs.readlinkSync("/proc/thread-self")));
  } catch {
    return 0;
  }
}

/** CPUs in the affinity mask of the calling thread, from /proc: no addon needed. A cpuset is part of the mask. */
function allowedCpus(root: string): number[] | undefined {
  const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(read(path.join(root, "proc/thread-self/status")))?.[1];
  return list === undefined ? undefined : parseCpuList(list);
}

/** The kernel's list format: "0-3,8,10-11". */
export function parseCpuList(list: string): number[] {
  const cpus: number[] = [];
  for (const range of list.trim().split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(range);
    if (match === null) continue;
    for (let cpu = Number(match[1]); cpu <= Number(match[2] ?? match[1]); cpu++) cpus.push(cpu);
  }
  return cpus;
}

/** The smallest limit of this process's group and of every group around it, for control groups of version 1 and 2. */
function cpuQuota(root: string): number {
  let quota = Number.POSITIVE_INFINITY;
  for (const mount of cpuMounts(root)) {
    for (let folder = mount.group; ; folder = path.dirname(folder)) {
      quota = Math.min(quota, mount.version === 2 ? quotaV2(folder) : quotaV1(folder));
      if (folder === mount.point || folder === path.dirname(folder)) break;
    }
  }
  return quota;
}

interface CpuMount {
  readonly version: 1 | 2;
  /** Folder where the hierarchy is mounted, and the folder of this process's group in it. */
  readonly point: string;
  readonly group: string;
}

/** Hierarchies that limit CPU time. A container often sees only its own part of one: `root` of the mount is cut off the group's path. */
function cpuMounts(root: string): CpuMount[] {
  const groups = read(path.join(root, "proc/self/cgroup")).split("\n");
  const mounts: CpuMount[] = [];
  for (const line of read(path.join(root, "proc/self/mountinfo")).split("\n")) {
    const [left, right] = line.split(" - ");
    const [, , , mountRoot, point] = left?.split(" ") ?? [];
    const [type, , options] = right?.split(" ") ?? [];
    if (mountRoot === undefined || point === undefined) continue;
    const version = type === "cgroup2" ? 2 : type === "cgroup" && options?.split(",").includes("cpu") ? 1 : undefined;
    if (version === undefined) continue;
    const entry = groups.map((group) => group.split(":")).find(([, names]) => (version === 2 ? names === "" : names?.split(",").includes("cpu")));
    const below = path.relative(mountRoot, entry?.slice(2).join(":") ?? mountRoot);
    const base = path.join(root, point);
    mounts.push({ version, point: base, group: below.startsWith("..") ? base : path.join(base, below) });
  }
  return mounts;
}

/** cpu.max: "max 100000" or "<quota us> <period us>". */
function quotaV2(folder: string): number {
  const [quota, period] = read(path.join(folder, "cpu.max")).trim().split(" ");
  return ratio(Number(quota), Number(period));
}

/** cpu.cfs_quota_us is -1 without a limit. */
function quotaV1(folder: string): number {
  return ratio(Number(read(path.join(folder, "cpu.cfs_quota_us"))), Number(read(path.join(folder, "cpu.cfs_period_us"))));
}

function ratio(quota: number, period: number): number {
  return quota > 0 && period > 0 ? quota / period : Number.POSITIVE_INFINITY;
}

function read(file: string): string {
  try {
    return fs.readFileSync(file, "utf8");
  } catch {
    return ""; // not this system, or hidden in a sandbox: no limit is known
  }
}
