/**
 * 3 x 3 convolution with step 1 by Winograd's F(4 x 4, 3 x 3): a patch of 6 x 6 pixels gives a tile of 4 x 4 with 36 products in place of 144.
 * Transforms follow Lavin and Gray (2015) with the points 0, 1, -1, 2, -2; the error is about 10 times that of a direct sum.
 */
import { PATCH_BYTES, SCRATCH } from "./builds.mjs";
import { Body, times } from "./emit.mjs";

/** One row of the input transform, B^T d. */
function inputTransform(body, d) {
  const four = body.constant(4);
  const five = body.constant(-5);
  const two = body.constant(2);
  const minusFour = body.constant(-4);
  const y0 = body.madd(four, d[0], body.madd(five, d[2], d[4]));
  const p = body.madd(minusFour, d[2], d[4]);
  const q = body.madd(minusFour, d[1], d[3]);
  const r = body.sub(d[4], d[2]);
  const t = body.mul(two, body.sub(d[3], d[1]));
  const y5 = body.madd(four, d[1], body.madd(five, d[3], d[5]));
  return [y0, body.add(p, q), body.sub(p, q), body.add(r, t), body.sub(r, t), y5];
}

/** One row of the output transform, A^T d. */
function outputTransform(body, d) {
  const two = body.constant(2);
  const four = body.constant(4);
  const eight = body.constant(8);
  const p = body.add(d[1], d[2]);
  const q = body.sub(d[1], d[2]);
  const r = body.add(d[3], d[4]);
  const t = body.sub(d[3], d[4]);
  return [body.add(body.add(d[0], p), r), body.madd(two, t, q), body.madd(four, r, p), body.add(body.madd(eight, t, q), d[5])];
}

/** What the last pass stores: with the bias of the channels, within the limits, NaN in one form. */
function finished(body, results) {
  const bias = body.load("bias");
  const [least, greatest, nan] = ["least", "greatest", "nan"];
  [least, greatest, nan].forEach((name, index) => body.line(`const ${name} = v128.load32_splat(limits, ${index * 4});`));
  return results.map((result) => {
    const sum = body.call("f32x4.pmin", body.call("f32x4.pmax", body.add(result, bias), least), greatest);
    return body.select(sum, nan, body.call("f32x4.eq", sum, sum));
  });
}

/** Six vectors at `from`, `from + pitch`, ... -> `transform` -> vectors at `to`, `to + toPitch`, ...: `count` times, moving by `fromStep` and `toStep`. */
function pass(build, constants, name, transform, { last = false } = {}) {
  const body = new Body(build, constants, build.winograd);
  times(5, (index) => body.line(`const f${index + 1} = ${index === 0 ? "from" : `f${index}`} + pitch;`));
  const d = times(6, (index) => body.load(index === 0 ? "from" : `f${index}`));
  const results = last ? finished(body, transform(body, d)) : transform(body, d);
  times(results.length - 1, (index) => body.line(`const t${index + 1} = ${index === 0 ? "to" : `t${index}`} + toPitch;`));
  results.forEach((result, index) => body.store(index === 0 ? "to" : `t${index}`, result));
  return `
function ${name}(from: usize, pitch: usize, fromStep: usize, to: usize, toPitch: usize, toStep: usize, count: u32${last ? ", bias: usize, limits: usize" : ""}): void {
  const table = scratch;
  while (count) {
${body.text()}
    from += fromStep;
    to += toStep;
    count--;
  }
}
`;
}

const passes = (build, constants) =>
  [
    pass(build, constants, "winogradIn", inputTransform),
    pass(build, constants, "winogradOut", outputTransform),
    pass(build, constants, "winogradEnd", outputTransform, { last: true }),
  ].join("");

/** Channels in blocks. The last one begins early where they do not divide; fewer than one go through scratch, as a block whose rest is not looked at. */
const channelLoop = (build, call) => {
  const wide = build.winograd * 4;
  return `  const block = min<u32>(${wide}, channels);
  for (let next: u32 = 0; next < channels; next += ${wide}) {
    const channel = min(next, channels - block);
    ${call}
  }`;
};

