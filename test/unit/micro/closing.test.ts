/** What products and convolutions do to their sums on the way to memory: bias first, limits last, and NaN in one form. */
import { expectWithin, onEveryBuild, randoms } from "./bed";

const NAN_BITS = 0x7fc00000;
/** Sums of a few hundred products in f32, and ten times that for Winograd's transforms. */
const NEAR = 1e-4;

const limited = (value: number, least: number, greatest: number): number =>
  Math.min(Number.isNaN(greatest) ? Number.POSITIVE_INFINITY : greatest, Math.max(Number.isNaN(least) ? Number.NEGATIVE_INFINITY : least, value));

const LIMITS = [
  { least: 0, greatest: Number.NaN },
  { least: 0, greatest: 1.5 },
  { least: Number.NaN, greatest: 0.25 },
  { least: Number.NaN, greatest: Number.NaN },
  // For products: somebody else finishes the sums. For others: no limit.
  { least: Number.NEGATIVE_INFINITY, greatest: Number.NaN },
];

onEveryBuild((bed) => {
  const { e } = bed;

  /** Panels of a [depth, columns] matrix. */
  function packed(b: Float32Array, columns: number, depth: number): { panels: number; pitch: number } {
    const pitch = depth * e.panelColumns() * 4;
    const panels = bed.room(Math.ceil(columns / e.panelColumns()) * pitch);
    e.pack(bed.floats(b), columns * 4, 4, depth, columns, panels);
    return { panels, pitch };
  }

  test.each([
    { rows: 1, columns: 131, depth: 40 },
    { rows: 2, columns: 70, depth: 9 },
    { rows: 13, columns: 21, depth: 16 },
    { rows: 7, columns: 3, depth: 1100 },
    { rows: 100, columns: 16, depth: 0 },
  ])("gemm $rows x $columns x $depth", ({ rows, columns, depth }) => {
    const [a, b, bias] = [randoms(rows * depth, 1), randoms(depth * columns, 2), randoms(columns, 3)];
    const { panels, pitch } = packed(b, columns, depth);
    const [source, start] = [bed.floats(a), bed.floats(bias)];
    const target = bed.output(rows * columns);
    const sums = Array.from({ length: rows * columns }, (_, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      let sum = bias[column]!;
      for (let k = 0; k < depth; k++) sum += a[row * depth + k]! * b[k * columns + column]!;
      return sum;
    });
    for (const { least, greatest } of LIMITS) {
      e.gemm(rows, columns, depth, source, depth * 4, panels, pitch, target, columns * 4, 1, start, least, greatest);
      const right = sums.map((sum) => limited(sum, least, greatest));
      expectWithin(bed.read(target, rows * columns), right, 1, NEAR);
    }
  });

  test("a NaN passes the limits and has one form, whatever it came in as", () => {
    const [rows, columns, depth] = [9, 37, 5];
    const { panels, pitch } = packed(randoms(depth * columns, 4), columns, depth);
    const source = bed.floats(randoms(rows * depth, 5));
    bed.u32[source / 4 + 3 * depth + 2] = 0xffc12345;
    const target = bed.output(rows * columns);
    e.gemm(rows, columns, depth, source, depth * 4, panels, pitch, target, columns * 4, 1, 0, 0, 6);
    const bits = bed.u32.slice(target / 4, target / 4 + rows * columns);
    const wrong = bits.findIndex((word, i) => (word === NAN_BITS) !== (Math.floor(i / columns) === 3));
    expect(wrong).toBe(-1);
  });

  test.each([8, 19])("depthwise, %i channels: both forms", (channels) => {
    const [pixels, side] = [9, 11];
    const image = randoms(3 * side * channels, 6);
    image[5 * channels + 1] = Number.NaN;
    const [weights, bias] = [randoms(9 * channels, 7), randoms(channels, 8)];
    const [source, w, start] = [bed.floats(image), bed.floats(weights), bed.floats(bias)];
    const table = bed.room(9 * pixels * 4);
    for (let tap = 0; tap < 9; tap++)
      for (let p = 0; p < pixels; p++) bed.u32[table / 4 + tap * pixels + p] = source + (Math.floor(tap / 3) * side + (tap % 3) + p) * channels * 4;
    const sums = Array.from({ length: pixels * channels }, (_, i) => {
      const [p, channel] = [Math.floor(i / channels), i % channels];
      let sum = bias[channel]!;
      for (let tap = 0; tap < 9; tap++)
        sum += image[(Math.floor(tap / 3) * side + (tap % 3) + p) * channels + channel]! * weights[tap * channels + channel]!;
      return sum;
    });
    for (const { least, greatest } of LIMITS) {
      const [byTable, byRow] = [bed.output(pixels * channels), bed.output(pixels * channels)];
      e.depthwise(pixels, channels, 9, table, pixels * 4, w, start, byTable, channels * 4, least, greatest);
      expect(e.depthwiseRow(3, 1, pixels, channels, source, side * channels * 4, channels * 4, w, start, byRow, channels * 4, least, greatest)).toBe(
        1,
      );
      for (const at of [byTable, byRow]) {
        const found = bed.read(at, pixels * channels);
        sums.forEach((sum, i) => {
          if (Number.isNaN(sum)) expect(bed.u32[at / 4 + i]).toBe(NAN_BITS);
        });
        const numbers = sums.map((sum, i) => ({ sum, found: found[i]! })).filter(({ sum }) => !Number.isNaN(sum));
        expectWithin(
          numbers.map((each) => each.found),
          numbers.map(({ sum }) => limited(sum, least, greatest)),
          1,
          NEAR,
        );
      }
    }
  });

  test.each([6, 20])("winograd, %i channels", (channels) => {
    const side = 6;
    const [image, weights, bias] = [randoms(side * side * channels, 9), randoms(9 * channels * channels, 10), randoms(channels, 11)];
    const panels = bed.room(36 * Math.ceil(channels / e.panelColumns()) * e.panelColumns() * channels * 4);
    // Weights [output][input][3][3].
    e.winogradWeights(bed.floats(weights), 12, 4, 36, 36 * channels, channels, channels, panels);
    const work = bed.room(e.winogradWork(channels, channels, 4));
    const [source, start, target] = [bed.floats(image), bed.floats(bias), bed.output(side * side * channels)];
    const sums = Array.from({ length: side * side * channels }, (_, i) => {
      const [pixel, output] = [Math.floor(i / channels), i % channels];
      let sum = bias[output]!;
      for (let tap = 0; tap < 9; tap++) {
        const [y, x] = [Math.floor(pixel / side) + Math.floor(tap / 3) - 1, (pixel % side) + (tap % 3) - 1];
        if (y < 0 || x < 0 || y >= side || x >= side) continue;
        for (let c = 0; c < channels; c++) sum += image[(y * side + x) * channels + c]! * weights[(output * channels + c) * 9 + tap]!;
      }
      return sum;
    });
    for (const { least, greatest } of LIMITS) {
      e.winogradConvolve(source, side, side, channels, 1, 1, panels, target, side, side, channels, channels * 4, 0, 4, work, start, least, greatest);
      expectWithin(
        bed.read(target, side * side * channels),
        sums.map((sum) => limited(sum, least, greatest)),
        1,
        NEAR,
      );
    }
  });
});
