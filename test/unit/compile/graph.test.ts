/** Graph text, verifier, shape binding. */
import fs from "node:fs";
import type { AclError } from "../../../dist/lib/errors/acl-error";
import { compileModel, runPipeline } from "../../../dist/lib/compile/pipeline";
import { inferGraph } from "../../../dist/lib/compile/infer";
import type { Graph, Node, Value } from "../../../dist/lib/graph/ir";
import { parseGraph, printGraph } from "../../../dist/lib/graph/text";
import { tensor } from "../../../dist/lib/graph/tensor";
import { verifyGraph } from "../../../dist/lib/graph/verify";
import { importOnnx } from "../../../dist/lib/import/onnx/model";
import { model } from "../../ops/models";
import { hasSuites, modelFile, NO_SUITES } from "../../ops/suite";

const sample = model({
  nodes: [
    { op: "Constant", inputs: [], outputs: ["k"], attributes: { value_floats: [1.5, -0, Number.NaN] } },
    { op: "Split", inputs: ["x"], outputs: ["a", "", "b"], attributes: { axis: -1n } },
    { op: "Clip", inputs: ["a", "", "k1"], outputs: ["c"] },
    { op: "Add", inputs: ["c", "b"], outputs: ['y "quoted"'], name: "last\nnode" },
  ],
  inputs: [{ name: "x", dims: ["N", 9] }],
  outputs: [{ name: 'y "quoted"', dtype: "float32" }],
  constants: { k1: tensor("float32", [], [3]) },
});

describe("text form", () => {
  test("round trip of every kind of thing", () => {
    const { graph } = importOnnx(sample);
    const text = printGraph(graph, { whole: true });
    expect(printGraph(parseGraph(text), { whole: true })).toBe(text);
    expect(parseGraph(text)).toEqual(graph);
  });

  test("a text is refused with its place", () => {
    expect(() => parseGraph('graph "g"\nnode "n" Relu@6 ("x") => ("y")')).toThrow(/line 2, column \d+: expected "->"/);
    expect(() => parseGraph('graph "g"\nconstant "c": float32[1] = (4 bytes)')).toThrow(/print the graph with `whole`/);
  });

  const models: readonly [name: string, shapes: Record<string, number[]>][] = [
    ["mnist_8", {}],
    ["super_resolution_10", { input: [2, 1, 224, 224] }],
  ];
  if (!hasSuites) {
    test.skip(`skipped: ${NO_SUITES}`, () => undefined);
    return;
  }
  test.each(models)("round trip of %s, typed and with layouts", (name, shapes) => {
    const { graph } = runPipeline(fs.readFileSync(modelFile(name, "model.onnx")), { stopAfter: "layout", shapes });
    const text = printGraph(graph, { whole: true });
    const again = parseGraph(text);
    verifyGraph(again, "parsing");
    expect(printGraph(again, { whole: true })).toBe(text);
  });
});

