/**
 * u8 x s8 matrix products with i32 sums, exact. Two ways, chosen by a probe in `bind`: four bytes per step with the relaxed dot product, if this
 * engine and processor give its full-range answer; else two values per step, widened to 16 bits here. Panels are the same for both. What widens takes
 * values 0 and 2, then 1 and 3 of each four: that needs shifts only.
 */
import { SCRATCH } from "./builds.mjs";
import { DEPTH_UNIT, FACTOR_COUNT, LEAST, strassenSource } from "./strassen.mjs";
import { dispatcher, tile } from "./tile.mjs";
import { times } from "./emit.mjs";

/** Depth of a block: its panel stays in the first-level cache. */
const BLOCK_DEPTH = 2048;
/** Depth of a block of widened values: its rows and panels lie in scratch. */
const WIDE_DEPTH = 512;
/** Rows of a block: those that share what is read, and widened, of a panel. */
const BLOCK_ROWS = 128;

/** Where widened values lie in scratch: room for the factors of a block (a quarter of it each), of two panels of 16 columns, and for their products. */
const ROWS_AT = SCRATCH.INTEGER;
const PANEL_AT = ROWS_AT + (FACTOR_COUNT * BLOCK_ROWS * WIDE_DEPTH * 2) / 4;
const PRODUCTS_AT = PANEL_AT + (FACTOR_COUNT * 2 * 16 * WIDE_DEPTH * 2) / 4;
if (PRODUCTS_AT + (FACTOR_COUNT * BLOCK_ROWS * 16 * 4) / 2 > SCRATCH.BYTES) throw new Error("the widened values do not fit into scratch");

