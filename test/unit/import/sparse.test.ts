/** Sparse weights: in both forms of ONNX, in a graph, in a Constant, and in a model in stages. Expected values are worked out here. */
import { Device, Executor } from "npurt";
import { AclError } from "../../../dist/lib/errors/acl-error";
import { importOnnx } from "../../../dist/lib/import/onnx/model";
import { InferenceSession, Tensor } from "../../../dist/lib/ort/ort";
import { messageOf, modelOf, type ModelInit } from "../../ops/models";

const bytesOf = (array: Float32Array | BigInt64Array): Uint8Array => new Uint8Array(array.buffer);
const sparse = (values: number[], indices: number[], indexDims: number[], dims: number[]) => ({
  values: { name: "w", dataType: 1, dims: [BigInt(values.length)], rawData: bytesOf(Float32Array.from(values)) },
  indices: { dataType: 7, dims: indexDims.map(BigInt), rawData: bytesOf(BigInt64Array.from(indices, BigInt)) },
  dims: dims.map(BigInt),
});
const sum: ModelInit = {
  inputs: [{ name: "x", dims: [2, 2] }],
  nodes: [{ op: "Add", inputs: ["x", "w"], outputs: ["y"] }],
  outputs: [{ name: "y", dtype: "float32", dims: [2, 2] }],
};
const withWeights = (init: ModelInit, weights: ReturnType<typeof sparse>): Uint8Array => {
  const message = messageOf(init);
  return modelOf({ ...message, graph: { ...message.graph, sparseInitializer: [weights] } as never });
};
const x = Float32Array.of(1, 2, 3, 4);

let device: Device;
beforeAll(async () => {
  device = await Device.open({ driver: "inline", memoryBytes: 64 << 20 });
});
afterAll(() => device.close());

test.each([
  ["places in the whole", sparse([5, 7], [1, 3], [2], [2, 2]), [1, 7, 3, 11]],
  ["one index for each axis", sparse([5, 7], [0, 1, 1, 0], [2, 2], [2, 2]), [1, 7, 10, 4]],
  ["nothing but zeros", sparse([], [], [0], [2, 2]), [1, 2, 3, 4]],
])("an initializer: %s", async (_title, weights, expected) => {
  const executor = await Executor.load(withWeights(sum, weights), { device });
  const { y } = await executor.run({ x });
  expect([...y!.data]).toEqual(expected);
  executor.dispose();
});

test("a Constant", async () => {
  const message = messageOf({ ...sum, nodes: [{ op: "Constant", inputs: [], outputs: ["w"] }, ...sum.nodes] });
  message.graph.node![0]!.attribute = [{ name: "sparse_value", type: 11, sparseTensor: sparse([5], [2], [1], [2, 2]) }];
  const executor = await Executor.load(modelOf(message), { device });
  expect([...(await executor.run({ x })).y!.data]).toEqual([1, 2, 8, 4]);
  executor.dispose();
});

test("a model in stages", async () => {
  const nodes = [...sum.nodes, { op: "NonZero", inputs: ["y"], outputs: ["places"] }];
  const init: ModelInit = { ...sum, nodes, outputs: [{ name: "places", dtype: "int64", dims: [2, "n"] }] };
  const session = await InferenceSession.create(withWeights(init, sparse([-1, -4], [0, 3], [2], [2, 2])));
  const { places } = await session.run({ x: new Tensor("float32", x, [2, 2]) });
  expect([places!.dims, [...(places!.data as BigInt64Array)]]).toEqual([
    [2, 2],
    [0n, 1n, 1n, 0n],
  ]);
  await session.release();
});

test.each([
  ["an index outside", sparse([5], [4], [1], [2, 2]), /index \[4\] lies outside \[2,2\]/],
  ["a negative index", sparse([5], [0, -1], [1, 2], [2, 2]), /index \[0,-1\] lies outside/],
  ["fewer indices than values", sparse([5, 6], [1], [1], [2, 2]), /its values have dims \[2\] and its indices are int64\[1\]/],
  ["indices of another rank", sparse([5], [1, 1, 1], [1, 3], [2, 2]), /int64\[n, 2\]/],
  ["dims that no device holds", sparse([5], [1], [1], [2 ** 31, 2 ** 31]), /no device can hold/],
])("%s is damage", (_title, weights, text) => {
  let error: unknown;
  try {
    importOnnx(withWeights(sum, weights));
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(AclError);
  expect([(error as AclError).code, (error as AclError).message]).toEqual([100012, expect.stringMatching(text)]);
});
