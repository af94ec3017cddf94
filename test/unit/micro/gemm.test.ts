/** f32 products: gemm, gemv and pointer convolution on odd shapes against float64, and the same bits from every tile. */
import { type Bed, expectSame, expectWithin, onEveryBuild, randoms } from "./bed";

interface Shape {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  /** Elements more than needed between rows of A and of C. */
  readonly slack?: number;
}

const SHAPES: readonly Shape[] = [
  { rows: 1, columns: 1, depth: 1 },
  { rows: 1, columns: 100, depth: 33 },
  { rows: 2, columns: 67, depth: 5 },
  { rows: 3, columns: 16, depth: 17, slack: 3 },
  { rows: 4, columns: 7, depth: 8 },
  { rows: 5, columns: 8, depth: 9 },
  { rows: 6, columns: 24, depth: 4 },
  { rows: 7, columns: 33, depth: 31, slack: 1 },
  { rows: 13, columns: 3, depth: 64 },
  { rows: 97, columns: 17, depth: 12 },
  { rows: 20, columns: 35, depth: 520, slack: 5 },
  { rows: 11, columns: 8, depth: 530, slack: 1 },
  { rows: 9, columns: 20, depth: 21, slack: 2 },
  { rows: 3, columns: 9, depth: 0 },
];

function product(a: Float32Array, b: Float32Array, { rows, columns, depth }: Shape) {
  const right = new Float64Array(rows * columns);
  const scale = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      for (let k = 0; k < depth; k++) {
        const term = a[row * depth + k]! * b[k * columns + column]!;
        right[row * columns + column]! += term;
        scale[row * columns + column]! += Math.abs(term);
      }
    }
  }
  return { right, scale };
}

/** A with `slack` NaN behind each row: reading one of them would show. */
function spread(values: Float32Array, rows: number, width: number, slack: number): Float32Array {
  const wide = new Float32Array(rows * (width + slack)).fill(Number.NaN);
  for (let row = 0; row < rows; row++) wide.set(values.subarray(row * width, (row + 1) * width), row * (width + slack));
  return wide;
}

function packed(bed: Bed, b: Float32Array, columns: number, depth: number): { panels: number; pitch: number } {
  const width = bed.e.panelColumns();
  const pitch = depth * width * 4;
  const panels = bed.room(Math.ceil(columns / width) * pitch);
  bed.e.pack(bed.floats(b), columns * 4, 4, depth, columns, panels);
  return { panels, pitch };
}

/** Error of a sum of `depth` products in f32: each rounding is at most 2^-24 of a partial sum. */
const tolerance = (depth: number): number => (depth + 2) * 2 ** -24;

