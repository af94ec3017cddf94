/** COPY and the DMA tasks: any strides, every element size. */
import { Dtype, Tensor } from "../../../dist/asm/abi/program";
import { Task, TaskOp } from "../../../dist/asm/abi/task";
import type { DtypeName } from "../../../lib/graph/dtype";
import type { View } from "../../../lib/program/types";
import { agree, bytes, core, count, FREE_ADDRESS, Plan, random, rowMajor, TASK_ADDRESS, words } from "./harness";
import { BYTES, decode, encode } from "./numbers";

const SIZES: readonly DtypeName[] = ["uint8", "int16", "float32", "int64"];

const permuted = (view: View, axes: readonly number[]): View => ({
  ...view,
  dims: axes.map((axis) => view.dims[axis]!),
  strides: axes.map((axis) => view.strides[axis]!),
});
const numbers = (dtype: DtypeName, n: number): (number | bigint)[] =>
  Array.from({ length: n }, (_, i) => (dtype === "int64" ? BigInt(i * 7) : (i * 7) % 120));

/** Elements of a view over `values` of a dense blob. */
function elements<T>(values: readonly T[], view: View): T[] {
  const size = BYTES[view.dtype];
  return Array.from({ length: count(view.dims) }, (_, i) => {
    let rest = i;
    let at = view.offsetBytes;
    for (let axis = view.dims.length - 1; axis >= 0; axis--) {
      at += (rest % view.dims[axis]!) * view.strides[axis]!;
      rest = Math.floor(rest / view.dims[axis]!);
    }
    return values[at / size]!;
  });
}

const PERMUTATIONS: readonly [readonly number[], readonly number[]][] = [
  [[7], [0]],
  [
    [5, 9],
    [1, 0],
  ],
  [
    [64, 100],
    [1, 0],
  ],
  [
    [2, 3, 4],
    [2, 0, 1],
  ],
  [
    [2, 16, 7, 5],
    [0, 2, 3, 1],
  ],
  [
    [2, 7, 5, 16],
    [0, 3, 1, 2],
  ],
  [
    [3, 4, 5, 6],
    [3, 2, 1, 0],
  ],
  [
    [33, 1, 65],
    [2, 1, 0],
  ],
  [
    [1, 300, 301],
    [0, 2, 1],
  ],
  [
    [2, 2, 2, 2, 2, 2, 2, 3],
    [7, 5, 3, 1, 0, 2, 4, 6],
  ],
];

describe.each(SIZES)("%s", (dtype) => {
  test.each(PERMUTATIONS)("dims %j by %j, both ways", (dims, axes) => {
    const plan = new Plan();
    const values = numbers(dtype, count(dims));
    const source = permuted(plan.input(dtype, dims, values), axes);
    const target = plan.output(dtype, source.dims);
    // The inverse: a dense source into a permuted target.
    const back = plan.output(dtype, dims);
    const read = plan.run([[{ op: "copy", node: "p", target, source }], [{ op: "copy", node: "q", target: permuted(back, axes), source: target }]]);
    agree(read(target), elements(values, source));
    agree(read(back), values);
  });

  test("slices, steps, reversal, broadcast, concat", () => {
    const size = BYTES[dtype];
    const plan = new Plan();
    const values = numbers(dtype, 10 * 40);
    const source = plan.input(dtype, [10, 40], values);
    const sliced: View = { ...source, offsetBytes: (2 * 40 + 5) * size, dims: [4, 9], strides: [80 * size, 3 * size] };
    const reversed: View = { ...source, offsetBytes: 399 * size, dims: [10, 40], strides: [-40 * size, -size] };
    const repeated: View = { ...source, dims: [6, 40], strides: [0, size] };
    const columns: View = { ...source, dims: [10, 6], strides: [40 * size, 0] };
    const whole = plan.output(dtype, [10, 80]);
    const half = (i: number): View => ({ ...whole, offsetBytes: i * 40 * size, dims: [10, 40], strides: [80 * size, size] });
    const cases = [sliced, reversed, repeated, columns].map((view) => ({ view, target: plan.output(dtype, view.dims) }));
    const read = plan.run([
      [
        ...cases.map(({ view, target }) => ({ op: "copy" as const, node: "c", target, source: view })),
        { op: "copy" as const, node: "left", target: half(0), source },
        { op: "copy" as const, node: "right", target: half(1), source: reversed },
      ],
    ]);
    for (const { view, target } of cases) agree(read(target), elements(values, view));
    agree(read(half(0)), values);
    agree(read(half(1)), elements(values, reversed));
  });
});

test("one element, no element, and a long flat copy in several tiles", () => {
  const plan = new Plan();
  const [one, none] = [plan.input("float32", [], [7]), plan.input("float32", [0, 3], [])];
  const long = plan.input(
    "uint8",
    [1 << 20],
    Array.from({ length: 1 << 20 }, (_, i) => i & 255),
  );
  const [a, b, c] = [plan.output("float32", []), plan.output("float32", [0, 3]), plan.output("uint8", [1 << 20])];
  const read = plan.run([
    [
      { op: "copy", node: "1", target: a, source: one },
      { op: "copy", node: "0", target: b, source: none },
      { op: "copy", node: "n", target: c, source: long },
    ],
  ]);
  agree(read(a), [7]);
  agree(read(b), []);
  agree(read(c), read(long));
});

