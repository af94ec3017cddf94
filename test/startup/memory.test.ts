/** Memory of a process that opens and closes devices, or starts and ends threads that use npurt, again and again. Nobody calls the garbage collector. */
import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";

const ENTRY = JSON.stringify(path.join(__dirname, "../../dist/lib/index.js"));
const MIB = 2 ** 20;
const run = promisify(execFile);

/** MiB per 100 rounds over the second half of `count` rounds of `body`, by least squares, in a process of its own. */
async function slope(count: number, setup: string, body: string): Promise<number> {
  const script = `
    ${setup}
    (async () => {
      const points = [];
      for (let round = 0; round < ${count}; round++) {
        ${body}
        if (round >= ${count / 2}) points.push([round, process.memoryUsage.rss()]);
      }
      const mean = (pick) => points.reduce((sum, point) => sum + pick(point), 0) / points.length;
      const [x, y] = [mean((p) => p[0]), mean((p) => p[1])];
      const perRound = mean((p) => (p[0] - x) * (p[1] - y)) / mean((p) => (p[0] - x) ** 2);
      console.log(JSON.stringify((perRound * 100) / ${MIB}));
    })();`;
  const { stdout } = await run(process.execPath, ["--no-warnings", "-e", script]);
  return JSON.parse(stdout) as number;
}

const USE = `
  const stream = device.createStream();
  const buffer = device.allocate(65536);
  stream.memset(buffer, 1, 65536);
  await stream.synchronize();`;

test("1,000 devices opened, used and closed leave nothing behind", async () => {
  const open = `const { Device } = require(${ENTRY});`;
  const body = `const device = await Device.open({ driver: "inline", memoryBytes: 64 * ${MIB}, kernels: "base" }); ${USE} await device.close();`;
  expect(await slope(1000, open, body)).toBeLessThanOrEqual(1);
}, 120_000);

test("devices whose cores have booted leave nothing behind", async () => {
  const open = `const { Device } = require(${ENTRY});`;
  const body = `const device = await Device.open({ cores: 1, memoryBytes: 64 * ${MIB}, kernels: "base" }); await device.ready(); ${USE} await device.close();`;
  // A worker's heap goes back in steps of some 100 KB: over so few rounds the slope is coarse.
  expect(await slope(200, open, body)).toBeLessThanOrEqual(2);
}, 120_000);

test("threads that import npurt and end leave nothing behind", async () => {
  const open = `const { Worker } = require("node:worker_threads");`;
  const body = `await new Promise((done, fail) => new Worker("require(" + JSON.stringify(${ENTRY}) + ").Device.list()", { eval: true }).on("error", fail).on("exit", done));`;
  expect(await slope(200, open, body)).toBeLessThanOrEqual(2);
}, 120_000);
