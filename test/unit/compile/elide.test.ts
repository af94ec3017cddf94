/** Copies that are left out: into parts of a Concat and into outputs. Tiles run in random order; results are compared with float64. */
import { compileModel, runPipeline } from "../../../dist/lib/compile/pipeline";
import { evaluateGraph } from "../../../dist/lib/ops/evaluate";
import { fixed, noise } from "../../../dist/lib/ops/sample";
import { type Tensor, tensor } from "../../../dist/lib/graph/tensor";
import { differences } from "../../ops/compare";
import { runOnDevice } from "../../ops/device";
import { model, type ModelInit, type NodeInit } from "../../ops/models";

const n = (op: string, inputs: readonly string[], output: string, attributes: NodeInit["attributes"] = {}): NodeInit => ({
  op,
  name: output,
  inputs,
  outputs: [output],
  attributes,
});
const image = { name: "x", dims: [2, 4, 6, 5] } as const;
const feeds = { x: noise(image.dims) };
const constants = {
  w: fixed(noise([8, 4, 3, 3], 2)),
  w1: fixed(noise([6, 4, 1, 1], 3)),
  m: fixed(noise([5, 7], 4)),
  b: fixed(noise([6], 5)),
  flat: tensor("int64", [2], [2n, -1n]),
};
const bytesOf = (nodes: readonly NodeInit[], outputs: readonly string[] = ["y"], rest: Partial<ModelInit> = {}) =>
  model({ nodes, inputs: [image], outputs: outputs.map((name) => ({ name })), constants, ...rest });
const opsOf = (bytes: Uint8Array, disable: readonly string[] = []): string[] =>
  runPipeline(bytes, { disable }).regions!.flatMap((region) => region.map(({ op }) => op));
const copies = (bytes: Uint8Array, disable: readonly string[] = []): number => opsOf(bytes, disable).filter((op) => op === "copy").length;

function expectRight(bytes: Uint8Array, given: Readonly<Record<string, Tensor>> = feeds): void {
  const want = evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, given);
  for (const disable of [[], ["elide"]]) {
    for (const seed of [1, 2, 3]) {
      const found = runOnDevice(compileModel(bytes, { disable }), given, seed);
      want.forEach((each, i) => expect(differences(found[i]!, each, { relative: 2e-5, absolute: 2e-5 })).toEqual([]));
    }
  }
}

const pads = { pads: [1n, 1n, 1n, 1n] };

