"use strict";
/**
 * Kernels that trap and kernels that run away, in a row, in a process of its own: `node --expose-gc growth.cjs HELPERS HELPERS_IN_C`.
 * Prints one JSON line: what each phase found and what the process held before and after.
 */
const { Device, Kernel } = require("npurt");

const [TRAPS, RUNAWAYS] = [1000, 100];
Buffer.poolSize = 0; // a new slab of Node's pool would look like growth
const [helpers, inC] = process.argv.slice(2);

/** What may not grow, after a collection. Threads talk through ports; timers are V8's own for the most part. */
async function held(device) {
  // Threads that were ended say so in their own time on a busy machine: collected until nothing more goes.
  for (let [least, same] = [Infinity, 0]; same < 5; same++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    global.gc();
    const { heapUsed } = process.memoryUsage();
    if (heapUsed < least - 4096) [least, same] = [heapUsed, 0];
  }
  const { usedBytes, allocations, memoryBytes } = device.info();
  const { heapUsed, external, arrayBuffers, rss } = process.memoryUsage();
  const { libuv } = process.report.getReport();
  return { usedBytes, allocations, memoryBytes, heapUsed, external, arrayBuffers, rss, ports: libuv.filter(({ type }) => type === "async").length };
}

async function phase(device, count, launch) {
  const codes = {};
  const before = await held(device);
  const killed = device.info().killedCores;
  for (let i = 0; i < count; i++) {
    const code = await launch(i).then(
      () => 0,
      (error) => error.code,
    );
    codes[code] = (codes[code] ?? 0) + 1;
  }
  await device.ready(); // the last replacement is up
  return { codes, killed: device.info().killedCores - killed, before, after: await held(device) };
}

async function main() {
  process.report.excludeNetwork = true;
  const device = await Device.open({ cores: 2, memoryBytes: 64 * 2 ** 20, watchdogMs: 100 });
  const words = device.allocatePinned(4096);
  const kernel = await Kernel.load(device, helpers, { EasyOP: ["ptr"], ErrorOP: ["ptr"], RunawayPolling: ["ptr"], Runaway: ["ptr"] });
  const c = await Kernel.load(device, inC, { Runaway: ["ptr"] });
  const stream = device.createStream();
  /** A kernel that fails, then one that must run. */
  const round = (fn) => async () => {
    stream.launchKernel(fn, { args: [words.address + 64], timeoutMs: 2 });
    stream.launchKernel(kernel.function("EasyOP"), { args: [words] });
    await stream.synchronize();
  };
  const trap = round(kernel.function("ErrorOP"));
  const runaway = [kernel.function("RunawayPolling"), kernel.function("Runaway"), c.function("Runaway")].map(round);
  for (const warm of [trap, ...runaway]) for (let i = 0; i < 3; i++) await warm().catch(() => {});
  const ran = words.view("int32")[0];
  const traps = await phase(device, TRAPS, trap);
  const runaways = await phase(device, RUNAWAYS, (i) => runaway[i % 3]());
  const good = words.view("int32")[0] - ran;
  await device.close();
  console.log(JSON.stringify({ traps, runaways, good }));
}
main();
