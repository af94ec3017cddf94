/** `npurt run`: loads a model, feeds it, runs it, and shows outputs and times. */
import { Device, Executor, type LoadOptions, type Tensor } from "../index";
import { makeFeeds, writeTensor } from "./feeds";
import { checkOutputNames, dimsOf, readModel } from "./model";
import { formatBytes, formatMs, print, printJson, quantile, table } from "./output";
import type { RunFlags } from "./arguments";
import { Progress } from "./progress";

interface Times {
  readonly loadMs: number;
  readonly firstMs: number;
  /** All runs after the first; of the first where it is the only one. */
  readonly medianMs: number;
  readonly p95Ms: number;
  readonly runs: number;
}

export async function run(model: string, flags: RunFlags): Promise<void> {
  const { input = [], dim = [], output = [] } = flags;
  const { bytes, folder, info } = readModel(model);
  checkOutputNames(info, output);
  const feeds = makeFeeds(info.inputs, input, dim, flags.seed);
  const device = await Device.open({ driver: flags.driver, ...(flags.cores === undefined ? {} : { cores: flags.cores }) });
  try {
    const { executor, loadMs } = await load(bytes, { device, folder, shapes: dimsOf(feeds) });
    const { outputs, times } = await repeat(executor, feeds, flags.repeat, loadMs);
    for (const { name, value } of output) writeTensor(value, outputs[name] as Tensor);
    if (flags.json) printJson(report(model, device, feeds, outputs, times));
    else printReport(model, device, feeds, outputs, times);
    executor.dispose();
  } finally {
    await device.close();
  }
}

async function load(bytes: Uint8Array, options: LoadOptions): Promise<{ executor: Executor; loadMs: number }> {
  const progress = new Progress("loading");
  const startedAt = performance.now();
  try {
    const executor = await Executor.load(bytes, { ...options, onProgress: ({ fraction }) => progress.update(fraction, 1) });
    return { executor, loadMs: performance.now() - startedAt };
  } finally {
    progress.stop();
  }
}

async function repeat(executor: Executor, feeds: Record<string, Tensor>, count: number, loadMs: number) {
  const progress = new Progress("running");
  const times: number[] = [];
  let outputs: Record<string, Tensor> = {};
  try {
    for (let i = 0; i < count; i++) {
      const startedAt = performance.now();
      outputs = await executor.run(feeds);
      times.push(performance.now() - startedAt);
      progress.update(i + 1, count);
    }
  } finally {
    progress.stop();
  }
  const [firstMs = Number.NaN] = times;
  const sorted = (times.length > 1 ? times.slice(1) : times).sort((a, b) => a - b);
  return { outputs, times: { loadMs, firstMs, medianMs: quantile(sorted, 0.5), p95Ms: quantile(sorted, 0.95), runs: count } };
}

interface Summary {
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly first: readonly number[];
}

/** Of the stored elements; float16 and bfloat16 are shown as their bits. */
function summarize({ data }: Tensor): Summary {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  let sum = 0;
  for (const element of data) {
    const value = Number(element);
    min = Math.min(min, value);
    max = Math.max(max, value);
    sum += value;
  }
  return { min, max, mean: sum / data.length, first: Array.from(data.subarray(0, 10), Number) };
}

type Tensors = Readonly<Record<string, Tensor>>;

function report(model: string, device: Device, feeds: Tensors, outputs: Tensors, times: Times): unknown {
  const describe = (tensors: Tensors) => Object.entries(tensors).map(([name, { dtype, dims }]) => ({ name, dtype, dims }));
  const { driver, cores } = device.info();
  return {
    model,
    device: { driver, cores },
    inputs: describe(feeds),
    outputs: Object.entries(outputs).map(([name, tensor]) => ({ name, dtype: tensor.dtype, dims: tensor.dims, ...summarize(tensor) })),
    times,
    memory: { rssBytes: process.memoryUsage.rss() },
  };
}

function printReport(model: string, device: Device, feeds: Tensors, outputs: Tensors, times: Times): void {
  const { driver, cores } = device.info();
  print(`${model} on ${driver}, ${cores} core${cores === 1 ? "" : "s"}`);
  print("inputs");
  print(table(Object.entries(feeds).map(([name, { dtype, dims }]) => [name, `${dtype} [${dims.join(", ")}]`])));
  print("outputs");
  const number = (value: number): string => (Number.isInteger(value) ? String(value) : value.toPrecision(5));
  print(
    table(
      Object.entries(outputs).map(([name, tensor]) => {
        const { min, max, mean, first } = summarize(tensor);
        const range = tensor.data.length === 0 ? "empty" : `min ${number(min)}  max ${number(max)}  mean ${number(mean)}`;
        const more = tensor.data.length > first.length ? ", ..." : "";
        return [name, `${tensor.dtype} [${tensor.dims.join(", ")}]`, range, `[${first.map(number).join(", ")}${more}]`];
      }),
    ),
  );
  const later = times.runs > 1 ? `, then median ${formatMs(times.medianMs)}, 95 % below ${formatMs(times.p95Ms)} over ${times.runs - 1} runs` : "";
  print(`load ${formatMs(times.loadMs)}, first run ${formatMs(times.firstMs)}${later}; process memory ${formatBytes(process.memoryUsage.rss())}`);
}