describe("elide", () => {
  test("convolutions and a pool write into their channels of a Concat", () => {
    const bytes = bytesOf([
      n("Relu", ["x"], "r"),
      n("Conv", ["r", "w1", "b"], "a"),
      n("Relu", ["a"], "ar"),
      n("Conv", ["r", "w"], "c", { ...pads, strides: [1n, 1n], dilations: [1n, 1n] }),
      n("MaxPool", ["r"], "p", { kernel_shape: [3n, 3n], ...pads }),
      n("Concat", ["ar", "c", "p"], "t", { axis: 1n }),
      n("AveragePool", ["t"], "y", { kernel_shape: [2n, 2n] }),
    ]);
    expect(copies(bytes)).toBeLessThan(copies(bytes, ["elide"]));
    expect(runPipeline(bytes, {}).plan!.arenaBytes).toBeLessThan(runPipeline(bytes, { disable: ["elide"] }).plan!.arenaBytes);
    expectRight(bytes);
  });

  test.each([0n, 1n, 2n, 3n])("products along axis %s", (axis) => {
    const bytes = bytesOf([n("Exp", ["x"], "e"), n("MatMul", ["x", "m"], "a"), n("MatMul", ["e", "m"], "d"), n("Concat", ["a", "d"], "y", { axis })]);
    expect(opsOf(bytes).sort()).toEqual(["map", "matmul", "matmul"]);
    expectRight(bytes);
  });

  test("a value under another shape is written into the output", () => {
    const bytes = bytesOf([n("MatMul", ["x", "m"], "a"), n("Reshape", ["a", "flat"], "y")]);
    expect(opsOf(bytes)).toEqual(["matmul"]);
    expectRight(bytes);
  });

  test("what others read is read where it now is", () => {
    const bytes = bytesOf(
      [n("MatMul", ["x", "m"], "a"), n("Reshape", ["a", "flat"], "y"), n("Softmax", ["a"], "s", { axis: -1n }), n("ReduceSum", ["s"], "z")],
      ["y", "z"],
    );
    expect(copies(bytes)).toBe(0);
    expectRight(bytes);
  });

  test("a value that goes into two Concats goes into one of them at once", () => {
    const bytes = bytesOf(
      [n("MatMul", ["x", "m"], "a"), n("Exp", ["a"], "e"), n("Concat", ["a", "e"], "y", { axis: 0n }), n("Concat", ["e", "a"], "z", { axis: 0n })],
      ["y", "z"],
    );
    expect(copies(bytes)).toBe(copies(bytes, ["elide"]) - 2);
    expectRight(bytes);
  });

  test("twice the same value in one Concat, an input, a constant: those are copied", () => {
    const twice = bytesOf([n("Neg", ["x"], "a"), n("Concat", ["a", "a"], "y", { axis: 0n })]);
    expect(copies(twice)).toBe(1);
    expectRight(twice);
    const given = bytesOf([n("Concat", ["x", "x"], "y", { axis: 1n })]);
    expect(copies(given)).toBe(2);
    expectRight(given);
  });

  test("what is only enlarged is read where it is, and a part of a Concat is enlarged into its place", () => {
    const scales = tensor("float32", [4], [1, 1, 2, 2]);
    const wide = [
      n("Conv", ["x", "big"], "c"),
      n("Relu", ["c"], "r"),
      n("Resize", ["r", "", "scales"], "e", { mode: "nearest", coordinate_transformation_mode: "asymmetric", nearest_mode: "floor" }),
    ];
    const rest = { constants: { ...constants, big: fixed(noise([16, 4, 1, 1], 6)), scales, gate: fixed(noise([1, 16, 1, 1], 7)) }, opset: 13 };
    const added = bytesOf(
      [...wide, n("Mul", ["e", "gate"], "g"), n("Sigmoid", ["g"], "s"), n("MaxPool", ["s"], "y", { kernel_shape: [2n, 2n] })],
      ["y"],
      rest,
    );
    expect(copies(added)).toBe(copies(added, ["fuse"]) - 1);
    expectRight(added);
    const joined = bytesOf(
      [
        ...wide,
        n("Resize", ["c", "", "scales"], "f", { mode: "nearest", coordinate_transformation_mode: "asymmetric", nearest_mode: "floor" }),
        n("Concat", ["e", "f"], "t", { axis: 1n }),
        n("MaxPool", ["t"], "y", { kernel_shape: [2n, 2n] }),
      ],
      ["y"],
      rest,
    );
    expect(copies(joined)).toBe(copies(joined, ["elide"]) - 2);
    expectRight(joined);
  });

  test("one value as two outputs", () => {
    const bytes = bytesOf([n("Neg", ["x"], "a"), n("Reshape", ["a", "flat"], "y"), n("Identity", ["y"], "z")], ["y", "z"]);
    expectRight(bytes);
  });
});

describe("in place", () => {
  test("softmax and norm overwrite a value that nobody reads any more", () => {
    const ln = { g: fixed(noise([5], 7)), h: fixed(noise([5], 8)) };
    const nodes = [
      n("Exp", ["x"], "a"),
      n("Softmax", ["a"], "s", { axis: -1n }),
      n("LayerNormalization", ["s", "g", "h"], "l", { axis: -1n }),
      n("MatMul", ["l", "m"], "y"),
    ];
    const bytes = bytesOf(nodes, ["y"], { constants: { ...constants, ...ln }, opset: 17 });
    expect(runPipeline(bytes, {}).plan!.arenaBytes).toBe(Math.ceil((2 * 4 * 6 * 5 * 4) / 64) * 64);
    expectRight(bytes);
  });
});
