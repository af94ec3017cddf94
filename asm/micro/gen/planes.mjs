/** Depthwise convolution of row-major planes: the vectors run along a row. Sums start at the bias and take the taps in row-major order, as over NHWC. */
import { SCRATCH } from "./builds.mjs";
import { madd, times } from "./emit.mjs";

/** Rows of the straight-line form that are worked on at once: they share two of the four rows that they read. */
const HEIGHT = 2;

/** Blocks of `step` bytes of a target row, the last one overlapping the one before. */
const blocks = (lanes, lines) => `  const last = <usize>(columns - ${lanes}) << 2;
  let at: usize = 0;
  do {
${lines.map((line) => `    ${line}`).join("\n")}
    at = at < last ? min<usize>(at + ${lanes * 4}, last) : at + ${lanes * 4};
  } while (at <= last);
`;

/** What both forms begin with, and their answer: whether a NaN may have been stored (then the sum of all is NaN). */
const opening = (vectors) => `  const limits = scratch + ${SCRATCH.LIMITS};
${times(vectors, (v) => `  let m${v} = f32x4.splat(0);`).join("\n")}
`;
const answer = (vectors) => `  return u32(v128.any_true(${times(vectors, (v) => `f32x4.ne(m${v}, m${v})`).reduce((a, b) => `v128.or(${a}, ${b})`)}));
`;

/** Inside the loop, as everywhere in these modules. */
const splats = ["const least = v128.load32_splat(limits), greatest = v128.load32_splat(limits, 4), z = f32x4.splat(start);"];

/** Limits, marks and stores of the sums s<row>_<vector>. */
function closing(rows, vectors) {
  const each = (make) => times(rows, (row) => times(vectors, (v) => make(row, v))).flat();
  return [
    ...each((row, v) => `s${row}_${v} = f32x4.pmin(f32x4.pmax(s${row}_${v}, least), greatest);`),
    ...each((row, v) => `m${v} = f32x4.add(m${v}, s${row}_${v});`),
    ...each((row, v) => `v128.store(target + at${row ? ` + targetPitch * ${row}` : ""}, s${row}_${v}, ${v * 16});`),
  ];
}

/** 3 x 3, steps and dilations of 1: a source row is loaded once for all rows of the target that it touches. */
function squareTile(build, rows, vectors) {
  const lines = [...splats, ...times(rows, (row) => times(vectors, (v) => `let s${row}_${v} = z;`)).flat()];
  times(rows + 2, (y) => {
    lines.push(`const q${y} = source + at${y ? ` + pitch * ${y}` : ""};`);
    times(3, (x) => {
      times(vectors, (v) => lines.push(`const x${y}_${x}_${v} = v128.load(q${y}, ${x * 4 + v * 16});`));
      for (const row of times(rows, (each) => each).filter((each) => y - each >= 0 && y - each < 3)) {
        times(vectors, (v) => lines.push(`s${row}_${v} = ${madd(build, `x${y}_${x}_${v}`, `w${(y - row) * 3 + x}`, `s${row}_${v}`)};`));
      }
    });
  });
  return `
function plane3(source: usize, pitch: usize, weights: usize, start: f32, target: usize, targetPitch: usize, columns: u32): u32 {
${opening(vectors)}${times(9, (tap) => `  const w${tap} = v128.load32_splat(weights, ${tap * 4});`).join("\n")}
${blocks(vectors * 4, [...lines, ...closing(rows, vectors)])}${answer(vectors)}}
`;
}

/** One row of any window with a step of 1 or 2 along the row: other windows, the last row of an odd number, narrow images. */
function rowTile(build, step) {
  const pixels = step === 1 ? "v128.load(q)" : "v128.shuffle<f32>(v128.load(q), v128.load(q, 16), 0, 2, 4, 6)";
  const lines = [
    ...splats,
    "let s0_0 = z;",
    `let p = source + at * ${step}, w = weights;`,
    "for (let y: u32 = 0; y < height; y++) {",
    "  let q = p;",
    "  for (let x: u32 = 0; x < width; x++) {",
    "    const k = v128.load32_splat(w);",
    `    s0_0 = ${madd(build, pixels, "k", "s0_0")};`,
    "    q += across;",
    "    w += 4;",
    "  }",
    "  p += down;",
    "}",
  ];
  return `
function planeRow${step}(
  height: u32, width: u32, source: usize, down: usize, across: usize, weights: usize, start: f32, target: usize, columns: u32,
): u32 {
${opening(1)}${blocks(4, [...lines, ...closing(1, 1)])}${answer(1)}}
`;
}

export function planesSource(build) {
  const wide = build.depthwise * 4;
  const tiles = [squareTile(build, HEIGHT, build.depthwise), rowTile(build, 1), rowTile(build, 2)];
  const row = (step) => `planeRow${step}(height, width, source, down, across, weights, start, target, columns)`;
  return `${tiles.join("")}
/**
 * \`rows\` rows of \`columns\` (at least 4) of one plane. \`source\` is the first tap of the first of them; its rows are \`pitch\` bytes apart and hold their
 * padding; \`down\` and \`across\` are the bytes between taps, \`stepY\` and \`stepX\` (1 or 2) the steps of the window of height x width weights. A vector
 * may be read behind the last tap. Limits as in \`gemm\`. Returns whether a NaN may have been stored, in any form.
 */
export function depthwisePlane(
  height: u32, width: u32, stepY: u32, stepX: u32, down: usize, across: usize, rows: u32, columns: u32, source: usize, pitch: usize, weights: usize,
  start: f32, target: usize, targetPitch: usize, least: f32, greatest: f32,
): u32 {
  setLimits(least, greatest);
  let found: u32 = 0;
  const square = height == 3 && width == 3 && stepY == 1 && stepX == 1 && down == pitch && across == 4 && columns >= ${wide};
  while (rows > 0) {
    const count: u32 = square && rows >= ${HEIGHT} ? ${HEIGHT} : 1;
    if (count > 1) found |= plane3(source, pitch, weights, start, target, targetPitch, columns);
    else found |= stepX == 1 ? ${row(1)} : ${row(2)};
    source += count * stepY * pitch;
    target += count * targetPitch;
    rows -= count;
  }
  return found;
}
`;
}
