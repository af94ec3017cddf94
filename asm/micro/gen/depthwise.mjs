/** Depthwise convolution over NHWC: one channel per group, so the vectors run over channels. Sums start at the bias and take the taps in row-major order. */
import { SCRATCH } from "./builds.mjs";
import { madd, times } from "./emit.mjs";

const sumName = (pixel, vector) => `s${pixel}_${vector}`;

/** Stores sums between the limits; if one may be NaN (their sum is), `canonical` looks at them. Fewer steps than a selection per vector. */
function storeLines(pixels, vectors, next) {
  const lines = ["const least = v128.load32_splat(limits), greatest = v128.load32_splat(limits, 4);"];
  const sums = times(pixels, (pixel) => times(vectors, (vector) => sumName(pixel, vector))).flat();
  times(vectors, (vector) => {
    const [head, ...rest] = times(pixels, (pixel) => sumName(pixel, vector));
    lines.push(`const all${vector} = ${rest.reduce((total, sum) => `f32x4.add(${total}, ${sum})`, head)};`);
  });
  for (const sum of sums) lines.push(`${sum} = f32x4.pmin(f32x4.pmax(${sum}, least), greatest);`);
  lines.push("let at = target;");
  times(pixels, (pixel) => {
    times(vectors, (vector) => lines.push(`v128.store(at, ${sumName(pixel, vector)}, ${vector * 16});`));
    if (pixel + 1 < pixels) lines.push(`at += ${next};`);
  });
  const suspects = times(vectors, (vector) => `f32x4.ne(all${vector}, all${vector})`).reduce((a, b) => `v128.or(${a}, ${b})`);
  lines.push(`if (v128.any_true(${suspects})) canonical(${pixels}, ${vectors * 16}, target, ${next});`);
  return lines;
}

/** Two pixels of any kernel, through pointers: table[tap * tablePitch / 4 + pixel]. One flat loop over taps. */
function tableTile(build, vectors) {
  const pixels = 2;
  const lines = [];
  times(vectors, (vector) => {
    lines.push(`const z${vector} = v128.load(bias, ${vector * 16});`);
    times(pixels, (pixel) => lines.push(`let ${sumName(pixel, vector)} = z${vector};`));
  });
  lines.push("const end = table + length;", "while (table < end) {");
  times(pixels, (pixel) => lines.push(`  const p${pixel} = <usize>load<u32>(table${pixel === 0 ? "" : " + next"}) + offset;`));
  times(vectors, (vector) => lines.push(`  const w${vector} = v128.load(weights, ${vector * 16});`));
  times(pixels, (pixel) =>
    times(vectors, (vector) => {
      const sum = sumName(pixel, vector);
      lines.push(`  ${sum} = ${madd(build, `v128.load(p${pixel}, ${vector * 16})`, `w${vector}`, sum)};`);
    }),
  );
  lines.push("  table += tablePitch;", "  weights += weightPitch;", "}");
  lines.push(...storeLines(pixels, vectors, "targetNext"));
  return `
function depthwiseTable${vectors}(table: usize, next: usize, length: usize, tablePitch: usize, offset: usize, weights: usize, weightPitch: usize, bias: usize, target: usize, targetNext: usize): void {
  const limits = scratch + ${SCRATCH.LIMITS};
${lines.map((line) => `  ${line}`).join("\n")}
}
`;
}

/**
 * Runs of the row form, for windows of 3 x 3: what is left of a row after the longest takes the shorter one. With step 2 neighbours share too few
 * pixels for a longer one.
 */
const KERNEL = 3;
const RUNS = [
  { step: 1, pixels: 6 },
  { step: 1, pixels: 4 },
  { step: 2, pixels: 4 },
];
const [LONG, SHORT] = [6, 4];

const rowName = ({ step, pixels }) => `row${step}x${pixels}`;

/**
 * A run of neighbours in a row whose windows lie wholly inside the source: straight-line code that loads every source pixel of a window row once
 * and the weights once for all pixels.
 */
