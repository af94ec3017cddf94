/** u8 x s8 products: exact, over the full range of both. */
import { expectSame, onEveryBuild, random } from "./bed";

const SHAPES = [
  [1, 1, 1],
  [1, 40, 16],
  [5, 8, 3],
  [7, 19, 11],
  [6, 16, 64],
  [13, 33, 130],
  [70, 9, 20],
  [5, 18, 700],
  [3, 5, 2500],
] as const;

onEveryBuild((bed) => {
  const { e } = bed;

  test.each(SHAPES)("%i x %i x %i", (rows, columns, depth) => {
    const next = random(51);
    const byte = (): number => (Math.abs(next()) < 0.1 ? 255 : Math.floor((next() + 1) * 128));
    const a = Uint8Array.from({ length: rows * depth }, byte);
    const b = Int8Array.from({ length: depth * columns }, () => (Math.abs(next()) < 0.1 ? -128 : Math.floor(next() * 128)));
    const start = Int32Array.from({ length: columns }, () => Math.floor(next() * 1e6));
    // The last row may be read 15 bytes further.
    const source = bed.room(rows * depth + 16);
    bed.u8.set(a, source);
    const weights = bed.room(depth * columns);
    bed.u8.set(new Uint8Array(b.buffer), weights);
    const begin = bed.room(columns * 4);
    bed.i32.set(start, begin / 4);
    const sums = bed.room(columns * 4);
    const panels = bed.room(Math.ceil(columns / e.panelColumns()) * e.integerPanelBytes(depth));
    e.packInteger(weights, columns, 1, depth, columns, panels, sums);
    const target = bed.room(rows * columns * 4);
    e.gemmInteger(rows, columns, depth, source, depth, panels, begin, target, columns * 4);
    const right = Int32Array.from({ length: rows * columns }, (_, i) => {
      let sum = start[i % columns]!;
      for (let k = 0; k < depth; k++) sum += a[Math.floor(i / columns) * depth + k]! * b[k * columns + (i % columns)]!;
      return sum;
    });
    expectSame(bed.i32.slice(target / 4, target / 4 + rows * columns), right);
    const columnSums = Int32Array.from({ length: columns }, (_, i) => b.reduce((sum, value, at) => sum + (at % columns === i ? value : 0), 0));
    expectSame(bed.i32.slice(sums / 4, sums / 4 + columns), columnSums);
  });

  test("a step takes two or four values, and only a build with dot products takes four", () => {
    expect([2, 4]).toContain(e.integerStep());
    if (bed.build === "base") expect(e.integerStep()).toBe(2);
  });
});
