/**
 * Functions of whole rows: softmax, layer norm, sums and maxima. A row of any length is whole groups of 16 elements and one padded group;
 * running sums lie in scratch between the two, four vectors wide, so every row length goes the same way and folds in one order.
 */
import { SCRATCH } from "./builds.mjs";
import { Body, times } from "./emit.mjs";
import { expNegative } from "./functions.mjs";

const GROUP_BYTES = 64;

/**
 * A loop over groups from `a` to `end`. `write(body, x, sums)` returns { sums, out }: the new running sums and what goes to `target`.
 * `splats`: f32 parameters that stand for a vector. Running sums are vectors at `sums`.
 */
function groupLoop(build, constants, { name, vectors, running, output, splats = [], pointers = [], write }) {
  const body = new Body(build, constants, vectors);
  const x = body.load("a");
  const others = Object.fromEntries(pointers.map((pointer) => [pointer, body.load(pointer)]));
  const names = times(vectors, (index) => `sum${index}`);
  const result = write(body, x, { sums: names, ...others });
  if (output) body.store("target", result.out);
  if (running) times(vectors, (index) => body.line(`sum${index} = ${result.sums[index]};`));
  const parameters = [
    "a: usize",
    "end: usize",
    ...(output ? ["target: usize"] : []),
    ...pointers.map((pointer) => `${pointer}: usize`),
    ...splats.map((splat) => `${splat}Value: f32`),
  ];
  const moved = ["a", ...(output ? ["target"] : []), ...pointers];
  return `
function ${name}(${parameters.join(", ")}): void {
  const table = scratch;
  const sums = scratch + ${SCRATCH.SUMS};
${splats.map((splat) => `  const ${splat} = f32x4.splat(${splat}Value);\n`).join("")}${running ? times(vectors, (index) => `  let sum${index} = v128.load(sums, ${index * 16});\n`).join("") : ""}  while (a < end) {
${body.text()}
${moved.map((pointer) => `    ${pointer} += ${vectors * 16};`).join("\n")}
  }
${running ? times(vectors, (index) => `  v128.store(sums, sum${index}, ${index * 16});\n`).join("") : ""}}
`;
}

const loops = (build, constants) =>
  [
    { name: "maxGroups", vectors: 4, running: true, write: (body, x, { sums }) => ({ sums: body.call("f32x4.max", sums, x) }) },
    { name: "sumGroups", vectors: 4, running: true, write: (body, x, { sums }) => ({ sums: body.add(sums, x) }) },
    {
      name: "deviationGroups",
      vectors: 4,
      running: true,
      splats: ["mean"],
      write(body, x, { sums }) {
        const d = body.sub(x, "mean");
        return { sums: body.madd(d, d, sums) };
      },
    },
    {
      name: "exponentGroups",
      vectors: build.span * 2,
      running: true,
      output: true,
      splats: ["most"],
      write(body, x, { sums }) {
        const e = expNegative(body, body.sub(x, "most"));
        return { out: e, sums: body.add(sums, e) };
      },
    },
    { name: "scaleGroups", vectors: 4, output: true, splats: ["factor"], write: (body, x) => ({ out: body.mul(x, "factor") }) },
    {
      name: "normGroups",
      vectors: 4,
      output: true,
      splats: ["mean", "factor"],
      pointers: ["gamma", "beta"],
      write: (body, x, { gamma, beta }) => ({ out: body.madd(body.mul(body.sub(x, "mean"), "factor"), gamma, beta) }),
    },
    { name: "addGroups", vectors: 4, output: true, pointers: ["b"], write: (body, x, { b }) => ({ out: body.add(x, b) }) },
    { name: "largerGroups", vectors: 4, output: true, pointers: ["b"], write: (body, x, { b }) => ({ out: body.call("f32x4.max", x, b) }) },
  ]
    .map((loop) => groupLoop(build, constants, loop))
    .join("");

const helpers = `
/** Sets the four running vectors. */
@inline
function startSums(value: f32): void {
  const sums = scratch + ${SCRATCH.SUMS}, v = f32x4.splat(value);
  v128.store(sums, v);
  v128.store(sums, v, 16);
  v128.store(sums, v, 32);
  v128.store(sums, v, 48);
}

/** Folds the running vectors, in pairs. */
@inline
function foldSum(): f32 {
  const sums = scratch + ${SCRATCH.SUMS};
  const v = f32x4.add(f32x4.add(v128.load(sums), v128.load(sums, 16)), f32x4.add(v128.load(sums, 32), v128.load(sums, 48)));
  return (f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1)) + (f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3));
}

@inline
function foldMax(): f32 {
  const sums = scratch + ${SCRATCH.SUMS};
  const v = f32x4.max(f32x4.max(v128.load(sums), v128.load(sums, 16)), f32x4.max(v128.load(sums, 32), v128.load(sums, 48)));
  return max(max(f32x4.extract_lane(v, 0), f32x4.extract_lane(v, 1)), max(f32x4.extract_lane(v, 2), f32x4.extract_lane(v, 3)));
}

/** The \`index\`th group of scratch, holding \`count\` elements of \`source\` and then \`value\`. */
function padded(index: u32, source: usize, count: u32, value: f32): usize {
  const group = scratch + ${SCRATCH.GROUP} + index * ${GROUP_BYTES};
  const v = f32x4.splat(value);
  v128.store(group, v);
  v128.store(group, v, 16);
  v128.store(group, v, 32);
  v128.store(group, v, 48);
  copyShort(group, source, count);
  return group;
}
`;