function rowTile(build, run) {
  const { step, pixels } = run;
  const kernel = KERNEL,
    vectors = build.depthwise;
  const lines = [];
  times(vectors, (vector) => {
    lines.push(`const z${vector} = v128.load(bias, ${vector * 16});`);
    times(pixels, (pixel) => lines.push(`let ${sumName(pixel, vector)} = z${vector};`));
  });
  const width = (pixels - 1) * step + kernel;
  times(kernel, (y) => {
    lines.push(`let q${y} = source${y === 0 ? "" : ` + rowPitch * ${y}`};`);
    times(kernel, (x) => {
      times(vectors, (vector) => lines.push(`const w${y}_${x}_${vector} = v128.load(weights, ${vector * 16});`));
      lines.push("weights += weightPitch;");
    });
    times(width, (column) => {
      const users = times(pixels, (pixel) => ({ pixel, x: column - pixel * step })).filter(({ x }) => x >= 0 && x < kernel);
      if (users.length > 0) {
        times(vectors, (vector) => lines.push(`const x${y}_${column}_${vector} = v128.load(q${y}, ${vector * 16});`));
        for (const { pixel, x } of users) {
          times(vectors, (vector) => {
            const sum = sumName(pixel, vector);
            lines.push(`${sum} = ${madd(build, `x${y}_${column}_${vector}`, `w${y}_${x}_${vector}`, sum)};`);
          });
        }
      }
      if (column + 1 < width) lines.push(`q${y} += pixelPitch;`);
    });
  });
  lines.push(...storeLines(pixels, vectors, "targetPitch"));
  return `
function ${rowName(run)}(source: usize, rowPitch: usize, pixelPitch: usize, weights: usize, weightPitch: usize, bias: usize, target: usize, targetPitch: usize): void {
  const limits = scratch + ${SCRATCH.LIMITS};
${lines.map((line) => `  ${line}`).join("\n")}
}
`;
}

/** Channel blocks of `wide` and of 4; the last block of a kind overlaps the one before, which is free of tails because outputs are written, not added to. */
const channelBlocks = (wide, call) => `  let channel: u32 = 0;
${wide > 4 ? `  while (channel + ${wide} <= channels) {\n    ${call(wide / 4)}\n    channel += ${wide};\n    if (channel < channels && channel + ${wide} > channels && channels - channel > 4) channel = channels - ${wide};\n  }\n` : ""}  while (channel + 4 <= channels) {
    ${call(1)}
    channel += 4;
  }
  if (channel < channels && channels >= 4) {
    channel = channels - 4;
    ${call(1)}
    channel = channels;
  }
`;

/** All channels of a run; the last block overlaps the one before. */
function rowFunction(build, run) {
  const wide = build.depthwise * 4;
  return `
function ${rowName(run)}All(channels: u32, source: usize, rowPitch: usize, pixelPitch: usize, weights: usize, bias: usize, target: usize, targetPitch: usize): void {
  const weightPitch = <usize>channels << 2;
  for (let channel: u32 = 0; channel < channels; channel += ${wide}) {
    const at = <usize>min<u32>(channel, channels - ${wide}) << 2;
    ${rowName(run)}(source + at, rowPitch, pixelPitch, weights + at, weightPitch, bias + at, target + at, targetPitch);
  }
}
`;
}

const rowCall = (step, pixels) => `${rowName({ step, pixels })}All(channels, source, rowPitch, pixelPitch, weights, bias, target, targetPitch);`;