describe("verifier", () => {
  const good = 'graph "g"\ninput "x": float32[2]\nconstant "k": float32[1] = #00000000\nnode "n" Add@14 ("x", "k") -> ("y": float32[2])\noutput "y"';
  const broken = (edit: (graph: Graph, node: Node) => void): string => {
    const graph = parseGraph(good);
    edit(graph, graph.nodes[0]!);
    try {
      verifyGraph(graph, "the test");
    } catch (error) {
      expect((error as AclError).code).toBe(100013);
      return (error as AclError).message;
    }
    throw new Error("accepted");
  };
  const value = (name: string, more: Partial<Value> = {}): Value => ({ name, dtype: "float32", dims: [2], ...more });

  test("the graph that the others are made of is good", () => verifyGraph(parseGraph(good), "the test"));
  test("read before written", () => expect(broken((_, node) => (node.inputs[0] = value("ghost")))).toMatch(/reads "ghost" before/));
  test("written twice", () =>
    expect(broken((graph, node) => node.outputs.push(graph.inputs[0]))).toMatch(/"x" is produced by the graph's inputs and by node "n"/));
  test("output without source", () => expect(broken((graph) => graph.outputs.push(value("z")))).toMatch(/output "z" is produced by nothing/));
  test("two values of one name", () => expect(broken((_, node) => node.outputs.push(value("x")))).toMatch(/two values are called "x"/));
  test("two nodes of one name", () =>
    expect(broken((graph, node) => graph.nodes.push({ ...node, outputs: [value("w")] }))).toMatch(/two nodes are called "n"/));
  test("constant of another shape", () =>
    expect(broken((_, node) => (node.inputs[1]!.dims = [3]))).toMatch(/constant "k" has type float32\[1\] but is declared float32\[3\]/));
  test("constant with missing bytes", () =>
    expect(broken((_, node) => (node.inputs[1]!.constant = { dtype: "float32", dims: [1], bytes: new Uint8Array(2) }))).toMatch(/holds 2 bytes/));
  test("constant that is also produced", () =>
    expect(broken((_, node) => node.outputs.push(node.inputs[1]))).toMatch(/constant "k" is also produced/));
  test("layout that is no permutation", () => expect(broken((graph) => (graph.inputs[0]!.layout = [1]))).toMatch(/no permutation/));
});

describe("shapes", () => {
  const open = model({
    nodes: [
      { op: "Conv", inputs: ["x", "w"], outputs: ["c"], attributes: { strides: [2n, 2n] } },
      { op: "Flatten", inputs: ["c"], outputs: ["f"] },
      { op: "Concat", inputs: ["f", "f"], outputs: ["y"], attributes: { axis: 1n } },
      { op: "Add", inputs: ["m", "x"], outputs: ["z"] },
    ],
    inputs: [
      { name: "x", dims: ["N", 1, "H", 8] },
      { name: "m", dims: ["N", 1, 1, 1] },
    ],
    outputs: [{ name: "y" }, { name: "z" }],
    constants: { w: tensor("float32", [3, 1, 2, 2], new Array(12).fill(1)) },
  });

  test("inference carries names through formulas", () => {
    const { graph } = importOnnx(open);
    for (const _ of inferGraph({ graph }));
    expect(graph.outputs.map(({ dims }) => dims)).toEqual([
      ["N", "3*(H+-2)/2+1*4+3*(H+-2)/2+1*4"].map((dim, i) => (i === 0 ? dim : expect.stringContaining("H"))),
      ["N", 1, "H", 8],
    ]);
  });

  test("names get their numbers from the shapes, also in other inputs", () => {
    const { program } = compileModel(open, { shapes: { x: [2, 1, 6, 8] } });
    expect(program.inputs.map(({ dims }) => dims)).toEqual([
      [2, 1, 6, 8],
      [2, 1, 1, 1],
    ]);
    expect(program.outputs.map(({ dims }) => dims)).toEqual([
      [2, 2 * 3 * 3 * 4],
      [2, 1, 6, 8],
    ]);
  });

  const refused: readonly [string, Record<string, number[]>, RegExp][] = [
    ["unknown input", { q: [1] }, /no input "q"; its inputs are "x", "m"/],
    ["wrong rank", { x: [2, 1, 6] }, /declares 4 dims/],
    ["fixed dim", { x: [2, 3, 6, 8] }, /fixes axis 1 to 1/],
    ["one name, two sizes", { x: [2, 1, 6, 8], m: [3, 1, 1, 1] }, /"N" is 2 in input "x" and 3 in "m"/],
    ["negative", { x: [-2, 1, 6, 8] }, /whole numbers/],
    ["left open", { m: [2, 1, 1, 1] }, /input "x" has open dims \[2,1,H,8\]/],
  ];
  test.each(refused)("refused: %s", (_title, shapes, text) => {
    expect(() => compileModel(open, { shapes })).toThrow(expect.objectContaining({ code: 100017, message: expect.stringMatching(text) }));
  });

  test("the same data has the same key in every program of a model", () => {
    const first = compileModel(open, { shapes: { x: [1, 1, 6, 8] } });
    const known = Object.fromEntries(first.data.map(({ key, offsetBytes }) => [key, offsetBytes]));
    const second = compileModel(open, { shapes: { x: [4, 1, 10, 8] }, known, dataBytes: first.dataBytes });
    expect(first.data.length).toBe(1);
    expect([second.data, second.dataBytes]).toEqual([[], first.dataBytes]);
  });
});
