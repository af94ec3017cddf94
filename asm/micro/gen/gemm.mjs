/** f32 matrix products over packed panels: gemm, gemv (its case of one row) and convolution through a table of row pointers. */
import { SCRATCH } from "./builds.mjs";
import { dispatcher, tile, tileName } from "./tile.mjs";
import { times } from "./emit.mjs";

/** Rows whose part of A stays in the second-level cache, and the depth whose panel stays in the first. */
const BLOCK_ROWS = 128;
const BLOCK_DEPTH = 512;

function tiles(build) {
  const half = build.vectors / 2;
  const shapes = times(build.rows, (index) => [build.vectors, half].map((vectors) => ({ rows: index + 1, vectors }))).flat();
  shapes.push({ rows: 1, vectors: build.vectors, panels: build.single }, { rows: 2, vectors: build.vectors, panels: build.pair });
  const both = shapes.flatMap((shape) => [true, false].map((first) => ({ ...shape, first })));
  const dispatch = (name, vectors) => dispatcher(name, build.rows, { kind: "float", vectors, forms: [true, false] });
  return both.map((shape) => tile(build, shape)).join("\n") + dispatch("floatTile", build.vectors) + dispatch("floatHalfTile", half);
}

/** Runs of several panels for one or two rows; what is left goes the common way. */
function sideBySide(build, rows, panels) {
  const shape = { rows, vectors: build.vectors, panels };
  const call = (first) => `${tileName({ ...shape, first })}(table, offset, b, length, panelPitch, c, cPitch, bias)`;
  return `  if (rows == ${rows}) {
    const start = c;
    while (left >= ${build.vectors * 4 * panels}) {
      if (first) ${call(true)};
      else ${call(false)};
      left -= ${build.vectors * 4 * panels};
      b += panelPitch * ${panels};
      c += ${build.vectors * 16 * panels};
      bias += biasStep * ${panels};
    }
    // A dense row is a column of panels.
    if (limits) for (let i: u32 = 0; i < ${rows}; i++) finish((c - start) / ${build.vectors * 16}, start + i * cPitch, ${build.vectors * 16}, limits);
  }
`;
}

/** Sums of one panel of columns (or half of it), still in the first-level cache: between the limits, and NaN, if there is one, in its one form. */
const finish = (name, vectors) => {
  const each = (line) => times(vectors, line).join("\n    ");
  return `
function ${name}(rows: u32, c: usize, cPitch: usize, limits: usize): void {
  const marks = scratch + ${SCRATCH.BIAS + 64};
  ${times(vectors, (v) => `let m${v} = i32x4.splat(0);`).join(" ")}
  let at = c;
  for (let row: u32 = 0; row < rows; row++) {
    const least = v128.load32_splat(limits), greatest = v128.load32_splat(limits, 4);
    ${each((v) => `const x${v} = v128.load(at, ${v * 16});`)}
    ${each((v) => `const y${v} = f32x4.pmin(f32x4.pmax(x${v}, least), greatest);`)}
    ${each((v) => `m${v} = v128.or(m${v}, f32x4.ne(x${v}, x${v}));`)}
    ${each((v) => `v128.store(at, y${v}, ${v * 16});`)}
    at += cPitch;
  }
  ${times(vectors, (v) => `v128.store(marks, m${v}, ${v * 16});`).join("\n  ")}
  let found: u64 = 0;
  for (let i: usize = 0; i < ${vectors * 16}; i += 8) found |= load<u64>(marks + i);
  if (!found) return;
  for (let row: u32 = 0; row < rows; row++) {
    for (let i: usize = 0; i < ${vectors * 16}; i += 4) if (isNaN(load<f32>(c + i))) store<u32>(c + i, 0x7fc00000);
    c += cPitch;
  }
}
`;
};

