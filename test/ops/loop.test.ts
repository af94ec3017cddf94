/** Loop and Scan: on the device where the shapes stay, written out where they change. Expected values are worked out here, in float64. */
import { AclError } from "../../dist/lib/errors/acl-error";
import { compileModel, runPipeline } from "../../dist/lib/compile/pipeline";
import { type Tensor, tensor } from "../../dist/lib/graph/tensor";
import { noise, ramp } from "../../dist/lib/ops/sample";
import { differences } from "./compare";
import { runOnDevice } from "./device";
import { type ModelInit, model, type NodeInit } from "./models";

const CLOSE = { relative: 1e-6, absolute: 1e-6 };
const node = (op: string, inputs: string[], outputs: string[], attributes: NodeInit["attributes"] = {}): NodeInit => ({
  op,
  inputs,
  outputs,
  attributes,
});
const float = (name: string, dims: readonly number[] = []) => ({ name, dtype: "float32" as const, dims });

function check(init: ModelInit, feeds: Readonly<Record<string, Tensor>>, want: readonly Tensor[], loops: number): void {
  const bytes = model({ opset: 21, ...init });
  for (const disable of [[], ["fuse", "layout", "dead"]]) {
    runOnDevice(compileModel(bytes, { disable }), feeds).forEach((got, index) => expect(differences(got, want[index]!, CLOSE)).toEqual([]));
  }
  const { program } = runPipeline(bytes, {});
  expect(program!.instructions.filter(({ op }) => op === "loop").length).toBe(loops);
}

const LOOP_INPUTS = [
  { name: "i", dtype: "int64" as const, dims: [] },
  { name: "go", dtype: "bool" as const, dims: [] },
];
const scalar = (value: number): Tensor => tensor("int64", [], [value]);
const truth = (value: number): Tensor => tensor("bool", [], [value]);

test("states that change places, and what each turn gives", () => {
  const body: ModelInit = {
    inputs: [...LOOP_INPUTS, float("a", [2]), float("b", [2])],
    nodes: [
      node("Identity", ["go"], ["on"]),
      node("Identity", ["b"], ["next"]),
      node("Add", ["a", "w"], ["sum"]),
      node("Cast", ["i"], ["turn"], { to: 1n }),
      node("Mul", ["a", "turn"], ["seen"]),
    ],
    outputs: ["on", "next", "sum", "seen"].map((name) => ({ name })),
  };
  const [a, b] = [tensor("float32", [2], [1, 2]), tensor("float32", [2], [10, 20])];
  const w = tensor("float32", [2], [0.5, -1]);
  let [x, y] = [
    [1, 2],
    [10, 20],
  ] as [number[], number[]];
  const seen: number[] = [];
  for (let i = 0; i < 5; i++) {
    seen.push(...x.map((value) => value * i));
    [x, y] = [y, [x[0]! + 0.5, x[1]! - 1]];
  }
  check(
    {
      nodes: [node("Loop", ["count", "", "a", "b"], ["x", "y", "all"], { body: { body } })],
      inputs: [float("a", [2]), float("b", [2]), float("w", [2])],
      constants: { count: scalar(5) },
      outputs: ["x", "y", "all"].map((name) => ({ name })),
    },
    { a, b, w },
    [tensor("float32", [2], x), tensor("float32", [2], y), tensor("float32", [5, 2], seen)],
    1,
  );
});

describe("a condition and a count that only the run knows", () => {
  const body: ModelInit = {
    inputs: [...LOOP_INPUTS, float("a")],
    nodes: [node("Add", ["a", "a"], ["twice"]), node("Less", ["twice", "limit"], ["on"])],
    outputs: ["on", "twice"].map((name) => ({ name })),
  };
  const init: ModelInit = {
    nodes: [node("Loop", ["count", "first", "a"], ["x"], { body: { body } })],
    inputs: [float("a"), float("limit"), { name: "count", dtype: "int64", dims: [] }, { name: "first", dtype: "bool", dims: [] }],
    outputs: [{ name: "x" }],
  };
  test.each([
    [100, 1, 1000, 128],
    [3, 1, 1000, 8],
    [0, 1, 1000, 1],
    [100, 0, 1000, 1],
    [100, 1, 1, 2],
  ])("at most %i turns, first %i, below %i", (count, first, limit, want) => {
    const feeds = { a: tensor("float32", [], [1]), limit: tensor("float32", [], [limit * 0.1]), count: scalar(count), first: truth(first) };
    check(init, feeds, [tensor("float32", [], [want])], 1);
  });
});

test("a loop in a loop, with values of both around it", () => {
  const inner: ModelInit = {
    inputs: [{ name: "j", dtype: "int64", dims: [] }, { name: "go2", dtype: "bool", dims: [] }, float("c", [3])],
    nodes: [node("Identity", ["go2"], ["on2"]), node("Mul", ["c", "w"], ["scaled"]), node("Add", ["scaled", "a"], ["d"])],
    outputs: ["on2", "d"].map((name) => ({ name })),
  };
  const outer: ModelInit = {
    inputs: [...LOOP_INPUTS, float("a", [3])],
    nodes: [node("Identity", ["go"], ["on"]), node("Loop", ["two", "", "a"], ["e"], { body: { body: inner } }), node("Sub", ["e", "w"], ["f"])],
    outputs: ["on", "f"].map((name) => ({ name })),
  };
  const w = [0.5, -0.25, 0.125];
  let a = [1, -2, 3];
  for (let i = 0; i < 3; i++) {
    let c = a;
    for (let j = 0; j < 2; j++) {
      c = c.map((value, k) => value * w[k]! + a[k]!);
    }
    a = c.map((value, k) => value - w[k]!);
  }
  check(
    {
      nodes: [node("Loop", ["three", "", "a"], ["y"], { body: { body: outer } })],
      inputs: [float("a", [3]), float("w", [3])],
      constants: { two: scalar(2), three: scalar(3) },
      outputs: [{ name: "y" }],
    },
    { a: tensor("float32", [3], [1, -2, 3]), w: tensor("float32", [3], w) },
    [tensor("float32", [3], a)],
    2,
  );
});