onEveryBuild((bed) => {
  const { e } = bed;
  test("packs panels of any layout, padded with zeros", () => {
    const [depth, columns] = [3, 21];
    const width = e.panelColumns();
    const b = randoms(depth * columns, 1);
    const { panels, pitch } = packed(bed, b, columns, depth);
    const transposed = Float32Array.from(b, (_, i) => b[(i % depth) * columns + Math.floor(i / depth)]!);
    const other = bed.room(Math.ceil(columns / width) * pitch);
    e.pack(bed.floats(transposed), 4, depth * 4, depth, columns, other);
    const count = (Math.ceil(columns / width) * pitch) / 4;
    const right = Float32Array.from({ length: count }, (_, i) => {
      const column = Math.floor(i / (depth * width)) * width + (i % width);
      return column < columns ? b[(Math.floor(i / width) % depth) * columns + column]! : 0;
    });
    expectSame(bed.read(panels, count), right);
    expectSame(bed.read(other, count), right);
  });

  test.each(SHAPES)("gemm $rows x $columns x $depth", (shape) => {
    const { rows, columns, depth, slack = 0 } = shape;
    const a = randoms(rows * depth, 2);
    const b = randoms(depth * columns, 3);
    const { panels, pitch } = packed(bed, b, columns, depth);
    const source = bed.floats(spread(a, rows, depth, slack));
    const target = bed.output(rows * (columns + slack));
    const { right, scale } = product(a, b, shape);
    const compact = (): Float32Array => {
      const values = bed.read(target, rows * (columns + slack));
      return Float32Array.from({ length: rows * columns }, (_, i) => values[Math.floor(i / columns) * (columns + slack) + (i % columns)]!);
    };
    e.gemm(rows, columns, depth, source, (depth + slack) * 4, panels, pitch, target, (columns + slack) * 4, 1);
    const once = compact();
    expectWithin(once, right, scale, tolerance(depth));
    e.gemm(rows, columns, depth, source, (depth + slack) * 4, panels, pitch, target, (columns + slack) * 4, 0);
    expectWithin(
      compact(),
      right.map((value) => value * 2),
      scale.map((value) => value * 2),
      tolerance(2 * depth),
    );
    // What lies between rows of C is not ours.
    const gaps = bed.read(target, rows * (columns + slack)).filter((_, i) => i % (columns + slack) >= columns);
    expect(gaps.every(Number.isNaN)).toBe(true);
  });

  test("every tile, row split and depth split gives the same bits", () => {
    const shape = { rows: 103, columns: 77, depth: 300 };
    const { rows, columns, depth } = shape;
    const { panels, pitch } = packed(bed, randoms(depth * columns, 5), columns, depth);
    const source = bed.floats(randoms(rows * depth, 4));
    const width = e.panelColumns() * 4;
    const results: Int32Array[] = [];
    const keep = (run: (target: number) => void): void => {
      const target = bed.output(rows * columns);
      run(target);
      results.push(bed.i32.slice(target / 4, target / 4 + rows * columns));
    };
    keep((target) => e.gemm(rows, columns, depth, source, depth * 4, panels, pitch, target, columns * 4, 1));
    // So many rows have a tile of their own; one and two of them take several panels side by side.
    for (const step of [1, 2, 3, 4, 5, 6, 7]) {
      keep((target) => {
        for (let row = 0; row < rows; row += step) {
          const count = Math.min(step, rows - row);
          e.gemm(count, columns, depth, source + row * depth * 4, depth * 4, panels, pitch, target + row * columns * 4, columns * 4, 1);
        }
      });
    }
    keep((target) => {
      for (let k = 0; k < depth; k += 113) {
        e.gemm(rows, columns, Math.min(113, depth - k), source + k * 4, depth * 4, panels + k * width, pitch, target, columns * 4, k === 0 ? 1 : 0);
      }
    });
    for (const result of results) expectSame(result, results[0]!);
  });

  test.each([
    { channels: 3, outputs: 5, side: 6 },
    { channels: 16, outputs: 70, side: 7 },
    { channels: 33, outputs: 24, side: 5 },
    { channels: 200, outputs: 18, side: 4 },
  ])("convolve 3 x 3, $channels -> $outputs channels, reading rows of taps through pointers", ({ channels, outputs, side }) => {
    const depth = 9 * channels;
    const image = randoms(side * side * channels, 6);
    const weights = randoms(depth * outputs, 7);
    const pixels = (side - 2) * (side - 2);
    // Each window row is one segment: three taps of NHWC lie side by side.
    const rows = new Float32Array(pixels * depth);
    const corner = (pixel: number): number => (Math.floor(pixel / (side - 2)) * side + (pixel % (side - 2))) * channels;
    for (let pixel = 0; pixel < pixels; pixel++) {
      for (let y = 0; y < 3; y++) {
        const start = corner(pixel) + y * side * channels;
        rows.set(image.subarray(start, start + 3 * channels), pixel * depth + y * 3 * channels);
      }
    }
    const { panels, pitch } = packed(bed, weights, outputs, depth);
    const source = bed.floats(image);
    const table = bed.room(3 * pixels * 4);
    for (let y = 0; y < 3; y++) {
      for (let pixel = 0; pixel < pixels; pixel++) bed.u32[table / 4 + y * pixels + pixel] = source + (corner(pixel) + y * side * channels) * 4;
    }
    const target = bed.output(pixels * outputs);
    e.convolve(pixels, outputs, 3, 3 * channels, table, pixels * 4, panels, pitch, target, outputs * 4, 1);
    const { right, scale } = product(rows, weights, { rows: pixels, columns: outputs, depth });
    expectWithin(bed.read(target, pixels * outputs), right, scale, tolerance(depth));
    // The order over k is that of one long row: gemm over gathered rows has the same bits.
    const gathered = bed.output(pixels * outputs);
    e.gemm(pixels, outputs, depth, bed.floats(rows), depth * 4, panels, pitch, gathered, outputs * 4, 1);
    expectSame(bed.read(target, pixels * outputs), bed.read(gathered, pixels * outputs));
  });
});
