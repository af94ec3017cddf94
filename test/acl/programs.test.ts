/** The example programs of CANN's runtime, each as a process of its own that asserts its results and ends by itself. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { covers } from "./harness";

const FOLDER = path.join(__dirname, "programs");
const LIMIT_MS = 60_000;
const programs = fs.readdirSync(FOLDER).filter((file) => /^[a0-9][0-9]+-.*\.cjs$/.test(file));

function run(file: string, driver: string): Promise<{ code: number | null; out: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [path.join(FOLDER, file)],
      { env: { ...process.env, NPURT_ACL_DRIVER: driver }, timeout: LIMIT_MS },
      (_, stdout, stderr) => resolve({ code: child.exitCode, out: stdout + stderr }),
    );
  });
}

/** Threads and kernels of one's own need real cores; a program that names its driver has only that one. */
function drivers(file: string): string[] {
  const text = fs.readFileSync(path.join(FOLDER, file), "utf8");
  const [, own] = /driver: "(\w+)"/.exec(text) ?? [];
  return own !== undefined ? [own] : /kernelFile|loadKernels|start_thread/.test(text) ? ["threads"] : ["threads", "sim", "inline"];
}

test.each(programs.flatMap((file) => drivers(file).map((driver) => [file, driver] as const)))("%s on %s", async (file, driver) => {
  covers("rt.device_can_access_peer", "rt.device_enable_peer_access", "rt.device_disable_peer_access", "rt.device_peer_access_status");
  const { code, out } = await run(file, driver);
  expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(/\S/) });
});
