/** Operators of users: same shape, same path, same errors. */
import { attribute, defineOp, registerOp, sample } from "npurt";
import { compileAsync, compileModel } from "../../../dist/lib/compile/compile";
import { tensor } from "../../../dist/lib/graph/tensor";
import { differences } from "../../ops/compare";
import { runOnDevice } from "../../ops/device";
import { model } from "../../ops/models";
import { referenceOf, sampleModel } from "../../ops/samples";

const input = tensor("float32", [2, 3], [1, -2, 3, -4, 5, -6]);

/** x * by, with negative numbers halved. */
const LeakyScale = defineOp({
  names: { onnx: ["LeakyScale", 1, "com.example"] },
  inputs: ["x"],
  attributes: { by: attribute.float(1), fail: attribute.string("") },
  layout: "follow",
  infer: ({ x }, { fail }) => {
    if (fail === "infer") {
      throw new TypeError("the user's own mistake");
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, { by }) => [
    { ...x, data: Float64Array.from(x.data as Float64Array, (v) => Math.fround(Math.fround(v * by) * (v < 0 ? 0.5 : 1))) },
  ],
  lower: (b, { x }, { by }) =>
    b.elementwise([x], (s, v) => {
      const scaled = s.op("mul", v!, s.constant("f32", by));
      return s.op("select", s.op("lt", v!, s.constant("f32", 0)), s.op("mul", scaled, s.constant("f32", 0.5)), scaled);
    }),
  samples: [sample("by 3", { x: input }, { attributes: { by: 3 }, floats: ["by"] })],
});

beforeAll(() => registerOp(LeakyScale));

test("runs like a built-in one, and its sample is the test", () => {
  const made = sampleModel(LeakyScale, LeakyScale.samples[0]!);
  const [got] = runOnDevice(compileModel(made.bytes), made.feeds);
  expect([...got!.data]).toEqual([3, -3, 9, -6, 15, -9]);
  expect(differences(got!, referenceOf(made)[0]!, { relative: 0, absolute: 0 })).toEqual([]);
});

test("fuses with its neighbours", () => {
  const bytes = model({
    nodes: [
      { op: "Neg", inputs: ["x"], outputs: ["a"] },
      { op: "LeakyScale", domain: "com.example", inputs: ["a"], outputs: ["b"], attributes: { by: 2 } },
      { op: "Abs", inputs: ["b"], outputs: ["y"] },
    ],
    inputs: [{ name: "x", dims: [2, 3] }],
    outputs: [{ name: "y" }],
    opsets: { "": 17, "com.example": 1 },
  });
  const compiled = compileModel(bytes);
  expect(compiled.program.instructionCount).toBe(1);
  expect([...runOnDevice(compiled, { x: input })[0]!.data]).toEqual([1, 4, 3, 8, 5, 12]);
});

test("a throw of the user's code becomes a typed error that keeps it", () => {
  const { bytes } = sampleModel(LeakyScale, { ...LeakyScale.samples[0]!, attributes: { fail: "infer" } });
  expect(() => compileModel(bytes)).toThrow(
    expect.objectContaining({
      code: 507000,
      message: expect.stringMatching(/infer of operator "LeakyScale" .* threw: the user's own mistake/),
      cause: expect.any(TypeError),
    }),
  );
});

test("a large model with it is compiled here, in turns with the event loop", async () => {
  const size = 320;
  const bytes = model({
    nodes: [
      { op: "MatMul", inputs: ["x", "w"], outputs: ["a"] },
      { op: "LeakyScale", domain: "com.example", inputs: ["a"], outputs: ["y"] },
    ],
    inputs: [{ name: "x", dims: [1, size] }],
    outputs: [{ name: "y" }],
    constants: { w: tensor("float32", [size, size], new Array(size * size).fill(1)) },
    opsets: { "": 17, "com.example": 1 },
  });
  expect(bytes.byteLength).toBeGreaterThan(256 * 1024);
  expect((await compileAsync(bytes)).program.instructionCount).toBe(1);
});

test("refuses what is no operator", () => {
  expect(() => registerOp({ names: {} } as never)).toThrow(expect.objectContaining({ code: 100000 }));
});
