/** What the copy engine does to elements: folds, conversions and layouts, each against plain JavaScript. */
import { acl } from "npurt/acl";
import { Shared, deviceIfOpen } from "../../../dist/lib/acl/devices";
import { codeOf, covers, finish, ok, start } from "../harness";

const { rt } = acl;
const [FLOAT, HALF, INT8, INT32, INT16, INT64, DOUBLE, UINT8] = [0, 1, 2, 3, 6, 9, 11, 4];
const [ND, NC1HWC0, FRACTAL_NZ] = [2, 3, 29];
let stream: number;

beforeEach(() => {
  start({ memory: 64 * 2 ** 20 });
  ok(rt.set_device(0));
  stream = ok(rt.create_stream());
});
afterEach(finish);

type Numbers = Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | BigInt64Array;

function upload(values: Numbers): number {
  const address = ok(rt.malloc(Math.max(64, values.byteLength), 0));
  ok(rt.memcpy(address, values.byteLength, values, values.byteLength, 1));
  return address;
}

function download<T extends Numbers>(into: T, address: number): T {
  ok(rt.synchronize_stream(stream));
  ok(rt.memcpy(into, into.byteLength, address, into.byteLength, 2));
  return into;
}

describe("reduce_async", () => {
  const length = 1237; // more than a chunk, and no multiple of a vector
  const values = (seed: number): number[] => Array.from({ length }, (_, i) => ((i * 37 + seed * 11) % 201) - 100);
  const folds: [number, (a: number, b: number) => number][] = [
    [10, (a, b) => a + b],
    [11, Math.max],
    [12, Math.min],
  ];

  test.each([
    ["float", FLOAT, Float32Array],
    ["double", DOUBLE, Float64Array],
    ["int8", INT8, Int8Array],
    ["int16", INT16, Int16Array],
    ["int32", INT32, Int32Array],
  ] as const)("%s: sum, max, min", (_, dtype, Kind) => {
    covers("rt.reduce_async");
    for (const [kind, fold] of folds) {
      const [a, b] = [Kind.from(values(1)), Kind.from(values(2))];
      const target = upload(a);
      ok(rt.reduce_async(target, upload(b), a.byteLength, kind, dtype, stream));
      expect(download(new Kind(length), target)).toEqual(a.map((value, at) => fold(value, b[at]!))); // integers wrap as the array does
    }
  });

  test("int64 beyond 2^53, halves, and NaN", () => {
    const [a, b] = [BigInt64Array.of(2n ** 60n, -5n, 7n), BigInt64Array.of(3n, -(2n ** 61n), 7n)];
    const target = upload(a);
    ok(rt.reduce_async(target, upload(b), 24, 10, INT64, stream));
    expect(download(new BigInt64Array(3), target)).toEqual(a.map((value, at) => value + b[at]!));
    const halves = upload(Uint16Array.of(0x3c00, 0x7bff, 0x4000)); // 1, 65504, 2
    ok(rt.reduce_async(halves, upload(Uint16Array.of(0x3c00, 0x7bff, 0xc000)), 6, 10, HALF, stream)); // 1, 65504, -2
    expect(download(new Uint16Array(3), halves)).toEqual(Uint16Array.of(0x4000, 0x7c00, 0)); // 2, infinity, 0
    const floats = upload(Float32Array.of(Number.NaN, 1));
    ok(rt.reduce_async(floats, upload(Float32Array.of(1, Number.NaN)), 8, 11, FLOAT, stream, 0));
    expect([...download(new Float32Array(2), floats)]).toEqual([Number.NaN, Number.NaN]);
  });

  test("runs in stream order; what is wrong gives 107000", () => {
    const target = upload(Int32Array.of(1));
    const source = upload(Int32Array.of(10));
    for (let i = 0; i < 5; i++) {
      ok(rt.reduce_async(target, source, 4, 10, INT32, stream));
      ok(rt.memcpy_async(source, 4, target, 4, 3, stream));
    }
    expect(download(new Int32Array(1), target)[0]).toBe(176); // 11, then doubled four times
    expect(rt.reduce_async(target, source, 4, 13, INT32, stream)).toBe(107000);
    expect(rt.reduce_async(target, source, 3, 10, INT32, stream)).toBe(107000);
    expect(rt.reduce_async(target, source, 4, 10, 13, stream)).toBe(107000);
    expect(rt.reduce_async(target, source, 4096, 10, INT32, stream)).toBe(107000);
  });
});

test("a copy converts on its way: one task, counted bytes, no buffer in between", () => {
  covers("rt.memcpy_convert_async");
  const device = deviceIfOpen(0)!;
  const length = 3000;
  const floats = Float32Array.from({ length }, (_, i) => i / 7 - 200);
  const source = upload(floats);
  const target = ok(rt.malloc(length, 0));
  const host = ok(rt.malloc_host(length * 4));
  ok(rt.memcpy_convert_async(target, UINT8, source, FLOAT, length, stream));
  ok(rt.memcpy_convert_async(host, FLOAT, target, UINT8, length, stream));
  const saturated = Uint8Array.from(floats, (value) => Math.max(0, Math.min(255, Math.trunc(value))));
  expect(download(new Uint8Array(length), target)).toEqual(saturated);
  const back = new Float32Array(length);
  ok(rt.memcpy(back, length * 4, host, length * 4, 0));
  expect(back).toEqual(Float32Array.from(saturated));
  expect(device.get(Shared.CONVERTED_BYTES)).toBe(length * 4 + length);
  expect(rt.memcpy_convert_async(target, FLOAT, source, FLOAT, length, stream)).toBe(107000); // target too small
});

