/** npurt/acl and npurt/rt as a stranger may use them: junk for every call, threads that destroy what others use, handles made and dropped without end. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-junk-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));
/** The long form has more rounds: NPURT_LONG=1. */
const ROUNDS = process.env["NPURT_LONG"] === "1" ? 200 : 12;
const LIMIT_MS = 240_000;

/** Runs a program of this folder to its end. `last`: the file where it says what it does. */
function run(program: string, args: readonly (string | number)[], last?: string): string {
  const env = { ...process.env, JUNK_CONFIG: path.join(folder, "acl.json"), JUNK_LAST: last, ASCEND_PROCESS_LOG_PATH: folder, NODE_NO_WARNINGS: "1" };
  const argv = ["--expose-gc", path.join(__dirname, program), ...args.map(String)];
  const { status, stdout, stderr } = spawnSync(process.execPath, argv, { env, encoding: "utf8", timeout: LIMIT_MS });
  const story = status === null ? `hangs${last === undefined ? "" : ` in ${fs.readFileSync(last, "utf8").trim()}`}` : stderr;
  expect({ status, story }).toEqual({ status: 0, story: "" });
  return stdout;
}

test.each([
  ["inline", 1],
  ["inline", 2],
  ["sim", 3],
  ["threads", 4],
])(
  "every call answers junk with a code, and the device works afterwards (%s, seed %i)",
  (driver, seed) => {
    expect(JSON.parse(run("acl-junk.cjs", [driver, seed, ROUNDS], path.join(folder, `${driver}-${seed}`)))).toEqual([]);
  },
  LIMIT_MS,
);

test.each([1, 2, 3])(
  "three threads use and destroy each other's contexts, streams and events (seed %i)",
  (seed) => {
    const seen = JSON.parse(run("acl-threads.cjs", [seed, 25 * ROUNDS])) as Record<string, number>;
    expect(seen["destroy context 0"]).toBeGreaterThan(0);
  },
  LIMIT_MS,
);

test(
  "handles that come and go leave nothing on either side",
  () => {
    const { before, after } = JSON.parse(run("acl-growth.cjs", [3000])) as Record<"before" | "after", { device: unknown; heap: number }>;
    expect(after.device).toEqual(before.device);
    expect(after.heap - before.heap).toBeLessThan(2 ** 19);
  },
  LIMIT_MS,
);
