/**
 * Runs cases with onnxruntime-node: `node peer.mjs FOLDER CASES RESULTS FIRST`. CASES has a line of JSON per case; a line of RESULTS is written as soon as it is
 * known, so that what kills this process costs one case. The package is resolved from FOLDER.
 */
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [folder, cases, results, first] = process.argv.slice(2);
const { InferenceSession, Tensor } = createRequire(path.join(folder, "index.js"))("onnxruntime-node");
const ARRAYS = {
  ...{ float32: Float32Array, float64: Float64Array, float16: Tensor ? Uint16Array : 0, bool: Uint8Array, uint8: Uint8Array, int8: Int8Array },
  ...{ uint16: Uint16Array, int16: Int16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array },
};

function feedOf({ dtype, dims, bytes }) {
  const raw = Buffer.from(bytes, "base64");
  const make = dtype === "float16" && globalThis.Float16Array ? globalThis.Float16Array : ARRAYS[dtype];
  return new Tensor(dtype, new make(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length)), dims);
}

async function run({ model, feeds, outputs }) {
  const session = await InferenceSession.create(Buffer.from(model, "base64"), {
    logSeverityLevel: 4,
    intraOpNumThreads: 1,
    graphOptimizationLevel: "basic",
  });
  const given = Object.fromEntries(Object.entries(feeds).map(([name, feed]) => [name, feedOf(feed)]));
  const found = await session.run(given);
  const values = outputs.map((name) => {
    const { type, dims, data } = found[name];
    return { dtype: type, dims, bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64") };
  });
  await session.release();
  return values;
}

const lines = fs.readFileSync(cases, "utf8").split("\n").filter(Boolean);
for (const line of lines.slice(Number(first))) {
  let answer;
  try {
    answer = { values: await run(JSON.parse(line)) };
  } catch (error) {
    answer = { error: String(error.message).slice(0, 300) };
  }
  fs.appendFileSync(results, `${JSON.stringify(answer)}\n`);
}
process.exit(0);
