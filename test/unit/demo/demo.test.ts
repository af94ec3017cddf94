/** The demo as its user runs it, and what it stands on: the split of the digits, and a model file that is small and ours. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const root = path.join(__dirname, "../../..");
const node = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  promisify(execFile)(process.execPath, [...args], { cwd: root, env: { ...process.env, ...env }, maxBuffer: 2 ** 26 });

test("8,000 training digits and 2,000 test digits share nothing, and the split is the same each time", async () => {
  const script = `
    import { createHash } from "node:crypto";
    import { loadDigits, PIXELS } from "./examples/digits/dataset.mjs";
    const { training, test } = loadDigits();
    const key = (set, i) => createHash("sha1").update(Buffer.from(set.pixels.buffer, i * PIXELS * 4, PIXELS * 4)).digest("hex");
    const known = new Set(Array.from({ length: training.count }, (_, i) => key(training, i)));
    const shared = Array.from({ length: test.count }, (_, i) => key(test, i)).filter((k) => known.has(k));
    const labels = Array.from({ length: 10 }, (_, label) => test.labels.filter((l) => l === label).length);
    console.log(JSON.stringify({ training: training.count, test: test.count, distinct: known.size, shared: shared.length, labels, first: key(test, 0) }));
  `;
  const runs = await Promise.all([1, 2].map(() => node(["--input-type=module", "-e", script])));
  const [first, second] = runs.map(({ stdout }) => JSON.parse(stdout));
  expect(first).toMatchObject({ training: 8000, test: 2000, distinct: 8000, shared: 0 });
  // Every class is there in about the share that it has among all digits.
  for (const count of first.labels) expect(count).toBeGreaterThan(150);
  expect(second).toEqual(first);
});

test("digits.onnx is at most 100 kB", () => {
  expect(fs.statSync(path.join(root, "examples/digits/digits.onnx")).size).toBeLessThanOrEqual(100_000);
});

test("the demo recognises 97 % and more, writes its timeline, and prints no colours into a pipe", async () => {
  const { stdout } = await node(["examples/digits/demo.mjs"], { LANG: "C", LC_ALL: "C" });
  expect(stdout).not.toContain("\x1b");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII is what is asked for
  expect(stdout).toMatch(/^[\x00-\x7f]*$/);
  const [, accuracy] = /([\d.]+) % of 2,000 digits/.exec(stdout) ?? [];
  expect(Number(accuracy)).toBeGreaterThanOrEqual(97);
  for (const streams of ["1 stream ", "2 streams", "4 streams"]) expect(stdout).toMatch(new RegExp(`${streams} +[\\d,]+ digits/s`));
  const [, file] = / events in (\S+\.json)/.exec(stdout) ?? [];
  const { traceEvents, otherData } = JSON.parse(fs.readFileSync(file ?? "", "utf8")) as {
    traceEvents: { ph: string; name: string; ts?: number }[];
    otherData: Record<string, unknown>;
  };
  expect(otherData).toMatchObject({ driver: "threads", node: process.versions.node });
  expect(traceEvents.some(({ ph, name }) => ph === "X" && name.startsWith("CONV"))).toBe(true);
  expect(traceEvents.filter(({ ph, name }) => ph === "b" && name.endsWith("RUN"))).toHaveLength(32);
}, 60_000);
