/** `node big-model.mjs FILE` writes a model with 64 MiB of weights in 16 multiplications: its load has something to read, pack and compile. */
import fs from "node:fs";
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";
import { feedData } from "../runners/serve.mjs";

const weights = Array.from({ length: 16 }, (_, i) => ({ name: `w${i}`, dtype: "float32", dims: [1024, 1024], seed: i + 1 }));
const value = (name) => ({ name, dtype: "float32", dims: [1, 1024] });
const nodes = weights.map(({ name }, i) => ({ op: "MatMul", inputs: [i === 0 ? "x" : `t${i}`, name], outputs: [i === 15 ? "y" : `t${i + 1}`] }));
const initializers = weights.map((weight) => ({ ...weight, data: feedData(weight) }));
fs.writeFileSync(process.argv[2], encodeModel({ name: "big", nodes, inputs: [value("x")], outputs: [value("y")], initializers }));