/** Where element (n, c, h, w), or the last two axes' (row, column) of a batch, lies: from the definition of the formats. */
const LAYOUTS: Readonly<Record<number, (dims: number[], group: number, at: number[]) => number>> = {
  [NC1HWC0]: ([, C, H, W]: number[], group: number, [n, c, h, w]: number[]) =>
    (((n! * Math.ceil(C! / group) + Math.floor(c! / group)) * H! + h!) * W! + w!) * group + (c! % group),
  [FRACTAL_NZ]: (dims: number[], group: number, at: number[]) => {
    const [rows, columns] = dims.slice(-2) as [number, number];
    const [row, column] = at.slice(-2) as [number, number];
    const batch = at.slice(0, -2).reduce((all, one, axis) => all * dims[axis]! + one, 0);
    const [across, down] = [Math.ceil(columns / group), Math.ceil(rows / 16)];
    const fractal = (batch * across + Math.floor(column / group)) * down + Math.floor(row / 16);
    return (fractal * 16 + (row % 16)) * group + (column % group);
  },
};

function placesOf(dims: number[]): number[][] {
  return dims.reduce<number[][]>((all, dim) => all.flatMap((at) => Array.from({ length: dim }, (_, i) => [...at, i])), [[]]);
}

describe("formats", () => {
  test.each([
    [NC1HWC0, [1, 16, 4, 4], FLOAT],
    [NC1HWC0, [2, 35, 3, 5], HALF],
    [NC1HWC0, [3, 1, 7, 1], FLOAT],
    [NC1HWC0, [2, 70, 3, 3], INT8],
    [FRACTAL_NZ, [16, 16], FLOAT],
    [FRACTAL_NZ, [37, 51], HALF],
    [FRACTAL_NZ, [2, 3, 5, 67], FLOAT],
    [FRACTAL_NZ, [33, 33], INT8],
    [FRACTAL_NZ, [1, 1], FLOAT],
  ] as [number, number[], number][])(
    "to format %i of [%p], dtype %i: every element in its place, zeros elsewhere, and back",
    (format, dims, dtype) => {
      covers("rt.npu_format_cast", "rt.npu_format_cast_size");
      const Kind = dtype === FLOAT ? Int32Array : dtype === HALF ? Int16Array : Int8Array;
      const count = dims.reduce((all, dim) => all * dim, 1);
      const values = new Kind(count).map((_, i) => 1 + (i % 120)); // bits are moved, never looked at
      const group = dtype === INT8 ? 32 : 16;
      const bytes = ok(rt.npu_format_cast_size(dims, dtype, format));
      const expected = new Kind(bytes / Kind.BYTES_PER_ELEMENT);
      for (const [at, place] of placesOf(dims).entries()) {
        expected[LAYOUTS[format]!(dims, group, place)] = values[at]!;
      }
      const plain = upload(values);
      const packed = ok(rt.malloc(bytes, 0));
      ok(rt.memset(packed, bytes, 0xee, bytes));
      const back = ok(rt.malloc(values.byteLength, 0));
      ok(rt.npu_format_cast(packed, plain, dims, dtype, ND, format, stream));
      ok(rt.npu_format_cast(back, packed, dims, dtype, format, ND, stream));
      expect(download(new Kind(expected.length), packed)).toEqual(expected);
      expect(download(new Kind(count), back)).toEqual(values);
    },
  );

  test("from one to the other goes through ND, in stream order", () => {
    const dims = [2, 21, 5, 19];
    const values = Float32Array.from({ length: 2 * 21 * 5 * 19 }, (_, i) => i);
    const size = (format: number): number => ok(rt.npu_format_cast_size(dims, FLOAT, format));
    const [a, b, c] = [NC1HWC0, FRACTAL_NZ, ND].map((format) => ok(rt.malloc(size(format), 0))) as [number, number, number];
    ok(rt.npu_format_cast(a, upload(values), dims, FLOAT, ND, NC1HWC0, stream));
    ok(rt.npu_format_cast(b, a, dims, FLOAT, NC1HWC0, FRACTAL_NZ, stream));
    ok(rt.npu_format_cast(c, b, dims, FLOAT, FRACTAL_NZ, ND, stream));
    expect(download(new Float32Array(values.length), c)).toEqual(values);
  });

  test("formats that do not fit, overlaps and short memory give 107000", () => {
    const memory = ok(rt.malloc(4096, 0));
    expect(rt.npu_format_cast(memory, upload(new Float32Array(8)), [2, 4], FLOAT, ND, NC1HWC0, stream)).toBe(107000);
    expect(rt.npu_format_cast(memory, memory, [16, 16], FLOAT, ND, FRACTAL_NZ, stream)).toBe(107000);
    expect(rt.npu_format_cast(memory, upload(new Float32Array(33 * 33)), [33, 33], FLOAT, ND, FRACTAL_NZ, stream)).toBe(107000);
    expect(codeOf(rt.npu_format_cast_size([2, 4], FLOAT, 7))).toBe(107000);
  });
});
