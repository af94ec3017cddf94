/** A model that needs what is not there: one error lists every such node, with its operator set and the nearest form that is supported. */
import { AclError } from "../../dist/lib/errors/acl-error";
import { compileModel } from "../../dist/lib/compile/pipeline";
import { model } from "./models";

test("five unknown operators, one of them inside a loop, in one error", () => {
  const body = {
    nodes: [
      { op: "Identity", inputs: ["go"], outputs: ["on"] },
      { op: "TfIdfVectorizer", inputs: ["a"], outputs: ["b"], name: "fifth" },
    ],
    inputs: [
      { name: "i", dtype: "int64" as const, dims: [] },
      { name: "go", dtype: "bool" as const, dims: [] },
      { name: "a", dims: [4] },
    ],
    outputs: [{ name: "on" }, { name: "b" }],
  };
  const bytes = model({
    opsets: { "": 19, "com.example": 3 },
    nodes: [
      { op: "Reluu", inputs: ["x"], outputs: ["a"], name: "first" },
      { op: "ImageDecoder", inputs: ["a"], outputs: ["b"], name: "second" },
      { op: "Conv", domain: "com.example", inputs: ["b"], outputs: ["c"], name: "third" },
      { op: "Relu", inputs: ["c"], outputs: ["d"], name: "fine" },
      { op: "Convx", inputs: ["d"], outputs: ["e"], name: "fourth" },
      { op: "Loop", inputs: ["", "", "e"], outputs: ["y"], name: "loop", attributes: { body: { body } } },
    ],
    inputs: [{ name: "x", dims: [4] }],
    outputs: [{ name: "y" }],
  });
  let error: AclError | undefined;
  try {
    compileModel(bytes);
  } catch (thrown) {
    error = thrown as AclError;
  }
  expect(error).toBeInstanceOf(AclError);
  expect(error!.code).toBe(100024);
  expect(error!.message).toMatch(/^.*5 nodes are not supported/);
  expect(error!.message).toMatch(/"first" \(Reluu, opset 19; nearest supported: Relu, opset 1 to \d+\)/);
  expect(error!.message).toMatch(/"second" \(ImageDecoder, opset 19/);
  expect(error!.message).toMatch(/"third" \(com\.example\.Conv, opset 3; nearest supported: Conv, opset 1 to \d+\)/);
  expect(error!.message).toMatch(/"fourth" \(Convx, opset 19; nearest supported: Conv, opset 1 to \d+\)/);
  expect(error!.failures.map(({ node }) => node)).toEqual(
    ["first", "second", "third", "fourth", "fifth"].map((name) => expect.stringContaining(name)),
  );
});

test("what is suggested is the operator that was meant, in its own domain and operator set, or nothing", () => {
  const suggested = (op: string, domain = ""): string | undefined => {
    const bytes = model({
      nodes: [{ op, inputs: ["x"], outputs: ["y"], domain }],
      inputs: [{ name: "x", dims: [4] }],
      outputs: [{ name: "y" }],
      opsets: { "": 17, [domain]: domain === "" ? 17 : 1 },
    });
    try {
      compileModel(bytes);
    } catch (error) {
      return /nearest supported: ([^)]*)\)/.exec((error as AclError).message)?.[1];
    }
    throw new Error("the model was accepted");
  };
  expect(suggested("Foo")).toBeUndefined();
  expect(suggested("FusedThing", "com.acme")).toBeUndefined();
  expect(suggested("BatchNorm")).toMatch(/^BatchNormalization, opset 1 to \d+$/);
  expect(suggested("HardSwish6")).toMatch(/^HardSwish, /);
  expect(suggested("ReduceSums")).toMatch(/^ReduceSum, /);
  expect(suggested("NhwcMaxPool", "com.microsoft")).toMatch(/^MaxPool, /);
  expect(suggested("FusedMatMul2", "com.microsoft")).toBe("com.microsoft.FusedMatMul, opset 1");
});