const common = (build) => `
/** Rows of the next tile: the most, and at the end as few tiles of nearly equal height as can be. Which tile has a row changes no bit of it. */
@inline
function heightOf(left: u32, most: u32): u32 {
  if (left > most * (most - 1)) return most;
  const tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}

/** Depth of equal parts that leave the panel in the first-level cache; sums go on over parts, so they do not show in a result. */
@inline
function partOf(depth: u32): u32 {
  const parts = (depth + ${BLOCK_DEPTH - 1}) / ${BLOCK_DEPTH};
  return parts > 1 ? (depth + parts - 1) / parts : depth;
}

/** The limits of this call, where \`finish\` takes them from. NaN limits nothing: pmin and pmax pass it over. 0 for sums that somebody else finishes. */
function setLimits(least: f32, greatest: f32): usize {
  const at = scratch + ${SCRATCH.LIMITS};
  store<f32>(at, least);
  store<f32>(at, greatest, 4);
  return least == -Infinity ? 0 : at;
}

${finish("finish", build.vectors)}${finish("finishHalf", build.vectors / 2)}
/** \`count\` elements of 4 bytes. */
@inline
function copyShort(target: usize, source: usize, count: u32): void {
  const end = target + (<usize>count << 2);
  while (target + 16 <= end) {
    v128.store(target, v128.load(source));
    target += 16;
    source += 16;
  }
  while (target < end) {
    store<u32>(target, load<u32>(source));
    target += 4;
    source += 4;
  }
}

/** The last columns, fewer than a panel: in scratch, since a tile loads and stores whole vectors. */
function edge(rows: u32, columns: u32, table: usize, offset: usize, b: usize, length: usize, c: usize, cPitch: usize, first: u32, bias: usize, limits: usize): void {
  const corner = scratch + ${SCRATCH.EDGE}, ending = scratch + ${SCRATCH.BIAS};
  copyShort(ending, bias, columns);
  for (let row: u32 = 0; row < rows; ) {
    const height = heightOf(rows - row, ${build.rows});
    const from = table + (row << 2);
    if (!first) for (let i: u32 = 0; i < height; i++) copyShort(corner + i * ${build.vectors * 16}, c + i * cPitch, columns);
    if (columns <= ${build.vectors * 2}) floatHalfTile(height, first, from, offset, b, length, 0, corner, ${build.vectors * 16}, ending);
    else floatTile(height, first, from, offset, b, length, 0, corner, ${build.vectors * 16}, ending);
    if (limits) finish(height, corner, ${build.vectors * 16}, limits);
    for (let i: u32 = 0; i < height; i++) copyShort(c + i * cPitch, corner + i * ${build.vectors * 16}, columns);
    c += height * cPitch;
    row += height;
  }
}

/** rows x columns of C from \`depth\` steps of the rows at table[i] + offset. Panels outside, rows inside: the panel stays in the first-level cache. */
function block(
  rows: u32, columns: u32, depth: u32, table: usize, offset: usize, b: usize, panelPitch: usize, c: usize, cPitch: usize, first: u32, bias: usize, limits: usize,
): void {
  const length = <usize>depth * ${build.vectors * 16};
  const biasStep: usize = bias ? ${build.vectors * 16} : 0;
  if (!bias) bias = scratch + ${SCRATCH.ZEROS};
  let left = columns;
${sideBySide(build, 1, build.single)}${sideBySide(build, 2, build.pair)}  while (left >= ${build.vectors * 4}) {
    let at = c;
    for (let row: u32 = 0; row < rows; ) {
      const height = heightOf(rows - row, ${build.rows});
      floatTile(height, first, table + (row << 2), offset, b, length, 0, at, cPitch, bias);
      at += height * cPitch;
      row += height;
    }
    left -= ${build.vectors * 4};
    b += panelPitch;
    if (limits) finish(rows, c, cPitch, limits);
    c += ${build.vectors * 16};
    bias += biasStep;
  }
  if (left == ${build.vectors * 2}) {
    let at = c;
    for (let row: u32 = 0; row < rows; ) {
      const height = heightOf(rows - row, ${build.rows});
      floatHalfTile(height, first, table + (row << 2), offset, b, length, 0, at, cPitch, bias);
      at += height * cPitch;
      row += height;
    }
    if (limits) finishHalf(rows, c, cPitch, limits);
  } else if (left) edge(rows, left, table, offset, b, length, c, cPitch, first, bias, limits);
}
`;

