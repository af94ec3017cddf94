/** Operators in parts: what the pass finds, what it leaves alone, and that the numbers stay those of the parts in float64. */
import { compileModel, runPipeline } from "../../../dist/lib/compile/pipeline";
import { evaluateGraph } from "../../../dist/lib/ops/evaluate";
import { fixed, noise, positive, ramp } from "../../../dist/lib/ops/sample";
import { type Tensor, tensor } from "../../../dist/lib/graph/tensor";
import { differences } from "../../ops/compare";
import { runOnDevice } from "../../ops/device";
import { model, type NodeInit } from "../../ops/models";

const ROW = 24;
const scalarOf = (value: number): Tensor => tensor("float32", [], [value]);
const constants = {
  two: scalarOf(2),
  three: scalarOf(3),
  one: scalarOf(1),
  half: scalarOf(0.5),
  minusHalf: scalarOf(-0.5),
  eps: scalarOf(1e-5),
  gamma: fixed(positive([ROW], 0.125)),
  beta: fixed(ramp([ROW], 0.125)),
  column: fixed(positive([5, 1], 0.125)),
  axes: tensor("int64", [1], [-1n]),
  wholeTwo: tensor("int64", [], [2n]),
  inner: tensor("float32", [], [0.7978845608028654]),
  bend: scalarOf(0.044715),
  root: scalarOf(Math.SQRT2),
};
const n = (op: string, inputs: readonly string[], output: string, attributes: NodeInit["attributes"] = {}): NodeInit => ({
  op,
  name: output,
  inputs,
  outputs: [output],
  attributes,
});
const mean = (from: string, to: string): NodeInit => n("ReduceMean", [from], to, { axes: [-1n] });
const feeds = { x: noise([2, 5, ROW]), mask: noise([2, 1, 1, 4], 9) };
const bytesOf = (nodes: readonly NodeInit[], outputs: readonly string[] = ["y"]) =>
  model({ nodes, inputs: [{ name: "x", dims: [2, 5, ROW] }], outputs: outputs.map((name) => ({ name })), constants });
const opsOf = (bytes: Uint8Array): string[] => runPipeline(bytes, { stopAfter: "patterns" }).graph.nodes.map(({ op }) => op);
const instructionsOf = (bytes: Uint8Array, disable: readonly string[] = []): string[] =>
  runPipeline(bytes, { disable }).regions!.flatMap((region) => region.map(({ op }) => op));

/** The program with and without the pass against the parts in float64. */
function expectRight(bytes: Uint8Array, given: Readonly<Record<string, Tensor>> = { x: feeds.x }): void {
  const [want] = evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, given);
  for (const disable of [[], ["patterns"], ["layout"], ["fuse"]]) {
    expect(differences(runOnDevice(compileModel(bytes, { disable }), given)[0]!, want!, { relative: 2e-5, absolute: 5e-6 })).toEqual([]);
  }
}

const start = [mean("x", "m"), n("Sub", ["x", "m"], "c")];
const variance = [n("Pow", ["c", "two"], "p"), mean("p", "v"), n("Add", ["v", "eps"], "ve")];
const deviation = [...variance, n("Sqrt", ["ve"], "d")];
const finish = (from: string) => [n("Mul", [from, "gamma"], "s"), n("Add", ["s", "beta"], "y")];