test("Scan along inner axes, backwards", () => {
  const body: ModelInit = {
    inputs: [float("s", [2]), float("x", [2])],
    nodes: [node("Add", ["s", "x"], ["t"]), node("Mul", ["t", "x"], ["z"])],
    outputs: ["t", "z"].map((name) => ({ name })),
  };
  const x = noise([2, 40], 3);
  const sum = [0.5, -0.5];
  const all = new Array<number>(80).fill(0);
  for (let i = 39; i >= 0; i--) {
    for (let k = 0; k < 2; k++) {
      sum[k] = Math.fround(sum[k]! + Number(x.data[k * 40 + i]));
      all[k * 40 + i] = sum[k]! * Number(x.data[k * 40 + i]);
    }
  }
  check(
    {
      nodes: [
        node("Scan", ["s", "x"], ["last", "all"], {
          num_scan_inputs: 1n,
          scan_input_axes: [1n],
          scan_input_directions: [1n],
          scan_output_axes: [-1n],
          scan_output_directions: [1n],
          body: { body },
        }),
      ],
      inputs: [float("s", [2]), float("x", [2, 40])],
      outputs: ["last", "all"].map((name) => ({ name })),
    },
    { s: tensor("float32", [2], [0.5, -0.5]), x },
    [tensor("float32", [2], sum), tensor("float32", [2, 40], all)],
    1,
  );
});

const growing: ModelInit = {
  inputs: [...LOOP_INPUTS, float("a", [1])],
  nodes: [node("Identity", ["go"], ["on"]), node("Concat", ["a", "x"], ["b"], { axis: 0n })],
  outputs: ["on", "b"].map((name) => ({ name })),
};

test("shapes that grow: the loop is written out", () => {
  check(
    {
      nodes: [node("Loop", ["count", "", "x"], ["y"], { body: { body: growing } })],
      inputs: [float("x", [1])],
      constants: { count: scalar(3) },
      outputs: [{ name: "y" }],
    },
    { x: tensor("float32", [1], [7]) },
    [tensor("float32", [4], [7, 7, 7, 7])],
    0,
  );
});

test.each([
  ["shapes that grow by a count of the run", growing, /changes ".*a" from .*one shape for each value/],
  [
    "what an unknown number of turns gives",
    { ...growing, nodes: [node("Identity", ["go"], ["on"]), node("Neg", ["a"], ["b"])], outputs: ["on", "b", "b"].map((name) => ({ name })) },
    /number of its turns is computed at run time/,
  ],
])("%s: refused", (_, body, text) => {
  const bytes = model({
    opset: 21,
    nodes: [node("Loop", ["count", "", "x"], body.outputs.length > 2 ? ["y", "z"] : ["y"], { body: { body } })],
    inputs: [float("x", [1]), { name: "count", dtype: "int64", dims: [] }],
    outputs: [{ name: body.outputs.length > 2 ? "z" : "y" }],
  });
  let thrown: unknown;
  try {
    compileModel(bytes);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(AclError);
  expect([(thrown as AclError).code, text.test((thrown as AclError).message) || (thrown as AclError).message]).toEqual([100024, true]);
});

test("a loop that never ends is refused", () => {
  const body: ModelInit = {
    inputs: [...LOOP_INPUTS, float("a")],
    nodes: [node("Identity", ["go"], ["on"]), node("Neg", ["a"], ["b"])],
    outputs: ["on", "b"].map((name) => ({ name })),
  };
  const bytes = model({
    opset: 21,
    nodes: [node("Loop", ["", "first", "x"], ["y"], { body: { body } })],
    inputs: [float("x"), { name: "first", dtype: "bool", dims: [] }],
    outputs: [{ name: "y" }],
  });
  expect(() => compileModel(bytes)).toThrow(/never ends/);
});

test("a heavy body gives the same bits in any order of tiles", () => {
  const body: ModelInit = {
    inputs: [...LOOP_INPUTS, float("a", [64, 64])],
    nodes: [node("Identity", ["go"], ["on"]), node("MatMul", ["a", "w"], ["m"]), node("Tanh", ["m"], ["t"]), node("Add", ["t", "x"], ["b"])],
    outputs: ["on", "b", "t"].map((name) => ({ name })),
  };
  const bytes = model({
    opset: 21,
    nodes: [node("Loop", ["count", "", "x"], ["y", "z"], { body: { body } })],
    inputs: [float("x", [64, 64])],
    constants: { count: scalar(6), w: noise([64, 64], 5) },
    outputs: [{ name: "y" }, { name: "z" }],
  });
  const feeds = { x: ramp([64, 64], 0.01) };
  const [one, other] = [1, 99].map((seed) => runOnDevice(compileModel(bytes), feeds, seed)) as [Tensor[], Tensor[]];
  one.forEach((value, i) => expect(Buffer.from(value.data.buffer).equals(Buffer.from(other[i]!.data.buffer))).toBe(true));
});
