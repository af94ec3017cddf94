/** docs/performance.md is made of reports: ratios, goals and means by hand for a made-up one. */
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { ROOT } from "./files";

const machine = { cpu: "Abacus", cores: 1, memoryGiB: 1, system: "none" };
const row = { suite: "model", threads: 1, node: "20.1.0", kernels: "base", tfjsMs: null };
const report = {
  suite: "model",
  date: "2025-01-02T03:04:05.000Z",
  machine,
  node: "20.1.0",
  kernels: "base",
  threads: 1,
  clock: "wall",
  versions: { "onnxruntime-web": "1.0.0", "onnxruntime-node": null },
  rows: [
    { ...row, case: "one", group: "small", goal: 1.3, oursMs: 2, webMs: 4, nodeMs: 1 },
    { ...row, case: "two", group: "small", goal: 1.3, oursMs: 0.5, webMs: 0.25, nodeMs: null },
  ],
  means: [{ group: "small", models: 2, web: 1, node: 0.5, goal: null }],
  notes: ["a note"],
};

function write(...reports: object[]): { page: string; status: number | null; stderr: string } {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-page-"));
  reports.forEach((one, i) => fs.writeFileSync(path.join(folder, `${i}.json`), JSON.stringify(one)));
  const output = path.join(folder, "page.md");
  const { status, stderr } = spawnSync(
    process.execPath,
    [path.join(ROOT, "bench/performance.mjs"), "--write", "--results", folder, "--output", output],
    {
      encoding: "utf8",
    },
  );
  return { page: fs.existsSync(output) ? fs.readFileSync(output, "utf8") : "", status, stderr };
}

test("rows with ratios and goals, means, machine, versions and date", () => {
  const { page, status } = write(report);
  expect(status).toBe(0);
  for (const part of [
    "| case | ours | web | node | web/ours | node/ours | goal |",
    "| one | 2.00 ms | 4.00 ms | 1.00 ms | 2.00x | 0.50x | 1.30x |",
    "| two | 500 us | 250 us | - | 0.50x | - | missed 1.30x |",
    "| small | 2 | 1.00x | 0.50x | - |",
    "1 x Abacus, 1 GiB, none. Against onnxruntime-web 1.0.0.",
    "Node 20.1.0, 1 thread, kernels `base`",
    "measured 2025-01-02",
    "* a note",
  ]) {
    expect(page).toContain(part);
  }
});

test("reports of two machines do not mix, and none make no page", () => {
  expect(write(report, { ...report, machine: { ...machine, cpu: "Slide rule" } })).toMatchObject({ page: "", status: 1 });
  expect(write()).toMatchObject({ page: "", status: 1, stderr: expect.stringContaining("no reports") });
});

test("the bench says what it does with wrong arguments", () => {
  const bench = (...args: string[]) => spawnSync(process.execPath, [path.join(ROOT, "bench/main.mjs"), ...args], { encoding: "utf8" });
  const wrong: [args: string[], why: RegExp][] = [
    [[], /name a suite/],
    [["nothing"], /no suite "nothing"/],
    [["model", "task"], /one suite/],
    [["model", "--threads", "0"], /--threads/],
    [["model", "--threads", "2", "--clock", "cpu"], /--clock/],
    [["model", "--thread", "2"], /--thread/],
    [["model", "--filter", "("], /--filter: .*Unterminated group/],
  ];
  for (const [args, why] of wrong) {
    const { status, stderr } = bench(...args);
    expect({ status, usage: stderr.includes("usage: npm run bench") }).toEqual({ status: 2, usage: true });
    expect(stderr.split("usage:")[0]).toMatch(why);
  }
  expect(bench("--help")).toMatchObject({ status: 0, stdout: expect.stringContaining("usage: npm run bench") });
});

test("the naive form of a generated model is listed by the catalogue", () => {
  const script = `import { MODELS } from ${JSON.stringify(path.join(ROOT, "bench/model/bert.mjs"))}; import { CATALOG } from ${JSON.stringify(path.join(ROOT, "bench/model/catalog.mjs"))};
    process.stdout.write(JSON.stringify(Object.keys(MODELS).filter((name) => !CATALOG.some(({ file }) => file === name))));`;
  expect(JSON.parse(execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" }))).toEqual([]);
});