const exported = (build) => `
/** NaN in one form in \`bytes\` bytes of each of \`pixels\` pixels. */
function canonical(pixels: u32, bytes: usize, target: usize, pitch: usize): void {
  for (let pixel: u32 = 0; pixel < pixels; pixel++) {
    for (let i: usize = 0; i < bytes; i += 4) if (isNaN(load<f32>(target + i))) store<u32>(target + i, 0x7fc00000);
    target += pitch;
  }
}

/** Fewer than 4 channels are left over only if there are fewer than 4: one at a time. */
function depthwiseScalar(channels: u32, taps: u32, table: usize, tablePitch: usize, weights: usize, bias: usize, target: usize): void {
  const limits = scratch + ${SCRATCH.LIMITS};
  for (let channel: u32 = 0; channel < channels; channel++) {
    let sum = load<f32>(bias + (channel << 2));
    for (let tap: u32 = 0; tap < taps; tap++) {
      const x = load<f32>(<usize>load<u32>(table + tap * tablePitch) + (channel << 2)), w = load<f32>(weights + ((tap * channels + channel) << 2));
      sum = f32x4.extract_lane(${madd(build, "f32x4.splat(x)", "f32x4.splat(w)", "f32x4.splat(sum)")}, 0);
    }
    const limited = f32x4.pmin(f32x4.pmax(f32x4.splat(sum), v128.load32_splat(limits)), v128.load32_splat(limits, 4));
    v128.store_lane<f32>(target + (channel << 2), limited, 0);
    canonical(1, 4, target + (channel << 2), 0);
  }
}

/**
 * \`pixels\` pixels of a depthwise convolution with any kernel: tap t of pixel i is the \`channels\` f32 at table[t * tablePitch / 4 + i] (u32
 * addresses; out-of-range taps point to zeros). Weights are [taps][channels], bias [channels]; pixels of the target are \`targetPitch\` bytes apart.
 * Limits as in \`gemm\`.
 */
export function depthwise(pixels: u32, channels: u32, taps: u32, table: usize, tablePitch: usize, weights: usize, bias: usize, target: usize, targetPitch: usize, least: f32, greatest: f32): void {
  const weightPitch = <usize>channels << 2, length = taps * tablePitch;
  setLimits(least, greatest);
  for (let pixel: u32 = 0; pixel < pixels; pixel += 2) {
    // An odd last pixel runs as both of its pair.
    const next: usize = pixel + 1 < pixels ? 4 : 0, targetNext: usize = next ? targetPitch : 0;
    if (channels < 4) {
      depthwiseScalar(channels, taps, table, tablePitch, weights, bias, target);
      if (next) depthwiseScalar(channels, taps, table + next, tablePitch, weights, bias, target + targetPitch);
    }
  ${channelBlocks(
    build.vectors * 4,
    (vectors) =>
      `depthwiseTable${vectors}(table, next, length, tablePitch, channel << 2, weights + (channel << 2), weightPitch, bias + (channel << 2), target + (channel << 2), targetNext);`,
  ).replaceAll("\n  ", "\n    ")}
    table += 8;
    target += targetPitch << 1;
  }
}

/**
 * \`pixels\` neighbours in one output row of a 3 x 3 depthwise convolution with step 1 or 2 whose windows lie wholly inside the source.
 * \`source\` is the first tap of the first pixel. Returns 0, having done nothing, for other kernels and steps and where channels or pixels are too few.
 */
export function depthwiseRow(
  kernel: u32, step: u32, pixels: u32, channels: u32, source: usize, rowPitch: usize, pixelPitch: usize, weights: usize, bias: usize, target: usize,
  targetPitch: usize, least: f32, greatest: f32,
): u32 {
  if (channels < ${build.depthwise * 4} || pixels < ${SHORT} || kernel != ${KERNEL} || step - 1 > 1) return 0;
  setLimits(least, greatest);
  while (pixels) {
    let run: u32 = ${SHORT};
    if (step == 2) ${rowCall(2, SHORT)}
    else if (pixels < ${LONG}) ${rowCall(1, SHORT)}
    else {
      ${rowCall(1, LONG)}
      run = ${LONG};
    }
    pixels -= run;
    // The last run overlaps the one before.
    if (pixels - 1 < ${SHORT - 1}) {
      run -= ${SHORT} - pixels;
      pixels = ${SHORT};
    }
    source += run * step * pixelPitch;
    target += run * targetPitch;
  }
  return 1;
}
`;

export function depthwiseSource(build) {
  const rows = RUNS.flatMap((run) => [rowTile(build, run), rowFunction(build, run)]);
  const tables = [build.vectors, 1].map((vectors) => tableTile(build, vectors));
  return [...tables, ...rows, exported(build)].join("");
}
