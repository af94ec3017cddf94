/**
 * Tiles: rows x columns of C whose sums live in registers while a flat loop runs over k. Rules that V8 needs (each worth up to 2x): no loop in a
 * loop, k unrolled only where the engine does not spill (builds.mjs), one epilogue, so "first" and "add" are two functions; rows of A are read in
 * place through pointers.
 * Floats start from the bias of their column. Nothing else may happen to a sum here: one more use of it behind the loop and V8 11.3 spills inside.
 * A sum runs over k in order, whatever the tile: shapes, blocks and row counts never change a bit of the result.
 */
import { madd, times } from "./emit.mjs";

/** What differs between element types. A step reads 4 bytes of every row of A and one vector row of the panel. */
const KINDS = {
  float: { zero: "f32x4.splat(0)", step: (build, x, b, sum) => madd(build, x, b, sum) },
  // Two 16-bit values per step: exact on every engine.
  halves: { zero: "i32x4.splat(0)", step: (_, x, b, sum) => `i32x4.add(${sum}, i32x4.dot_i16x8_s(${x}, ${b}))` },
  // Four bytes per step, b signed and x unsigned: exact only where the probe in `bind` says so.
  bytes: { zero: "i32x4.splat(0)", step: (_, x, b, sum) => `i32x4.relaxed_dot_i8x16_i7x16_add_s(${b}, ${x}, ${sum})` },
};

/** Lower tiles are what few rows are left for: not worth their size. */
const UNROLLED_ROWS = 5;

export const tileName = ({ kind = "float", rows, vectors, panels = 1, first }) =>
  `${kind}${rows}x${vectors * 4}${panels > 1 ? `x${panels}` : ""}${first ? "First" : "Add"}`;

/**
 * (table, offset, b, length, pitch, c, cPitch): row i of A starts at the pointer table[i] + offset; the panel at `b` is `length` bytes;
 * `pitch` bytes lie between panels. Floats: the bias of the columns is at `bias`.
 */
export function tile(build, shape) {
  const { kind = "float", rows, vectors, panels = 1, first } = shape;
  const { zero, step } = KINDS[kind];
  const unroll = kind === "float" && vectors === build.vectors && rows >= UNROLLED_ROWS ? build.unroll : 1;
  const panelBytes = build.vectors * 16;
  const cells = times(rows, (row) =>
    times(panels, (panel) => times(vectors, (vector) => ({ row, panel, vector, sum: `c${row}_${panel}_${vector}` }))),
  ).flat(2);
  const offsetIn = ({ panel, vector }) => panel * panelBytes + vector * 16;
  const pointer = (row) => `a${row}`;
  const panelPointer = (panel) => (panel === 0 ? "b" : `b${panel}`);
  const lines = [];
  if (!first) lines.push("let p = c;");
  const biased = first && kind === "float";
  const start = (cell) => (biased ? `z${cell.panel}_${cell.vector}` : first ? zero : `v128.load(p, ${offsetIn(cell)})`);
  if (biased) for (const cell of cells.filter((one) => one.row === 0)) lines.push(`const ${start(cell)} = v128.load(bias, ${offsetIn(cell)});`);
  times(rows, (row) => {
    for (const cell of cells.filter((one) => one.row === row)) lines.push(`let ${cell.sum} = ${start(cell)};`);
    if (!first && row + 1 < rows) lines.push("p += cPitch;");
  });
  times(rows, (row) => lines.push(`let ${pointer(row)}: usize = <usize>load<u32>(table, ${row * 4}) + offset;`));
  times(panels - 1, (panel) => lines.push(`let b${panel + 1} = b + pitch * ${panel + 1};`));
  const steps = (count) => {
    times(count, (k) => {
      times(panels, (panel) =>
        times(vectors, (vector) =>
          lines.push(`  const w${k}_${panel}_${vector} = v128.load(${panelPointer(panel)}, ${k * panelBytes + vector * 16});`),
        ),
      );
      times(rows, (row) => {
        lines.push(`  const x${k}_${row} = v128.load32_splat(${pointer(row)}, ${k * 4});`);
        for (const { panel, vector, sum } of cells.filter((one) => one.row === row))
          lines.push(`  ${sum} = ${step(build, `x${k}_${row}`, `w${k}_${panel}_${vector}`, sum)};`);
      });
    });
    times(rows, (row) => lines.push(`  ${pointer(row)} += ${4 * count};`));
    times(panels, (panel) => lines.push(`  ${panelPointer(panel)} += ${panelBytes * count};`));
  };
  lines.push("const end = b + length;");
  if (unroll > 1) {
    lines.push(`while (b + ${panelBytes * unroll} <= end) {`);
    steps(unroll);
    lines.push("}");
  }
  lines.push("while (b < end) {");
  steps(1);
  lines.push("}");
  times(rows, (row) => {
    for (const cell of cells.filter((one) => one.row === row)) lines.push(`v128.store(c, ${cell.sum}, ${offsetIn(cell)});`);
    if (row + 1 < rows) lines.push("c += cPitch;");
  });
  const head = `function ${tileName(shape)}(${parameters(kind)}): void {`;
  return `${head}\n${lines.map((line) => `  ${line}`).join("\n")}\n}\n`;
}

const PARAMETERS = ["table", "offset", "b", "length", "pitch", "c", "cPitch"];
const namesOf = (kind) => (kind === "float" ? [...PARAMETERS, "bias"] : PARAMETERS);
const parameters = (kind) =>
  namesOf(kind)
    .map((name) => `${name}: usize`)
    .join(", ");

/** A call of the tile of `shape`, in a dispatcher with the same parameters. */
export const tileCall = (shape) => `${tileName(shape)}(${namesOf(shape.kind ?? "float").join(", ")})`;

/** The function `name` that runs the tile with `rows` rows (1..most), in "first" or "add" form as asked. */
export function dispatcher(name, most, { kind, vectors, forms }) {
  const cases = (first) =>
    times(most, (index) => `      case ${index + 1}: ${tileCall({ kind, rows: index + 1, vectors, first })}; break;`).join("\n");
  const choice = (first) => `    switch (<i32>rows) {\n${cases(first)}\n      default: unreachable();\n    }\n`;
  const body = forms.length === 2 ? `  if (first) {\n${choice(true)}  } else {\n${choice(false)}  }\n` : choice(forms[0]);
  return `function ${name}(rows: u32, first: u32, ${parameters(kind)}): void {
${body}}
`;
}
