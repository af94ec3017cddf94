/** Tensor of npurt/ort: every form of its constructor, what it refuses, and storage that differs from the runtime's. */
import { AclError } from "npurt";
import { Tensor, type TensorConstructor } from "../../dist/lib/ort/ort";

const made = (...args: unknown[]) => new (Tensor as unknown as new (...args: unknown[]) => InstanceType<TensorConstructor>)(...args);
const codeOf = (work: () => unknown): number | undefined => {
  try {
    work();
  } catch (error) {
    return error instanceof AclError ? error.code : undefined;
  }
  throw new Error("expected an error");
};

test.each([
  [["float32", [1, 2, 3, 4], [2, 2]], "float32", [2, 2], Float32Array.of(1, 2, 3, 4)],
  [["float32", Float32Array.of(5), []], "float32", [], Float32Array.of(5)],
  [[Float64Array.of(1, 2)], "float64", [2], Float64Array.of(1, 2)],
  [["int64", [1, 2]], "int64", [2], BigInt64Array.of(1n, 2n)],
  [["uint64", [3n]], "uint64", [1], BigUint64Array.of(3n)],
  [["bool", [true, false]], "bool", [2], Uint8Array.of(1, 0)],
  [
    [
      [true, false, true],
      [3, 1],
    ],
    "bool",
    [3, 1],
    Uint8Array.of(1, 0, 1),
  ],
  [["bool", Uint8Array.of(1)], "bool", [1], Uint8Array.of(1)],
  [[["a", "b"]], "string", [2], ["a", "b"]],
  [["string", ["a"], [1]], "string", [1], ["a"]],
  [[Uint8ClampedArray.of(1, 255)], "uint8", [2], Uint8Array.of(1, 255)],
  [["uint8", Uint8ClampedArray.of(9), [1]], "uint8", [1], Uint8Array.of(9)],
  [["int16", Int16Array.of(-1)], "int16", [1], Int16Array.of(-1)],
  [["uint4", Uint8Array.of(0x21, 0x03), [3]], "uint4", [3], Uint8Array.of(0x21, 0x03)],
  [["int4", Int8Array.of(0x21), [2]], "int4", [2], Int8Array.of(0x21)],
  [["bfloat16", Uint16Array.of(0x3f80)], "bfloat16", [1], Uint16Array.of(0x3f80)],
  [["float32", [], [0, 3]], "float32", [0, 3], new Float32Array(0)],
] as [unknown[], string, number[], unknown][])("new Tensor(%j)", (args, type, dims, data) => {
  const tensor = made(...args);
  expect({ type: tensor.type, dims: tensor.dims, data: tensor.data, location: tensor.location }).toEqual({ type, dims, data, location: "cpu" });
  expect(tensor.size).toBe(dims.reduce((product, dim) => product * dim, 1));
  expect(tensor).toBeInstanceOf(Tensor);
});

test("a typed array of the right class is used as it is, not copied", async () => {
  const data = Float32Array.of(1, 2);
  const tensor = new Tensor("float32", data, [2]);
  expect(tensor.data).toBe(data);
  expect(await tensor.getData()).toBe(data);
  expect(tensor.reshape([1, 2]).data).toBe(data);
});

test("float16 takes bits everywhere and comes as the engine's Float16Array where there is one", () => {
  const engine = (globalThis as { Float16Array?: { from(values: number[]): unknown } }).Float16Array;
  const tensor = made("float16", Uint16Array.of(0x3c00, 0xc000), [2]);
  if (engine === undefined) {
    expect(tensor.data).toEqual(Uint16Array.of(0x3c00, 0xc000));
    expect(codeOf(() => made("float16", [1, -2]))).toBe(107000);
  } else {
    expect(tensor.data).toEqual(engine.from([1, -2]));
    expect(made("float16", [1, -2]).data).toEqual(engine.from([1, -2]));
  }
});

test.each([
  ["an unknown type", ["float31", [1]]],
  ["another array than the type's", ["float32", Float64Array.of(1)]],
  ["numbers for packed types", ["int4", [1, 2]]],
  ["too few elements", ["float32", [1, 2], [3]]],
  ["dims below zero", ["float32", [1], [-1]]],
  ["dims that are no array", ["float32", [1], 1]],
  ["a list whose type is unknown", [[1, 2]]],
  ["an empty list", [[]]],
  ["nothing", []],
  ["null", [null]],
  ["strings for numbers", ["int64", ["x"]]],
  ["numbers for strings", ["string", [1]]],
] as [string, unknown[]][])("refuses %s", (_, args) => {
  expect(codeOf(() => made(...args))).toBe(107000);
});

test("data is gone after dispose, which may be called again", () => {
  const tensor = new Tensor("int32", [1, 2]);
  tensor.dispose();
  tensor.dispose();
  expect(tensor.location).toBe("none");
  expect(codeOf(() => tensor.data)).toBe(107017);
  expect(codeOf(() => tensor.reshape([2, 1]))).toBe(107017);
});

test("reshape keeps the number of elements", () => {
  const tensor = new Tensor("int32", [1, 2, 3, 4]);
  expect(tensor.reshape([2, 2]).dims).toEqual([2, 2]);
  expect(codeOf(() => tensor.reshape([3]))).toBe(107000);
});

test("pinned tensors are ordinary arrays; other memories do not exist", () => {
  const data = Float32Array.of(1, 2);
  const pinned = Tensor.fromPinnedBuffer("float32", data, [2]);
  expect([pinned.location, pinned.data]).toEqual(["cpu-pinned", data]);
  expect(new Tensor({ location: "cpu-pinned", type: "float32", dims: [2], data }).location).toBe("cpu-pinned");
  expect(codeOf(() => made({ location: "gpu-buffer", type: "float32", dims: [2], gpuBuffer: {} }))).toBe(207000);
  for (const member of ["texture", "gpuBuffer", "mlTensor"] as const) expect(codeOf(() => pinned[member])).toBe(207000);
  expect(codeOf(() => pinned.toDataURL())).toBe(207000);
  expect(codeOf(() => pinned.toImageData())).toBe(207000);
});

test.each(["fromImage", "fromTexture", "fromGpuBuffer", "fromMLTensor"] as const)("Tensor.%s is refused", (name) => {
  expect(codeOf(() => Tensor[name]({}))).toBe(207000);
});
