/** Memory of a process that opens and closes devices, or starts and ends threads that use npurt, again and again. Nobody calls the garbage collector. */
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";

const ENTRY = JSON.stringify(path.join(__dirname, "../../dist/lib/index.js"));
const MIB = 2 ** 20;
const run = promisify(execFile);

interface Growth {
  /** MiB of RSS per 100 rounds over the second half, by least squares over the least of 25 rounds each. Nobody collects garbage meanwhile. */
  readonly slope: number;
  /** KiB per round that live after a collection at the end, above those after the first half (of a second process). */
  readonly kept: number;
}

/** What `count` rounds of `body` leave behind, in processes of their own. */
async function growth(count: number, setup: string, body: string): Promise<Growth> {
  const script = `
    ${setup}
    (async () => {
      const points = [];
      let least = Infinity;
      let half = 0;
      const used = async () => { await new Promise((done) => setTimeout(done, 50)); gc(); gc(); return process.memoryUsage().heapUsed; };
      for (let round = 0; round < ${count}; round++) {
        ${body}
        if (globalThis.gc && round === ${count / 2 - 1}) half = await used();
        least = Math.min(least, process.memoryUsage.rss());
        if (round % 25 === 24) {
          if (round >= ${count / 2}) points.push([round, least]);
          least = Infinity;
        }
      }
      const mean = (pick) => points.reduce((sum, point) => sum + pick(point), 0) / points.length;
      const [x, y] = [mean((p) => p[0]), mean((p) => p[1])];
      const perRound = mean((p) => (p[0] - x) * (p[1] - y)) / mean((p) => (p[0] - x) ** 2);
      const kept = globalThis.gc ? ((await used()) - half) / ${count / 2} / 1024 : 0;
      console.log(JSON.stringify({ slope: (perRound * 100) / ${MIB}, kept }));
    })();`;
  const [plain, collected] = await Promise.all(
    [[], ["--expose-gc"]].map(async (flags) => JSON.parse((await run(process.execPath, [...flags, "--no-warnings", "-e", script])).stdout) as Growth),
  );
  return { slope: plain!.slope, kept: collected!.kept };
}

/** What Node 24 and booted cores still miss: their heap grows by 1 to 6 MiB per 100 rounds before V8 collects, so only what is never given back fails. */
const NOT_YET = 8;
/** The goal, which the inline driver holds on Node 20 (0.3 to 0.7 in eight runs). */
const GOAL = 1;
const onNode20 = Number(process.versions.node.split(".")[0]) < 22;

/** Nothing may be kept, and RSS may not climb by more than `slopeLimit` MiB per 100 rounds. */
function expectFlat({ slope, kept }: Growth, slopeLimit: number): void {
  expect(kept).toBeLessThanOrEqual(1);
  expect(slope).toBeLessThanOrEqual(slopeLimit);
}

const USE = `
  const stream = device.createStream();
  const buffer = device.allocate(65536);
  stream.memset(buffer, 1, 65536);
  await stream.synchronize();`;

test("1,000 devices opened, used and closed leave nothing behind", async () => {
  const open = `const { Device } = require(${ENTRY});`;
  const body = `const device = await Device.open({ driver: "inline", memoryBytes: 64 * ${MIB}, kernels: "base" }); ${USE} await device.close();`;
  expectFlat(await growth(1000, open, body), onNode20 ? GOAL : NOT_YET);
}, 120_000);

test("devices whose cores have booted leave nothing behind", async () => {
  const open = `const { Device } = require(${ENTRY});`;
  const body = `const device = await Device.open({ cores: 1, memoryBytes: 64 * ${MIB}, kernels: "base" }); await device.ready(); ${USE} await device.close();`;
  expectFlat(await growth(300, open, body), NOT_YET);
}, 120_000);

test("threads that import npurt and end leave nothing behind", async () => {
  const open = `const { Worker } = require("node:worker_threads");`;
  const body = `await new Promise((done, fail) => new Worker("require(" + JSON.stringify(${ENTRY}) + ").Device.list()", { eval: true }).on("error", fail).on("exit", done));`;
  expectFlat(await growth(300, open, body), NOT_YET);
}, 120_000);
