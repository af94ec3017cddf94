/**
 * u8 x s8 matrix products with i32 sums, exact. Two ways, chosen by a probe in `bind`: four bytes per step with the relaxed dot product, if this
 * engine and processor give its full-range answer; else two values per step, widened to 16 bits here. Panels are the same for both.
 */
import { SCRATCH } from "./builds.mjs";
import { dispatcher, tile } from "./tile.mjs";
import { times } from "./emit.mjs";

/** Depth of a block: its panel stays in the first-level cache. */
const BLOCK_DEPTH = 2048;
/** Depth of a block of widened values: in scratch its rows lie beside one widened panel of 16 columns. */
const WIDE_DEPTH = 512;
/** Rows of a block: those that share what is read, and widened, of a panel. */
const BLOCK_ROWS = 96;

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

/** The vectors of a tile's columns are widened together: first their values of the even step, then of the odd one. */
const widening = ({ vectors }) => `
/** \`count\` bytes, whole words -> u16. */
function widenBytes(source: usize, count: u32, target: usize): void {
  const end = source + count;
  while (source + 16 <= end) {
    const v = v128.load(source);
    v128.store(target, i16x8.extend_low_i8x16_u(v));
    v128.store(target, i16x8.extend_high_i8x16_u(v), 16);
    source += 16;
    target += 32;
  }
  while (source < end) {
    v128.store64_lane(target, i16x8.extend_low_i8x16_u(v128.load32_zero(source)), 0);
    source += 4;
    target += 8;
  }
}

/** \`length\` bytes of a panel -> two steps of two 16-bit values where it has one of four bytes. */
function widenPanel(source: usize, length: usize, target: usize): void {
  const end = source + length;
  while (source < end) {
    ${times(
      vectors,
      (i) => `const v${i} = v128.shuffle<u16>(v128.load(source, ${i * 16}), v128.load(source, ${i * 16}), 0, 2, 4, 6, 1, 3, 5, 7);
    v128.store(target, i16x8.extend_low_i8x16_s(v${i}), ${i * 16});
    v128.store(target, i16x8.extend_high_i8x16_s(v${i}), ${(vectors + i) * 16});`,
    ).join("\n    ")}
    source += ${vectors * 16};
    target += ${vectors * 32};
  }
}
`;

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
  const pointers = scratch + ${SCRATCH.POINTERS}, rowsAt = scratch + ${SCRATCH.INTEGER}, panelAt = rowsAt + ${BLOCK_ROWS * WIDE_DEPTH * 2};
  const part: u32 = step == 4 ? ${BLOCK_DEPTH} : ${WIDE_DEPTH};
  const blocks = (rows + ${BLOCK_ROWS - 1}) / ${BLOCK_ROWS}, most = blocks > 1 ? (rows + blocks - 1) / blocks : rows;
  depth = (depth + 3) & ~3;
  for (let row: u32 = 0; row < rows; row += most) {
    const height = min<u32>(most, rows - row);
    for (let i: u32 = 0; i < height; i++) store<u32>(pointers + (i << 2), <u32>(step == 4 ? a + i * aPitch : rowsAt + i * ${WIDE_DEPTH * 2}));
    for (let k: u32 = 0; k < depth; k += part) {
      const count = min<u32>(part, depth - k), length = <usize>count * ${build.vectors * 4};
      if (step != 4) for (let i: u32 = 0; i < height; i++) widenBytes(a + i * aPitch + k, count, rowsAt + i * ${WIDE_DEPTH * 2});
      let panel = panels + k * ${build.vectors * 4}, to = c;
      for (let column: u32 = 0; column < columns; column += ${build.vectors * 4}) {
        const width = min<u32>(${build.vectors * 4}, columns - column);
        if (step == 4) integerTiles(height, width, pointers, k, panel, length, to, cPitch);
        else {
          widenPanel(panel, length, panelAt);
          integerTiles(height, width, pointers, 0, panelAt, length << 1, to, cPitch);
        }
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

export const integerSource = (build) =>
  `${tiles(build)}\n/** A core-local register: what \`bind\` found. */\nlet step: u32 = 2;\n${probe(build)}${widening(build)}${exported(build)}`;
