/** A machine that has too much to do: a core that waits for a processor is late, not stuck. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { Device } from "npurt";
import { Core, Layout } from "../../dist/asm/abi/device";
import { loadAddon } from "../../dist/lib/host/addon";
import { readTopology } from "../../dist/lib/host/topology";
import { coreOf } from "../../dist/lib/runtime/internals";

const LIBRARY = path.join(__dirname, "../../dist/lib");
const run = promisify(execFile);

/** A process on one CPU, whose core shares it with three threads that never rest; its tile takes half the time of a CPU that a core may take. */
const BODY = `
const { Worker } = require("node:worker_threads");
const { pinThread, readTopology } = require(process.argv[1] + "/host/topology.js");
const { Device } = require(process.argv[1] + "/index.js");
(async () => {
  const [cpu] = readTopology().cpus;
  if (!pinThread([cpu])) return console.log(JSON.stringify({ refused: true }));
  const device = await Device.open({ cores: 1, memoryBytes: 16 * 2 ** 20, watchdogMs: 100 });
  await device.ready();
  const stream = device.createStream();
  const spin = async (argument) => {
    const start = performance.now();
    stream.launch({ probe: "spin", argument });
    await stream.synchronize();
    return performance.now() - start;
  };
  const used = () => process.cpuUsage().user + process.cpuUsage().system;
  await spin(2 ** 24);
  const before = used();
  await spin(2 ** 25);
  const perMs = 2 ** 25 / ((used() - before) / 1000);
  const spinners = Array.from({ length: 3 }, () => new Worker("for (;;);", { eval: true }));
  await Promise.all(spinners.map((spinner) => new Promise((resolve) => spinner.once("online", resolve))));
  const codes = [];
  const tookMs = await spin(Math.round(50 * perMs)).catch((error) => (codes.push(error.code), 0));
  stream.launch({ probe: "runaway" });
  const stuck = await stream.synchronize().then(() => 0, (error) => error.code);
  console.log(JSON.stringify({ codes, tookMs, stuck, killed: device.info().killedCores }));
  process.exit();
})();`;

test("a core that gets a part of a processor is not taken for stuck, and one that is stuck there is found", async () => {
  const { stdout } = await run(process.execPath, ["--no-warnings", "-e", BODY, LIBRARY], { timeout: 55_000 });
  const { refused, tookMs, ...result } = JSON.parse(stdout) as { refused?: true; tookMs: number; codes: number[]; stuck: number; killed: number };
  if (refused || !fs.existsSync("/proc/self/task")) {
    console.warn("skipped: this system pins no threads, or does not say what processor time a thread had");
    return;
  }
  expect(result).toEqual({ codes: [], stuck: 507014, killed: 1 });
  expect(tookMs).toBeGreaterThan(200); // else nothing was starved, and the test has shown nothing
});

/** What cores say of themselves soon after they are up. */
async function soon<T>(read: () => T, expected: T): Promise<void> {
  for (let look = 0; look < 100 && String(read()) !== String(expected); look++) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(read()).toEqual(expected);
}

test("cores are nicer than event loops, which go first where there is no CPU for each", async () => {
  const device = await Device.open({ cores: 2, memoryBytes: 16 * 2 ** 20 });
  await device.ready();
  const { machine } = coreOf.device(device);
  const tids = [0, 1].map((core) => machine.words[(Layout.CORES + core * Core.SIZE + Core.TID) >> 2] as number);
  if (tids.includes(0)) console.warn("skipped: this system tells no thread its id");
  else
    await soon(
      () => tids.map((tid) => os.getPriority(tid)),
      [0, 1].map(() => Math.min(19, os.getPriority() + 10)),
    );
  await device.close();
});

test("as many cores as CPUs keep to one each, fewer go where the system puts them", async () => {
  const { cpus } = readTopology();
  if (cpus === undefined || cpus.length < 2 || cpus.length > 16 || loadAddon() === undefined) {
    console.warn("skipped: no addon, or no CPUs to tell apart");
    return;
  }
  const listed = (tid: number): string => /^Cpus_allowed_list:\s*(.*)$/m.exec(fs.readFileSync(`/proc/self/task/${tid}/status`, "utf8"))![1]!;
  const before = listed(process.pid);
  for (const cores of [cpus.length, cpus.length - 1]) {
    const device = await Device.open({ cores, memoryBytes: 16 * 2 ** 20 });
    await device.ready();
    const { machine } = coreOf.device(device);
    const allowed = (): string[] =>
      Array.from({ length: cores }, (_, core) => listed(machine.words[(Layout.CORES + core * Core.SIZE + Core.TID) >> 2]!));
    await soon(
      allowed,
      cpus.slice(0, cores).map((cpu) => (cores === cpus.length ? String(cpu) : before)),
    );
    await device.close();
  }
  expect(listed(process.pid)).toBe(before);
});
