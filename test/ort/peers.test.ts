/**
 * Real networks against onnxruntime-node, each in a process of its own: every number within 1e-4, the same text, with every kernel build that this Node
 * can run. Where the peer is installed (`node bench/peers.mjs`).
 */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { chooseKernels, KERNEL_BUILDS } from "../../dist/lib/host/kernels";

const root = path.join(__dirname, "../..");
const peers = path.join(root, "bench/peers");
const NO_PEER = "onnxruntime-node is not in bench/peers; node bench/peers.mjs installs it";
const NETWORKS = ["detection", "recognition", "classification", "silero_vad", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless"];
const builds = KERNEL_BUILDS.filter((build) => chooseKernels({ kernels: build, quick: true }).used === build);

/** Numbers of a network, the reason why it did not run, or the lines of text that were read. */
type Results = Record<string, number[] | string | string[]>;

async function resultsOf(name: string, from: string, kernels = ""): Promise<Results> {
  const args = [path.join(__dirname, "peer-run.mjs"), name, from];
  const env = { ...process.env, NPURT_KERNELS: kernels };
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, env, maxBuffer: 2 ** 30 });
  return JSON.parse(stdout) as Results;
}

if (!fs.existsSync(path.join(peers, "node_modules/onnxruntime-node"))) {
  console.log(`skipped: ${NO_PEER}`);
  test.skip(`skipped: ${NO_PEER}`, () => undefined);
} else {
  let theirs: Results;
  beforeAll(async () => {
    theirs = await resultsOf("onnxruntime-node", peers);
  }, 120_000);

  describe.each(builds)("%s build", (build) => {
    let ours: Results;
    beforeAll(async () => {
      ours = await resultsOf("npurt/ort", root, build);
    }, 120_000);

    test.each(NETWORKS)("%s", (name) => {
      const [got, want] = [ours[name] as number[] | string, theirs[name] as number[]];
      if (typeof got === "string") throw new Error(got);
      expect(got).toHaveLength(want.length);
      expect(want.length).toBeGreaterThan(0);
      const worst = want.reduce((most, value, i) => Math.max(most, Math.abs(value - got[i]!)), 0);
      expect(worst).toBeLessThan(1e-4);
    });

    test("the same text", () => {
      expect(theirs["text"]).toContain("Hello from npurt");
      expect(ours["text"]).toEqual(theirs["text"]);
    });
  });
}
