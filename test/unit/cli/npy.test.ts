import { readNpy, writeNpy } from "../../../dist/lib/cli/npy";

/** A file put together as numpy.lib.format describes it, without our writer. */
function npy(descr: string, shape: string, data: Uint8Array, { fortran = "False", version = 1 } = {}): Uint8Array {
  const text = `{'descr': '${descr}', 'fortran_order': ${fortran}, 'shape': (${shape}), }`;
  const prefix = version === 1 ? 10 : 12;
  const padded = `${text.padEnd(Math.ceil((prefix + text.length + 1) / 64) * 64 - prefix - 1)}\n`;
  const length = version === 1 ? [padded.length & 255, padded.length >> 8] : [padded.length & 255, padded.length >> 8, 0, 0];
  return Buffer.concat([Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, version, 0, ...length]), Buffer.from(padded, "latin1"), data]);
}

const bytesOf = (data: ArrayBufferView): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

describe("readNpy", () => {
  test.each([
    ["<f4", "float32", new Float32Array([1.5, -2])],
    ["<f8", "float64", new Float64Array([1 / 3, 2])],
    ["<i8", "int64", new BigInt64Array([-5n, 2n ** 40n])],
    ["|u1", "uint8", new Uint8Array([7, 255])],
    ["<f2", "float16", new Uint16Array([0x3c00, 0xc000])],
    ["|b1", "bool", new Uint8Array([0, 1])],
  ])("%s", (descr, dtype, data) => {
    const array = readNpy(npy(descr, "2,", bytesOf(data)), "a.npy");
    expect(array).toMatchObject({ dtype, dims: [2] });
    expect([...array.bytes]).toEqual([...bytesOf(data)]);
  });

  test("version 2, a scalar, and an empty array", () => {
    const one = bytesOf(new Float32Array([4]));
    expect(readNpy(npy("<f4", "1, 1", one, { version: 2 }), "a").dims).toEqual([1, 1]);
    expect(readNpy(npy("<f4", "", one), "a").dims).toEqual([]);
    expect(readNpy(npy("<f4", "3, 0", new Uint8Array(0)), "a")).toMatchObject({ dims: [3, 0], bytes: new Uint8Array(0) });
  });

  test("big-endian and column-major arrays come out little-endian and row-major", () => {
    expect([...readNpy(npy(">i2", "2,", new Uint8Array([1, 2, 3, 4])), "a").bytes]).toEqual([2, 1, 4, 3]);
    // [[0, 1, 2], [3, 4, 5]] stored by columns
    const columns = new Uint8Array([0, 3, 1, 4, 2, 5]);
    expect([...readNpy(npy("|u1", "2, 3", columns, { fortran: "True" }), "a").bytes]).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test("whatever is cut off or not a plain array is a typed error that names the file", () => {
    const whole = npy("<f4", "2, 2", bytesOf(new Float32Array(4)));
    for (let length = 0; length < whole.length; length++) {
      expect(() => readNpy(whole.subarray(0, length), "cut.npy")).toThrow(
        expect.objectContaining({ code: 100006, message: expect.stringMatching(/^cut\.npy: /) }),
      );
    }
    expect(() => readNpy(npy("<c8", "1,", new Uint8Array(8)), "a")).toThrow(/"<c8" is not supported/);
    expect(() => readNpy(npy("<f4", "4,", new Uint8Array(12)), "a")).toThrow(/12 bytes of data where float32 \[4\] needs 16/);
    expect(() => readNpy(Buffer.from("PK\x03\x04 this is an npz file"), "a.npz")).toThrow(/not a \.npy file/);
  });
});

describe("writeNpy", () => {
  test.each([[[]], [[3]], [[2, 3]], [[0, 5]]])("dims %j: the header is NumPy's, the data is 64-aligned", (dims: number[]) => {
    const count = dims.reduce((a, b) => a * b, 1);
    const data = Float32Array.from({ length: count }, (_, i) => i - 1);
    const file = Buffer.from(writeNpy({ dtype: "float32", dims, bytes: bytesOf(data) }));
    const headerLength = file.readUInt16LE(8);
    expect(file.subarray(0, 8)).toEqual(Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]));
    expect((10 + headerLength) % 64).toBe(0);
    const shape = { 0: "()", 1: `(${dims[0]},)`, 2: `(${dims.join(", ")})` }[dims.length];
    const text = file.subarray(10, 10 + headerLength).toString("latin1");
    expect(text.trimEnd()).toBe(`{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, }`);
    expect(text.endsWith("\n")).toBe(true);
    expect(file.subarray(10 + headerLength)).toEqual(Buffer.from(bytesOf(data)));
  });

  test("a type that NumPy does not have is refused", () => {
    expect(() => writeNpy({ dtype: "bfloat16", dims: [1], bytes: new Uint8Array(2) })).toThrow(expect.objectContaining({ code: 100026 }));
  });
});
