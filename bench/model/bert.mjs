#!/usr/bin/env node
/**
 * Writes encoders of the BERT kind with weights from a seeded generator, in the operators that PyTorch exports (opset 13: normalisation, GELU and
 * attention are spelled out): `node bench/model/bert.mjs`. They land in bench/models (git-ignored).
 */
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { encodeModel } from "../../examples/digits/onnx-writer.mjs";

const folder = fileURLToPath(new URL("../models/bert", import.meta.url));
const SEQUENCE = 128;
const VOCABULARY = 1000;
const HEADS = 12;
const EPSILON = 1e-12;
/** Widths of BERT-base, and of the 4-layer TinyBERT. */
const INNER = { 768: 3072, 312: 1200 };

/** `layers` undefined: one layer alone, from states to states; else embeddings come first. */
const MODELS = {
  bert_layer_768: { hidden: 768 },
  bert_4_layers_312: { hidden: 312, layers: 4 },
  bert_4_layers_768: { hidden: 768, layers: 4 },
};

/** Nodes and weights of a graph that grows from its inputs on. Every method returns the name of a value. */
class Builder {
  nodes = [];
  initializers = [];
  #state = 20250101;
  #count = 0;

  #tensor(dtype, dims, data) {
    const name = `w${this.initializers.length}`;
    this.initializers.push({ name, dtype, dims, data });
    return name;
  }

  constant(value) {
    return this.#tensor("float32", [], Float32Array.of(value));
  }

  ints(...values) {
    return this.#tensor("int64", [values.length], BigInt64Array.from(values, BigInt));
  }

  /** Uniform in `middle` +- `spread`. */
  weights(dims, spread, middle = 0) {
    const data = new Float32Array(dims.reduce((product, dim) => product * dim, 1));
    for (let i = 0; i < data.length; i++) {
      this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
      data[i] = middle + spread * (this.#state / 2 ** 31 - 1);
    }
    return this.#tensor("float32", dims, data);
  }

  op(op, inputs, attributes, output = `v${this.#count++}`) {
    this.nodes.push({ op, inputs, outputs: [output], attributes });
    return output;
  }

  linear(x, from, to) {
    return this.op("Add", [this.op("MatMul", [x, this.weights([from, to], Math.sqrt(3 / from))]), this.weights([to], 0.1)]);
  }

  normalize(x, width, output) {
    const last = { axes: [-1] };
    const centred = this.op("Sub", [x, this.op("ReduceMean", [x], last)]);
    const variance = this.op("ReduceMean", [this.op("Pow", [centred, this.constant(2)])], last);
    const deviation = this.op("Sqrt", [this.op("Add", [variance, this.constant(EPSILON)])]);
    const scaled = this.op("Mul", [this.op("Div", [centred, deviation]), this.weights([width], 0.1, 1)]);
    return this.op("Add", [scaled, this.weights([width], 0.1)], undefined, output);
  }

  gelu(x) {
    const erf = this.op("Erf", [this.op("Div", [x, this.constant(Math.SQRT2)])]);
    return this.op("Mul", [this.op("Mul", [x, this.op("Add", [erf, this.constant(1)])]), this.constant(0.5)]);
  }

  attention(x, hidden) {
    const heads = (perm) => this.op("Transpose", [this.op("Reshape", [this.linear(x, hidden, hidden), this.ints(1, SEQUENCE, HEADS, hidden / HEADS)])], { perm });
    const [query, key, value] = [heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])];
    const scores = this.op("Div", [this.op("MatMul", [query, key]), this.constant(Math.sqrt(hidden / HEADS))]);
    const mixed = this.op("MatMul", [this.op("Softmax", [scores], { axis: -1 }), value]);
    const joined = this.op("Reshape", [this.op("Transpose", [mixed], { perm: [0, 2, 1, 3] }), this.ints(1, SEQUENCE, hidden)]);
    return this.linear(joined, hidden, hidden);
  }

  layer(x, hidden, output) {
    const attended = this.normalize(this.op("Add", [this.attention(x, hidden), x]), hidden);
    const inner = this.gelu(this.linear(attended, hidden, INNER[hidden]));
    return this.normalize(this.op("Add", [this.linear(inner, INNER[hidden], hidden), attended]), hidden, output);
  }

  embeddings(ids, hidden) {
    const words = this.op("Gather", [this.weights([VOCABULARY, hidden], 0.5), ids]);
    return this.normalize(this.op("Add", [words, this.weights([SEQUENCE, hidden], 0.5)]), hidden);
  }
}

/** The bytes of one of MODELS. */
export function encodeBert(name) {
  const { hidden, layers } = MODELS[name];
  const builder = new Builder();
  const whole = layers !== undefined;
  const input = whole ? { name: "ids", dtype: "int64", dims: [1, SEQUENCE] } : { name: "states", dtype: "float32", dims: [1, SEQUENCE, hidden] };
  let states = whole ? builder.embeddings(input.name, hidden) : input.name;
  const count = layers ?? 1;
  for (let i = 0; i < count; i++) states = builder.layer(states, hidden, i === count - 1 ? "output" : undefined);
  return encodeModel({
    name,
    nodes: builder.nodes,
    initializers: builder.initializers,
    inputs: [input],
    outputs: [{ name: "output", dtype: "float32", dims: [1, SEQUENCE, hidden] }],
  });
}

/** Writes those that are not there yet. */
export function makeBert() {
  fs.mkdirSync(folder, { recursive: true });
  for (const name of Object.keys(MODELS)) {
    const file = path.join(folder, `${name}.onnx`);
    if (fs.existsSync(file)) continue;
    // Under its name only when it is whole.
    fs.writeFileSync(`${file}.part`, encodeBert(name));
    fs.renameSync(`${file}.part`, file);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) makeBert();
