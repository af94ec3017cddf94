/** Operators of users that throw, or answer nonsense, in every function they have: a typed error that names the node, and the next model loads. */
import { AclError, attribute, defineOp, Device, Executor, registerOp, Tensor } from "npurt";
import { tensor } from "../../dist/lib/graph/tensor";
import { model, type NodeInit } from "../ops/models";

// biome-ignore lint/suspicious/noExplicitAny: what a user without types may return
type Anything = any;

/** What a function of the operator does in place of its work. */
const DEEDS: Readonly<Record<string, () => Anything>> = {
  "throws an error": () => {
    throw new TypeError("the user's own mistake");
  },
  "throws a string": () => {
    throw "only text";
  },
  "throws null": () => {
    throw null;
  },
  "throws an error of its own code": () => {
    throw new AclError(100017, "my own text");
  },
  "recurses without end": function deep(): Anything {
    return [deep()];
  },
};
const TYPES: Readonly<Record<string, () => Anything>> = {
  "gives nothing": () => undefined,
  "gives null": () => null,
  "gives a promise": () => Promise.resolve([{ dtype: "float32", dims: [4] }]),
  "gives no list": () => ({ dtype: "float32", dims: [4] }),
  "gives an empty list": () => [],
  "gives a list of nothing": () => [undefined],
  "gives an unknown dtype": () => [{ dtype: "float3", dims: [4] }],
  "gives no dims": () => [{ dtype: "float32" }],
  "gives negative dims": () => [{ dtype: "float32", dims: [-4] }],
  "gives NaN dims": () => [{ dtype: "float32", dims: [Number.NaN] }],
  "gives broken dims": () => [{ dtype: "float32", dims: [1.5, "x".length / 3] }],
  "gives endless dims": () => [{ dtype: "float32", dims: [2 ** 40, 2 ** 40] }],
};
const NUMBERS: Readonly<Record<string, () => Anything>> = {
  "gives nothing": () => undefined,
  "gives an empty list": () => [],
  "gives a list of nothing": () => [undefined],
  "gives too few numbers": () => [{ dtype: "float32", dims: [4], data: new Float64Array(3) }],
  "gives no numbers": () => [{ dtype: "float32", dims: [4] }],
  "gives other dims": () => [{ dtype: "float32", dims: [2, 2, 2], data: new Float64Array(8) }],
  "gives another dtype": () => [{ dtype: "int64", dims: [4], data: new BigInt64Array(4) }],
};
const LOWERINGS: Readonly<Record<string, (b: Anything, x: Anything) => Anything>> = {
  "writes nothing": () => undefined,
  "uses an unknown operation": (b, x) => b.elementwise([x], (s: Anything, v: Anything) => s.op("negg", v)),
  "returns no register": (b, x) => b.elementwise([x], () => undefined),
  "reads what is no operand": (b) => b.elementwise([{}], (s: Anything, v: Anything) => s.op("neg", v)),
};

/** Texts that need not name the operator. */
const TEXTS: Readonly<Record<string, RegExp>> = {
  "throws an error of its own code": /my own text/,
  "uses an unknown operation": /no operation "negg"/,
};

let deed: { readonly where: "infer" | "reference" | "lower"; readonly act: (b: Anything, x: Anything) => Anything } | undefined;
const misbehaves = (where: string): boolean => deed?.where === where;

const Hostile = defineOp({
  names: { onnx: ["Hostile", 1, "com.example"] },
  inputs: ["x"],
  attributes: { n: attribute.int(0) },
  infer: ({ x }) => (misbehaves("infer") ? deed!.act(x, x) : [{ dtype: x.dtype, dims: x.dims }]),
  reference: ({ x }) => (misbehaves("reference") ? deed!.act(x, x) : [{ ...x, data: Float64Array.from(x.data as Float64Array, (v) => -v) }]),
  lower: (b, { x }) => {
    if (misbehaves("lower")) deed!.act(b, x);
    else b.elementwise([x], (s, v) => s.op("neg", v!));
  },
  samples: [],
});

const opsets = { "": 17, "com.example": 1 };
/** `n` makes each model another one: executors of equal models share what was compiled. */
const node = (n: number): NodeInit => ({
  op: "Hostile",
  domain: "com.example",
  name: "the hostile one",
  inputs: ["x"],
  outputs: ["y"],
  attributes: { n: BigInt(n) },
});
const fed = (n: number): Uint8Array => model({ nodes: [node(n)], inputs: [{ name: "x", dims: [4] }], outputs: [{ name: "y" }], opsets });
/** Its input is a constant: the compiler folds it with `reference`. */
const folded = (n: number): Uint8Array =>
  model({
    nodes: [
      { ...node(n), inputs: ["c"], outputs: ["k"] },
      { op: "Add", inputs: ["x", "k"], outputs: ["y"] },
    ],
    inputs: [{ name: "x", dims: [4] }],
    outputs: [{ name: "y" }],
    constants: { c: tensor("float32", [4], [1, 2, 3, 4]) },
    opsets,
  });
let count = 0;

let device: Device;
beforeAll(async () => {
  registerOp(Hostile);
  device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
});
afterAll(() => device.close());

async function loads(): Promise<void> {
  deed = undefined;
  const executor = await Executor.load(fed(0), { device });
  const { y } = await executor.run({ x: new Tensor("float32", [4], Float32Array.of(1, -2, 3, -4)) });
  expect([...y!.data]).toEqual([-1, 2, -3, 4]);
  executor.dispose();
}

const CASES = [
  ...Object.entries({ ...DEEDS, ...TYPES }).map(([what, act]) => ["infer", what, act, fed] as const),
  ...Object.entries({ ...DEEDS, ...NUMBERS }).map(([what, act]) => ["reference", what, act, folded] as const),
  ...Object.entries({ ...DEEDS, ...LOWERINGS }).map(([what, act]) => ["lower", what, act, fed] as const),
];

test.each(CASES)("%s %s", async (where, what, act, make) => {
  await loads();
  const { allocations } = device.info();
  deed = { where, act };
  const error = await Executor.load(make(++count), { device }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(AclError);
  expect((error as AclError).message).toMatch(TEXTS[what] ?? /Hostile|hostile/);
  expect(device.info().allocations).toBe(allocations);
  await loads();
});