const transforms = (build) => `
/** The 6 x 6 patch of \`count\` channels around (y, x), zeros outside the image, into vectors of \`size\` bytes at \`patch\`. */
function gatherPatch(source: usize, rowPitch: usize, pixelPitch: usize, height: i32, width: i32, y: i32, x: i32, count: u32, patch: usize, size: usize): void {
  for (let i = 0; i < 6; i++) {
    for (let j = 0; j < 6; j++) {
      if (<u32>(y + i) < <u32>height && <u32>(x + j) < <u32>width) {
        copyShort(patch, source + (y + i) * rowPitch + (x + j) * pixelPitch, count);
      } else {
        for (let k: usize = 0; k < size; k += 16) v128.store(patch + k, i32x4.splat(0));
      }
      patch += size;
    }
  }
}

/** One block of channels of one patch -> 36 rows of V, \`targetPitch\` bytes apart. */
@inline
function inputBlock(source: usize, rowPitch: usize, pixelPitch: usize, inside: bool, height: i32, width: i32, y: i32, x: i32, count: u32, target: usize, targetPitch: usize): void {
  const size: usize = ${build.winograd * 16};
  const patch = scratch + ${SCRATCH.PATCH}, middle = patch + ${PATCH_BYTES}, end = middle + ${PATCH_BYTES};
  const whole = count == ${build.winograd * 4};
  let from = source + y * rowPitch + x * pixelPitch, down = rowPitch, right = pixelPitch;
  if (!inside || !whole) {
    gatherPatch(source, rowPitch, pixelPitch, height, width, y, x, count, patch, size);
    from = patch;
    down = size * 6;
    right = size;
  }
  const to = whole ? target : end, toPitch = whole ? targetPitch : size;
  winogradIn(from, down, right, middle, size * 6, size, 6);
  winogradIn(middle, size, size * 6, to, toPitch, toPitch * 6, 6);
  if (!whole) for (let i: u32 = 0; i < 36; i++) copyShort(target + i * targetPitch, end + i * size, count);
}

/** Input transform of \`count\` tiles from tile \`first\` on (row-major, \`across\` tiles per row): V[36][count][channels], planes \`plane\` bytes apart. */
export function winogradInput(
  source: usize, height: u32, width: u32, channels: u32, padTop: u32, padLeft: u32, across: u32, first: u32, count: u32, target: usize, plane: usize,
): void {
  const pixelPitch = <usize>channels << 2, rowPitch = width * pixelPitch;
  for (let tile = first; tile < first + count; tile++) {
    const y = <i32>(tile / across * 4) - <i32>padTop, x = <i32>(tile % across * 4) - <i32>padLeft;
    const inside = y >= 0 && x >= 0 && y + 6 <= <i32>height && x + 6 <= <i32>width;
${channelLoop(build, `inputBlock(source + (channel << 2), rowPitch, pixelPitch, inside, height, width, y, x, block, target + (channel << 2), plane);`)}
    target += pixelPitch;
  }
}

/** One block of channels of one tile of 36 sums -> rows x columns (at most 4 x 4) pixels. */
@inline
function outputBlock(source: usize, plane: usize, count: u32, target: usize, rowPitch: usize, pixelPitch: usize, rows: u32, columns: u32, bias: usize, limits: usize): void {
  const size: usize = ${build.winograd * 16};
  const patch = scratch + ${SCRATCH.PATCH}, middle = patch + ${PATCH_BYTES}, end = middle + ${PATCH_BYTES};
  const whole = count == ${build.winograd * 4};
  let from = source, pitch = plane;
  if (!whole) {
    for (let i: u32 = 0; i < 36; i++) copyShort(patch + i * size, source + i * plane, count);
    copyShort(scratch + ${SCRATCH.BIAS}, bias, count);
    bias = scratch + ${SCRATCH.BIAS};
    from = patch;
    pitch = size;
  }
  const direct = whole && rows == 4 && columns == 4;
  const to = direct ? target : end, down = direct ? rowPitch : size * 4, right = direct ? pixelPitch : size;
  winogradOut(from, pitch * 6, pitch, middle, size * 6, size, 6);
  winogradEnd(middle, size, size * 6, to, right, down, 4, bias, limits);
  if (direct) return;
  for (let i: u32 = 0; i < rows; i++) {
    for (let j: u32 = 0; j < columns; j++) copyShort(target + i * rowPitch + j * pixelPitch, end + (i * 4 + j) * size, count);
  }
}

/**
 * Output transform of tiles first..first + count: M[36][count][channels] -> pixels of the target, whose rows hold \`width\` pixels \`pixelPitch\` bytes
 * apart. \`bias\` (0: none) is added to each channel; limits as in \`gemm\`.
 */
export function winogradOutput(
  source: usize, plane: usize, channels: u32, across: u32, first: u32, count: u32, target: usize, height: u32, width: u32, pixelPitch: usize, bias: usize,
  least: f32, greatest: f32,
): void {
  const rowPitch = width * pixelPitch, limits = scratch + ${SCRATCH.LIMITS};
  setLimits(least, greatest);
  const biasStep: usize = bias ? 4 : 0;
  if (!bias) bias = scratch + ${SCRATCH.ZEROS};
  for (let tile = first; tile < first + count; tile++) {
    const y = tile / across * 4, x = tile % across * 4;
    const rows = min<u32>(4, height - y), columns = min<u32>(4, width - x);
    const pixel = target + y * rowPitch + x * pixelPitch;
${channelLoop(build, `outputBlock(source + (channel << 2), plane, block, pixel + (channel << 2), rowPitch, pixelPitch, rows, columns, bias + channel * biasStep, limits);`)}
    source += <usize>channels << 2;
  }
}
`;

