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
export const MODELS = {
  bert_layer_768: { hidden: 768 },
  bert_4_layers_312: { hidden: 312, layers: 4 },
  bert_4_layers_768: { hidden: 768, layers: 4 },
};

/** Nodes and weights of a graph that grows from its inputs on. Every method returns the name of a value. */
class Builder {
  nodes = [];
  initializers = [];
  /** Of all values that nodes give. */
  dims = new Map();
  #state = 20250101;

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

  /** `dims` of the result; by default those of the first input. */
  op(op, inputs, { dims = this.dims.get(inputs[0]), ...attributes } = {}) {
    const output = `v${this.nodes.length}`;
    this.nodes.push({ op, inputs, outputs: [output], attributes });
    this.dims.set(output, dims);
    return output;
  }

  linear(x, from, to) {
    const product = this.op("MatMul", [x, this.weights([from, to], Math.sqrt(3 / from))], { dims: [1, SEQUENCE, to] });
    return this.op("Add", [product, this.weights([to], 0.1)]);
  }

  normalize(x, width) {
    const last = { axes: [-1], dims: [1, SEQUENCE, 1] };
    const centred = this.op("Sub", [x, this.op("ReduceMean", [x], last)], { dims: [1, SEQUENCE, width] });
    const variance = this.op("ReduceMean", [this.op("Pow", [centred, this.constant(2)])], last);
    const deviation = this.op("Sqrt", [this.op("Add", [variance, this.constant(EPSILON)])]);
    const scaled = this.op("Mul", [this.op("Div", [centred, deviation]), this.weights([width], 0.1, 1)]);
    return this.op("Add", [scaled, this.weights([width], 0.1)]);
  }

  gelu(x) {
    const erf = this.op("Erf", [this.op("Div", [x, this.constant(Math.SQRT2)])]);
    return this.op("Mul", [this.op("Mul", [x, this.op("Add", [erf, this.constant(1)])]), this.constant(0.5)]);
  }

  attention(x, hidden) {
    const size = hidden / HEADS;
    const turned = (value, perm, dims) => this.op("Transpose", [value], { perm, dims });
    const split = () =>
      this.op("Reshape", [this.linear(x, hidden, hidden), this.ints(1, SEQUENCE, HEADS, size)], { dims: [1, SEQUENCE, HEADS, size] });
    const query = turned(split(), [0, 2, 1, 3], [1, HEADS, SEQUENCE, size]);
    const key = turned(split(), [0, 2, 3, 1], [1, HEADS, size, SEQUENCE]);
    const value = turned(split(), [0, 2, 1, 3], [1, HEADS, SEQUENCE, size]);
    const scores = this.op("MatMul", [query, key], { dims: [1, HEADS, SEQUENCE, SEQUENCE] });
    const weights = this.op("Softmax", [this.op("Div", [scores, this.constant(Math.sqrt(size))])], { axis: -1 });
    const mixed = turned(this.op("MatMul", [weights, value], { dims: [1, HEADS, SEQUENCE, size] }), [0, 2, 1, 3], [1, SEQUENCE, HEADS, size]);
    return this.linear(this.op("Reshape", [mixed, this.ints(1, SEQUENCE, hidden)], { dims: [1, SEQUENCE, hidden] }), hidden, hidden);
  }

  layer(x, hidden) {
    const attended = this.normalize(this.op("Add", [this.attention(x, hidden), x]), hidden);
    const inner = this.gelu(this.linear(attended, hidden, INNER[hidden]));
    return this.normalize(this.op("Add", [this.linear(inner, INNER[hidden], hidden), attended]), hidden);
  }

  embeddings(ids, hidden) {
    const words = this.op("Gather", [this.weights([VOCABULARY, hidden], 0.5), ids], { dims: [1, SEQUENCE, hidden] });
    return this.normalize(this.op("Add", [words, this.weights([SEQUENCE, hidden], 0.5)]), hidden);
  }
}

/** One of MODELS as `encodeModel` takes it, and the dims of every value between. */
export function bertGraph(name) {
  const { hidden, layers } = MODELS[name];
  const builder = new Builder();
  const whole = layers !== undefined;
  const input = whole ? { name: "ids", dtype: "int64", dims: [1, SEQUENCE] } : { name: "states", dtype: "float32", dims: [1, SEQUENCE, hidden] };
  let states = whole ? builder.embeddings(input.name, hidden) : input.name;
  for (let i = 0; i < (layers ?? 1); i++) states = builder.layer(states, hidden);
  const outputs = [{ name: states, dtype: "float32", dims: [1, SEQUENCE, hidden] }];
  return { name, nodes: builder.nodes, initializers: builder.initializers, inputs: [input], outputs, dims: builder.dims };
}

/** Writes those that are not there yet. */
export function makeBert() {
  fs.mkdirSync(folder, { recursive: true });
  for (const name of Object.keys(MODELS)) {
    const file = path.join(folder, `${name}.onnx`);
    if (fs.existsSync(file)) continue;
    // Under its name only when it is whole.
    fs.writeFileSync(`${file}.part`, encodeModel(bertGraph(name)));
    fs.renameSync(`${file}.part`, file);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) makeBert();