describe("DMA tasks", () => {
  const at = FREE_ADDRESS;
  function task(op: TaskOp, ...params: number[]): void {
    bytes.fill(0, TASK_ADDRESS, TASK_ADDRESS + 64);
    words.setUint8(TASK_ADDRESS + Task.OP, op);
    for (const [i, value] of params.entries()) words.setUint32(TASK_ADDRESS + Task.P0 + i * 4, value, true);
    core.runDma(TASK_ADDRESS);
  }
  function descriptor(place: number, dtype: keyof typeof Dtype, address: number, dims: readonly number[], strides: readonly number[]): void {
    bytes.fill(0, place, place + 128);
    words.setUint8(place + Tensor.DTYPE, Dtype[dtype]);
    words.setUint8(place + Tensor.RANK, dims.length);
    words.setUint32(place + Tensor.OFFSET, address, true);
    for (const [i, dim] of dims.entries()) {
      const field = i < 6 ? i * 4 : Tensor.SIZE + (i - 6) * 4;
      words.setUint32(place + Tensor.DIMS + field, dim, true);
      words.setInt32(place + Tensor.STRIDES + field, strides[i]!, true);
    }
  }

  test("copy, 2-D copy, fill, batch", () => {
    bytes.fill(0, at, at + 8192);
    for (let i = 0; i < 1000; i++) bytes[at + i] = i % 251;
    task(TaskOp.COPY, at + 2000, at + 3, 500);
    expect(Buffer.from(bytes.slice(at + 2000, at + 2500))).toEqual(Buffer.from(bytes.slice(at + 3, at + 503)));
    task(TaskOp.COPY_2D, at + 4000, 11, at, 30, 7, 5);
    for (let row = 0; row < 5; row++) {
      expect([...bytes.slice(at + 4000 + row * 11, at + 4000 + row * 11 + 11)]).toEqual([
        ...bytes.slice(at + row * 30, at + row * 30 + 7),
        0,
        0,
        0,
        0,
      ]);
    }
    task(TaskOp.FILL, at + 5000, 333, 0x04030201, 4);
    expect([...bytes.slice(at + 5000, at + 5334)]).toEqual([...Array.from({ length: 333 }, (_, i) => (i % 4) + 1), 0]);
    task(TaskOp.FILL, at + 5400, 5, 0xbbaa, 2);
    expect([...bytes.slice(at + 5400, at + 5406)]).toEqual([0xaa, 0xbb, 0xaa, 0xbb, 0xaa, 0]);
    const list = TASK_ADDRESS + 256;
    for (const [i, value] of [at + 6000, at, 10, at + 6020, at + 100, 20].entries()) words.setUint32(list + i * 4, value, true);
    task(TaskOp.BATCH, list, 2);
    expect([...bytes.slice(at + 6000, at + 6010)]).toEqual([...bytes.slice(at, at + 10)]);
    expect([...bytes.slice(at + 6020, at + 6040)]).toEqual([...bytes.slice(at + 100, at + 120)]);
  });

  test("permute and convert, more than six dims", () => {
    const next = random(9);
    const dims = [2, 3, 2, 2, 3, 2, 5, 2];
    const axes = [7, 0, 5, 2, 6, 1, 4, 3];
    const values = Array.from({ length: count(dims) }, () => Math.floor((next() - 0.5) * 600));
    bytes.set(encode("float32", values), at);
    const strides = rowMajor(dims, 4);
    const turned = axes.map((axis) => dims[axis]!);
    const [target, source] = [TASK_ADDRESS + 256, TASK_ADDRESS + 512];
    descriptor(
      source,
      "FLOAT32",
      at,
      turned,
      axes.map((axis) => strides[axis]!),
    );
    const view = { blob: {} as never, dtype: "float32" as const, offsetBytes: 0, dims: turned, strides: axes.map((axis) => strides[axis]!) };
    const expected = elements(values, view);
    descriptor(target, "FLOAT32", at + 65536, turned, rowMajor(turned, 4));
    task(TaskOp.COPY_STRIDED, target, source);
    expect(decode("float32", bytes.slice(at + 65536, at + 65536 + 4 * values.length))).toEqual(expected);
    descriptor(target, "INT8", at + 65536, turned, rowMajor(turned, 1));
    task(TaskOp.COPY_STRIDED, target, source);
    expect(decode("int8", bytes.slice(at + 65536, at + 65536 + values.length))).toEqual(
      expected.map((value) => Math.max(-128, Math.min(127, value))),
    );
    descriptor(target, "FLOAT64", at + 65536, turned, rowMajor(turned, 8));
    task(TaskOp.COPY_STRIDED, target, source);
    expect(decode("float64", bytes.slice(at + 65536, at + 65536 + 8 * values.length))).toEqual(expected);
  });
});