describe("layer normalization in parts", () => {
  const spellings: Readonly<Record<string, readonly NodeInit[]>> = {
    "nine nodes": [...start, ...deviation, n("Div", ["c", "d"], "q"), ...finish("q")],
    "factor and term in front": [...start, ...deviation, n("Div", ["c", "d"], "q"), n("Mul", ["gamma", "q"], "s"), n("Add", ["beta", "s"], "y")],
    "square by Mul, epsilon first": [
      ...start,
      n("Mul", ["c", "c"], "p"),
      mean("p", "v"),
      n("Add", ["eps", "v"], "ve"),
      n("Sqrt", ["ve"], "d"),
      n("Div", ["c", "d"], "q"),
      ...finish("q"),
    ],
    "times the reciprocal": [...start, ...deviation, n("Reciprocal", ["d"], "r"), n("Mul", ["c", "r"], "q"), ...finish("q")],
    "times one over": [...start, ...deviation, n("Div", ["one", "d"], "r"), n("Mul", ["r", "c"], "q"), ...finish("q")],
    "power of -1/2": [...start, ...variance, n("Pow", ["ve", "minusHalf"], "r"), n("Mul", ["c", "r"], "q"), ...finish("q")],
    "power of 1/2": [...start, ...variance, n("Pow", ["ve", "half"], "d"), n("Div", ["c", "d"], "q"), ...finish("q")],
    "a whole exponent": [...start, n("Pow", ["c", "wholeTwo"], "p"), ...deviation.slice(1), n("Div", ["c", "d"], "q"), ...finish("q")],
    "subtracted twice": [
      ...start,
      n("Sub", ["x", "m"], "c2"),
      n("Pow", ["c2", "two"], "p"),
      ...deviation.slice(1),
      n("Div", ["c", "d"], "q"),
      ...finish("q"),
    ],
    "without factor and term": [...start, ...deviation, n("Div", ["c", "d"], "y")],
    "without term": [...start, ...deviation, n("Div", ["c", "d"], "q"), n("Mul", ["q", "gamma"], "y")],
  };
  test.each(Object.entries(spellings))("%s", (_, nodes) => {
    const bytes = bytesOf(nodes);
    expect(opsOf(bytes)).toEqual(["LayerNormalization"]);
    expect(instructionsOf(bytes)).toEqual(["norm"]);
    expectRight(bytes);
  });

  test("in front of other work, in the middle of a model", () => {
    const bytes = bytesOf([
      n("Relu", ["x"], "r0"),
      ...spellings["nine nodes"]!.map((node) => ({
        ...node,
        inputs: node.inputs.map((name) => (name === "x" ? "r0" : name)),
        outputs: node.outputs.map((name) => (name === "y" ? "z" : name)),
      })),
      n("Add", ["z", "r0"], "y"),
    ]);
    expect(opsOf(bytes)).toEqual(["Relu", "LayerNormalization", "Add"]);
    expectRight(bytes);
  });

  test.each([
    ["a part that is an output stays", [...start, ...deviation, n("Div", ["c", "d"], "y")], ["y", "d"]],
    [
      "the mean of something else",
      [mean("x", "m0"), n("Exp", ["m0"], "m"), n("Sub", ["x", "m"], "c"), ...deviation, n("Div", ["c", "d"], "y")],
      ["y"],
    ],
    ["another power", [...start, n("Pow", ["c", "three"], "p"), ...deviation.slice(1), n("Div", ["c", "d"], "y")], ["y"]],
    ["an inner axis", [n("ReduceMean", ["x"], "m", { axes: [1n] }), ...start.slice(1), ...deviation, n("Div", ["c", "d"], "y")], ["y"]],
  ] as const)("%s", (_, nodes, outputs) => {
    expect(opsOf(bytesOf(nodes, outputs))).not.toContain("LayerNormalization");
  });

  test("a factor of another shape stays a product of its own", () => {
    const bytes = bytesOf([...start, ...deviation, n("Div", ["c", "d"], "q"), n("Mul", ["q", "column"], "y")]);
    expect(opsOf(bytes)).toEqual(["LayerNormalization", "Mul"]);
    expectRight(bytes);
  });

  test("disabled, the parts stay", () => {
    const bytes = bytesOf(spellings["nine nodes"]!);
    expect(instructionsOf(bytes, ["patterns"]).length).toBeGreaterThan(3);
  });
});

describe("softmax in parts", () => {
  const parts = [
    n("ReduceMax", ["x"], "m", { axes: [-1n] }),
    n("Sub", ["x", "m"], "c"),
    n("Exp", ["c"], "e"),
    n("ReduceSum", ["e", "axes"], "t"),
    n("Div", ["e", "t"], "y"),
  ];
  test("becomes one instruction", () => {
    const bytes = bytesOf(parts);
    expect(opsOf(bytes)).toEqual(["Softmax"]);
    expect(instructionsOf(bytes)).toEqual(["softmax"]);
    expectRight(bytes);
  });
  test("without the largest element it stays: large numbers overflow there", () => {
    expect(opsOf(bytesOf([n("Exp", ["x"], "e"), ...parts.slice(3)]))).not.toContain("Softmax");
  });
});