const exported = `
/** Softmax of \`rows\` rows of \`count\` f32, \`sourcePitch\` and \`targetPitch\` bytes apart; may run in place. Terms below 2^-126 of the largest are 0. */
export function softmaxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize): void {
  if (!count) return;
  const rest = count & 15, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    startSums(-Infinity);
    maxGroups(source, source + whole);
    const group = rest ? padded(0, source + whole, rest, -Infinity) : 0;
    if (rest) maxGroups(group, group + ${GROUP_BYTES});
    const most = foldMax();
    startSums(0);
    exponentGroups(source, source + whole, target, most);
    if (rest) exponentGroups(group, group + ${GROUP_BYTES}, group, most);
    const factor: f32 = 1 / foldSum();
    scaleGroups(target, target + whole, target, factor);
    if (rest) {
      scaleGroups(group, group + ${GROUP_BYTES}, group, factor);
      copyShort(target + whole, group, rest);
    }
    source += sourcePitch;
    target += targetPitch;
  }
}

/** (x - mean) / sqrt(variance + epsilon) * gamma + beta over rows of \`count\` f32; the variance is taken around the mean, in a second pass. May run in place. */
export function layerNormRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize, gamma: usize, beta: usize, epsilon: f32): void {
  if (!count) return;
  const rest = count & 15, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    startSums(0);
    sumGroups(source, source + whole);
    if (rest) {
      const group = padded(0, source + whole, rest, 0);
      sumGroups(group, group + ${GROUP_BYTES});
    }
    const mean = foldSum() / <f32>count;
    startSums(0);
    deviationGroups(source, source + whole, mean);
    const group = rest ? padded(0, source + whole, rest, mean) : 0;
    if (rest) deviationGroups(group, group + ${GROUP_BYTES}, mean);
    const factor: f32 = 1 / sqrt<f32>(foldSum() / <f32>count + epsilon);
    normGroups(source, source + whole, target, gamma, beta, mean, factor);
    if (rest) {
      normGroups(group, group + ${GROUP_BYTES}, group, padded(1, gamma + whole, rest, 0), padded(2, beta + whole, rest, 0), mean, factor);
      copyShort(target + whole, group, rest);
    }
    source += sourcePitch;
    target += targetPitch;
  }
}

/** Sums of rows of \`count\` f32, one f32 each to \`target\`. */
export function sumRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize): void {
  const rest = count & 15, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    startSums(0);
    sumGroups(source, source + whole);
    if (rest) {
      const group = padded(0, source + whole, rest, 0);
      sumGroups(group, group + ${GROUP_BYTES});
    }
    store<f32>(target + (row << 2), foldSum());
    source += sourcePitch;
  }
}

/** Largest element of each row, NaN if the row has one; -Infinity for empty rows. */
export function maxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize): void {
  const rest = count & 15, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    startSums(-Infinity);
    maxGroups(source, source + whole);
    if (rest) {
      const group = padded(0, source + whole, rest, -Infinity);
      maxGroups(group, group + ${GROUP_BYTES});
    }
    store<f32>(target + (row << 2), foldMax());
    source += sourcePitch;
  }
}

/** Adds \`rows\` rows of \`count\` f32 element by element into \`target\`, or starts it with the first row. Rows in order: the result does not depend on how rows are split over calls. */
export function sumColumns(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, first: u32): void {
  columns(false, rows, count, source, sourcePitch, target, first);
}

/** As \`sumColumns\`, with the larger of two elements. */
export function maxColumns(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, first: u32): void {
  columns(true, rows, count, source, sourcePitch, target, first);
}

@inline
function columns(larger: bool, rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, first: u32): void {
  const rest = count & 15, whole = <usize>(count - rest) << 2;
  let row: u32 = 0;
  if (first && rows) {
    memory.copy(target, source, <usize>count << 2);
    source += sourcePitch;
    row = 1;
  }
  for (; row < rows; row++) {
    if (larger) largerGroups(target, target + whole, target, source);
    else addGroups(target, target + whole, target, source);
    if (rest) {
      const group = padded(0, target + whole, rest, 0), other = padded(1, source + whole, rest, 0);
      if (larger) largerGroups(group, group + ${GROUP_BYTES}, group, other);
      else addGroups(group, group + ${GROUP_BYTES}, group, other);
      copyShort(target + whole, group, rest);
    }
    source += sourcePitch;
  }
}
`;

export const rowsSource = (build, constants) => loops(build, constants) + helpers + exported;
