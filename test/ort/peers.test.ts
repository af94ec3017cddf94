/** Real networks against onnxruntime-node, each in a process of its own: every number within 1e-4. Where the peer is installed (bench installs it). */
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const root = path.join(__dirname, "../..");
const peers = path.join(root, "bench/peers");
const NO_PEER = "onnxruntime-node is not in bench/peers; a run of the bench installs it";

type Numbers = Record<string, number[] | string>;

async function resultsOf(name: string, from: string): Promise<Numbers> {
  const args = [path.join(__dirname, "peer-run.mjs"), name, from];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root, maxBuffer: 2 ** 30 });
  return JSON.parse(stdout) as Numbers;
}

if (!fs.existsSync(path.join(peers, "node_modules/onnxruntime-node"))) {
  console.log(`skipped: ${NO_PEER}`);
  test.skip(`skipped: ${NO_PEER}`, () => undefined);
} else {
  let ours: Numbers;
  let theirs: Numbers;
  beforeAll(async () => {
    theirs = await resultsOf("onnxruntime-node", peers);
    ours = await resultsOf("npurt/ort", root);
  }, 120_000);

  test.each(["detection", "recognition", "classification", "silero_vad", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless"])(
    "%s",
    (name) => {
      const [got, want] = [ours[name]!, theirs[name] as number[]];
      if (typeof got === "string") throw new Error(got);
      expect(got).toHaveLength(want.length);
      expect(want.length).toBeGreaterThan(0);
      const worst = want.reduce((most, value, i) => Math.max(most, Math.abs(value - got[i]!)), 0);
      expect(worst).toBeLessThan(1e-4);
    },
  );
}
