/** Models in stages: what no program holds runs on the host between programs. Expected values are worked out here. */
import { Device } from "npurt";
import { AclError } from "../../dist/lib/errors/acl-error";
import { capabilities, InferenceSession, Tensor } from "../../dist/lib/ort/ort";
import { tensor } from "../../dist/lib/graph/tensor";
import { type ModelInit, model, type NodeInit } from "../ops/models";

let device: Device;
beforeAll(async () => {
  device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
});
afterAll(() => device.close());

const node = (op: string, inputs: string[], outputs: string[], attributes: NodeInit["attributes"] = {}): NodeInit => ({
  op,
  inputs,
  outputs,
  attributes,
});
const session = (init: ModelInit): Promise<InferenceSession> => InferenceSession.create(model({ opset: 18, ...init }));
const f32 = (values: readonly number[], dims: readonly number[] = [values.length]): Tensor => new Tensor("float32", Float32Array.from(values), dims);
const numbers = (value: unknown): number[] => Array.from((value as Tensor).data as ArrayLike<number | bigint>, Number);
const refused = async (action: Promise<unknown>): Promise<AclError> => {
  const error = await action.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(AclError);
  return error as AclError;
};

const MODEL: ModelInit = {
  nodes: [
    node("Mul", ["x", "two"], ["doubled"]),
    node("Greater", ["doubled", "limit"], ["mask"]),
    node("NonZero", ["mask"], ["places"]),
    node("Transpose", ["places"], ["rows"]),
    node("GatherND", ["doubled", "rows"], ["picked"]),
    node("ReduceSum", ["picked"], ["sum"], { keepdims: 0n }),
  ],
  inputs: [
    { name: "x", dims: ["n", 3] },
    { name: "limit", dims: [] },
  ],
  constants: { two: tensor("float32", [], [2]) },
  outputs: ["picked", "sum"].map((name) => ({ name })),
};

test("a result whose size the numbers decide, other sizes from run to run, between device nodes", async () => {
  const run = await session(MODEL);
  for (const [rows, limit] of [
    [2, 0],
    [3, 1],
    [2, 100],
    [2, 0],
  ] as const) {
    const x = Array.from({ length: rows * 3 }, (_, i) => (i % 2 ? -i : i));
    const want = x.map((value) => 2 * value).filter((value) => value > limit);
    const { picked, sum } = await run.run({ x: f32(x, [rows, 3]), limit: f32([limit], []) });
    expect([picked!.dims, numbers(picked), numbers(sum)]).toEqual([[want.length], want, [want.reduce((a, b) => a + b, 0)]]);
  }
  await run.release();
  expect((await refused(run.run({}))).code).toBe(107017);
});

test("runs at the same time do not see each other's values", async () => {
  const run = await session(MODEL);
  const results = await Promise.all(Array.from({ length: 8 }, (_, i) => run.run({ x: f32([i, -1, i + 1], [1, 3]), limit: f32([0], []) })));
  expect(results.map(({ sum }) => numbers(sum)[0])).toEqual(Array.from({ length: 8 }, (_, i) => 4 * i + 2));
  await run.release();
});

test("a detector's end: suppression, then the boxes and scores that are left", async () => {
  const run = await session({
    nodes: [
      node("Sigmoid", ["logits"], ["scores"]),
      node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["found"]),
      node("Gather", ["found", "two"], ["which"], { axis: 1n }),
      node("Squeeze", ["boxes", "zero"], ["flat"]),
      node("Gather", ["flat", "which"], ["kept"]),
    ],
    inputs: [
      { name: "boxes", dims: [1, 3, 4] },
      { name: "logits", dims: [1, 1, 3] },
    ],
    constants: {
      most: tensor("int64", [1], [10]),
      overlap: tensor("float32", [1], [0.5]),
      two: tensor("int64", [], [2]),
      zero: tensor("int64", [1], [0]),
    },
    outputs: ["kept", "found"].map((name) => ({ name })),
  });
  const boxes = [0, 0, 10, 10, 1, 1, 10, 10, 20, 20, 30, 30];
  const { kept, found } = await run.run({ boxes: f32(boxes, [1, 3, 4]), logits: f32([1, 2, 0], [1, 1, 3]) });
  expect([numbers(found), kept!.dims, numbers(kept)]).toEqual([
    [0, 0, 1, 0, 0, 2],
    [2, 4],
    [1, 1, 10, 10, 20, 20, 30, 30],
  ]);
  await run.release();
});

