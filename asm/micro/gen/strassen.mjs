/**
 * Strassen's scheme for products of 16-bit values: rows, depth and columns are two halves each, and seven products of their sums take the place of eight.
 * Elements are widened bytes, so sums of two have room, and what is added up is whole numbers modulo 2^32: not a bit of the result depends on it.
 *   C11 = 1 + 4 - 5 + 7   1 = (A11 + A22)(B11 + B22)   2 = (A21 + A22) B11           3 = A11 (B12 - B22)
 *   C12 = 3 + 5           4 = A22 (B21 - B11)          5 = (A11 + A12) B22
 *   C21 = 2 + 4           6 = (A21 - A11)(B11 + B12)   7 = (A12 - A22)(B21 + B22)
 *   C22 = 1 - 2 + 3 + 6
 * Both sides need the same seven factors of their quadrants, X11 to X22.
 */
import { times } from "./emit.mjs";

/** Of the quadrants of either side. */
const FACTORS = ["x11", "i16x8.sub(x12, x22)", "i16x8.sub(x21, x11)", "x22", "i16x8.add(x11, x22)", "i16x8.add(x21, x22)", "i16x8.add(x11, x12)"];
export const FACTOR_COUNT = FACTORS.length;
/** In each product, the factors of A and of B. */
const PRODUCTS = [
  [4, 4],
  [5, 0],
  [0, 1],
  [3, 2],
  [6, 3],
  [2, 6],
  [1, 5],
];
/** The scheme takes blocks of at least this size: below, seven products are not worth the sums around them. */
export const LEAST = { rows: 32, columns: 64, depth: 128 };
/** The depth of a block is a multiple of this: a half is read eight bytes at a time. */
export const DEPTH_UNIT = 16;

const factors = `
/** The factors of one vector of each quadrant, \`size\` bytes apart. */
@inline
function storeFactors(at: usize, size: usize, x11: v128, x12: v128, x21: v128, x22: v128): void {
  ${FACTORS.map((factor) => `v128.store(at, ${factor});`).join("\n  at += size;\n  ")}
}
`;

const operands = ({ vectors }) => `
/** A row of the upper half and one \`below\` bytes behind it, \`part\` bytes of depth in each quadrant -> their row of the factors of A. */
function rowFactors(row: usize, below: usize, part: u32, target: usize, size: usize): void {
  for (const end = row + part; row < end; row += 8) {
    storeFactors(target, size, widen8(row), widen8(row + part), widen8(row + below), widen8(row + below + part));
    target += 16;
  }
}

/** Two panels side by side, \`length\` bytes of each quadrant -> the factors of B. */
function panelFactors(panel: usize, next: usize, length: usize, target: usize, size: usize): void {
  for (const end = panel + length; panel < end; panel += ${vectors * 16}) {
    ${times(
      vectors,
      (i) => `{
      const x11 = v128.load(panel, ${i * 16}), x12 = v128.load(next, ${i * 16});
      const x21 = v128.load(panel + length, ${i * 16}), x22 = v128.load(next + length, ${i * 16});
      storeFactors(target + ${i * 16}, size, evenBytes(x11), evenBytes(x12), evenBytes(x21), evenBytes(x22));
      storeFactors(target + ${(vectors + i) * 16}, size, oddBytes(x11), oddBytes(x12), oddBytes(x21), oddBytes(x22));
    }`,
    ).join("\n    ")}
    next += ${vectors * 16};
    target += ${vectors * 32};
  }
}
`;

const products = ({ vectors, integerRows }) => `
/** One product of factors, dense at \`block\`; rows start at the pointers in \`table\` + \`offset\`. */
function factorProduct(rows: u32, table: usize, offset: usize, panel: usize, length: usize, block: usize): void {
  for (let row: u32 = 0; row < rows; ) {
    const height = heightOf(rows - row, ${integerRows});
    halvesTile(height, 1, table + (row << 2), offset, panel, length, 0, block, ${vectors * 16});
    block += height * ${vectors * 16};
    row += height;
  }
}

/** C, two panels wide, += what the products say; they lie behind each other at \`block\`. */
function addProducts(rows: u32, block: usize, c: usize, cPitch: usize): void {
  const size = <usize>rows * ${vectors * 16}, end = block + size;
  for (let low = c + rows * cPitch; block < end; block += ${vectors * 16}) {
    ${times(
      vectors,
      (i) => `{
      ${times(PRODUCTS.length, (k) => `const p${k + 1} = v128.load(block${k ? ` + ${k} * size` : ""}, ${i * 16});`).join("\n      ")}
      const c11 = i32x4.add(v128.load(c, ${i * 16}), i32x4.add(p1, i32x4.add(p4, i32x4.sub(p7, p5))));
      const c12 = i32x4.add(v128.load(c, ${(vectors + i) * 16}), i32x4.add(p3, p5));
      const c21 = i32x4.add(v128.load(low, ${i * 16}), i32x4.add(p2, p4));
      const c22 = i32x4.add(v128.load(low, ${(vectors + i) * 16}), i32x4.add(p1, i32x4.add(p3, i32x4.sub(p6, p2))));
      v128.store(c, c11, ${i * 16});
      v128.store(c, c12, ${(vectors + i) * 16});
      v128.store(low, c21, ${i * 16});
      v128.store(low, c22, ${(vectors + i) * 16});
    }`,
    ).join("\n    ")}
    c += cPitch;
    low += cPitch;
  }
}
`;

/** \`at\`: where row pointers, factors of A, factors of B and products lie in scratch. */
const block = ({ vectors }, at) => `
/** As \`wideBlock\`. A last row or panel without a partner is left to that. */
function strassenBlock(rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panel: usize, panelPitch: usize, c: usize, cPitch: usize): void {
  const table = scratch + ${at.pointers}, rowsAt = scratch + ${at.rows}, panelAt = scratch + ${at.panel}, productsAt = scratch + ${at.products};
  const half = rows >> 1, part = depth >> 1, quadrant = <usize>half * (part << 1);
  for (let i: u32 = 0; i < half; i++) {
    const row = rowsAt + i * (part << 1);
    store<u32>(table + (i << 2), <u32>row);
    rowFactors(a + i * aPitch, half * aPitch, part, row, quadrant);
  }
  const length = <usize>part * ${vectors * 4}, wide = length << 1, product = <usize>half * ${vectors * 16};
  let done: u32 = 0, from = panel, to = c;
  for (; done + ${vectors * 8} <= columns; done += ${vectors * 8}) {
    panelFactors(from, from + panelPitch, length, panelAt, wide);
    ${PRODUCTS.map(([x, y], i) => `factorProduct(half, table, ${x} * quadrant, panelAt + ${y} * wide, wide, productsAt + ${i} * product);`).join("\n    ")}
    addProducts(half, productsAt, to, cPitch);
    from += 2 * panelPitch;
    to += ${vectors * 32};
  }
  if (rows & 1) wideBlock(1, done, depth, a + (rows - 1) * aPitch, aPitch, panel, panelPitch, c + (rows - 1) * cPitch, cPitch);
  if (done < columns) wideBlock(rows, columns - done, depth, a, aPitch, from, panelPitch, to, cPitch);
}
`;

export const strassenSource = (build, at) => `${factors}${operands(build)}${products(build)}${block(build, at)}`;