function tiles(build) {
  const { vectors } = build;
  const make = (kind, rows, name, forms) =>
    forms.flatMap((first) => times(rows, (index) => tile(build, { kind, rows: index + 1, vectors, first }))).join("\n") +
    dispatcher(name, rows, { kind, vectors, forms });
  const halves = make("halves", build.integerRows, "halvesTile", build.strassen ? [true, false] : [false]);
  return halves + (build.dot ? make("bytes", build.rows, "bytesTile", [false]) : "");
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

const widening = ({ vectors }) => `
/** Values 0 and 2 of each four (int8). */
@inline
function evenBytes(v: v128): v128 {
  return i16x8.shr_s(i16x8.shl(v, 8), 8);
}

@inline
function oddBytes(v: v128): v128 {
  return i16x8.shr_s(v, 8);
}

/** Eight bytes (uint8). */
@inline
function widen8(source: usize): v128 {
  const v = v128.load64_zero(source);
  return v128.shuffle<u32>(v128.and(v, i16x8.splat(255)), i16x8.shr_u(v, 8), 0, 4, 1, 5);
}

/** \`count\` bytes, whole words. */
function widenRow(source: usize, count: u32, target: usize): void {
  const end = source + count;
  for (; source + 8 <= end; source += 8) {
    v128.store(target, widen8(source));
    target += 16;
  }
  if (source < end) {
    const word = load<u32>(source);
    store<u32>(target, word & 0x00ff00ff);
    store<u32>(target, word >> 8 & 0x00ff00ff, 4);
  }
}

/** \`length\` bytes of a panel. */
function widenPanel(source: usize, length: usize, target: usize): void {
  for (const end = source + length; source < end; source += ${vectors * 16}) {
    ${times(
      vectors,
      (i) => `const v${i} = v128.load(source, ${i * 16});
    v128.store(target, evenBytes(v${i}), ${i * 16});
    v128.store(target, oddBytes(v${i}), ${(vectors + i) * 16});`,
    ).join("\n    ")}
    target += ${vectors * 32};
  }
}

/** One block of the depth, C += A x B as \`gemmInteger\` has them: rows are widened at once, panels one by one. */
function wideBlock(rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panel: usize, panelPitch: usize, c: usize, cPitch: usize): void {
  const table = scratch + ${SCRATCH.POINTERS}, panelAt = scratch + ${PANEL_AT}, length = <usize>depth * ${vectors * 4};
  for (let i: u32 = 0; i < rows; i++) {
    const row = scratch + ${ROWS_AT} + i * (depth << 1);
    store<u32>(table + (i << 2), <u32>row);
    widenRow(a + i * aPitch, depth, row);
  }
  for (let column: u32 = 0; column < columns; column += ${vectors * 4}) {
    widenPanel(panel, length, panelAt);
    integerTiles(rows, min<u32>(${vectors * 4}, columns - column), table, 0, panelAt, length << 1, c, cPitch);
    panel += panelPitch;
    c += ${vectors * 16};
  }
}
`;

const strassenChoice = `if (height >= ${LEAST.rows} && columns >= ${LEAST.columns} && count >= ${LEAST.depth}) {
          count &= ~${DEPTH_UNIT - 1};
          strassenBlock(height, columns, count, a + k, aPitch, panel, panelPitch, c, cPitch);
        } else `;

const exported = (build) => `
/** C += over one block: \`rows\` pointers at \`table\`, \`length\` bytes of a panel, \`width\` columns. */
function integerTiles(rows: u32, width: u32, table: usize, offset: usize, panel: usize, length: usize, c: usize, cPitch: usize): void {
  const corner = scratch + ${SCRATCH.EDGE};
  const most: u32 = step == 4 ? ${build.rows} : ${build.integerRows};
  const whole = width == ${build.vectors * 4}, pitch = whole ? cPitch : ${build.vectors * 16};
  for (let row: u32 = 0; row < rows; ) {
    const height = heightOf(rows - row, most);
    const to = whole ? c : corner;
    if (!whole) for (let i: u32 = 0; i < height; i++) copyShort(corner + i * ${build.vectors * 16}, c + i * cPitch, width);
    ${build.dot ? "if (step == 4) bytesTile(height, 0, table + (row << 2), offset, panel, length, 0, to, pitch);\n    else " : ""}halvesTile(height, 0, table + (row << 2), offset, panel, length, 0, to, pitch);
    if (!whole) for (let i: u32 = 0; i < height; i++) copyShort(c + i * cPitch, corner + i * ${build.vectors * 16}, width);
    c += height * cPitch;
    row += height;
  }
}

/**
 * C[rows, columns] (i32) += A (u8) x B (s8 in panels [column / panelColumns][k / 4][column][4], zeros behind the last k and the last column). A row of A
 * is read to a whole word.
 */
export function gemmInteger(rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize): void {
  const table = scratch + ${SCRATCH.POINTERS};
  const blocks = (rows + ${BLOCK_ROWS - 1}) / ${BLOCK_ROWS}, most = blocks > 1 ? (rows + blocks - 1) / blocks : rows;
  depth = (depth + 3) & ~3;
  for (let row: u32 = 0; row < rows; row += most) {
    const height = min<u32>(most, rows - row);
    for (let k: u32 = 0, count: u32 = 0; k < depth; k += count) {
      count = min<u32>(step == 4 ? ${BLOCK_DEPTH} : ${WIDE_DEPTH}, depth - k);
      let panel = panels + k * ${build.vectors * 4}, to = c;
      if (step != 4) {
        ${build.strassen ? strassenChoice : ""}wideBlock(height, columns, count, a + k, aPitch, panel, panelPitch, c, cPitch);
        continue;
      }
      for (let i: u32 = 0; i < height; i++) store<u32>(table + (i << 2), <u32>(a + i * aPitch));
      for (let column: u32 = 0; column < columns; column += ${build.vectors * 4}) {
        integerTiles(height, min<u32>(${build.vectors * 4}, columns - column), table, k, panel, <usize>count * ${build.vectors * 4}, to, cPitch);
        panel += panelPitch;
        to += ${build.vectors * 16};
      }
    }
    a += height * aPitch;
    c += height * cPitch;
  }
}

/** Values of the depth that a step takes here: 4 or 2. */
export function integerStep(): u32 {
  return step;
}
`;

const AT = { pointers: SCRATCH.POINTERS, rows: ROWS_AT, panel: PANEL_AT, products: PRODUCTS_AT };

export const integerSource = (build) =>
  `${tiles(build)}\n/** A core-local register: what \`bind\` found. */\nlet step: u32 = 2;\n${probe(build)}${exported(build)}${widening(build)}${build.strassen ? strassenSource(build, AT) : ""}`;
