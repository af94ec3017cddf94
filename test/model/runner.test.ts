/** The suites' own runner, which knows npurt only as a package with onnxruntime's interface, with every kernel build that this Node can run. */
import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { chooseKernels, KERNEL_BUILDS } from "../../dist/lib/host/kernels";
import { hasSuites, NO_SUITES } from "../ops/suite";
import { modelFiles, ROOT } from "./files";

const suites = hasSuites ? fs.realpathSync(process.env["NPURT_SUITES"]!) : "";
const builds = KERNEL_BUILDS.filter((build) => chooseKernels({ kernels: build, quick: true }).used === build);

/** Names of the cases by what became of them. */
async function run(kernels: string, ...args: string[]): Promise<Record<string, string[]>> {
  const out = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "npurt-runner-")), "results.json");
  const all = [path.join(suites, "onnx/run.mjs"), ...args, "--backend", "npurt/ort", "--from", ROOT, "--timeout", "60000", "--out", out];
  // It ends with 1 if anything failed: what matters is in its report.
  await promisify(execFile)(process.execPath, all, { env: { ...process.env, NPURT_KERNELS: kernels } }).catch(() => undefined);
  const { results } = JSON.parse(fs.readFileSync(out, "utf8")) as { results: { name: string; status: string; why?: string }[] };
  return results.reduce<Record<string, string[]>>((byStatus, { name, status, why }) => {
    (byStatus[status] ??= []).push(why === undefined ? name : `${name}: ${why}`);
    return byStatus;
  }, {});
}

if (!hasSuites) {
  test.skip(`skipped: ${NO_SUITES}`, () => undefined);
} else {
  jest.setTimeout(180_000);
  test.each(builds)("nine of nine models with the %s build", async (build) => {
    const { pass, ...others } = await run(build, "--data", path.join(suites, "models"), "--kinds", "model");
    expect(others).toEqual({});
    expect(pass).toHaveLength(9);
  });

  test("five of five light models", async () => {
    const data = path.dirname(path.dirname(modelFiles()["light_resnet50"]!));
    const { pass, ...others } = await run("wide", "--data", data, "--kinds", "light");
    expect(others).toEqual({});
    expect(pass).toHaveLength(5);
  });
}
