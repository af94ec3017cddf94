/**
 * Functions of whole rows: softmax, layer norm, sums and maxima. A row of any length is whole groups and one padded group, each folded in a
 * fixed order.
 */
import { MOMENT_ROWS, SCRATCH } from "./builds.mjs";
import { Body, times } from "./emit.mjs";
import { expNegative } from "./functions.mjs";

/** Elements of a group: a whole step of the widest loop. */
const groupOf = (build) => Math.max(16, build.sums * 4);

/**
 * A loop over groups from `a` to `end`. `write(body, x, sums)` returns { sums, out }: the new running sums and what goes to `target`.
 * Running sums start at the f32 `start` and end as vectors at `sums`: all stores side by side, or V8 would not see pairs. They do not start in
 * memory, since a load of two fresh stores waits for both. `splats`: f32 parameters that stand for a vector.
 */
function groupLoop(build, constants, { name, vectors = 4, running, output, splats = [], pointers = [], write }) {
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
    ...(output ? ["target: usize"] : ["sums: usize", "start: f32"]),
    ...pointers.map((pointer) => `${pointer}: usize`),
    ...splats.map((splat) => `${splat}Value: f32`),
  ];
  const before = [
    "const table = scratch;",
    ...splats.map((splat) => `const ${splat} = f32x4.splat(${splat}Value);`),
    ...(running ? names.map((sum) => `let ${sum} = f32x4.splat(start);`) : []),
  ];
  const moved = ["a", ...(output ? ["target"] : []), ...pointers];
  const after = running ? names.map((sum, index) => `v128.store(sums, ${sum}, ${index * 16});`) : [];
  return `
function ${name}(${parameters.join(", ")}): void {
  ${before.join("\n  ")}
  while (a < end) {
${body.text()}
${moved.map((pointer) => `    ${pointer} += ${vectors * 16};`).join("\n")}
  }
  ${after.join("\n  ")}
}
`;
}

const loops = (build, constants) =>
  [
    { name: "maxGroups", vectors: build.sums, running: true, write: (body, x, { sums }) => ({ sums: body.call("f32x4.max", sums, x) }) },
    // For softmax: one instruction where the exact maximum takes six. It passes over NaN, which the exponents then bring back.
    { name: "largestGroups", vectors: build.sums, running: true, write: (body, x, { sums }) => ({ sums: body.call("f32x4.pmax", sums, x) }) },
    { name: "sumGroups", vectors: build.sums, running: true, write: (body, x, { sums }) => ({ sums: body.add(sums, x) }) },
    {
      name: "deviationGroups",
      vectors: build.sums,
      running: true,
      splats: ["mean"],
      write(body, x, { sums }) {
        const d = body.sub(x, "mean");
        return { sums: body.madd(d, d, sums) };
      },
    },
    {
      name: "exponentGroups",
      vectors: build.strip,
      output: true,
      splats: ["most"],
      write: (body, x) => ({ out: expNegative(body, body.sub(x, "most")) }),
    },
    { name: "scaleGroups", output: true, splats: ["factor"], write: (body, x) => ({ out: body.mul(x, "factor") }) },
    {
      name: "normGroups",
      output: true,
      splats: ["mean", "factor"],
      pointers: ["gamma", "beta"],
      write: (body, x, { gamma, beta }) => ({ out: body.madd(body.mul(body.sub(x, "mean"), "factor"), gamma, beta) }),
    },
    { name: "addGroups", output: true, pointers: ["b"], write: (body, x, { b }) => ({ out: body.add(x, b) }) },
    { name: "largerGroups", output: true, pointers: ["b"], write: (body, x, { b }) => ({ out: body.call("f32x4.max", x, b) }) },
  ]
    .map((loop) => groupLoop(build, constants, loop))
    .join("");

/** Folds vectors in pairs: neighbours, then pairs of neighbours. */
function foldText(name, count) {
  const fold = (texts) =>
    texts.length === 1 ? texts[0] : fold(times(texts.length / 2, (index) => `${name}(${texts[2 * index]}, ${texts[2 * index + 1]})`));
  return fold(times(count, (index) => `v128.load(sums, ${index * 16})`));
}

