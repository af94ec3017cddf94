/** GATHER_ELEMENTS, SCATTER_ELEMENTS, TOP_K and CUMULATE against arithmetic of the host: dtypes, ragged tiles, views that run backwards or repeat. */
import type { DtypeName } from "../../../lib/graph/dtype";
import type { MergeName, View } from "../../../lib/program/types";
import { Plan, random } from "./harness";

const isBig = (dtype: DtypeName): boolean => dtype.endsWith("64") && dtype !== "float64";
/** Small whole numbers, which every dtype holds and adds exactly. */
function numbers(dtype: DtypeName, size: number, seed: number, most = 100): (number | bigint)[] {
  const next = random(seed);
  return Array.from({ length: size }, () => {
    const value = Math.floor(next() * most);
    return isBig(dtype) ? BigInt(value) : value;
  });
}
const swapped = (view: View): View => ({ ...view, dims: view.dims.toReversed(), strides: view.strides.toReversed() });
/** The last axis from its end to its beginning. */
function backwards(view: View): View {
  const last = view.dims.length - 1;
  const step = view.strides[last]!;
  return { ...view, offsetBytes: view.offsetBytes + (view.dims[last]! - 1) * step, strides: view.strides.with(last, -step) };
}
/** Elements of a 2-D view, by row. */
function rowsOf<T>(values: readonly T[], length: number): T[][] {
  return Array.from({ length: values.length / length }, (_, row) => values.slice(row * length, (row + 1) * length));
}

const DTYPES: readonly DtypeName[] = ["float32", "float64", "int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8"];

describe.each([
  ["along rows", 700, 37, 90, (view: View) => view],
  ["across columns", 700, 37, 90, swapped],
  ["backwards", 5, 3000, 11, backwards],
  ["a single element", 1, 1, 1, (view: View) => view],
] as const)("gathered elements, %s", (_, rows, length, size, seen) => {
  test.each(["float32", "int64", "uint8", "float16"] as const)("%s", (dtype) => {
    const plan = new Plan();
    const [values, places] = [numbers(dtype, rows * size, 3), numbers("int32", rows * length, 4, size) as number[]];
    const turned = seen === swapped;
    const make = (of: DtypeName, columns: number, list: readonly (number | bigint)[]): View =>
      plan.input(
        of,
        turned ? [columns, rows] : [rows, columns],
        turned ? rowsOf(list, columns)[0]!.flatMap((_each, c) => rowsOf(list, columns).map((row) => row[c]!)) : list,
      );
    const [source, indices] = [make(dtype, size, values), make("int32", length, places)];
    const target = plan.output(dtype, turned ? [length, rows] : [rows, length]);
    const read = plan.run([
      {
        op: "gather_elements",
        node: "g",
        target: seen(target),
        source: turned ? swapped(source) : source,
        indices: turned ? swapped(indices) : indices,
      },
    ]);
    const want = rowsOf(places, length).flatMap((row, r) => row.map((at) => values[r * size + at]!));
    const got = read(seen(target));
    expect(got.findIndex((value, i) => value !== want[i])).toBe(-1);
  });
});

const MERGES: Readonly<Record<MergeName, (a: bigint, b: bigint) => bigint>> = {
  none: (_, b) => b,
  add: (a, b) => a + b,
  mul: (a, b) => a * b,
  min: (a, b) => (a < b ? a : b),
  max: (a, b) => (a > b ? a : b),
};

