/** If: chosen while compiling where the condition is known, else a branch on the device; branches see the values around them. */
import { compileModel, runPipeline } from "../../../dist/lib/compile/pipeline";
import { tensor } from "../../../dist/lib/graph/tensor";
import { evaluateGraph } from "../../../dist/lib/ops/evaluate";
import { runOnDevice } from "../../ops/device";
import { model, type ModelInit, type NodeInit } from "../../ops/models";

const branch = (...nodes: NodeInit[]): { readonly body: ModelInit } => ({ body: { nodes, outputs: [{ name: "result" }] } });
const double = branch({ op: "Add", inputs: ["x", "x"], outputs: ["inner"] }, { op: "Neg", inputs: ["inner"], outputs: ["result"] });
const half = branch({ op: "Mul", inputs: ["x", "half"], outputs: ["result"] });
const ifNode = (then: object, otherwise: object): NodeInit =>
  ({ op: "If", name: "choice", inputs: ["c"], outputs: ["y"], attributes: { then_branch: then, else_branch: otherwise } }) as NodeInit;
const constants = { half: tensor("float32", [], [0.5]), shape: tensor("int64", [1], [5]), shape3: tensor("int64", [1], [3]) };
const x = tensor("float32", [3], [1, -2, 3]);
const truth = (value: boolean) => tensor("bool", [], [value ? 1 : 0]);

const open = (node: NodeInit) =>
  model({
    nodes: [node],
    inputs: [
      { name: "c", dtype: "bool", dims: [] },
      { name: "x", dims: [3] },
    ],
    outputs: [{ name: "y" }],
    constants,
  });

describe("If", () => {
  test.each([
    [true, [-2, 4, -6]],
    [false, [0.5, -1, 1.5]],
  ])("at run time, %s", (value, want) => {
    const bytes = open(ifNode(double, half));
    const feeds = { c: truth(value), x };
    expect([...runOnDevice(compileModel(bytes), feeds)[0]!.data]).toEqual(want);
    expect([...evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, feeds)[0]!.data]).toEqual(want);
  });

  test.each([
    [true, [-2, 4, -6]],
    [false, [0.5, -1, 1.5]],
  ])("known, %s: one branch is left and nothing branches", (value, want) => {
    const bytes = model({
      nodes: [ifNode(double, half)],
      inputs: [{ name: "x", dims: [3] }],
      outputs: [{ name: "y" }],
      constants: { ...constants, c: truth(value) },
    });
    const { program } = runPipeline(bytes, {});
    expect(program!.instructions.map(({ op }) => op)).not.toContain("branch");
    expect([...runOnDevice(compileModel(bytes), { x })[0]!.data]).toEqual(want);
  });

  test("inside a branch of another", () => {
    const inner = branch(
      { op: "Not", inputs: ["c"], outputs: ["d"] },
      { op: "If", inputs: ["d"], outputs: ["result"], attributes: { then_branch: half, else_branch: double } as never },
    );
    const bytes = open(ifNode(inner, half));
    expect([...runOnDevice(compileModel(bytes), { c: truth(true), x })[0]!.data]).toEqual([-2, 4, -6]);
  });

  test("a branch that does not fit the shapes is a fault only when it is taken", () => {
    const bytes = open(ifNode(double, branch({ op: "Reshape", inputs: ["x", "shape"], outputs: ["result"] })));
    const compiled = compileModel(bytes);
    expect([...runOnDevice(compiled, { c: truth(true), x })[0]!.data]).toEqual([-2, 4, -6]);
    expect(() => runOnDevice(compiled, { c: truth(false), x })).toThrow(WebAssembly.RuntimeError);
  });

  test("values that both branches and what follows read stay alive", () => {
    const bytes = model({
      nodes: [
        { op: "Sigmoid", inputs: ["x"], outputs: ["before"] },
        ifNode(branch({ op: "Exp", inputs: ["before"], outputs: ["result"] }), branch({ op: "Sqrt", inputs: ["before"], outputs: ["result"] })),
        { op: "Sub", inputs: ["y", "before"], outputs: ["z"] },
      ],
      inputs: [
        { name: "c", dtype: "bool", dims: [] },
        { name: "x", dims: [3] },
      ],
      outputs: [{ name: "z" }],
    });
    for (const value of [true, false]) {
      const feeds = { c: truth(value), x };
      const want = evaluateGraph(runPipeline(bytes, { stopAfter: "infer" }).graph, feeds)[0]!.data;
      const got = runOnDevice(compileModel(bytes), feeds)[0]!.data;
      got.forEach((each, i) => expect(Math.abs(Number(each) - Number(want[i]))).toBeLessThan(1e-6));
    }
  });

  test("a branch reads what nothing produces", () => {
    const bytes = open(ifNode(branch({ op: "Neg", inputs: ["nowhere"], outputs: ["result"] }), half));
    expect(() => compileModel(bytes)).toThrow(/nowhere/);
  });
});