const exported = (build) => `
/** Row i of G x (a, b, c): the transform of three weights. In f64, since it runs once and its error stays in every result. */
@inline
function weightRow(i: u32, a: f64, b: f64, c: f64): f64 {
  switch (<i32>i) {
    case 0: return a / 4;
    case 1: return -(a + b + c) / 6;
    case 2: return (b - a - c) / 6;
    case 3: return (a + 2 * b + 4 * c) / 24;
    case 4: return (a - 2 * b + 4 * c) / 24;
    default: return c;
  }
}

/**
 * 3 x 3 weights anywhere (bytes between window rows, window columns, input and output channels) -> panels [36][outputs / P][inputs][P].
 * The target has 36 * panels * inputs * P elements.
 */
export function winogradWeights(source: usize, rowPitch: usize, columnPitch: usize, inputPitch: usize, outputPitch: usize, inputs: u32, outputs: u32, target: usize): void {
  const across: u32 = (outputs + ${build.vectors * 4 - 1}) / ${build.vectors * 4};
  const plane = <usize>across * inputs * ${build.vectors * 16};
  for (let output: u32 = 0; output < across * ${build.vectors * 4}; output++) {
    const lane = target + (output / ${build.vectors * 4}) * <usize>inputs * ${build.vectors * 16} + ((output % ${build.vectors * 4}) << 2);
    for (let input: u32 = 0; input < inputs; input++) {
      const w = source + input * inputPitch + output * outputPitch;
      for (let i: u32 = 0; i < 6; i++) {
        let a: f64 = 0, b: f64 = 0, c: f64 = 0;
        if (output < outputs) {
          a = weightRow(i, load<f32>(w), load<f32>(w + rowPitch), load<f32>(w + rowPitch * 2));
          b = weightRow(i, load<f32>(w + columnPitch), load<f32>(w + columnPitch + rowPitch), load<f32>(w + columnPitch + rowPitch * 2));
          c = weightRow(i, load<f32>(w + columnPitch * 2), load<f32>(w + columnPitch * 2 + rowPitch), load<f32>(w + columnPitch * 2 + rowPitch * 2));
        }
        for (let j: u32 = 0; j < 6; j++) store<f32>(lane + (i * 6 + j) * plane + input * ${build.vectors * 16}, <f32>weightRow(j, a, b, c));
      }
    }
  }
}

/** Bytes of work memory that \`winogradConvolve\` needs for \`count\` tiles. */
export function winogradWork(inputs: u32, outputs: u32, count: u32): usize {
  return 36 * ((<usize>count * inputs << 2) + 64 + (<usize>count * outputs << 2) + 64);
}

/**
 * Tiles first..first + count (4 x 4 output pixels each, row-major) of a 3 x 3 convolution with step 1 over NHWC. Source height x width x inputs,
 * target outHeight x outWidth x outputs, its pixels \`targetPitch\` bytes apart; pads may be any. Bias and limits as in \`winogradOutput\`.
 * With \`whole\`, these are only some of the \`whole\` outputs whose panels the planes of \`weights\` hold.
 */
export function winogradConvolve(
  source: usize, height: u32, width: u32, inputs: u32, padTop: u32, padLeft: u32, weights: usize,
  target: usize, outHeight: u32, outWidth: u32, outputs: u32, targetPitch: usize, first: u32, count: u32, work: usize,
  bias: usize, least: f32, greatest: f32, whole: u32,
): void {
  const across: u32 = (outWidth + 3) / 4;
  // 64 bytes more than whole planes: equal offsets of 36 planes must not share cache sets.
  const inPlane = (<usize>count * inputs << 2) + 64, outPlane = (<usize>count * outputs << 2) + 64;
  const sums = work + inPlane * 36;
  const panelPitch = <usize>inputs * ${build.vectors * 16};
  const weightPlane = ((whole ? whole : outputs) + ${build.vectors * 4 - 1}) / ${build.vectors * 4} * panelPitch;
  winogradInput(source, height, width, inputs, padTop, padLeft, across, first, count, work, inPlane);
  for (let i: u32 = 0; i < 36; i++) {
    product(count, outputs, inputs, work + i * inPlane, <usize>inputs << 2, weights + i * weightPlane, panelPitch, sums + i * outPlane, <usize>outputs << 2, 1, 0, 0);
  }
  winogradOutput(sums, outPlane, outputs, across, first, count, target, outHeight, outWidth, targetPitch, bias, least, greatest);
}
`;

export const winogradSource = (build, constants) => passes(build, constants) + transforms(build) + exported(build);
