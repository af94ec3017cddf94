/** The command as a shell sees it: stdout, stderr, exit code. */
import { execFile, execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { writeNpy } from "../../../dist/lib/cli/npy";

const root = path.join(__dirname, "../../..");
const main = path.join(root, "dist/lib/cli/main.js");
const digits = path.join(root, "examples/digits/digits.onnx");
/** Stands for the model in the names of tests. */
const MODEL = "digits.onnx";
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-cli-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function npurt(...args: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe("usage", () => {
  test.each([
    [["rum", "x.onnx"], /unknown command 'rum'\n\(Did you mean run\?\)/],
    [["run", MODEL, "--repaet", "3"], /unknown option '--repaet'\n\(Did you mean --repeat\?\)/],
    [["run", MODEL, "--repeat", "0"], /--repeat takes a whole number from 1 up/],
    [["run", MODEL, "--driver", "gpu"], /Allowed choices are threads, inline, sim/],
    [["run", MODEL, "--input", "image"], /write it as "name=value"/],
    [["run", MODEL, "--input", "imgae=random"], /no such input; it has image/],
    [["run", MODEL, "--output", "class=x.npy"], /no such output; it has probability/],
    [["run", MODEL, "--dim", "M=2"], /no such open dim; it has N/],
    [["run"], /missing required argument 'model'/],
    [[], /Usage: npurt \[options\] \[command\]/],
  ])("%j is wrong usage: exit code 2, nothing on stdout", async (args, text) => {
    const { code, stdout, stderr } = await npurt(...args.map((arg) => (arg === MODEL ? digits : arg)));
    expect(stderr).toMatch(text);
    expect(stderr).not.toMatch(/^\s+at /m);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  });

  test.each([["--help"], ["run", "--help"], ["inspect", "--help"], ["repl", "--help"], ["doctor", "--help"], ["help", "run"]].map((args) => [args]))(
    "%j explains itself",
    async (args) => {
      const { code, stdout } = await npurt(...args.map((arg) => (arg === MODEL ? digits : arg)));
      expect(stdout).toMatch(/^Usage: npurt/);
      expect(code).toBe(0);
    },
  );

  test("--version is the package's", async () => {
    const { version } = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };
    expect(await npurt("--version")).toMatchObject({ code: 0, stdout: `${version}\n` });
  });
});

describe("run", () => {
  test("says what went wrong without a stack, and with one when asked", async () => {
    const cut = path.join(folder, "cut.onnx");
    fs.writeFileSync(cut, fs.readFileSync(digits).subarray(0, 1000));
    const [missing, damaged, verbose] = await Promise.all([npurt("run", "none.onnx"), npurt("run", cut), npurt("run", cut, "--verbose")]);
    expect(missing).toMatchObject({ code: 1, stderr: expect.stringMatching(/none\.onnx cannot be read.*\(100003\)/) });
    expect(damaged).toMatchObject({ code: 1, stderr: expect.stringMatching(/\(1000\d\d\)/) });
    expect(damaged.stderr).not.toMatch(/^\s+at /m);
    expect(verbose.stderr).toMatch(/^\s+at /m);
  });

  test("refuses pipes and devices instead of waiting for them, as models and as inputs", async () => {
    const pipe = path.join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    const answers = await Promise.all([
      npurt("run", pipe),
      npurt("inspect", pipe),
      npurt("run", "/dev/zero"),
      npurt("run", digits, "--input", `image=${pipe}`),
    ]);
    for (const answer of answers) expect(answer).toMatchObject({ code: 1, stderr: expect.stringMatching(/no regular file.*\(100003\)/) });
  });

  test("feeds a file, writes a file, and reports both as JSON", async () => {
    const input = path.join(folder, "image.npy");
    const output = path.join(folder, "probability.npy");
    const pixels = new Float32Array(2 * 784).fill(0.25);
    fs.writeFileSync(input, writeNpy({ dtype: "float32", dims: [2, 1, 28, 28], bytes: new Uint8Array(pixels.buffer) }));
    const args = ["--input", `image=${input}`, "--output", `probability=${output}`, "--driver", "inline", "--repeat", "3", "--json"];
    const { code, stdout, stderr } = await npurt("run", digits, ...args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({
      device: { driver: "inline", cores: 1 },
      inputs: [{ name: "image", dtype: "float32", dims: [2, 1, 28, 28] }],
      outputs: [{ name: "probability", dtype: "float32", dims: [2, 10] }],
      times: { runs: 3 },
    });
    // A softmax over 10 classes: each of the two rows sums to 1, and equal digits get equal rows.
    const file = fs.readFileSync(output);
    const data = new Float32Array(new Uint8Array(file.subarray(file.length - 80)).buffer);
    const sum = (from: number) => data.subarray(from, from + 10).reduce((a, b) => a + b, 0);
    expect(sum(0)).toBeCloseTo(1, 5);
    expect(Array.from(data.subarray(0, 10))).toEqual(Array.from(data.subarray(10)));
    expect(report.outputs[0].mean).toBeCloseTo(0.1, 5);
  });

  test("every driver computes the same from the same seed", async () => {
    const reports = await Promise.all(
      ["threads", "inline", "sim"].map((driver) => npurt("run", digits, "--driver", driver, "--seed", "5", "--json")),
    );
    const outputs = reports.map(({ stdout }) => JSON.parse(stdout).outputs);
    expect(outputs[0][0].first).toHaveLength(10);
    expect(outputs[1]).toEqual(outputs[0]);
    expect(outputs[2]).toEqual(outputs[0]);
  });
});

test("inspect shows graph, program and memory plan, for people and as JSON", async () => {
  const [text, json] = await Promise.all([npurt("inspect", digits, "--dim", "N=4"), npurt("inspect", digits, "--json")]);
  expect(text.code).toBe(0);
  expect(text.stdout).toMatch(/input +image float32 \[N, 1, 28, 28\], here \[4, 1, 28, 28\]/);
  for (const title of ["== graph", "== regions", "== program", "== memory plan"]) expect(text.stdout).toContain(title);
  expect(text.stdout).toMatch(/conv kernel .*5x5/);
  const report = JSON.parse(json.stdout);
  expect(report).toMatchObject({ name: "digits", opsets: { "": 13 }, shapes: { image: [1, 1, 28, 28] } });
  expect(report.memory.largestLiveBytes).toBeLessThanOrEqual(report.memory.arenaBytes);
  expect(report.memory.arenaBytes).toBeGreaterThanOrEqual(8 * 28 * 28 * 4);
});

test("doctor opens a device of each driver and says what it found", async () => {
  const { code, stdout } = await npurt("doctor", "--json");
  const report = JSON.parse(stdout);
  expect(code).toBe(0);
  expect(report.node).toBe(process.versions.node);
  expect(report.devices).toMatchObject([
    { driver: "threads", ok: true },
    { driver: "inline", ok: true },
    { driver: "sim", ok: true },
  ]);
  expect(Array.isArray(report.warnings)).toBe(true);
});

test("the library does not load the command", async () => {
  const script = `require(${JSON.stringify(path.join(root, "dist/lib/index.js"))}); console.log(Object.keys(require.cache).filter((f) => /cli|commander|cli-progress/.test(f)).length)`;
  const printed = await new Promise<string>((resolve) => execFile(process.execPath, ["-e", script], (_, stdout) => resolve(stdout.trim())));
  expect(printed).toBe("0");
});
