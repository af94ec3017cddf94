/** The measurements of the task suite that are about npurt alone, through its public API. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Device, Executor, Tensor } from "npurt";
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";
import { median } from "../harness.mjs";
import { feedData } from "../runners/serve.mjs";
import { measureBarrier } from "./barrier.mjs";
import { measureCopies } from "./copies.mjs";
import { measureEventWait, measureSpread } from "./streams.mjs";

const BATCHED = 1_000_000;
const ONE_BY_ONE = 200_000;
const ROUNDS = 7;
const OPENS = 15;

async function medianOf(rounds, once) {
  const values = [];
  for (let round = 0; round < rounds; round++) values.push(await once());
  return median(values);
}

/** Time per task, from the first submit until the host knows that the last has run. */
async function emptyTasks(driver, cores) {
  const device = await Device.open(driver === "inline" ? { driver } : { driver, cores });
  await device.ready();
  const stream = device.createStream();
  const perTask = async (count, submit) => {
    const start = performance.now();
    submit(count);
    await stream.synchronize();
    return (performance.now() - start) / count;
  };
  const oneByOne = (count) => {
    for (let i = 0; i < count; i++) stream.nop();
  };
  const batched = await medianOf(ROUNDS, () => perTask(BATCHED, (count) => stream.nop(count)));
  const single = await medianOf(ROUNDS, () => perTask(ONE_BY_ONE, oneByOne));
  await device.close();
  return [
    { case: `empty task, batched, ${driver}`, value: batched },
    { case: `empty task, one by one, ${driver}`, value: single },
  ];
}

async function openAndClose() {
  const opened = [];
  const closed = [];
  for (let i = 0; i < OPENS; i++) {
    const start = performance.now();
    const device = await Device.open({ cores: 2 });
    await device.ready();
    const up = performance.now();
    await device.close();
    opened.push(up - start);
    closed.push(performance.now() - up);
  }
  return [
    { case: "device open, 2 cores up", value: median(opened) },
    { case: "device close", value: median(closed) },
  ];
}

async function until(condition) {
  for (const start = performance.now(); !condition(); await sleep(1)) {
    if (performance.now() - start > 10_000) throw new Error(`waited 10 s for ${condition}`);
  }
}

/** From the moment that the watchdog has given a core up until its place is taken by a new one. */
async function killedCore() {
  const device = await Device.open({ cores: 2, watchdogMs: 50 });
  await device.ready();
  const value = await medianOf(ROUNDS, async () => {
    const stream = device.createStream();
    const before = device.info().killedCores;
    stream.launch({ probe: "runaway" });
    const done = stream.synchronize().catch((error) => error);
    await until(() => device.info().killedCores > before);
    const killed = performance.now();
    // Its worker ends first, then the new one boots.
    await until(() => device.info().coresUp < 2);
    await until(() => device.info().coresUp === 2);
    const ms = performance.now() - killed;
    const error = await done;
    if (typeof error?.code !== "number") throw new Error("a runaway kernel was not reported");
    await stream.destroy();
    return ms;
  });
  await device.close();
  return [{ case: "killed core replaced", value }];
}

const conv = (side, channels) => {
  const weight = { name: "w", dtype: "float32", dims: [channels, channels, 3, 3], seed: 2 };
  const value = (name) => ({ name, dtype: "float32", dims: [1, channels, side, side] });
  return encodeModel({
    name: "conv",
    nodes: [{ op: "Conv", inputs: ["x", "w"], outputs: ["y"], attributes: { pads: [1, 1, 1, 1] } }],
    inputs: [value("x")],
    outputs: [value("y")],
    initializers: [{ ...weight, data: feedData(weight) }],
  });
};

/** How late a timer of 1 ms comes while `work` goes on: what everything else in the process would wait. */
async function loopDelay(work) {
  const delays = [];
  let running = true;
  const watch = (async () => {
    while (running) {
      const start = performance.now();
      await sleep(1);
      delays.push(Math.max(0, performance.now() - start - 1));
    }
  })();
  await work();
  running = false;
  await watch;
  delays.sort((a, b) => a - b);
  return { p99: delays[Math.floor(0.99 * (delays.length - 1))], max: delays.at(-1) };
}

async function delayUnderLoad() {
  const device = await Device.open();
  await device.ready();
  const side = 56;
  const executor = await Executor.load(conv(side, 64), { device });
  const dims = [1, 64, side, side];
  const feeds = { x: new Tensor("float32", dims, feedData({ dtype: "float32", dims })) };
  await executor.run(feeds);
  const { cores } = device.info();
  const { p99, max } = await loopDelay(async () => {
    const until = performance.now() + 3000;
    const keepBusy = async () => {
      while (performance.now() < until) await executor.run(feeds);
    };
    await Promise.all(Array.from({ length: 2 * cores }, keepBusy));
  });
  await device.close();
  return [
    { case: "event loop delay, cores busy, p99", value: p99 },
    { case: "event loop delay, cores busy, max", value: max },
  ];
}

async function delayDuringLoad() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-bench-"));
  try {
    const model = path.join(folder, "big.onnx");
    // Made by another process: this one has no garbage but that of the load.
    execFileSync(process.execPath, [fileURLToPath(new URL("big-model.mjs", import.meta.url)), model]);
    const device = await Device.open();
    await device.ready();
    const { p99, max } = await loopDelay(async () => {
      await Executor.load(model, { device });
    });
    await device.close();
    return [
      { case: "event loop delay, load of 64 MiB, p99", value: p99 },
      { case: "event loop delay, load of 64 MiB, max", value: max },
    ];
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

export const MEASURES = {
  "empty-tasks": async (threads) => [...(await emptyTasks("inline", 1)), ...(await emptyTasks("threads", threads))],
  "region-barrier": measureBarrier,
  "event-wait": measureEventWait,
  copies: measureCopies,
  spread: measureSpread,
  device: openAndClose,
  "killed-core": killedCore,
  "delay-under-load": delayUnderLoad,
  "delay-during-load": delayDuringLoad,
};
