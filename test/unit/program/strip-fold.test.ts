/** Which operations a strip folds into one, and that it leaves others alone. */
import { foldStrip } from "../../../dist/lib/program/strip-fold";
import type { Blob, Strip, StripOpName, StripValue, View } from "../../../lib/program/types";

const blob: Blob = { id: 0, name: "b", binding: "arena", sizeBytes: 64, offsetBytes: 0 };
const view: View = { blob, dtype: "float32", offsetBytes: 0, dims: [16], strides: [4] };
const input: StripValue = { kind: "input", view, type: "f32" };
const other: StripValue = { kind: "input", view: { ...view, offsetBytes: 0, strides: [0] }, type: "f32" };
const constant = (value: number): StripValue => ({ kind: "constant", type: "f32", value });
const op = (name: StripOpName, ...args: number[]): StripValue => ({ kind: "op", op: name, type: "f32", args });

/** Operations that are left of a strip that stores `outputs`. */
function folded(values: StripValue[], outputs = [values.length - 1]): string[] {
  const strip: Strip = { values, outputs: outputs.map((value) => ({ view, value })) };
  const result = foldStrip(strip);
  for (const { value } of result.outputs) expect(result.values[value]).toBeDefined();
  return result.values.flatMap((value, at) => {
    if (value.kind !== "op") return [];
    for (const arg of value.args) expect(arg).toBeLessThan(at);
    return [value.op];
  });
}

test("relu of a sum", () => {
  expect(folded([input, other, op("add", 0, 1), op("relu", 2)])).toEqual(["add_relu"]);
});

test("relu of a product, and of both", () => {
  expect(folded([input, other, op("mul", 0, 1), op("relu", 2)])).toEqual(["mul_relu"]);
  expect(folded([input, other, op("mul", 0, 1), op("add", 2, 1), op("relu", 3)])).toEqual(["muladd_relu"]);
  expect(folded([input, other, op("add", 0, 1), op("mul", 2, 1), op("relu", 3)])).toEqual(["add", "mul_relu"]);
  expect(folded([input, other, op("muladd", 0, 1, 1), op("relu", 2)])).toEqual(["muladd_relu"]);
  expect(folded([input, op("relu", 0), op("relu", 1)])).toEqual(["relu", "relu"]);
});

test("scaling to bytes where it is stored, and nowhere else", () => {
  const values = [input, other, op("mul", 0, 1), op("round", 2), constant(7), op("add", 3, 4)];
  const into = (dtype: "int8" | "uint8" | "int16"): string[] => {
    const { values: left } = foldStrip({ values, outputs: [{ view: { ...view, dtype }, value: 5 }] });
    return left.flatMap((value) => (value.kind === "op" ? [value.op] : []));
  };
  expect(into("int8")).toEqual(["quantize_int8"]);
  expect(into("uint8")).toEqual(["quantize_uint8"]);
  expect(into("int16")).toEqual(["mul", "round", "add"]);
  expect(folded(values)).toEqual(["mul", "round", "add"]);
  expect(folded([...values, op("relu", 5)], [5, 6])).toEqual(["mul", "round", "add", "relu"]);
});

test("a sum that is stored too stays", () => {
  expect(folded([input, other, op("add", 0, 1), op("relu", 2)], [2, 3])).toEqual(["add", "relu"]);
});

test("prelu, whichever way the product is written; not with another limit or another value", () => {
  const select = (...args: number[]): StripValue => ({ kind: "op", op: "select", type: "f32", args });
  const negative = [input, other, constant(0), op("lt", 0, 2)];
  expect(folded([...negative, op("mul", 0, 1), select(3, 4, 0)])).toEqual(["prelu"]);
  expect(folded([...negative, op("mul", 1, 0), select(3, 4, 0)])).toEqual(["prelu"]);
  expect(folded([...negative, op("mul", 0, 0), select(3, 4, 0)])).toEqual(["prelu"]);
  expect(folded([...negative, op("mul", 1, 1), select(3, 4, 0)])).toEqual(["lt", "mul", "select"]);
  expect(folded([...negative, op("mul", 0, 1), select(3, 4, 1)])).toEqual(["lt", "mul", "select"]);
  expect(folded([input, other, constant(1), op("lt", 0, 2), op("mul", 0, 1), select(3, 4, 0)])).toEqual(["lt", "mul", "select"]);
});