const helpers = (build) => `
/** Running sums 0 and 1: of the whole groups, and of the padded one. */
@inline
function sumsAt(index: u32): usize {
  return scratch + ${SCRATCH.SUMS} + index * ${build.sums * 16};
}

function foldSum(sums: usize): f32 {
  const v = ${foldText("f32x4.add", build.sums)};
  return (f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1)) + (f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3));
}

function foldMax(sums: usize): f32 {
  const v = ${foldText("f32x4.max", build.sums)};
  return max(max(f32x4.extract_lane(v, 0), f32x4.extract_lane(v, 1)), max(f32x4.extract_lane(v, 2), f32x4.extract_lane(v, 3)));
}

/** The \`index\`th group of scratch, holding \`count\` elements of \`source\` and then \`value\`. */
function padded(index: u32, source: usize, count: u32, value: f32): usize {
  const group = scratch + ${SCRATCH.GROUP} + index * ${groupOf(build) * 4};
  const v = f32x4.splat(value);
  ${times(groupOf(build) / 4, (index) => `v128.store(group, v, ${index * 16});`).join("\n  ")}
  copyShort(group, source, count);
  return group;
}

/** Sum of a row: \`whole\` bytes of groups and \`rest\` elements. */
@inline
function rowSum(source: usize, whole: usize, rest: u32): f32 {
  sumGroups(source, source + whole, sumsAt(0), 0);
  let sum = foldSum(sumsAt(0));
  if (rest) {
    const group = padded(0, source + whole, rest, 0);
    sumGroups(group, group + ${groupOf(build) * 4}, sumsAt(1), 0);
    sum += foldSum(sumsAt(1));
  }
  return sum;
}

/** Largest element; \`exact\` gives NaN for a row that has one. */
@inline
function rowMax(exact: bool, source: usize, whole: usize, rest: u32): f32 {
  if (exact) maxGroups(source, source + whole, sumsAt(0), -Infinity);
  else largestGroups(source, source + whole, sumsAt(0), -Infinity);
  let most = foldMax(sumsAt(0));
  if (rest) {
    const group = padded(0, source + whole, rest, -Infinity);
    if (exact) maxGroups(group, group + ${groupOf(build) * 4}, sumsAt(1), -Infinity);
    else largestGroups(group, group + ${groupOf(build) * 4}, sumsAt(1), -Infinity);
    most = max(most, foldMax(sumsAt(1)));
  }
  return most;
}
`;

