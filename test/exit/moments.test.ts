/**
 * Ends at moments that nobody chose: while a process opens, loads, copies, runs, closes. Each ends as it was told to, soon, without a word from V8 or
 * libuv. NPURT_LONG=1: 50 moments for each driver and way.
 */
import { spawn } from "node:child_process";
import path from "node:path";

const entry = JSON.stringify(path.join(__dirname, "../../dist/lib/index.js"));
const model = JSON.stringify(path.join(__dirname, "../../examples/digits/digits.onnx"));
const MOMENTS = process.env["NPURT_LONG"] === "1" ? 50 : 2;
const SEED = Number(process.env["NPURT_SEED"] ?? 77);
/** From `require` on; the first devices open in the first tenth of it. */
const SPAN_MS = 400;
const LIMIT_MS = 15_000;

/** Everything at once and for ever: opens and closes, loads, copies, runs, waits and failures. */
const BUSY = (driver: string): string => `
  const { Device, Executor, Tensor } = require(${entry});
  const image = new Tensor("float32", [1, 1, 28, 28], new Float32Array(784).fill(0.5));
  async function life() {
    const device = await Device.open({ driver: ${JSON.stringify(driver)}, cores: 2, memoryBytes: 64 << 20 });
    const executor = await Executor.load(${model}, { device, shapes: { image: [1, 1, 28, 28] } });
    const [stream, other] = [device.createStream(), device.createStream()];
    const [buffer, pinned] = [device.allocate(1 << 20), device.allocatePinned(1 << 20)];
    const event = device.createEvent();
    for (let round = 0; round < 20; round++) {
      stream.memset(buffer, round);
      stream.memcpy(pinned, buffer);
      stream.launch({ probe: "spin", argument: 20000 });
      if (round % 7 === 3) other.launch({ probe: "unreachable" });
      stream.record(event);
      other.wait(event);
      other.memcpy(new Uint8Array(1 << 20), buffer);
      await Promise.all([executor.run({ image }), executor.run({ image }, { stream }), stream.synchronize(), other.synchronize().catch(() => {})]);
    }
    executor.dispose();
    await device.close();
  }
  const forever = async () => { for (;;) await life(); };`;

interface Way {
  readonly name: string;
  /** What the process does after \`atMs\`; the process is killed from outside if there is none. */
  readonly end: ((atMs: number, driver: string) => string) | undefined;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: RegExp;
}

const whileBusy = (ending: string) => (atMs: number, driver: string) => `${BUSY(driver)} forever(); setTimeout(() => { ${ending} }, ${atMs});`;

const WAYS: readonly Way[] = [
  { name: "process.exit", end: whileBusy("process.exit(3)"), code: 3, signal: null, out: /^$/ },
  { name: "an exception that nobody catches", end: whileBusy('throw new Error("boom")'), code: 1, signal: null, out: /Error: boom/ },
  { name: "a rejection that nobody handles", end: whileBusy('Promise.reject(new Error("boom"))'), code: 1, signal: null, out: /Error: boom/ },
  {
    name: "worker.terminate",
    end: (atMs, driver) => `
      const { Worker } = require("node:worker_threads");
      const worker = new Worker(${JSON.stringify(`${BUSY(driver)} forever();`)}, { eval: true });
      worker.once("online", () => setTimeout(() => worker.terminate(), ${atMs}));`,
    code: 0,
    signal: null,
    out: /^$/,
  },
  { name: "SIGTERM", end: undefined, code: null, signal: "SIGTERM", out: /^$/ },
];

let state = SEED;
function momentMs(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * SPAN_MS);
}

interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly late: boolean;
}

function run(way: Way, driver: string, atMs: number): Promise<Ending> {
  const script = way.end === undefined ? `${BUSY(driver)} forever(); process.send("up");` : way.end(atMs, driver);
  const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "pipe", "ipc"] });
  child.on("message", () => setTimeout(() => child.kill("SIGTERM"), atMs));
  let out = "";
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on("data", (text: Buffer) => {
      out += text.toString();
    });
  }
  let late = false;
  const limit = setTimeout(() => {
    late = true;
    child.kill("SIGKILL");
  }, LIMIT_MS);
  return new Promise((resolve) => {
    child.on("close", (code, signal) => {
      clearTimeout(limit);
      resolve({ code, signal, out, late });
    });
  });
}

describe.each(["threads", "inline", "sim"])("%s", (driver) => {
  test.each(WAYS)(
    `$name, ${MOMENTS} moments`,
    async (way) => {
      for (let i = 0; i < MOMENTS; i++) {
        const atMs = momentMs();
        const { out, ...ending } = await run(way, driver, atMs);
        expect({ atMs, ...ending, out: way.out.test(out) ? "as wanted" : out }).toEqual({
          atMs,
          code: way.code,
          signal: way.signal,
          late: false,
          out: "as wanted",
        });
      }
    },
    1_200_000,
  );
});