const exported = (build) => `
/** Elements of a row of a panel: weights are packed in panels of this many columns. */
export function panelColumns(): u32 {
  return ${build.vectors * 4};
}

/** The depth x columns matrix at \`source\` (bytes between rows and between columns) -> panels [columns / P][depth][P]; missing columns are 0. */
export function pack(source: usize, rowPitch: usize, columnPitch: usize, depth: u32, columns: u32, target: usize): void {
  for (let column: u32 = 0; column < columns; column += ${build.vectors * 4}) {
    const width = min<u32>(${build.vectors * 4}, columns - column);
    let row = source + column * columnPitch;
    for (let k: u32 = 0; k < depth; k++) {
      if (width == ${build.vectors * 4} && columnPitch == 4) {
        ${times(build.vectors, (vector) => `v128.store(target, v128.load(row, ${vector * 16}), ${vector * 16});`).join("\n        ")}
      } else {
        for (let i: u32 = 0; i < ${build.vectors * 4}; i++) store<f32>(target + (i << 2), i < width ? load<f32>(row + i * columnPitch) : 0);
      }
      row += rowPitch;
      target += ${build.vectors * 16};
    }
  }
}

/**
 * C[rows, columns] = A[rows, depth] x B, or += if not \`first\`. A row by row, \`aPitch\` bytes apart, read in place; B in panels, \`panelPitch\` bytes
 * from one to the next (so a part of the depth is a shifted \`panels\`); C \`cPitch\` bytes apart. Any shape, also depth 0. With \`first\` a row starts
 * from the \`columns\` floats at \`bias\` (0: from zeros). What is stored is not below \`least\` nor above \`greatest\` (NaN: no limit); NaN has one form. With
 * \`least\` -Infinity sums are stored as they are.
 */
export function gemm(
  rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize, first: u32, bias: usize, least: f32,
  greatest: f32,
): void {
  product(rows, columns, depth, a, aPitch, panels, panelPitch, c, cPitch, first, bias, setLimits(least, greatest));
}

/** \`limits\` 0: sums that are not stored for anybody else. */
function product(
  rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize, first: u32, bias: usize, limits: usize,
): void {
  const pointers = scratch + ${SCRATCH.POINTERS};
  // One or two rows read every panel once: nothing to keep in a cache.
  const part = rows <= 2 ? depth : partOf(depth);
  const blocks = (rows + ${BLOCK_ROWS - 1}) / ${BLOCK_ROWS}, most = blocks > 1 ? (rows + blocks - 1) / blocks : rows;
  for (let row: u32 = 0; row < rows; row += most) {
    const height = min<u32>(most, rows - row);
    for (let i: u32 = 0; i < height; i++) {
      store<u32>(pointers + (i << 2), <u32>a);
      a += aPitch;
    }
    let k: u32 = 0;
    do {
      const count = min<u32>(part, depth - k), start = u32(first != 0 && k == 0), end = k + count == depth;
      block(height, columns, count, pointers, k << 2, panels + k * ${build.vectors * 16}, panelPitch, c, cPitch, start, bias, end ? limits : 0);
      k += part;
    } while (k < depth);
    c += height * cPitch;
  }
}

/**
 * C[rows, columns] = sum over segments of A_s x B_s: implicit convolution. Row i of segment s is \`depth\` f32 at table[s * tablePitch / 4 + i]
 * (u32 addresses; out-of-range taps point to zeros); taps that lie side by side make one long segment. Panels hold segments x depth rows. Bias and
 * limits as in \`gemm\`.
 */
export function convolve(
  rows: u32, columns: u32, segments: u32, depth: u32, table: usize, tablePitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize, first: u32,
  bias: usize, least: f32, greatest: f32,
): void {
  const part = partOf(depth);
  const limits = setLimits(least, greatest);
  for (let column: u32 = 0; column < columns; column += ${build.vectors * 16}) {
    const width = min<u32>(${build.vectors * 16}, columns - column);
    let from = table;
    let b = panels;
    for (let segment: u32 = 0; segment < segments; segment++) {
      let k: u32 = 0;
      do {
        const count = min<u32>(part, depth - k);
        const start = u32(first != 0 && segment == 0 && k == 0), end = segment + 1 == segments && k + count == depth;
        block(rows, width, count, from, k << 2, b, panelPitch, c, cPitch, start, bias, end ? limits : 0);
        k += part;
        b += count * ${build.vectors * 16};
      } while (k < depth);
      from += tablePitch;
    }
    panels += panelPitch << 2;
    c += ${build.vectors * 64};
    if (bias) bias += ${build.vectors * 64};
  }
}
`;

export const gemmSource = (build) => `${tiles(build)}\n${common(build)}${exported(build)}`;