test("sequences inside, tensors at the border", async () => {
  const run = await session({
    nodes: [
      node("Neg", ["x"], ["negative"]),
      node("SequenceConstruct", ["x", "negative"], ["list"]),
      node("SequenceInsert", ["list", "x", "one"], ["longer"]),
      node("SequenceErase", ["longer", "zero"], ["shorter"]),
      node("ConcatFromSequence", ["shorter"], ["y"], { axis: 0n, new_axis: 1n }),
      node("SequenceLength", ["longer"], ["length"]),
    ],
    inputs: [{ name: "x", dims: [2] }],
    constants: { one: tensor("int64", [], [1]), zero: tensor("int64", [], [0]) },
    outputs: ["y", "length"].map((name) => ({ name })),
  });
  const { y, length } = await run.run({ x: f32([1, 2]) });
  expect([y!.dims, numbers(y), numbers(length)]).toEqual([[2, 2], [1, 2, -1, -2], [3]]);
  await run.release();
});

test("a sequence as a result, and a loop on the host that fills it", async () => {
  const body: ModelInit = {
    inputs: [
      { name: "i", dtype: "int64", dims: [] },
      { name: "go", dtype: "bool", dims: [] },
      { name: "list", dims: [] },
    ],
    nodes: [
      node("Identity", ["go"], ["on"]),
      node("Cast", ["i"], ["turn"], { to: 1n }),
      node("Add", ["x", "turn"], ["moved"]),
      node("SequenceInsert", ["list", "moved"], ["longer"]),
    ],
    outputs: [{ name: "on" }, { name: "longer" }],
  };
  const run = await session({
    nodes: [
      node("SequenceEmpty", [], ["empty"]),
      node("Loop", ["count", "", "empty"], ["filled"], { body: { body } }),
      node("SequenceAt", ["filled", "last"], ["end"]),
    ],
    inputs: [
      { name: "x", dims: [2] },
      { name: "count", dtype: "int64", dims: [] },
    ],
    constants: { last: tensor("int64", [], [-1]) },
    outputs: [{ name: "end" }],
  });
  for (const count of [1, 4]) {
    const { end } = await run.run({ x: f32([1, 2]), count: new Tensor("int64", [BigInt(count)], []) });
    expect(numbers(end)).toEqual([count, count + 1]);
  }
  expect((await refused(run.run({ x: f32([1, 2]), count: new Tensor("int64", [0n], []) }))).message).toMatch(/outside a sequence of 0/);
  await run.release();
});

test("an aborted run ends between two turns", async () => {
  const body: ModelInit = {
    inputs: [
      { name: "i", dtype: "int64", dims: [] },
      { name: "go", dtype: "bool", dims: [] },
      { name: "a", dims: [2] },
    ],
    nodes: [node("Identity", ["go"], ["on"]), node("NonZero", ["a"], ["places"]), node("Add", ["a", "x"], ["b"])],
    outputs: [{ name: "on" }, { name: "b" }],
  };
  const run = await session({
    nodes: [node("Loop", ["", "", "x"], ["y"], { body: { body } })],
    inputs: [{ name: "x", dims: [2] }],
    outputs: [{ name: "y" }],
  });
  const end = new AbortController();
  const running = run.run({ x: f32([1, 2]) }, { signal: end.signal });
  setTimeout(() => end.abort(), 5);
  expect((await refused(running)).code).toBe(107035);
  await run.release();
});

test("what neither device nor host has is refused when the session is made", async () => {
  const error = await refused(
    session({
      nodes: [node("NonZero", ["x"], ["y"]), node("Nonsense", ["y"], ["z"])],
      inputs: [{ name: "x", dims: [2] }],
      outputs: [{ name: "z" }],
    }),
  );
  expect([error.code, error.message]).toEqual([100024, expect.stringMatching(/1 node is not supported: .*Nonsense/)]);
});

test("runners learn that sequences may be fed", () => expect(capabilities.nonTensor).toBe(true));
