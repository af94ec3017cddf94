/** Functions of a model: their nodes take the place of each call. */
import { compileModel } from "../../../dist/lib/compile/pipeline";
import { AclError } from "../../../dist/lib/errors/acl-error";
import { tensor } from "../../../dist/lib/graph/tensor";
import { importOnnx } from "../../../dist/lib/import/onnx/model";
import { runOnDevice } from "../../ops/device";
import { messageOf, modelOf, type NodeInit } from "../../ops/models";

const x = tensor("float32", [3], [-2, 1, 3]);
const call = (from: string, to: string, alpha?: number): NodeInit => ({
  op: "Leak",
  domain: "local",
  name: `call ${to}`,
  inputs: [from],
  outputs: [to],
  ...(alpha === undefined ? {} : { attributes: { slope: alpha } }),
});

function modelWith(nodes: readonly NodeInit[], body: readonly object[]): Uint8Array {
  const message = messageOf({ nodes, inputs: [{ name: "x", dims: [3] }], outputs: [{ name: "y" }], opsets: { "": 17, local: 1 } });
  const leak = {
    name: "Leak",
    domain: "local",
    input: ["a"],
    output: ["b"],
    attribute: ["slope"],
    opsetImport: [
      { domain: "", version: 17n },
      { domain: "local", version: 1n },
    ],
    node: body,
  };
  return modelOf({ ...message, functions: [leak] } as never);
}
const body = [
  { opType: "LeakyRelu", input: ["a"], output: ["inner"], attribute: [{ name: "alpha", type: 1, refAttrName: "slope" }] },
  { opType: "Neg", input: ["inner"], output: ["b"] },
];

describe("functions of a model", () => {
  test("two calls, each with its own attribute and names", () => {
    const bytes = modelWith([call("x", "between", 0.5), call("between", "y", 0.25)], body);
    expect(importOnnx(bytes).graph.nodes.map(({ op }) => op)).toEqual(["LeakyRelu", "Neg", "LeakyRelu", "Neg"]);
    expect([...runOnDevice(compileModel(bytes), { x })[0]!.data]).toEqual([-1, 0.25, 0.75]);
  });

  test("an attribute that the call leaves out is the operator's own default", () => {
    const [result] = runOnDevice(compileModel(modelWith([call("x", "y")], body)), { x });
    expect(Number(result!.data[0])).toBeCloseTo(0.02, 6);
  });

  test("functions that multiply are refused", () => {
    const message = messageOf({
      nodes: [{ ...call("x", "y"), op: "f0" }],
      inputs: [{ name: "x", dims: [3] }],
      outputs: [{ name: "y" }],
      opsets: { "": 17, local: 1 },
    });
    const functions = Array.from({ length: 24 }, (_, i) => ({
      name: `f${i}`,
      domain: "local",
      input: ["a"],
      output: ["b"],
      opsetImport: [
        { domain: "", version: 17n },
        { domain: "local", version: 1n },
      ],
      node: [
        { opType: i < 23 ? `f${i + 1}` : "Neg", domain: i < 23 ? "local" : "", input: ["a"], output: ["t"] },
        { opType: i < 23 ? `f${i + 1}` : "Neg", domain: i < 23 ? "local" : "", input: ["t"], output: ["b"] },
      ],
    }));
    expect(() => importOnnx(modelOf({ ...message, functions } as never))).toThrow(/more than 50000 times/);
  });

  test("a function that calls itself is refused", () => {
    const bytes = modelWith([call("x", "y")], [{ opType: "Leak", domain: "local", input: ["a"], output: ["b"] }]);
    expect(() => importOnnx(bytes)).toThrow(AclError);
    expect(() => importOnnx(bytes)).toThrow(/calls itself/);
  });
});
