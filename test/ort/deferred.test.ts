/** Models whose program depends on what is fed: shapes computed from inputs, sizes that open dims need. And types that travel packed. */
import { Device } from "npurt";
import { InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { withValues } from "../../dist/lib/ort/specialize";
import { importOnnx } from "../../dist/lib/import/onnx/model";
import { Tensor as RuntimeTensor } from "npurt";
import { messageOf, model, type ModelInit, modelOf, type NodeInit } from "../ops/models";
import { codeOf, sums } from "./harness";

let device: Device;
beforeAll(async () => {
  device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
});
afterAll(() => device.close());

const reshape = (): Uint8Array =>
  model({
    inputs: [
      { name: "data", dtype: "float32", dims: [2, 3] },
      { name: "shape", dtype: "int64", dims: ["rank"] },
    ],
    nodes: [{ op: "Reshape", inputs: ["data", "shape"], outputs: ["y"] }],
    outputs: [{ name: "y", dtype: "float32", dims: ["p", "q"] }],
  });
const data = Float32Array.of(1, 2, 3, 4, 5, 6);
const to = (...dims: number[]) => ({ data: new Tensor("float32", data, [2, 3]), shape: new Tensor("int64", dims, [dims.length]) });

test("an input that says a shape is compiled in, once per value", async () => {
  const session = await InferenceSession.create(reshape());
  expect(session.inputNames).toEqual(["data", "shape"]);
  const before = device.info().allocations;
  expect((await session.run(to(3, 2)))["y"]!.dims).toEqual([3, 2]);
  const compiled = device.info().allocations - before;
  const { y } = await session.run(to(1, -1));
  expect([y!.dims, y!.data]).toEqual([[1, 6], data]);
  const again = device.info().allocations;
  expect((await session.run(to(3, 2)))["y"]!.dims).toEqual([3, 2]);
  expect(compiled).toBeGreaterThan(0);
  expect(device.info().allocations - again).toBeLessThan(compiled);
  await session.release();
});

test("many values at once, more than are kept", async () => {
  const session = await InferenceSession.create(
    model({
      inputs: [
        { name: "x", dtype: "float32", dims: [2] },
        { name: "times", dtype: "int64", dims: [2] },
      ],
      nodes: [{ op: "Expand", inputs: ["x", "times"], outputs: ["y"] }],
      outputs: [{ name: "y", dtype: "float32", dims: ["n", 2] }],
    }),
  );
  const x = new Tensor("float32", [1, 2]);
  const runs = Array.from({ length: 60 }, (_, i) => session.run({ x, times: new Tensor("int64", [1 + (i % 30), 2]) }));
  const dims = (await Promise.all(runs)).map(({ y }) => y!.dims);
  expect(dims).toEqual(Array.from({ length: 60 }, (_, i) => [1 + (i % 30), 2]));
  await session.release();
});

test("wrong feeds of such a model are refused by name, and values that fit no shape too", async () => {
  const session = await InferenceSession.create(reshape());
  expect(await codeOf(session.run({ data: to(1).data }))).toBe(100017);
  expect(await codeOf(session.run({ ...to(2, 3), data: new Tensor("int32", [1]) }))).toBe(100017);
  expect(await codeOf(session.run(to(4, 2)))).toBeGreaterThan(100000);
  expect((await session.run(to(6, 1)))["y"]!.dims).toEqual([6, 1]);
  await session.release();
});

test("released while its first run compiles: that run ends with an error or a result, later ones with 107017", async () => {
  const session = await InferenceSession.create(reshape());
  const first = session.run(to(3, 2)).then(
    ({ y }) => expect(y!.dims).toEqual([3, 2]),
    (error) => expect(error).toMatchObject({ code: 107017 }),
  );
  await session.release();
  await first;
  expect(await codeOf(session.run(to(3, 2)))).toBe(107017);
});

test("a size that makes no sense at 1 waits for the feeds", async () => {
  const session = await InferenceSession.create(
    model({
      inputs: [{ name: "x", dtype: "float32", dims: ["n"] }],
      nodes: [{ op: "Reshape", inputs: ["x", "s"], outputs: ["y"] }],
      constants: { s: { dtype: "int64", dims: [2], data: BigInt64Array.of(2n, -1n) } },
      outputs: [{ name: "y", dtype: "float32", dims: [2, "m"] }],
    }),
  );
  expect(session.inputMetadata[0]).toMatchObject({ shape: ["n"] });
  const { y } = await session.run({ x: new Tensor("float32", data) });
  expect([y!.dims, y!.data]).toEqual([[2, 3], data]);
  expect((await session.run({ x: new Tensor("float32", [1, 2]) }))["y"]!.dims).toEqual([2, 1]);
  await session.release();
});

test("an unknown operator is refused at create, not at the first run", async () => {
  const bytes = model({
    inputs: [{ name: "x", dtype: "float32", dims: ["n"] }],
    nodes: [{ op: "NoSuchOperator", inputs: ["x"], outputs: ["y"] }],
    outputs: [{ name: "y" }],
  });
  expect(await codeOf(InferenceSession.create(bytes))).toBe(100024);
});

test("values written into a model are its initializers, and everything else stays", () => {
  const written = importOnnx(withValues(sums(), { b: RuntimeTensor.from(Float32Array.of(1, 2), [1, 2]) }));
  expect(written.graph.inputs.map(({ name }) => name)).toEqual(["a"]);
  expect(written.graph.nodes.map(({ op }) => op)).toEqual(["Add", "Sub"]);
  expect(written.opsets).toEqual(importOnnx(sums()).opsets);
  const b = written.graph.nodes[0]!.inputs[1]!;
  expect([b.name, b.dtype, b.dims, Buffer.from(b.constant!.bytes).toString("hex")]).toEqual(["b", "float32", [1, 2], "0000803f00000040"]);
});

test("packed values are written as a file holds them", () => {
  const bytes = model({
    inputs: [{ name: "x", dtype: "int4", dims: [3] }],
    nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
    outputs: [{ name: "y", dtype: "int4", dims: [3] }],
    opset: 25,
  });
  const written = importOnnx(withValues(bytes, { x: new RuntimeTensor("int4", [3], Int8Array.of(-1, 7, -8)) }));
  // Inside, an element has a byte of its own.
  expect([...new Int8Array(written.graph.nodes[0]!.inputs[0]!.constant!.bytes)]).toEqual([-1, 7, -8]);
});

test.each([
  ["uint4", Uint8Array.of(0x21, 0xf3, 0x08), [5]],
  ["int4", Int8Array.of(0x8f, 0x07), [3]],
  ["uint2", Uint8Array.of(0b11_10_01_00, 0b01), [5]],
  ["int2", Uint8Array.of(0b11_10_01_00, 0b10), [5]],
  ["float16", Uint16Array.of(0x3c00, 0x7bff, 0x8001), [3]],
  ["bfloat16", Uint16Array.of(0x3f80, 0xff80), [2]],
  ["bool", Uint8Array.of(1, 0), [2]],
] as [never, Uint8Array | Uint16Array, number[]][])("%s goes through a device and comes back as the same bits", async (dtype, bits, dims) => {
  const session = await InferenceSession.create(
    model({
      inputs: [{ name: "x", dtype, dims }],
      nodes: [{ op: "Identity", inputs: ["x"], outputs: ["y"] }],
      outputs: [{ name: "y", dtype, dims }],
      opset: 25,
    }),
  );
  const { y } = await session.run({ x: new Tensor(dtype, bits as never, dims) });
  const bytes = (view: ArrayBufferView) => Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString("hex");
  expect([y!.type, y!.dims, bytes(y!.data as Uint8Array)]).toEqual([dtype, dims, bytes(bits)]);
  await session.release();
});

const TWICE_OR_ONCE: NonNullable<NodeInit["attributes"]> = {
  then_branch: {
    body: { nodes: [{ op: "Concat", inputs: ["x", "x"], outputs: ["both"], attributes: { axis: 0n } }], outputs: [{ name: "both" }] },
  },
  else_branch: { body: { nodes: [{ op: "Identity", inputs: ["x"], outputs: ["one"] }], outputs: [{ name: "one" }] } },
};

/** Two numbers or four, as a condition that is fed says. */
const branches = (): Uint8Array =>
  model({
    inputs: [
      { name: "x", dtype: "float32", dims: [2] },
      { name: "twice", dtype: "bool", dims: [] },
    ],
    nodes: [
      {
        op: "If",
        inputs: ["twice"],
        outputs: ["chosen"],
        attributes: TWICE_OR_ONCE,
      },
      { op: "Neg", inputs: ["chosen"], outputs: ["y"] },
    ],
    outputs: [{ name: "y", dtype: "float32", dims: ["n"] }],
  });

test("branches of different shapes: whichever is taken is compiled, also by many runs at once", async () => {
  const session = await InferenceSession.create(branches());
  const x = new Tensor("float32", [1, 2]);
  const once = [-1, -2];
  const run = async (twice: boolean) => [...((await session.run({ x, twice: new Tensor("bool", [twice], []) }))["y"]!.data as Float32Array)];
  const taken = [true, false, true, false, false, true];
  const results = await Promise.all(taken.map(run));
  expect(results).toEqual(taken.map((twice) => (twice ? [...once, ...once] : once)));
  expect(await run(false)).toEqual(once);
  await session.release();
});

test("branches that depend on what is computed give the device's error, not a hang", async () => {
  const init: ModelInit = {
    inputs: [{ name: "x", dims: [2, 2] }],
    nodes: [
      { op: "ReduceSum", inputs: ["x"], outputs: ["sum"], attributes: { keepdims: 0n } },
      { op: "Cast", inputs: ["sum"], outputs: ["twice"], attributes: { to: 9n } },
      {
        op: "If",
        inputs: ["twice"],
        outputs: ["y"],
        attributes: TWICE_OR_ONCE,
      },
    ],
    outputs: [{ name: "y", dtype: "float32", dims: ["n", 2] }],
  };
  const session = await InferenceSession.create(model(init));
  const feed = (value: number) => ({ x: new Tensor("float32", new Float32Array(4).fill(value), [2, 2]) });
  expect((await session.run(feed(1)))["y"]!.dims).toEqual([4, 2]);
  expect(await codeOf(session.run(feed(0)))).toBe(507015);
  expect((await session.run(feed(1)))["y"]!.dims).toEqual([4, 2]);
  await session.release();
});

test("where nothing that is fed compiles, the error is about what was fed", async () => {
  const session = await InferenceSession.create(reshape());
  await expect(session.run(to(4, 4))).rejects.toThrow(/6 elements of \[2,3\] cannot be reshaped to \[4,4\]/);
  expect((await session.run(to(6, 1)))["y"]!.dims).toEqual([6, 1]);
  await session.release();
});

test("an input without a declared shape takes any rank", async () => {
  const { graph, ...rest } = messageOf({
    inputs: [{ name: "x", dims: [1] }],
    nodes: [{ op: "Neg", inputs: ["x"], outputs: ["y"] }],
    outputs: [{ name: "y", dtype: "float32" }],
  });
  const input = [{ name: "x", type: { value: { case: "tensorType" as const, value: { elemType: 1 } } } }];
  const session = await InferenceSession.create(modelOf({ ...rest, graph: { ...graph, input } as never }));
  for (const dims of [[2], [2, 1], [], [0, 3]]) {
    const x = new Tensor("float32", new Float32Array(dims.reduce((product, dim) => product * dim, 1)).fill(3), dims);
    const { y } = await session.run({ x });
    expect([y!.dims, [...(y!.data as Float32Array)]]).toEqual([dims, [...(x.data as Float32Array)].map((value) => -value)]);
  }
  await session.release();
});

test("outputs without a declared shape are open where an input is", async () => {
  const init = (dims: (number | string)[]) => ({
    inputs: [{ name: "x", dims }],
    nodes: [{ op: "Neg", inputs: ["x"], outputs: ["y"] }],
    outputs: [{ name: "y" }],
  });
  const shapeOf = async (dims: (number | string)[]): Promise<unknown> => {
    const session = await InferenceSession.create(model(init(dims)));
    const [metadata] = session.outputMetadata;
    await session.release();
    return metadata!.isTensor && metadata!.shape;
  };
  expect(await shapeOf(["n", 3])).toEqual(["y.0", "y.1"]);
  expect(await shapeOf([2, 3])).toEqual([2, 3]);
});

test("GroupQueryAttention: other keys in all than those of past and present are a fault that names the node", async () => {
  const floats = (name: string, ...dims: number[]) => ({ name, dims });
  const session = await InferenceSession.create(
    model({
      inputs: [
        ...[floats("q", 1, 1, 16), floats("k", 1, 1, 8), floats("v", 1, 1, 8), floats("pastKey", 1, 1, 5, 8), floats("pastValue", 1, 1, 5, 8)],
        ...[
          { name: "lengths", dtype: "int32" as const, dims: [1] },
          { name: "total", dtype: "int32" as const, dims: [] },
        ],
      ],
      nodes: [
        {
          op: "GroupQueryAttention",
          domain: "com.microsoft",
          inputs: ["q", "k", "v", "pastKey", "pastValue", "lengths", "total"],
          outputs: ["y", "key", "value"],
          attributes: { num_heads: 2n, kv_num_heads: 1n },
        },
      ],
      outputs: [{ name: "y" }, { name: "key" }, { name: "value" }],
      opsets: { "": 17, "com.microsoft": 1 },
    }),
  );
  const ones = (...dims: number[]) => new Tensor("float32", new Float32Array(dims.reduce((product, dim) => product * dim, 1)).fill(1), dims);
  const given = { q: ones(1, 1, 16), k: ones(1, 1, 8), v: ones(1, 1, 8), pastKey: ones(1, 1, 5, 8), pastValue: ones(1, 1, 5, 8) };
  const run = (total: number) => session.run({ ...given, lengths: new Tensor("int32", [total - 1]), total: new Tensor("int32", [total], []) });
  // All keys and values are ones, so whatever their weights are, their mean is one.
  for (const value of (await run(6))["y"]!.data as Float32Array) expect(value).toBeCloseTo(1, 6);
  await expect(run(9)).rejects.toMatchObject({ code: 507015, node: expect.stringContaining("GroupQueryAttention") });
  await expect(run(5)).rejects.toMatchObject({ code: 507015 });
  await session.release();
});
