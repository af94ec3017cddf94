/** Whole models: the digits example with one and with 64 digits, and every model under the folder that `--models` names. */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

function modelFiles(folder) {
  return fs
    .readdirSync(folder, { recursive: true })
    .filter((file) => file.endsWith(".onnx"))
    .sort()
    .map((file) => path.join(folder, file));
}

/** A model's name: its file, or its folder where all files are called alike. */
const nameOf = (file) => (path.basename(file) === "model.onnx" ? path.basename(path.dirname(file)) : path.basename(file, ".onnx"));

export function modelCases(folder) {
  const digits = fileURLToPath(new URL("../../examples/digits/digits.onnx", import.meta.url));
  const image = (count) => [{ name: "image", dtype: "float32", dims: [count, 1, 28, 28] }];
  return [
    { name: "digits x1", model: digits, feeds: image(1) },
    { name: "digits x64", model: digits, feeds: image(64) },
    ...(folder ? modelFiles(path.resolve(folder)).map((file) => ({ name: nameOf(file), model: file })) : []),
  ];
}
