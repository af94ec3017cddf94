/**
 * The child side of a runner: one request, one answer, so that at any moment only one runner of a comparison works.
 * A runner gives `open(job)` -> {run, close, output?}: `run` is one inference with its result in hand.
 */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  int64: BigInt64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};

/** Dark bars in rows on white, as a page of text looks from afar. */
const page = (width, at) => {
  const [x, y] = [at % width, Math.floor(at / width)];
  return (y >> 5) % 3 === 1 && (x >> 3) % 2 === 0 ? -2 : 2;
};

/** A fixed sequence, the same in every runner: floats in [-0.5, 0.5), integers in [0, below); or `value` everywhere; or the picture of a page. */
export function feedData({ dtype, dims, seed = 1, below = 2, value, picture = false }) {
  const count = dims.reduce((product, dim) => product * dim, 1);
  const Data = ARRAYS[dtype];
  if (Data === undefined) throw new Error(`the bench cannot make ${dtype} inputs`);
  const data = new Data(count);
  let state = seed >>> 0 || 1;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const fraction = state / 2 ** 32;
    const next = picture ? page(dims.at(-1), i) : (value ?? (dtype.startsWith("float") ? fraction - 0.5 : Math.floor(fraction * below)));
    data[i] = dtype === "int64" ? BigInt(next) : next;
  }
  return data;
}

/** At most 512 numbers spread over the output: enough to see that two runners computed the same. */
export function outputSample(data) {
  const step = Math.max(1, Math.floor(data.length / 512));
  return Array.from({ length: Math.min(512, Math.ceil(data.length / step)) }, (_, i) => Number(data[i * step]));
}

/** With NPURT_BENCH_CLOCK=cpu, the time that this process had a processor: of use where others take turns with it, and with one thread only. */
const now =
  process.env.NPURT_BENCH_CLOCK === "cpu"
    ? () => {
        const { user, system } = process.cpuUsage();
        return (user + system) / 1000;
      }
    : () => performance.now();

async function block(session, count) {
  const start = now();
  for (let i = 0; i < count; i++) await session.run();
  return (now() - start) / count;
}

/** Warm-up runs for `ms` at least, then says how long a run takes now. */
async function warmUp(session, ms) {
  const start = performance.now();
  let last = await block(session, 1);
  while (performance.now() - start < ms) last = await block(session, Math.max(1, Math.min(1000, Math.floor(5 / Math.max(last, 1e-4)))));
  return last;
}

const REST_MS = 5;
const REST_LIMIT_MS = 1000;

/**
 * Waits until the process does nothing any more. A peer's pool of threads looks for work for up to 130 ms after a run (onnxruntime-node), and would take a
 * processor from whoever is measured next.
 */
async function rest() {
  const end = performance.now() + REST_LIMIT_MS;
  for (let busy = Number.POSITIVE_INFINITY; busy > REST_MS / 5 && performance.now() < end; ) {
    const before = process.cpuUsage();
    await sleep(REST_MS);
    const { user, system } = process.cpuUsage(before);
    busy = (user + system) / 1000;
  }
}

export function serve(open, info = () => ({})) {
  let session;
  const handlers = {
    info,
    async open(job) {
      const start = performance.now();
      session = await open(job);
      return { loadMs: performance.now() - start, output: await session.output?.() };
    },
    warmUp: ({ ms }) => warmUp(session, ms),
    sample: ({ count }) => block(session, count),
    async close() {
      await session?.close?.();
      session = undefined;
    },
  };
  process.on("message", async ({ type, payload }) => {
    try {
      const value = await handlers[type](payload);
      await rest();
      process.send({ value });
    } catch (error) {
      process.send({ error: String(error?.message ?? error) });
    }
  });
}
