/**
 * Weights in the order that the micro-kernels read: panels, [panel][k][column], zeros behind the last column. A panel has as many columns as the
 * kernel build says (asm/micro/gen/builds.mjs: 8, or 16 with 256-bit vectors), so packed weights belong to builds of one width.
 */
import { AclError } from "../errors/acl-error";

/** Columns of a panel in the builds with 128-bit vectors. */
export const PANEL = 8;
export const PANEL_WIDTHS: readonly number[] = [PANEL, 16];
/** Products of one 4 x 4 tile in Winograd's F(4 x 4, 3 x 3). */
const WINOGRAD_PRODUCTS = 36;

/** Elements of a packed [k, n] matrix. */
export const packedMatmulSize = (k: number, n: number, panel = PANEL): number => Math.ceil(n / panel) * k * panel;

/** float32 values; as bytes they may start at any address, as those of a model's file do. */
export type Weights = Float32Array | Uint8Array;

const EXPONENT = 0x7f80_0000;
/**
 * The bits of a weight. Subnormal ones (below 1.2e-38, what weight decay leaves behind) become zeros: products with them are lost in any sum beside
 * them, and processors take some 100 cycles for each.
 */
export const packedBits = (bits: number): number => ((bits & EXPONENT) === 0 ? 0 : bits);

/** The same bytes as words, signed: those fit a small integer of the engine even before it has optimised a loop. Aligned to them, or a copy that is. */
function wordsOf({ buffer, byteOffset, byteLength }: Weights): Int32Array {
  return byteOffset % 4 === 0
    ? new Int32Array(buffer, byteOffset, byteLength / 4)
    : new Int32Array(new Uint8Array(new Uint8Array(buffer, byteOffset, byteLength)).buffer);
}

/** Row-major [k, n] or, `transposed`, [n, k] -> panels. */
export function packMatmul(b: Weights, k: number, n: number, panel = PANEL, transposed = false): Float32Array {
  const packed = new Int32Array(packedMatmulSize(k, n, panel));
  const words = wordsOf(b);
  if (transposed) {
    packPanels(words, 0, k, 1, n, packed, 0, panel);
    return new Float32Array(packed.buffer);
  }
  // Reads run through memory here as well.
  for (let row = 0; row < k; row++) {
    const at = row * n;
    for (let column = 0; column < n; column += panel) {
      const end = Math.min(column + panel, n);
      const to = column * k + row * panel - column;
      for (let i = column; i < end; i++) packed[to + i] = packedBits(words[at + i]!);
    }
  }
  return new Float32Array(packed.buffer);
}

/** Channels that the zeros standing for padding cover (asm/kernels/conv.ts). */
export const RUN_LIMIT = 16384;

/** One input channel and one output channel per group: the kernel goes channel by channel and weights are [taps][channels]. */
export const isDepthwise = (channelsPerGroup: number, columnsPerGroup: number, groups: number): boolean =>
  groups > 1 && groups <= RUN_LIMIT && channelsPerGroup === 1 && columnsPerGroup === 1;

/** Elements of packed weights of dims [M, C / groups, kernel...]. */
export function packedConvSize(dims: readonly number[], groups: number, panel = PANEL): number {
  const [m = 0, channels = 0, ...kernel] = dims;
  const taps = kernel.reduce((total, size) => total * size, 1);
  if (isDepthwise(channels, m / groups, groups)) return taps * m;
  return groups * packedMatmulSize(taps * channels, m / groups, panel);
}

/** Words of a row that are moved before the next row of the panel: what is read and written then fits the first-level cache whatever the strides. */
const CHUNK = 16;

/** `columns` rows of `outer` x `inner` words from `source[first]` on -> panels over k = inner x outer from `packed[place]` on. */
function packPanels(
  source: Int32Array,
  first: number,
  outer: number,
  inner: number,
  columns: number,
  packed: Int32Array,
  place: number,
  panel: number,
): void {
  const depth = outer * inner;
  for (let column = 0; column < columns; column += panel) {
    const [last, base] = [Math.min(column + panel, columns), place + column * depth - column];
    for (let chunk = 0; chunk < outer; chunk += CHUNK) {
      const end = Math.min(chunk + CHUNK, outer);
      for (let row = column; row < last; row++) {
        for (let j = 0; j < inner; j++) {
          let to = base + (j * outer + chunk) * panel + row;
          for (let from = first + row * depth + chunk * inner + j, i = chunk; i < end; i++, from += inner, to += panel) {
            packed[to] = packedBits(source[from]!);
          }
        }
      }
    }
  }
}

