/** u8 x s8 products: exact, over the full range of both. */
import { packInteger } from "../../../dist/lib/program/pack-integer";
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
  [32, 64, 128],
  [67, 91, 150],
  [300, 81, 1100],
] as const;

onEveryBuild((bed) => {
  const { e } = bed;

  test.each(SHAPES)("%i x %i x %i", (rows, columns, depth) => {
    const next = random(51);
    const byte = (): number => (Math.abs(next()) < 0.1 ? 255 : Math.floor((next() + 1) * 128));
    const a = Uint8Array.from({ length: rows * depth }, byte);
    const b = Int8Array.from({ length: depth * columns }, () => (Math.abs(next()) < 0.1 ? -128 : Math.floor(next() * 128)));
    const start = Int32Array.from({ length: columns }, () => Math.floor(next() * 1e6));
    // Rows are read to whole words; what lies behind a row counts for nothing.
    const pitch = (depth + 3) & -4;
    const source = bed.room(rows * pitch);
    bed.u8.fill(255, source, source + rows * pitch);
    for (let row = 0; row < rows; row++) bed.u8.set(a.subarray(row * depth, (row + 1) * depth), source + row * pitch);
    const packed = packInteger(b, depth, columns, e.panelColumns());
    const panels = bed.room(packed.length);
    bed.u8.set(packed, panels);
    const target = bed.room(rows * columns * 4);
    for (let row = 0; row < rows; row++) bed.i32.set(start, target / 4 + row * columns);
    e.gemmInteger(rows, columns, depth, source, pitch, panels, pitch * e.panelColumns(), target, columns * 4);
    const right = Int32Array.from({ length: rows * columns }, (_, i) => {
      let sum = start[i % columns]!;
      for (let k = 0; k < depth; k++) sum += a[Math.floor(i / columns) * depth + k]! * b[k * columns + (i % columns)]!;
      return sum;
    });
    expectSame(bed.i32.slice(target / 4, target / 4 + rows * columns), right);
    const columnSums = Int32Array.from({ length: columns }, (_, i) => b.reduce((sum, value, at) => sum + (at % columns === i ? value : 0), 0));
    expectSame(new Int32Array(packed.buffer, packed.length - Math.ceil(columns / e.panelColumns()) * e.panelColumns() * 4, columns), columnSums);
  });

  test("a step takes two or four values, and only a build with dot products takes four", () => {
    expect([2, 4]).toContain(e.integerStep());
    if (bed.build === "base") expect(e.integerStep()).toBe(2);
  });
});
