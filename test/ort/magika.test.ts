/** What kind of content is it? The published predictions of Magika's model: same label, score within 1e-4, for each of its examples. */
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { Device } from "npurt";
import { InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { hasSuites, modelFile, NO_SUITES } from "../ops/suite";

interface Settings {
  readonly beg_size: number;
  readonly end_size: number;
  readonly block_size: number;
  readonly padding_token: number;
  readonly min_file_size_for_dl: number;
  readonly target_labels_space: readonly string[];
}
interface Example {
  readonly content_base64: string;
  readonly prediction: { readonly dl: string; readonly score: number };
}

/** Bytes that count as white space. */
const BLANK = new Set([9, 10, 11, 12, 13, 32]);

/** The first bytes after leading blanks and the last before trailing ones, padded to their sizes. */
function featuresOf(content: Buffer, { beg_size, end_size, block_size, padding_token }: Settings): Int32Array {
  let head = content.subarray(0, block_size);
  let tail = content.subarray(Math.max(0, content.length - block_size));
  while (head.length > 0 && BLANK.has(head[0]!)) head = head.subarray(1);
  while (tail.length > 0 && BLANK.has(tail.at(-1)!)) tail = tail.subarray(0, -1);
  head = head.subarray(0, beg_size);
  tail = tail.subarray(Math.max(0, tail.length - end_size));
  const features = new Int32Array(beg_size + end_size).fill(padding_token);
  features.set(head);
  features.set(tail, beg_size + end_size - tail.length);
  return features;
}

async function scoresOf(session: InferenceSession, features: Int32Array): Promise<Float32Array> {
  const results = await session.run({ [session.inputNames[0]!]: new Tensor("int32", features, [1, features.length]) });
  return results[session.outputNames[0]!]!.data as Float32Array;
}

if (!hasSuites) {
  test.skip(`skipped: ${NO_SUITES}`, () => undefined);
} else {
  test("every published example", async () => {
    const folder = path.join(process.env["NPURT_SUITES"]!, "magika");
    const settings = JSON.parse(fs.readFileSync(path.join(folder, "config.min.json"), "utf8")) as Settings;
    const archive = fs.readFileSync(path.join(folder, "standard_v3_3-inference_examples_by_content.json.gz"));
    const examples = JSON.parse(zlib.gunzipSync(archive).toString()) as Example[];
    expect(examples.length).toBeGreaterThan(100);
    const device = await Device.open({ cores: 2 });
    const session = await InferenceSession.create(modelFile("magika_v3_3", "model.onnx"));
    const wrong: string[] = [];
    // Each content is there once per prediction mode, which only says what is made of the score.
    const known = new Map<string, Float32Array>();
    for (const [index, { content_base64, prediction }] of examples.entries()) {
      const features = featuresOf(Buffer.from(content_base64, "base64"), settings);
      // Too little to look at: the model is not asked.
      const asked = features[settings.min_file_size_for_dl - 1] !== settings.padding_token;
      const scores = known.get(content_base64) ?? (await scoresOf(session, features));
      known.set(content_base64, scores);
      const best = scores.indexOf(Math.max(...scores));
      const [label, score] = asked ? [settings.target_labels_space[best]!, scores[best]!] : ["undefined", 1];
      if (label !== prediction.dl || Math.abs(score - prediction.score) >= 1e-4) {
        wrong.push(`${index}: ${label} ${score} instead of ${prediction.dl} ${prediction.score}`);
      }
    }
    await session.release();
    await device.close();
    expect(wrong).toEqual([]);
  });
}
