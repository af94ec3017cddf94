/** The bench's contract: the rows that other tools read, and exit codes. Times are never compared with a number here. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const root = path.join(__dirname, "../../..");
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-bench-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));

function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [path.join(root, "bench/main.mjs"), ...args], (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

interface Row {
  readonly oursMs: number | null;
  readonly case: string;
  readonly unit?: string;
}
const rowsOf = (file: string): Row[] => (JSON.parse(fs.readFileSync(file, "utf8")) as { rows: Row[] }).rows;

test("a model row has every column, null where a peer was left out, and the table says versions", async () => {
  const json = path.join(folder, "model.json");
  const { code, stdout, stderr } = await bench("model", "--ours", "--rounds", "1", "--filter", "^digits x1$", "--json", json);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const rows = rowsOf(json);
  expect(rows).toEqual([
    {
      suite: "model",
      case: "digits x1",
      group: "other",
      threads: 1,
      node: process.versions.node,
      kernels: expect.stringMatching(/^(base|relaxed|wide)$/),
      oursMs: expect.any(Number),
      webMs: null,
      nodeMs: null,
      tfjsMs: null,
    },
  ]);
  expect(rows[0]?.oursMs).toBeGreaterThan(0);
  expect(stdout).toContain(`node ${process.versions.node}`);
  expect(stdout).not.toMatch(/^note:/m);
});

test("kernel cases run under their names", async () => {
  const json = path.join(folder, "kernel.json");
  const { stdout } = await bench("kernel", "--ours", "--rounds", "1", "--filter", "64K|1x1024|depthwise|reducesum", "--json", json);
  const rows = rowsOf(json);
  expect(rows.map((row) => row.case)).toEqual(["matmul 1x1024x1024", "depthwise3x3 128 56x56", "add+mul+relu 64K", "reducesum rows 1024x1024"]);
  expect(rows.every(({ oursMs }) => oursMs !== null && oursMs > 0)).toBe(true);
  expect(stdout).not.toMatch(/^note:/m);
});

test("a model that cannot run is a row without our time and a note that says why", async () => {
  fs.writeFileSync(path.join(folder, "damaged.onnx"), "not a model");
  const json = path.join(folder, "damaged.json");
  const { code, stdout } = await bench("model", "--ours", "--rounds", "1", "--filter", "damaged", "--models", folder, "--json", json);
  expect(code).toBe(0);
  expect(rowsOf(json)).toMatchObject([{ case: "damaged", oursMs: null }]);
  expect(stdout).toMatch(/note: damaged: .*ONNX/);
});

test.each([[["speed"]], [["kernel", "--threads", "none"]], [["kernel", "--filtre", "x"]], [[]]])("%j is wrong usage", async (args) => {
  const { code, stderr } = await bench(...args);
  expect(code).toBe(2);
  expect(stderr).toContain("usage: npm run bench");
});
