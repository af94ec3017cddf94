/** Softmax, layer norm and reductions of rows of any length against float64. */
import { expectSame, expectWithin, onEveryBuild, randoms } from "./bed";

const LENGTHS = [1, 3, 15, 16, 17, 31, 33, 64, 100, 257, 1000];
const ROWS = 3;

function rowsOf(values: Float32Array, count: number): number[][] {
  return Array.from({ length: values.length / count }, (_, row) => [...values.subarray(row * count, (row + 1) * count)]);
}
const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

function softmax(row: readonly number[]): number[] {
  const most = Math.max(...row);
  const exponents = row.map((value) => Math.exp(value - most));
  return exponents.map((value) => value / total(exponents));
}

onEveryBuild((bed) => {
  const { e } = bed;

  test.each(LENGTHS)("softmax of %i elements, also in place", (count) => {
    const values = randoms(ROWS * count, 41).map((value) => value * 20);
    const source = bed.floats(values);
    const target = bed.output(ROWS * count);
    const right = rowsOf(values, count).flatMap(softmax);
    e.softmaxRows(ROWS, count, source, count * 4, target, count * 4);
    expectWithin(bed.read(target, right.length), right, right, 4e-6);
    e.softmaxRows(ROWS, count, source, count * 4, source, count * 4);
    expectSame(bed.read(source, right.length), bed.read(target, right.length));
  });

  test("softmax: a masked element is exactly 0, a row with NaN is NaN, others stay", () => {
    const count = 20;
    const values = randoms(ROWS * count, 42);
    values[3] = Number.NEGATIVE_INFINITY;
    values[18] = -1e9;
    values[count + 7] = Number.NaN;
    const target = bed.output(ROWS * count);
    e.softmaxRows(ROWS, count, bed.floats(values), count * 4, target, count * 4);
    const rows = rowsOf(bed.read(target, ROWS * count), count);
    expect([rows[0]![3], rows[0]![18]]).toEqual([0, 0]);
    expect(total(rows[0]!)).toBeCloseTo(1, 6);
    expect(rows[1]!.every(Number.isNaN)).toBe(true);
    expect(total(rows[2]!)).toBeCloseTo(1, 6);
  });

  test.each(LENGTHS)("layer norm of %i elements", (count) => {
    const values = randoms(ROWS * count, 43).map((value) => value + 3);
    const [gamma, beta] = [randoms(count, 44), randoms(count, 45)];
    const right = rowsOf(values, count).flatMap((row) => {
      const mean = total(row) / count;
      const variance = total(row.map((value) => (value - mean) ** 2)) / count;
      return row.map((value, i) => ((value - mean) / Math.sqrt(variance + 1e-5)) * gamma[i]! + beta[i]!);
    });
    const target = bed.output(ROWS * count);
    e.layerNormRows(ROWS, count, bed.floats(values), count * 4, target, count * 4, bed.floats(gamma), bed.floats(beta), 1e-5);
    expectWithin(bed.read(target, right.length), right, 1, count === 1 ? 1e-4 : 2e-5);
  });

  test("rows of a wider matrix: pitches are kept", () => {
    const [count, sourceWidth, targetWidth] = [19, 24, 21];
    const values = randoms(ROWS * sourceWidth, 46);
    const target = bed.output(ROWS * targetWidth);
    e.softmaxRows(ROWS, count, bed.floats(values), sourceWidth * 4, target, targetWidth * 4);
    const found = rowsOf(bed.read(target, ROWS * targetWidth), targetWidth);
    rowsOf(values, sourceWidth).forEach((row, i) => {
      const right = softmax(row.slice(0, count));
      expectWithin(found[i]!.slice(0, count), right, right, 4e-6);
      expect(found[i]!.slice(count).every(Number.isNaN)).toBe(true);
    });
  });

  test.each([0, ...LENGTHS])("sums and maxima of rows of %i elements", (count) => {
    const values = randoms(ROWS * count, 47);
    const source = bed.floats(values);
    const target = bed.output(ROWS);
    const rows = count === 0 ? [[], [], []] : rowsOf(values, count);
    e.sumRows(ROWS, count, source, count * 4, target);
    expectWithin(bed.read(target, ROWS), rows.map(total), Math.max(count, 1), 2 ** -22);
    e.maxRows(ROWS, count, source, count * 4, target);
    expect([...bed.read(target, ROWS)]).toEqual(rows.map((row) => Math.max(...row)));
  });

  test("the largest of a row with NaN is NaN, wherever it stands", () => {
    const count = 37;
    for (const place of [0, 15, 16, 36]) {
      const values = randoms(count, 48);
      values[place] = Number.NaN;
      const target = bed.output(1);
      e.maxRows(1, count, bed.floats(values), count * 4, target);
      expect(bed.read(target, 1)[0]).toBeNaN();
    }
  });

  test.each(LENGTHS)("sums and maxima of columns, %i of them, whole and in parts", (count) => {
    const values = randoms(7 * count, 49);
    const source = bed.floats(values);
    const rows = rowsOf(values, count);
    const column = (i: number): number[] => rows.map((row) => row[i]!);
    const [whole, parts] = [bed.output(count), bed.output(count)];
    e.sumColumns(7, count, source, count * 4, whole, 1);
    e.sumColumns(3, count, source, count * 4, parts, 1);
    e.sumColumns(4, count, source + 3 * count * 4, count * 4, parts, 0);
    const right = Array.from({ length: count }, (_, i) => total(column(i)));
    expectWithin(bed.read(whole, count), right, 7, 2 ** -22);
    expectSame(bed.read(parts, count), bed.read(whole, count));
    e.maxColumns(7, count, source, count * 4, whole, 1);
    expect([...bed.read(whole, count)]).toEqual(Array.from({ length: count }, (_, i) => Math.max(...column(i))));
  });
});