const normalizations = (build) => `
/**
 * e^(x - m) for \`rows\` rows of \`count\` f32, \`sourcePitch\` and \`targetPitch\` bytes apart; may run in place. m is the row's largest element, or what
 * \`moments\` (8 bytes a row) holds if that is larger: m goes there, and the sum of the row behind it. Terms below 2^-126 of the largest are 0.
 */
export function exponentRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize, moments: usize): void {
  const rest = count & ${groupOf(build) - 1}, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    const most = max(load<f32>(moments), rowMax(false, source, whole, rest));
    exponentGroups(source, source + whole, target, most);
    if (rest) {
      const group = padded(2, source + whole, rest, -Infinity);
      exponentGroups(group, group + ${groupOf(build) * 4}, group, most);
      copyShort(target + whole, group, rest);
    }
    store<f32>(moments, most);
    // The exponents are added up in a pass of their own: sums beside the long body would not fit the registers.
    store<f32>(moments, rowSum(target, whole, rest), 4);
    source += sourcePitch;
    target += targetPitch;
    moments += 8;
  }
}

/** Softmax of rows as \`exponentRows\` takes them. */
export function softmaxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize): void {
  if (!count) return;
  const rest = count & ${groupOf(build) - 1}, whole = <usize>(count - rest) << 2, moments = scratch + ${SCRATCH.MOMENTS};
  for (let row: u32 = 0; row < rows; row++) {
    store<f32>(moments, -f32.MAX_VALUE);
    exponentRows(1, count, source, 0, target, 0, moments);
    const factor: f32 = 1 / load<f32>(moments, 4);
    scaleGroups(target, target + whole, target, factor);
    if (rest) {
      const group = padded(2, target + whole, rest, 0);
      scaleGroups(group, group + ${groupOf(build) * 4}, group, factor);
      copyShort(target + whole, group, rest);
    }
    source += sourcePitch;
    target += targetPitch;
  }
}

/** Rows whose moments are taken together. They stay in the first-level cache, and the folds of one hide behind the sums of the next. */
@inline
function normBlock(count: u32): u32 {
  return count <= 1024 ? ${MOMENT_ROWS} : count <= 4096 ? 2 : 1;
}

/** Mean of a row to \`moments\`, 1 / sqrt(variance + epsilon) behind it; the variance is taken around the mean, in a second pass. */
@inline
function rowMoments(count: u32, source: usize, whole: usize, rest: u32, epsilon: f32, moments: usize): void {
  const mean = rowSum(source, whole, rest) / <f32>count;
  deviationGroups(source, source + whole, sumsAt(0), 0, mean);
  let deviation = foldSum(sumsAt(0));
  if (rest) {
    const group = padded(0, source + whole, rest, mean);
    deviationGroups(group, group + ${groupOf(build) * 4}, sumsAt(1), 0, mean);
    deviation += foldSum(sumsAt(1));
  }
  store<f32>(moments, mean);
  // As a vector: V8's scalar square root is an SSE instruction, which costs 150 ns each time where 256-bit registers are in use.
  const factor = f32x4.div(f32x4.splat(1), f32x4.sqrt(f32x4.splat(deviation / <f32>count + epsilon)));
  store<f32>(moments, f32x4.extract_lane(factor, 0), 4);
}

/** (x - mean) / sqrt(variance + epsilon) * gamma + beta over rows of \`count\` f32. May run in place. */
export function layerNormRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize, gamma: usize, beta: usize, epsilon: f32): void {
  if (!count) return;
  const rest = count & ${groupOf(build) - 1}, whole = <usize>(count - rest) << 2;
  const block = normBlock(count), moments = scratch + ${SCRATCH.MOMENTS};
  for (let row: u32 = 0; row < rows; row += block) {
    const together = min(block, rows - row);
    for (let i: u32 = 0; i < together; i++) rowMoments(count, source + i * sourcePitch, whole, rest, epsilon, moments + (i << 3));
    for (let i: u32 = 0; i < together; i++) {
      const mean = load<f32>(moments + (i << 3)), factor = load<f32>(moments + (i << 3), 4);
      normGroups(source, source + whole, target, gamma, beta, mean, factor);
      if (rest) {
        const group = padded(0, source + whole, rest, mean);
        normGroups(group, group + ${groupOf(build) * 4}, group, padded(1, gamma + whole, rest, 0), padded(2, beta + whole, rest, 0), mean, factor);
        copyShort(target + whole, group, rest);
      }
      source += sourcePitch;
      target += targetPitch;
    }
  }
}
`;

const folds = (build) => `
/** Sums of rows of \`count\` f32, one f32 each to \`target\`. */
export function sumRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize): void {
  const rest = count & ${groupOf(build) - 1}, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    store<f32>(target + (row << 2), rowSum(source, whole, rest));
    source += sourcePitch;
  }
}

/** Largest element of each row, NaN if the row has one; -Infinity for empty rows. The exact maximum takes six instructions: it is for rows whose sum is NaN. */
export function maxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize): void {
  const rest = count & ${groupOf(build) - 1}, whole = <usize>(count - rest) << 2;
  for (let row: u32 = 0; row < rows; row++) {
    const sum = rowSum(source, whole, rest);
    store<f32>(target + (row << 2), sum == sum ? rowMax(false, source, whole, rest) : rowMax(true, source, whole, rest));
    source += sourcePitch;
  }
}

/** 0 if none of \`count\` f32 is NaN, by their sum: that is NaN too where infinities meet, so 1 says only that one may be there. */
export function mayHoldNaN(count: u32, source: usize): u32 {
  const rest = count & ${groupOf(build) - 1};
  const sum = rowSum(source, <usize>(count - rest) << 2, rest);
  return u32(sum != sum);
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
  const rest = count & ${groupOf(build) - 1}, whole = <usize>(count - rest) << 2;
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
      if (larger) largerGroups(group, group + ${groupOf(build) * 4}, group, other);
      else addGroups(group, group + ${groupOf(build) * 4}, group, other);
      copyShort(target + whole, group, rest);
    }
    source += sourcePitch;
  }
}
`;

export const rowsSource = (build, constants) => loops(build, constants) + helpers(build) + normalizations(build) + folds(build);
