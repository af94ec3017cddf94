/** What a start loads: counters, not times. A file costs a start about as much as 10 KB of code, and 1 MB of code that nothing is kept of 25 ms. */
import { execFileSync } from "node:child_process";
import path from "node:path";

const KB = 1000;
const ROOT = path.join(__dirname, "../..");
const at = (file: string): string => JSON.stringify(path.join(ROOT, file));

interface Loaded {
  readonly files: readonly string[];
  /** Of the packs. */
  readonly bytes: number;
}
interface Start {
  readonly required: Loaded;
  readonly first: Loaded;
  readonly builtins: readonly string[];
  readonly samples: number;
  readonly workers: number;
  readonly workersLater: number;
}

/** A fresh process that loads npurt, classifies one picture on a device of `driver` and says what that took. */
function start(driver: string): Start {
  const script = `
    const fs = require("node:fs");
    const path = require("node:path");
    const Module = require("node:module");
    const builtins = new Set();
    const load = Module._load;
    Module._load = function (name, ...rest) {
      if (Module.isBuiltin(name)) builtins.add(name.replace("node:", ""));
      return load.call(this, name, ...rest);
    };
    const vm = require("node:vm");
    const packs = [];
    const { Script } = vm;
    vm.Script = class extends Script { constructor(code, options) { super(code, options); packs.push(options.filename); } };
    const loaded = () => {
      const files = Object.keys(require.cache).filter((file) => file.endsWith(".js")).concat(packs);
      return { files: files.map((file) => path.relative(${at("dist")}, file)), bytes: packs.reduce((sum, file) => sum + fs.statSync(file).size, 0) };
    };
    const { Device, Executor, Tensor } = require(${at("dist/lib/index.js")});
    const required = loaded();
    const sampling = require(${at("dist/lib/ops/sample.js")});
    let samples = 0;
    for (const name of Object.keys(sampling)) {
      const make = sampling[name];
      sampling[name] = (...args) => (samples++, make(...args));
    }
    const threads = require("node:worker_threads");
    const { Worker } = threads;
    let workers = 0;
    threads.Worker = class extends Worker { constructor(...args) { super(...args); workers++; } };
    // On a slow machine the clock must not boot the cores before the result is there.
    const { setTimeout: realTimeout } = globalThis;
    globalThis.setTimeout = (fire, delay, ...rest) => realTimeout(fire, delay * 1000, ...rest);
    builtins.clear();
    (async () => {
      const device = await Device.open({ driver: "${driver}", kernels: "base" });
      const dims = [1, 1, 28, 28];
      const executor = await Executor.load(${at("examples/digits/digits.onnx")}, { device, shapes: { image: dims } });
      await executor.run({ image: Tensor.zeros("float32", dims) });
      const answer = { required, first: loaded(), builtins: [...builtins], samples, workers };
      globalThis.setTimeout = realTimeout;
      await device.ready();
      await device.close();
      console.log(JSON.stringify({ ...answer, workersLater: workers }));
    })();`;
  return JSON.parse(execFileSync(process.execPath, ["--no-warnings", "-e", script], { encoding: "utf8" })) as Start;
}

const threads = start("threads");

/** A bare tsc leaves the modules one by one: that build is not what ships. */
test("the build is packed", () => {
  if (!threads.required.files.includes("main.js")) {
    throw new Error("dist/ holds what tsc wrote, not what ships: run `npm run build:lib`");
  }
});

test("require loads the main pack alone, at most 320 KB", () => {
  expect([...threads.required.files].sort()).toEqual(["lib/index.js", "lib/packs.js", "main.js"]);
  expect(threads.required.bytes).toBeLessThanOrEqual(320 * KB);
});

test("the first model adds the compiler's pack, and nothing of a package", () => {
  const added = threads.first.files.filter((file) => !threads.required.files.includes(file) && !/^lib\/ops\/sample/.test(file));
  expect(added).toEqual(["compiler.js"]);
});

test("no sample is made while models are loaded and run", () => {
  expect(threads.samples).toBe(0);
});

test.each(["crypto", "fs/promises", "child_process", "http", "net"])("a small model does not load node:%s", (name) => {
  expect(threads.builtins).not.toContain(name);
});

test("the first small result waits for no core; they boot when asked for", () => {
  expect({ first: threads.workers, later: threads.workersLater > 0 }).toEqual({ first: 0, later: true });
});

test("an inline device has no cores to boot", () => {
  expect(start("inline").workersLater).toBe(0);
});
