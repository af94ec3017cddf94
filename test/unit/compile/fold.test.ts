/** Normalizations folded into convolutions. */
import { compileModel, runPipeline } from "../../../dist/lib/compile/pipeline";
import { evaluateGraph } from "../../../dist/lib/ops/evaluate";
import { fixed, noise, positive, ramp } from "../../../dist/lib/ops/sample";
import { differences } from "../../ops/compare";
import { runOnDevice } from "../../ops/device";
import { model, type NodeInit } from "../../ops/models";

const constants = {
  w: fixed(noise([6, 2, 3, 3], 2)),
  b: fixed(noise([6], 3)),
  scale: fixed(positive([6])),
  shift: fixed(ramp([6])),
  mean: fixed(ramp([6], 0.5)),
  variance: fixed(positive([6], 0.5)),
};
const norm = (from: string, to: string): NodeInit => ({
  op: "BatchNormalization",
  name: `norm ${to}`,
  inputs: [from, "scale", "shift", "mean", "variance"],
  outputs: [to],
  attributes: { epsilon: 0.001 },
});
const conv = (bias: boolean): NodeInit => ({
  op: "Conv",
  name: "conv",
  inputs: ["x", "w", ...(bias ? ["b"] : [])],
  outputs: ["c"],
  attributes: { group: 2n, pads: [1n, 1n, 1n, 1n] },
});
const bytesOf = (nodes: readonly NodeInit[], outputs: readonly string[]) =>
  model({ nodes, inputs: [{ name: "x", dims: [1, 4, 5, 6] }], outputs: outputs.map((name) => ({ name })), constants });
const feeds = { x: noise([1, 4, 5, 6]) };
const opsOf = (bytes: Uint8Array): string[] => runPipeline(bytes, { stopAfter: "fold" }).graph.nodes.map(({ op }) => op);

describe("fold", () => {
  test.each([true, false])("with a bias: %s", (bias) => {
    const bytes = bytesOf([conv(bias), norm("c", "y")], ["y"]);
    expect(opsOf(bytes)).toEqual(["Conv"]);
    const [want] = evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, feeds);
    for (const disable of [[], ["fold"]]) {
      expect(differences(runOnDevice(compileModel(bytes, { disable }), feeds)[0]!, want!, { relative: 1e-5, absolute: 1e-5 })).toEqual([]);
    }
  });

  test("not when somebody else reads the convolution", () => {
    expect(opsOf(bytesOf([conv(true), norm("c", "y")], ["y", "c"]))).toEqual(["Conv", "BatchNormalization"]);
    expect(opsOf(bytesOf([conv(true), norm("c", "y"), { op: "Relu", inputs: ["c"], outputs: ["z"] }], ["y", "z"]))).toContain("BatchNormalization");
  });

  test("two in a row: the second stays", () => {
    const bytes = bytesOf([conv(false), norm("c", "d"), norm("d", "y")], ["y"]);
    expect(opsOf(bytes)).toEqual(["Conv", "BatchNormalization"]);
    const [want] = evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, feeds);
    expect(differences(runOnDevice(compileModel(bytes), feeds)[0]!, want!, { relative: 1e-5, absolute: 1e-5 })).toEqual([]);
  });
});