/** Weights [M, C / groups, kernel...] -> per group panels over k = tap x channel, or [taps][M] when depthwise. */
export function packConv(weights: Weights, dims: readonly number[], groups: number, panel = PANEL): Float32Array {
  const [m = 0, channels = 0, ...kernel] = dims;
  const taps = kernel.reduce((total, size) => total * size, 1);
  const packed = new Int32Array(packedConvSize(dims, groups, panel));
  const words = wordsOf(weights);
  const columns = m / groups;
  if (isDepthwise(channels, columns, groups)) {
    packPanels(words, 0, 1, taps, m, packed, 0, m);
  } else {
    const [size, step] = [packedMatmulSize(taps * channels, columns, panel), columns * channels * taps];
    for (let group = 0; group < groups; group++) packPanels(words, group * step, channels, taps, columns, packed, group * size, panel);
  }
  return new Float32Array(packed.buffer);
}

/** Elements of the transformed weights of a 3 x 3 convolution. */
export const packedWinogradSize = (outputs: number, inputs: number, panel = PANEL): number =>
  WINOGRAD_PRODUCTS * packedMatmulSize(inputs, outputs, panel);

/**
 * One line of G w or of (G w) G^T, 6 numbers at `to`, `step` apart: the transform of three weights for the points 0, 1, -1, 2, -2 (Lavin and Gray,
 * 2015).
 */
function transform(a: number, b: number, c: number, target: Float64Array, to: number, step: number): void {
  target[to] = a / 4;
  target[to + step] = -(a + b + c) / 6;
  target[to + 2 * step] = (b - a - c) / 6;
  target[to + 3 * step] = (a + 2 * b + 4 * c) / 24;
  target[to + 4 * step] = (a - 2 * b + 4 * c) / 24;
  target[to + 5 * step] = c;
}

/** The least that is no subnormal number. */
const LEAST_NORMAL = 2 ** -126;

/** Weights [M, C, 3, 3] -> 36 matrices [C, M] as panels: G w G^T. In float64, since its error stays in every result. */
export function packWinograd(weights: Weights, dims: readonly number[], panel = PANEL): Float32Array {
  const [outputs, inputs, ...kernel] = dims as [number, number, ...number[]];
  if (kernel.join() !== "3,3") throw new AclError(100000, `winograd weights must be 3 x 3, not [${kernel}]`);
  const plane = packedMatmulSize(inputs, outputs, panel);
  const packed = new Float32Array(packedWinogradSize(outputs, inputs, panel));
  const words = wordsOf(weights);
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  /** G w: 6 rows of 3; its transform; and those of a panel's outputs, since 36 places in memory that differ by a power of two share one cache set. */
  const half = new Float64Array(18);
  const whole = new Float64Array(WINOGRAD_PRODUCTS);
  const block = new Float32Array(WINOGRAD_PRODUCTS * panel);
  for (let first = 0; first < outputs; first += panel) {
    const count = Math.min(panel, outputs - first);
    for (let channel = 0; channel < inputs; channel++) {
      for (let lane = 0; lane < count; lane++) {
        const w = ((first + lane) * inputs + channel) * 9;
        for (let x = 0; x < 3; x++) transform(floats[w + x]!, floats[w + 3 + x]!, floats[w + 6 + x]!, half, x, 3);
        for (let i = 0; i < 6; i++) transform(half[3 * i]!, half[3 * i + 1]!, half[3 * i + 2]!, whole, 6 * i, 1);
        for (let i = 0; i < WINOGRAD_PRODUCTS; i++) {
          const value = whole[i]!;
          block[i * panel + lane] = value > -LEAST_NORMAL && value < LEAST_NORMAL ? 0 : value;
        }
      }
      for (let i = 0; i < WINOGRAD_PRODUCTS; i++) {
        const at = i * plane + first * inputs + channel * panel;
        for (let lane = 0; lane < count; lane++) packed[at + lane] = block[i * panel + lane]!;
      }
    }
  }
  return packed;
}
