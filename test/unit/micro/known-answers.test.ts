/** The digests of the known-answer test, worked out by plain loops in float64. */
import {
  DEPTHWISE,
  DIGESTS,
  digest,
  INTEGERS,
  integerA,
  integerB,
  PRODUCT,
  REDUCED,
  small,
  WINOGRAD,
  winogradWeight,
} from "../../../dist/lib/host/kernel-test";

const sum = (count: number, term: (index: number) => number): number => Array.from({ length: count }, (_, i) => term(i)).reduce((a, b) => a + b, 0);

function right(): Record<string, number> {
  const digests: Record<string, number> = {};
  const add = (name: string, count: number, value: (index: number) => number): void => {
    digests[name] = digest(
      Array.from({ length: count }, (_, i) => value(i)),
      0,
      count,
    );
  };
  {
    const { heights, columns, depth } = PRODUCT;
    const element = (i: number): number => sum(depth, (k) => small(Math.floor(i / columns) * depth + k) * small(k * columns + (i % columns)));
    for (const rows of heights) add(`gemm ${rows}`, rows * columns, element);
  }
  for (const [kernel, step] of DEPTHWISE.windows) {
    const { channels, side, pixels } = DEPTHWISE;
    add(`depthwise ${kernel} step ${step}`, pixels * channels, (i) => {
      const [pixel, channel] = [Math.floor(i / channels), i % channels];
      const at = (t: number): number => (2 + Math.floor(t / kernel)) * side + pixel * step + (t % kernel);
      return small(25 * channels + channel) + sum(kernel * kernel, (t) => small(at(t) * channels + channel) * small(t * channels + channel));
    });
  }
  {
    const { side, channels } = WINOGRAD;
    add("winograd", side * side * channels, (i) => {
      const [y, x, output] = [Math.floor(i / channels / side), Math.floor(i / channels) % side, i % channels];
      return sum(9, (t) => {
        const [row, column] = [y + Math.floor(t / 3) - 1, x + (t % 3) - 1];
        if (row < 0 || row >= side || column < 0 || column >= side) return 0;
        return sum(channels, (input) => small((row * side + column) * channels + input) * winogradWeight(output, input, t));
      });
    });
  }
  {
    const { rows, count } = REDUCED;
    const element = (row: number, column: number): number => small(row * count + column);
    const columnOf = (column: number): number[] => Array.from({ length: rows }, (_, row) => element(row, column));
    const rowOf = (row: number): number[] => Array.from({ length: count }, (_, column) => element(row, column));
    add("sumRows", rows, (row) => rowOf(row).reduce((a, b) => a + b));
    add("maxRows", rows, (row) => Math.max(...rowOf(row)));
    add("sumColumns", count, (column) => columnOf(column).reduce((a, b) => a + b));
    add("maxColumns", count, (column) => Math.max(...columnOf(column)));
  }
  for (const { rows, columns, depth } of INTEGERS) {
    const element = (i: number): number => sum(depth, (k) => integerA(Math.floor(i / columns) * depth + k) * integerB(k * columns + (i % columns)));
    add(`gemmInteger ${rows}`, rows * columns, (i) => (i % columns) * 1000 + element(i));
  }
  return digests;
}

test("the committed digests are those of plain loops", () => {
  expect(DIGESTS).toEqual(right());
});

test("a digest tells results and their order apart", () => {
  expect(digest([1, 2, 3], 0, 3)).not.toBe(digest([1, 3, 2], 0, 3));
  expect(digest([1, 2, 3], 0, 3)).not.toBe(digest([1, 2, 4], 0, 3));
  expect(digest([1, 2, Number.NaN], 0, 3)).toBeNaN();
});
