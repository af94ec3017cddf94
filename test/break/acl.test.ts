/** Junk for every call of npurt/acl and npurt/rt: a code, or the argument check's TypeError; never anything else, and the device works afterwards. */
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "npurt-junk-"));
afterAll(() => fs.rmSync(folder, { recursive: true }));
/** The long form has more rounds: NPURT_LONG=1. */
const ROUNDS = process.env["NPURT_LONG"] === "1" ? 200 : 12;

test.each([
  ["inline", 1],
  ["inline", 2],
  ["sim", 3],
  ["threads", 4],
])(
  "on %s, seed %i",
  (driver, seed) => {
    const last = path.join(folder, `${driver}-${seed}.last`);
    const env = { ...process.env, JUNK_CONFIG: path.join(folder, "acl.json"), JUNK_LAST: last, ASCEND_PROCESS_LOG_PATH: folder };
    const args = [path.join(__dirname, "acl-junk.cjs"), driver, String(seed), String(ROUNDS)];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { env, encoding: "utf8", timeout: 240_000 });
    const story = status === null ? `hangs in ${fs.readFileSync(last, "utf8").trim()}` : stderr;
    expect({ status, story }).toEqual({ status: 0, story: "" });
    expect(JSON.parse(stdout)).toEqual([]);
  },
  250_000,
);