test("silu, either way round; not of another value", () => {
  expect(folded([input, op("sigmoid", 0), op("mul", 0, 1)])).toEqual(["silu"]);
  expect(folded([input, op("sigmoid", 0), op("mul", 1, 0)])).toEqual(["silu"]);
  expect(folded([input, other, op("sigmoid", 0), op("mul", 1, 2)])).toEqual(["sigmoid", "mul"]);
});

test("gelu in the orders that exporters write", () => {
  const parts = [input, constant(Math.SQRT2), constant(1), constant(0.5), op("div", 0, 1), op("erf", 4), op("add", 5, 2)];
  expect(folded([...parts, op("mul", 0, 6), op("mul", 7, 3)])).toEqual(["gelu"]);
  expect(folded([...parts, op("mul", 0, 3), op("mul", 7, 6)])).toEqual(["gelu"]);
  const scaled = [input, constant(Math.fround(Math.SQRT1_2)), constant(1), constant(0.5), op("mul", 0, 1), op("erf", 4), op("add", 2, 5)];
  expect(folded([...scaled, op("mul", 3, 6), op("mul", 0, 7)])).toEqual(["gelu"]);
});

test("near misses of gelu stay as they are", () => {
  const wrong = [input, constant(1.5), constant(1), constant(0.5), op("div", 0, 1), op("erf", 4), op("add", 5, 2), op("mul", 0, 6), op("mul", 7, 3)];
  expect(folded(wrong)).toEqual(["div", "erf", "add", "mul", "mul"]);
});

test("gelu by tanh, with the cube written in any way", () => {
  const parts = [input, constant(0.044715), constant(0.7978845608), constant(1), constant(0.5), constant(3)];
  const end = [op("add", 0, 7), op("mul", 8, 2), op("tanh", 9), op("add", 10, 3)];
  expect(folded([...parts, op("pow", 0, 5), op("mul", 6, 1), ...end, op("mul", 0, 4), op("mul", 12, 11)])).toEqual(["gelu_tanh"]);
  const products = [input, constant(0.044715), constant(0.7978845608), constant(1), constant(0.5), op("mul", 0, 0), op("mul", 5, 1), op("add", 6, 3)];
  const inner = [op("mul", 0, 7), op("mul", 8, 2), op("tanh", 9), op("mul", 0, 10), op("add", 0, 11), op("mul", 12, 4)];
  expect(folded([...products, ...inner])).toEqual(["gelu_tanh"]);
});

test("hard swish and silu by parts", () => {
  const [three, zero, six] = [constant(3), constant(0), constant(6)];
  expect(folded([input, three, zero, six, op("add", 0, 1), op("max", 4, 2), op("min", 5, 3), op("mul", 0, 6), op("div", 7, 3)])).toEqual([
    "hard_swish",
  ]);
  const alpha = [input, constant(1 / 6), constant(0.5), zero, constant(1), op("muladd", 0, 1, 2), op("max", 5, 3), op("min", 6, 4), op("mul", 7, 0)];
  expect(folded(alpha)).toEqual(["hard_swish"]);
  const limited = [...alpha.slice(0, -1), constant(100), op("mul", 7, 0), op("min", 9, 8)];
  expect(folded(limited)).toEqual(["hard_swish", "min"]);
  expect(folded([input, constant(1), op("neg", 0), op("exp", 2), op("add", 3, 1), op("div", 0, 4)])).toEqual(["silu"]);
});

test("a part that is stored too is not taken", () => {
  const values = [input, op("sigmoid", 0), op("mul", 0, 1)];
  expect(folded(values, [1, 2])).toEqual(["sigmoid", "mul"]);
});

test("the argument of a function may be computed before", () => {
  expect(folded([input, other, op("add", 0, 1), op("sigmoid", 2), op("mul", 2, 3)])).toEqual(["add", "silu"]);
});

test("a product and a sum; limits of constants", () => {
  expect(folded([input, other, op("mul", 0, 1), op("add", 1, 2)])).toEqual(["muladd"]);
  expect(folded([input, other, op("mul", 0, 1), op("add", 1, 2)], [2, 3])).toEqual(["mul", "add"]);
  expect(folded([input, constant(-1), constant(2), op("max", 0, 1), op("min", 3, 2)])).toEqual(["clip"]);
  expect(folded([input, constant(3), constant(2), op("max", 0, 1), op("min", 3, 2)])).toEqual(["max", "min"]);
});
