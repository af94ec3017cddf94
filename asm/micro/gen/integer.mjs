/**
 * u8 x s8 matrix products with i32 sums, exact. Two ways, chosen by a probe in `bind`: four bytes per step with the relaxed dot product, if this
 * engine and processor give its full-range answer; else two values per step, widened to 16 bits.
 */
import { SCRATCH } from "./builds.mjs";
import { dispatcher, tile } from "./tile.mjs";
import { times } from "./emit.mjs";

const BLOCK_ROWS = 96;
/** Depth of a block of widened rows. */
const BLOCK_DEPTH = 512;

function tiles(build) {
  const make = (kind, rows, name) =>
    times(rows, (index) => tile(build, { kind, rows: index + 1, vectors: build.vectors, first: false })).join("\n") +
    dispatcher(name, rows, { kind, vectors: build.vectors, forms: [false] });
  return make("halves", build.integerRows, "halvesTile") + (build.dot ? make("bytes", build.rows, "bytesTile") : "");
}

const probe = (build) =>
  build.dot
    ? `
/** 255 x -128 four times over: -130560 only where the dot product neither saturates nor reads seven bits. Through memory, or the compiler would answer. */
function dotIsExact(): bool {
  const at = scratch + ${SCRATCH.GROUP};
  v128.store(at, i8x16.splat(-128));
  v128.store(at, i8x16.splat(-1), 16);
  v128.store(at, i32x4.splat(1), 32);
  v128.store(at, i32x4.relaxed_dot_i8x16_i7x16_add_s(v128.load(at), v128.load(at, 16), v128.load(at, 32)), 48);
  return load<i32>(at, 48) == -130559 && load<i32>(at, 60) == -130559;
}
`
    : "";

const exported = (build) => `
/** Values of the depth that a step takes: 4 or 2. Panels of one are not panels of the other. */
export function integerStep(): u32 {
  return step;
}

/** Bytes of a panel of that depth. */
export function integerPanelBytes(depth: u32): usize {
  return <usize>((depth + step - 1) / step) * ${build.vectors * 16};
}

/** s8 matrix (bytes between rows, between columns) -> panels; \`sums\` gets the sum of each column, for zero points (i32, \`columns\` of them). */
export function packInteger(source: usize, rowPitch: usize, columnPitch: usize, depth: u32, columns: u32, target: usize, sums: usize): void {
  for (let column: u32 = 0; column < columns; column++) {
    let sum: i32 = 0;
    for (let k: u32 = 0; k < depth; k++) sum += <i32>load<i8>(source + k * rowPitch + column * columnPitch);
    store<i32>(sums + (column << 2), sum);
  }
  for (let column: u32 = 0; column < columns; column += ${build.vectors * 4}) {
    for (let k: u32 = 0; k < depth; k += step) {
      for (let i: u32 = 0; i < ${build.vectors * 4}; i++) {
        for (let j: u32 = 0; j < step; j++) {
          const value: i32 = column + i < columns && k + j < depth ? <i32>load<i8>(source + (k + j) * rowPitch + (column + i) * columnPitch) : 0;
          if (step == 4) store<i8>(target, <i8>value);
          else store<i16>(target, <i16>value);
          target += 4 / step;
        }
      }
    }
  }
}

/** \`count\` bytes -> u16, in steps of 16. */
function widenBytes(source: usize, count: u32, target: usize): void {
  const end = source + count;
  while (source < end) {
    const v = v128.load(source);
    v128.store(target, i16x8.extend_low_i8x16_u(v));
    v128.store(target, i16x8.extend_high_i8x16_u(v), 16);
    source += 16;
    target += 32;
  }
}

/** C += over one block: \`rows\` pointers at \`table\`, \`length\` bytes of every panel. */
function integerBlock(rows: u32, columns: u32, table: usize, offset: usize, panels: usize, length: usize, panelPitch: usize, c: usize, cPitch: usize): void {
  const corner = scratch + ${SCRATCH.EDGE};
  const most: u32 = step == 4 ? ${build.rows} : ${build.integerRows};
  for (let column: u32 = 0; column < columns; column += ${build.vectors * 4}) {
    const width = min<u32>(${build.vectors * 4}, columns - column);
    let at = c;
    for (let row: u32 = 0; row < rows; ) {
      const height = heightOf(rows - row, most), whole = width == ${build.vectors * 4};
      const to = whole ? at : corner, pitch = whole ? cPitch : ${build.vectors * 16};
      if (!whole) for (let i: u32 = 0; i < height; i++) copyShort(corner + i * ${build.vectors * 16}, at + i * cPitch, width);
      ${build.dot ? "if (step == 4) bytesTile(height, 0, table + (row << 2), offset, panels, length, 0, to, pitch);\n      else " : ""}halvesTile(height, 0, table + (row << 2), offset, panels, length, 0, to, pitch);
      if (!whole) for (let i: u32 = 0; i < height; i++) copyShort(at + i * cPitch, corner + i * ${build.vectors * 16}, width);
      at += height * cPitch;
      row += height;
    }
    panels += panelPitch;
    c += ${build.vectors * 16};
  }
}

/**
 * C[rows, columns] (i32) = start[columns] + A (u8) x B (s8 panels of \`packInteger\`). Up to 15 bytes behind a row of A are read, none used.
 * \`start\` carries the bias and the zero points.
 */
export function gemmInteger(rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, start: usize, c: usize, cPitch: usize): void {
  const pointers = scratch + ${SCRATCH.POINTERS}, widened = scratch + ${SCRATCH.INTEGER};
  const panelPitch = integerPanelBytes(depth);
  // Bytes are read in place; widened rows have to fit their place in scratch.
  const part: u32 = step == 4 ? ${BLOCK_DEPTH * 4} : ${BLOCK_DEPTH}, most: u32 = step == 4 ? ${BLOCK_ROWS} : ${65536 / (BLOCK_DEPTH * 2)};
  for (let row: u32 = 0; row < rows; row += most) {
    const height = min<u32>(most, rows - row);
    for (let i: u32 = 0; i < height; i++) {
      memory.copy(c + i * cPitch, start, <usize>columns << 2);
      store<u32>(pointers + (i << 2), <u32>(step == 4 ? a + i * aPitch : widened + i * ${BLOCK_DEPTH * 2}));
    }
    for (let k: u32 = 0; k < depth; k += part) {
      const count = min<u32>(part, depth - k);
      if (step != 4) for (let i: u32 = 0; i < height; i++) widenBytes(a + i * aPitch + k, count, widened + i * ${BLOCK_DEPTH * 2});
      const length = <usize>((count + step - 1) / step) * ${build.vectors * 16};
      integerBlock(height, columns, pointers, step == 4 ? k : 0, panels + (k / step) * ${build.vectors * 16}, length, panelPitch, c, cPitch);
    }
    a += height * aPitch;
    c += height * cPitch;
  }
}
`;

export const integerSource = (build) =>
  `${tiles(build)}\n/** A core-local register: what \`bind\` found. */\nlet step: u32 = 2;\n${probe(build)}${exported(build)}`;