describe.each(Object.keys(MERGES) as MergeName[])("scattered elements, %s", (merge) => {
  test.each(DTYPES)("%s, indices that come twice, negative ones", (dtype) => {
    const plan = new Plan();
    const [rows, length, size] = [300, 9, 6];
    // Two factors at most meet: nothing leaves a byte.
    const before = numbers(dtype, rows * size, 5, 3);
    const updates = numbers(dtype, rows * length, 6, 2);
    const places = numbers("int64", rows * length, 7, 2 * size).map((at) => (at as bigint) - BigInt(size));
    const target = plan.output(dtype, [rows, size], before);
    const [source, indices] = [plan.input(dtype, [rows, length], updates), plan.input("int64", [rows, length], places)];
    const got = plan.run([{ op: "scatter_elements", node: "s", target, source, indices, merge }])(target);
    const want = before.map(BigInt);
    places.forEach((at, i) => {
      const place = Math.floor(i / length) * size + Number(at < 0n ? at + BigInt(size) : at);
      want[place] = MERGES[merge](want[place]!, BigInt(updates[i]!));
    });
    expect(got.findIndex((value, i) => BigInt(value) !== want[i])).toBe(-1);
  });

  test("rows that share their indices", () => {
    const plan = new Plan();
    const [rows, length, size] = [1000, 5, 7];
    const [before, updates, places] = [numbers("float32", size * rows, 8), numbers("float32", length * rows, 9), [3n, 0n, 3n, -1n, 6n]];
    const target = plan.output("float32", [size, rows], before);
    const source = plan.input("float32", [length, rows], updates);
    const line = plan.input("int64", [length], places);
    const indices: View = { ...line, dims: [rows, length], strides: [0, 8] };
    const got = plan.run([{ op: "scatter_elements", node: "s", target: swapped(target), source: swapped(source), indices, merge }])(target);
    const want = before.map(BigInt);
    places.forEach((at, i) => {
      for (let row = 0; row < rows; row++) {
        const place = Number((at + BigInt(size)) % BigInt(size)) * rows + row;
        want[place] = MERGES[merge](want[place]!, BigInt(updates[i * rows + row]!));
      }
    });
    expect(got.findIndex((value, i) => BigInt(value) !== want[i])).toBe(-1);
  });
});

test("an index outside its row traps", () => {
  for (const at of [4, -5]) {
    const plan = new Plan();
    const [target, source, indices] = [plan.output("float32", [1]), plan.input("float32", [4], [1, 2, 3, 4]), plan.input("int32", [1], [at])];
    expect(() => plan.run([{ op: "gather_elements", node: "g", target, source, indices }])).toThrow(WebAssembly.RuntimeError);
  }
});

describe.each([
  [1, 5000, 1],
  [3, 5000, 64],
  [40, 33, 33],
  [2, 1000, 1000],
  [5, 4, 0],
])("the best of %i rows of %i: %i", (rows, length, k) => {
  test.each(DTYPES.flatMap((dtype) => [true, false].map((largest) => [dtype, largest] as const)))("%s, largest %s", (dtype, largest) => {
    const plan = new Plan();
    // Few values, so that equal ones have to keep their order.
    const values = numbers(dtype, rows * length, 11, 50);
    const source = backwards(plan.input(dtype, [rows, length], values));
    const [target, positions] = [plan.output(dtype, [rows, k]), plan.output("int64", [rows, k])];
    const work = plan.output("int64", [rows, k, 2]);
    const read = plan.run([{ op: "top_k", node: "t", target, positions, source, work, largest }]);
    const wantValues: (number | bigint)[] = [];
    const wantPlaces: bigint[] = [];
    for (const row of rowsOf(values, length).map((each) => each.toReversed())) {
      const order = row.map((_, i) => i).sort((i, j) => (row[i]! < row[j]! ? -1 : row[i]! > row[j]! ? 1 : 0) * (largest ? -1 : 1) || i - j);
      wantValues.push(...order.slice(0, k).map((i) => row[i]!));
      wantPlaces.push(...order.slice(0, k).map(BigInt));
    }
    const [got, places] = [read(target), read(positions)];
    expect([got.findIndex((value, i) => value !== wantValues[i]), places.findIndex((at, i) => at !== wantPlaces[i])]).toEqual([-1, -1]);
  });
});

describe.each(["float32", "float64", "int32", "uint32", "int64", "uint64"] as const)("running folds of %s", (dtype) => {
  test.each([
    [false, false],
    [false, true],
    [true, false],
    [true, true],
  ])("product %s, exclusive %s", (product, exclusive) => {
    const plan = new Plan();
    const [rows, length] = [200, 77];
    const values = product ? numbers(dtype, rows * length, 12, 1).map((v) => (isBig(dtype) ? 1n : Number(v) + 1)) : numbers(dtype, rows * length, 13);
    const source = plan.input(dtype, [rows, length], values);
    const target = plan.output(dtype, [rows, length]);
    const got = plan.run([{ op: "cumulate", node: "c", target: backwards(target), source: backwards(source), product, exclusive }])(target);
    const want = rowsOf(values, length).flatMap((row) => {
      let total = product ? 1n : 0n;
      return row
        .toReversed()
        .map((value) => {
          const next = product ? total * BigInt(value) : total + BigInt(value);
          const kept = exclusive ? total : next;
          total = next;
          return kept;
        })
        .toReversed();
    });
    expect(got.findIndex((value, i) => BigInt(value) !== want[i])).toBe(-1);
  });
});
