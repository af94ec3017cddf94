import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { cpuPerCore, parseCpuList, pinThread, readTopology, threadId } from "../../../dist/lib/host/topology";

/** A root folder with these files, as a container would see them. */
function systemWith(files: Record<string, string>): string {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-root-"));
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    fs.writeFileSync(path.join(root, name), text);
  }
  return root;
}

const CGROUP2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const EIGHT = "Name:\tnode\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n";

describe("readTopology", () => {
  test("without any limit: the CPUs of the affinity mask", () => {
    const topology = readTopology(systemWith({ "proc/thread-self/status": EIGHT }));
    expect(topology).toEqual({ cpus: [0, 1, 2, 3, 4, 5, 6, 7], quota: Number.POSITIVE_INFINITY, cores: 8 });
  });

  test("control groups v2: the tightest limit on the way up counts, and a fraction of a CPU is no core", () => {
    const root = systemWith({
      "proc/thread-self/status": EIGHT,
      "proc/self/cgroup": "0::/service/unit\n",
      "proc/self/mountinfo": CGROUP2,
      "sys/fs/cgroup/service/unit/cpu.max": "max 100000\n",
      "sys/fs/cgroup/service/cpu.max": "250000 100000\n",
    });
    expect(readTopology(root)).toMatchObject({ quota: 2.5, cores: 2 });
  });

  test("half a CPU still has one core", () => {
    const files = { "proc/thread-self/status": EIGHT, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": CGROUP2 };
    expect(readTopology(systemWith({ ...files, "sys/fs/cgroup/cpu.max": "50000 100000" }))).toMatchObject({ quota: 0.5, cores: 1 });
  });

  test("control groups v1 in a container: the mount shows only the part below its root", () => {
    const root = systemWith({
      "proc/thread-self/status": EIGHT,
      "proc/self/cgroup": "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n",
      "proc/self/mountinfo": "41 30 0:35 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n",
      "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
      "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    });
    expect(readTopology(root)).toMatchObject({ quota: 3, cores: 3 });
  });

  test("control groups v1: a quota of -1 is none", () => {
    const root = systemWith({
      "proc/thread-self/status": EIGHT,
      "proc/self/cgroup": "4:cpu:/\n",
      "proc/self/mountinfo": "41 30 0:35 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
      "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
      "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    });
    expect(readTopology(root)).toMatchObject({ quota: Number.POSITIVE_INFINITY, cores: 8 });
  });

  test("a system that tells nothing has the parallelism that Node sees", () => {
    expect(readTopology(systemWith({}))).toEqual({ cpus: undefined, quota: Number.POSITIVE_INFINITY, cores: os.availableParallelism() });
  });

  test("this machine has at least one core and no more than CPUs", () => {
    const { cores } = readTopology();
    expect(cores).toBeGreaterThanOrEqual(1);
    expect(cores).toBeLessThanOrEqual(os.cpus().length);
  });
});

test.each([
  ["0-3,8,10-11", [0, 1, 2, 3, 8, 10, 11]],
  ["5\n", [5]],
  ["", []],
])("the list %j", (list, cpus) => {
  expect(parseCpuList(list)).toEqual(cpus);
});

test("cores get a CPU each only where there is exactly one for each", () => {
  const root = systemWith({ "proc/thread-self/status": "Cpus_allowed_list:\t1,3-4\n" });
  expect(cpuPerCore(3, root)).toEqual([1, 3, 4]);
  for (const cores of [1, 2, 4]) expect(cpuPerCore(cores, root)).toBeUndefined();
  expect(cpuPerCore(2, systemWith({}))).toBeUndefined();
});

test("a thread cannot be pinned to no CPU, and says so instead of throwing", () => {
  expect(pinThread([])).toBe(false);
});

test("the thread id is the system's", () => {
  const known = fs.existsSync("/proc/thread-self") ? Number(path.basename(fs.readlinkSync("/proc/thread-self"))) : 0;
  expect(threadId()).toBe(known);
});