describe("activations in parts are one strip", () => {
  test.each([
    [
      "gelu",
      [n("Div", ["x", "root"], "a"), n("Erf", ["a"], "b"), n("Add", ["b", "one"], "c"), n("Mul", ["x", "c"], "d"), n("Mul", ["d", "half"], "y")],
    ],
    [
      "gelu by tanh",
      [
        n("Pow", ["x", "three"], "a"),
        n("Mul", ["a", "bend"], "b"),
        n("Add", ["x", "b"], "c"),
        n("Mul", ["c", "inner"], "d"),
        n("Tanh", ["d"], "e"),
        n("Add", ["e", "one"], "f"),
        n("Mul", ["x", "half"], "g"),
        n("Mul", ["g", "f"], "y"),
      ],
    ],
    ["silu", [n("Sigmoid", ["x"], "a"), n("Mul", ["x", "a"], "y")]],
    ["hard swish", [n("HardSigmoid", ["x"], "a", { alpha: 1 / 6, beta: 0.5 }), n("Mul", ["x", "a"], "y")]],
  ] as const)("%s", (_, nodes) => {
    const bytes = bytesOf(nodes);
    expect(instructionsOf(bytes)).toEqual(["map"]);
    expectRight(bytes);
  });
});

describe("attention", () => {
  const [heads, width, sequence] = [3, 8, 4];
  const dims = [2, sequence, heads * width];
  const ints = (...numbers: readonly number[]): Tensor => tensor("int64", [numbers.length], numbers.map(BigInt));
  const head = (from: string, to: string, perm: readonly bigint[]): NodeInit[] => [
    n("Reshape", [from, "shape"], `${to}.r`),
    n("Transpose", [`${to}.r`], to, { perm: [...perm] }),
  ];
  const attentionOf = (scores: readonly NodeInit[], behind: readonly NodeInit[] = [], outputs: readonly string[] = ["y"]) =>
    model({
      nodes: [
        ...head("q", "Q", [0n, 2n, 1n, 3n]),
        ...head("k", "K", [0n, 2n, 3n, 1n]),
        ...head("v", "V", [0n, 2n, 1n, 3n]),
        ...scores,
        n("MatMul", ["p", "V"], "o"),
        n("Transpose", ["o"], "t", { perm: [0n, 2n, 1n, 3n] }),
        n("Reshape", ["t", "joined"], "y"),
        ...behind,
      ],
      inputs: [
        ...["q", "k", "v"].map((name) => ({ name, dims })),
        { name: "mask", dims: [2, 1, 1, sequence] },
        { name: "seen", dtype: "bool", dims: [sequence, sequence] },
      ],
      outputs: outputs.map((name) => ({ name })),
      constants: {
        shape: ints(2, sequence, heads, width),
        joined: ints(...dims),
        scale: scalarOf(Math.sqrt(width)),
        inverse: tensor("float32", [1, 1], [1 / Math.sqrt(width)]),
        root: scalarOf(width ** -0.25),
        lowest: scalarOf(-3.4028234663852886e38),
        low: scalarOf(-10000),
        infinity: scalarOf(Number.NEGATIVE_INFINITY),
      },
    });
  const product = n("MatMul", ["Q", "K"], "s");
  const softmax = (from: string, attributes: NodeInit["attributes"] = { axis: -1n }): NodeInit => n("Softmax", [from], "p", attributes);
  const [q, k, v] = [1, 2, 3].map((seed) => noise(dims, seed)) as [Tensor, Tensor, Tensor];
  const seen = tensor("bool", [sequence, sequence], [1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1]);
  const given = { q, k, v, mask: feeds.mask, seen };

  const spellings: Readonly<Record<string, readonly NodeInit[]>> = {
    plain: [product, softmax("s")],
    "scale, mask": [product, n("Div", ["s", "scale"], "d"), n("Add", ["d", "mask"], "a"), softmax("a")],
    "mask first, a factor with dims": [product, n("Mul", ["inverse", "s"], "d"), n("Add", ["mask", "d"], "a"), softmax("a", { axis: 3n })],
    "a factor on both operands": [
      n("Mul", ["Q", "root"], "Qs"),
      n("Mul", ["K", "root"], "Ks"),
      n("MatMul", ["Qs", "Ks"], "s"),
      n("Add", ["s", "mask"], "a"),
      softmax("a"),
    ],
    "chosen by Where": [product, n("Div", ["s", "scale"], "d"), n("Where", ["seen", "d", "lowest"], "a"), softmax("a")],
    "hidden by Where": [product, n("Not", ["seen"], "hidden"), n("Where", ["hidden", "infinity", "s"], "a"), softmax("a")],
  };
  test.each(Object.entries(spellings))("%s: one instruction, no copies, no memory for scores or turned operands", (_, scores) => {
    const bytes = attentionOf(scores);
    const { regions, plan } = runPipeline(bytes, {});
    const made = regions!.flat().map(({ op }) => op);
    expect(made.filter((op) => op !== "map")).toEqual(["attention"]);
    // A mask that is chosen is made first; nothing else needs memory.
    expect(plan!.arenaBytes).toBe(made.includes("map") ? sequence * sequence * 4 : 0);
    expectRight(bytes, given);
  });

  test.each([
    ["scores that are an output", [product, softmax("s")], [], ["y", "s"]],
    ["weights that somebody else reads", [product, softmax("s")], [n("Exp", ["p"], "z")], ["y", "z"]],
    ["softmax over another axis", [product, softmax("s", { axis: 2n })], [], ["y"]],
    ["a low number that a whole hidden row would show", [product, n("Where", ["seen", "s", "low"], "a"), softmax("a")], [], ["y"]],
    ["a factor behind the mask", [product, n("Add", ["s", "mask"], "a"), n("Div", ["a", "scale"], "d"), softmax("d")], [], ["y"]],
  ] as const)("%s: the parts stay", (_, scores, behind, outputs) => {
    const bytes = attentionOf(scores, behind, outputs);
    expect(opsOf(bytes)).not.toContain("ScaledDotProduct");
    expectRight(bytes, given);
  });

  const names = ["q", "k", "v"] as const;
  const square = (nodes: readonly NodeInit[]) =>
    model({
      nodes,
      inputs: names.map((name) => ({ name, dims: [sequence, sequence] })),
      outputs: [{ name: "y" }],
      constants: { half: constants.half, tiny: scalarOf(1e-30), vast: scalarOf(1e30) },
    });
  const drawn = (seed: number, factor: number): Tensor => {
    const { dims: size, data } = noise([sequence, sequence], seed);
    return tensor(
      "float32",
      size,
      Array.from(data as Float64Array, (x) => x * factor),
    );
  };
  const squares = (factor = 1) => Object.fromEntries(names.map((name, i) => [name, drawn(i + 1, factor)]));
  const raw = n("MatMul", ["q", "k"], "s");
  const mixed = (weights: string, values: string, to = "y"): NodeInit => n("MatMul", [weights, values], to);
  const chain = [raw, softmax("s"), mixed("p", "v", "s2"), n("Softmax", ["s2"], "p2", { axis: -1n }), mixed("p2", "v")];
  const scaled = [n("Mul", ["q", "half"], "q2"), n("MatMul", ["q2", "k"], "s")];

  test.each<[string, readonly NodeInit[], number]>([
    ["values that are the scaled queries", [...scaled, softmax("s"), mixed("p", "q2")], 0],
    ["values that are the scores", [raw, softmax("s"), mixed("p", "s")], 0],
    ["values that are the weights", [raw, softmax("s"), mixed("p", "p")], 0],
    ["a mask that is the product", [raw, n("Mul", ["s", "half"], "d"), n("Add", ["d", "s"], "a"), softmax("a"), mixed("p", "v")], 0],
    ["a mask that is the scaled queries", [...scaled, n("Add", ["s", "q2"], "a"), softmax("a"), mixed("p", "v")], 0],
    ["a result that is the scores of the next", chain, 1],
  ])("%s: nothing is read that is gone", (_, nodes, found) => {
    const bytes = square(nodes);
    expect(opsOf(bytes).filter((op) => op === "ScaledDotProduct")).toHaveLength(found);
    expectRight(bytes, squares());
  });

  test.each<[string, readonly NodeInit[], number]>([
    ["two factors whose product is 0 in float32", [n("Mul", ["q", "tiny"], "a"), n("Mul", ["k", "tiny"], "b"), n("MatMul", ["a", "b"], "s")], 1e30],
    ["two factors whose product is infinite", [n("Mul", ["q", "vast"], "a"), n("Mul", ["k", "vast"], "b"), n("MatMul", ["a", "b"], "s")], 1e-30],
  ])("%s: the parts stay", (_, nodes, factor) => {
    const bytes = square([...nodes, softmax("s"), mixed("p", "v")]);
    expect(opsOf(bytes)).not.toContain("ScaledDotProduct");
    expectRight(bytes, { ...squares(factor), v: drawn(3, 1) });
  });

  test("disabled, the parts stay", () => {
    expect(instructionsOf(attentionOf(spellings["plain"]!), ["patterns"])).toEqual(["matmul", "softmax", "matmul"]);
  });
});
