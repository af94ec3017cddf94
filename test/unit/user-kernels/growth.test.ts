/** 1,000 trapping and 100 runaway kernels in a row, in AssemblyScript and C, with and without polls: each has its code, nothing is lost, nothing grows. */
import { execFile } from "node:child_process";
import path from "node:path";
import { helperKernels, helperKernelsInC } from "../../acl/kernels/build";

const MIB = 2 ** 20;

interface Held {
  readonly [counter: string]: number;
}
interface Phase {
  readonly codes: Readonly<Record<string, number>>;
  readonly killed: number;
  readonly before: Held;
  readonly after: Held;
}

test("traps and runaways in a row", async () => {
  const args = ["--expose-gc", path.join(__dirname, "growth.cjs"), helperKernels(), helperKernelsInC()];
  const printed = await new Promise<string>((resolve, reject) => {
    execFile(process.execPath, args, { timeout: 280_000 }, (error, stdout) => (error === null ? resolve(stdout) : reject(error)));
  });
  const { traps, runaways, good } = JSON.parse(printed) as { traps: Phase; runaways: Phase; good: number };
  expect(traps.codes).toEqual({ 507035: 1000 });
  expect(runaways.codes).toEqual({ 507034: 100 });
  expect(traps.killed).toBe(0);
  // Those that do not poll; one that polls is ended too if its core gets no CPU in time.
  expect(runaways.killed).toBeGreaterThanOrEqual(66);
  expect(good).toBe(1100); // every kernel between them ran
  for (const { before, after } of [traps, runaways]) {
    for (const exact of ["usedBytes", "allocations", "memoryBytes", "arrayBuffers"]) {
      expect([exact, after[exact]]).toEqual([exact, before[exact]]);
    }
    expect(after.ports! - before.ports!).toBeLessThanOrEqual(2); // of a thread that has just come or gone
    expect(after.heapUsed! - before.heapUsed!).toBeLessThan(MIB);
    expect(after.external! - before.external!).toBeLessThan(MIB);
  }
  // A thread that was ended gives its memory back when the system likes: 66 of them would show in hundreds of MiB.
  expect(traps.after.rss! - traps.before.rss!).toBeLessThan(16 * MIB);
  expect(runaways.after.rss! - runaways.before.rss!).toBeLessThan(64 * MIB);
}, 300_000);
