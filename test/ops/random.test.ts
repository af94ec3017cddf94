/** Random graphs: whatever passes fuse, alias, reuse or schedule together, the core's results are those of the references. */
import { compileModel, runPipeline } from "../../dist/lib/compile/pipeline";
import { tensor } from "../../dist/lib/graph/tensor";
import { evaluateGraph } from "../../dist/lib/ops/evaluate";
import { noise } from "../../dist/lib/ops/sample";
import { differences } from "./compare";
import { runOnDevice } from "./device";
import { model, type NodeInit } from "./models";

interface Made {
  readonly name: string;
  readonly dims: readonly number[];
}

/** xorshift32: the same seed gives the same graph everywhere. */
function generator(seed: number): (below: number) => number {
  let x = (seed * 2654435761) | 0 || 1;
  return (below) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % below;
  };
}

/** More elements than one strip holds: work in place on a wrong element would show. */
const DIMS = [1, 4, 20, 20];
const constants = {
  w: noise([4, 4, 3, 3], 5),
  bias: noise([4, 1, 1], 6),
  two: tensor("float32", [], [2]),
  shape: tensor("int64", [4], [1, 20, 4, 20]),
  back: tensor("int64", [4], DIMS),
  from: tensor("int64", [1], [1]),
  to: tensor("int64", [1], [3]),
  axis: tensor("int64", [1], [1]),
  axes: tensor("int64", [2], [1, 3]),
};

/** Ways to make a value of DIMS from others: each returns the nodes, the last of which gives `out`. */
const STEPS: readonly ((out: string, a: string, b: string) => NodeInit[])[] = [
  (out, a) => [{ op: "Tanh", inputs: [a], outputs: [out] }],
  (out, a) => [{ op: "Relu", inputs: [a], outputs: [out] }],
  (out, a, b) => [{ op: "Add", inputs: [a, b], outputs: [out] }],
  (out, a, b) => [{ op: "Sub", inputs: [b, a], outputs: [out] }],
  (out, a) => [{ op: "Mul", inputs: [a, "bias"], outputs: [out] }],
  (out, a) => [{ op: "Clip", inputs: [a, "", "two"], outputs: [out] }],
  (out, a) => [{ op: "Conv", inputs: [a, "w"], outputs: [out], attributes: { pads: [1n, 1n, 1n, 1n] } }],
  (out, a) => [{ op: "MaxPool", inputs: [a], outputs: [out], attributes: { kernel_shape: [3n, 3n], pads: [1n, 1n, 1n, 1n] } }],
  (out, a) => [
    { op: "MatMul", inputs: [a, a], outputs: [`${out}m`] },
    { op: "Tanh", inputs: [`${out}m`], outputs: [out] },
  ],
  (out, a) => [{ op: "Softmax", inputs: [a], outputs: [out], attributes: { axis: 1n } }],
  (out, a) => [{ op: "Transpose", inputs: [a], outputs: [out], attributes: { perm: [0n, 1n, 3n, 2n] } }],
  (out, a) => [
    { op: "Transpose", inputs: [a], outputs: [`${out}t`], attributes: { perm: [0n, 2n, 1n, 3n] } },
    { op: "Reshape", inputs: [`${out}t`, "back"], outputs: [out] },
  ],
  (out, a) => [
    { op: "Reshape", inputs: [a, "shape"], outputs: [`${out}r`] },
    { op: "Exp", inputs: [`${out}r`], outputs: [`${out}e`] },
    { op: "Reshape", inputs: [`${out}e`, "back"], outputs: [`${out}f`] },
    { op: "Tanh", inputs: [`${out}f`], outputs: [out] },
  ],
  (out, a, b) => [
    { op: "Split", inputs: [a], outputs: [`${out}p`, `${out}q`], attributes: { axis: 1n } },
    { op: "Slice", inputs: [b, "from", "to", "axis"], outputs: [`${out}s`] },
    { op: "Add", inputs: [`${out}p`, `${out}q`], outputs: [`${out}u`] },
    { op: "Concat", inputs: [`${out}u`, `${out}s`], outputs: [out], attributes: { axis: 1n } },
  ],
  (out, a, b) => [
    { op: "ReduceMean", inputs: [a, "axes"], outputs: [`${out}m`] },
    { op: "Sub", inputs: [b, `${out}m`], outputs: [out] },
  ],
];

function randomModel(seed: number): Uint8Array {
  const random = generator(seed);
  const made: Made[] = [
    { name: "x", dims: DIMS },
    { name: "z", dims: DIMS },
  ];
  const nodes: NodeInit[] = [];
  // Mostly recent values: long chains, with a few that live long.
  const pick = (): string => made[Math.max(0, made.length - 1 - random(random(3) === 0 ? made.length : 2))]!.name;
  for (let i = 0; i < 4 + random(14); i++) {
    const name = `v${i}`;
    nodes.push(...STEPS[random(STEPS.length)]!(name, pick(), pick()));
    made.push({ name, dims: DIMS });
  }
  const last = made[made.length - 1]!.name;
  const outputs = [...new Set([last, pick(), ...(random(4) === 0 ? ["x"] : [])])];
  return model({ nodes, inputs: ["x", "z"].map((name) => ({ name, dims: DIMS })), outputs: outputs.map((name) => ({ name })), constants, opset: 18 });
}

const SEEDS = Array.from({ length: 40 }, (_, i) => i + 1);
test.each(SEEDS)("seed %i", (seed) => {
  const bytes = randomModel(seed);
  const feeds = { x: noise(DIMS, seed), z: noise(DIMS, seed + 1000) };
  const want = evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, feeds);
  const got = runOnDevice(compileModel(bytes), feeds, seed);
  want.forEach((tensorOf, i) => {
    expect(differences(got[i]!, tensorOf, { relative: 1e-3, absolute: 1e-3 })).toEqual([]);
  });
  const plain = runOnDevice(compileModel(bytes, { disable: ["fuse", "layout", "dead"] }), feeds, seed + 7);
  want.forEach((tensorOf, i) => {
    expect(differences(plain[i]!, tensorOf, { relative: 1e-3, absolute: 1e-3 })).toEqual([]);
  });
});
