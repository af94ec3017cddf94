/** Memory of a process that opens and closes devices, or starts and ends threads that use npurt, again and again. Nobody calls the garbage collector. */
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";

const ENTRY = JSON.stringify(path.join(__dirname, "../../dist/lib/index.js"));
const MIB = 2 ** 20;
const run = promisify(execFile);
/** V8's second compiler takes 13 MiB once, when all that a round calls has been called 400 times: no slope, but it would look like one. */
const FLAGS = Number(process.versions.node.split(".")[0]) < 22 ? [] : ["--no-maglev"];

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
  const measure = async (flags: readonly string[]): Promise<Growth> =>
    JSON.parse((await run(process.execPath, [...flags, "--no-warnings", "-e", script])).stdout) as Growth;
  const [plain, collected] = await Promise.all([measure(FLAGS), measure([...FLAGS, "--expose-gc"])]);
  return { slope: plain.slope, kept: collected.kept };
}

/** MiB per 100 rounds. */
const GOAL = 1;

/** Of the difference between two slopes that are measured one after the other. */
const NOISE = 1;

/** Nothing may be kept, and RSS may climb by no more than `slopeLimit` MiB per 100 rounds. */
function expectFlat({ slope, kept }: Growth, slopeLimit: number): void {
  expect(kept).toBeLessThanOrEqual(1);
  expect(slope).toBeLessThanOrEqual(slopeLimit);
}

const USE = `
  const stream = device.createStream();
  const buffer = device.allocate(65536);
  stream.memset(buffer, 1, 65536);
  await stream.synchronize();`;
const WORKER = `const { Worker } = require("node:worker_threads");`;
/** A thread that runs `code` and ends. */
const thread = (code: string): string => `await new Promise((done, fail) => new Worker(${code}, { eval: true }).on("error", fail).on("exit", done));`;
/** The heap of a process that starts threads finds its size in the first 300; over the 500 behind them a late collection is no slope. */
const ROUNDS = 1000;
const LIMIT_MS = 400_000;

test(
  "1,000 devices opened, used and closed leave nothing behind",
  async () => {
    const open = `const { Device } = require(${ENTRY});`;
    const body = `const device = await Device.open({ driver: "inline", memoryBytes: 64 * ${MIB}, kernels: "base" }); ${USE} await device.close();`;
    expectFlat(await growth(1000, open, body), GOAL);
  },
  LIMIT_MS,
);

describe("where Node starts a thread per round, it is no more than Node itself leaves behind", () => {
  let limit: number;
  beforeAll(async () => {
    const { slope } = await growth(ROUNDS, WORKER, thread(`"1"`));
    limit = Math.max(0, slope) + NOISE + GOAL;
  }, LIMIT_MS);

  test(
    "devices whose cores have booted",
    async () => {
      const open = `const { Device } = require(${ENTRY});`;
      const body = `const device = await Device.open({ cores: 1, memoryBytes: 64 * ${MIB}, kernels: "base" }); await device.ready(); ${USE} await device.close();`;
      expectFlat(await growth(ROUNDS, open, body), limit);
    },
    LIMIT_MS,
  );

  test(
    "threads that import npurt and end",
    async () => {
      expectFlat(await growth(ROUNDS, WORKER, thread(`"require(" + JSON.stringify(${ENTRY}) + ").Device.list()"`)), limit);
    },
    LIMIT_MS,
  );
});
