/**
 * Models that people ship against onnxruntime-node, each runtime in a process of its own: every output within 1e-4 of its amplitude. The peer and the
 * models of npm packages are fetched on demand (`node bench/peers.mjs`, `node bench/model/files.mjs`); what is not there is skipped, and said.
 */
import { execFile, execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { modelFiles, PEERS, ROOT } from "./files";

const CLOSE = 1e-4;
// biome-ignore format: groups
const MODELS = [
  "light_bvlc_alexnet", "light_densenet121", "light_resnet50", "light_shufflenet", "light_squeezenet",
  "fr_age", "fr_detect", "fr_expression", "fr_eye", "fr_feature", "fr_gender", "fr_landmark", "fr_liveness", "fr_pose",
  "face_detection_front_128x128_barracuda", "face_detection_back_256x256_barracuda",
  "bert_layer_768", "bert_4_layers_312",
];

type Outputs = Record<string, number[][]>;

async function outputsOf(name: string, from: string, models: readonly string[]): Promise<Outputs> {
  const args = [path.join(__dirname, "peer-models.mjs"), name, from, ...models];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: ROOT, maxBuffer: 2 ** 30 });
  return JSON.parse(stdout) as Outputs;
}

const hasPeer = fs.existsSync(path.join(PEERS, "node_modules/onnxruntime-node"));

describe("against onnxruntime-node", () => {
  let files: Readonly<Record<string, string>> = {};
  let ours: Outputs = {};
  let theirs: Outputs = {};
  beforeAll(async () => {
    if (!hasPeer) return;
    execFileSync(process.execPath, [path.join(ROOT, "bench/model/bert.mjs")]);
    files = modelFiles();
    const present = MODELS.filter((name) => name in files);
    theirs = await outputsOf("onnxruntime-node", PEERS, present);
    ours = await outputsOf("npurt/ort", ROOT, present);
  }, 240_000);

  test.each(MODELS)("%s", (name) => {
    if (!hasPeer || !(name in files)) {
      console.log(
        `${name} skipped: ${hasPeer ? "the model is not here (node bench/model/files.mjs, NPURT_SUITES)" : "onnxruntime-node is not in bench/peers"}`,
      );
      return;
    }
    expect(ours[name]).toHaveLength(theirs[name]!.length);
    theirs[name]!.forEach((want, output) => {
      const got = ours[name]![output]!;
      expect(got).toHaveLength(want.length);
      const amplitude = want.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      const worst = want.reduce((most, value, i) => Math.max(most, Math.abs(value - got[i]!)), 0);
      expect(worst).toBeLessThanOrEqual(CLOSE * amplitude);
    });
  });
});
