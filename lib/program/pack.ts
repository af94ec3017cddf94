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

/** Bytes that are brought to an aligned place at a time. */
const STRETCH_BYTES = 1 << 16;

/** The rows of a matrix of weights as 32-bit words. */
class Rows {
  readonly words: Uint32Array;
  readonly #length: number;
  /** Weights that are not aligned come by stretches: which rows are in `words` now. */
  readonly #source: Uint8Array | undefined;
  readonly #stretch: number = 0;
  #first = 0;
  #end = 0;

  constructor({ buffer, byteOffset, byteLength }: Weights, length: number) {
    this.#length = length;
    if (byteOffset % 4 === 0) {
      this.words = new Uint32Array(buffer, byteOffset, byteLength / 4);
      return;
    }
    this.#source = new Uint8Array(buffer, byteOffset, byteLength);
    this.#stretch = Math.max(1, Math.floor(STRETCH_BYTES / (4 * Math.max(1, length))));
    this.words = new Uint32Array(this.#stretch * length);
  }

  /** Where row `row` starts in `words`, until the next call. */
  seek(row: number): number {
    if (this.#source === undefined) return row * this.#length;
    if (row < this.#first || row >= this.#end) {
      const rowBytes = 4 * this.#length;
      this.#first = row;
      this.#end = row + this.#stretch;
      new Uint8Array(this.words.buffer).set(this.#source.subarray(row * rowBytes, this.#end * rowBytes));
    }
    return (row - this.#first) * this.#length;
  }
}

/** Row-major [k, n] or, `transposed`, [n, k] -> panels. */
export function packMatmul(b: Weights, k: number, n: number, panel = PANEL, transposed = false): Float32Array {
  const packed = new Uint32Array(packedMatmulSize(k, n, panel));
  const rows = new Rows(b, transposed ? k : n);
  const { words } = rows;
  // Reads run through memory in both forms.
  if (transposed) {
    for (let column = 0; column < n; column++) {
      const at = rows.seek(column);
      const first = (column - (column % panel)) * k + (column % panel);
      for (let row = 0; row < k; row++) packed[first + row * panel] = packedBits(words[at + row]!);
    }
  } else {
    for (let row = 0; row < k; row++) {
      const at = rows.seek(row);
      for (let column = 0; column < n; column += panel) {
        const end = Math.min(column + panel, n);
        const to = column * k + row * panel - column;
        for (let i = column; i < end; i++) packed[to + i] = packedBits(words[at + i]!);
      }
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

/** Weights [M, C / groups, kernel...] -> per group panels over k = tap x channel, or [taps][M] when depthwise. */
export function packConv(weights: Weights, dims: readonly number[], groups: number, panel = PANEL): Float32Array {
  const [m = 0, channels = 0, ...kernel] = dims;
  const taps = kernel.reduce((total, size) => total * size, 1);
  const packed = new Uint32Array(packedConvSize(dims, groups, panel));
  const columns = m / groups;
  const depthwise = isDepthwise(channels, columns, groups);
  const groupSize = packedMatmulSize(taps * channels, columns, panel);
  const rows = new Rows(weights, channels * taps);
  const { words } = rows;
  for (let out = 0; out < m; out++) {
    let at = rows.seek(out);
    const group = Math.floor(out / columns);
    const column = out % columns;
    const first = depthwise ? out : group * groupSize + Math.floor(column / panel) * taps * channels * panel + (column % panel);
    const [channelStep, tapStep] = depthwise ? [0, m] : [panel, channels * panel];
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        packed[first + channel * channelStep + tap * tapStep] = packedBits(words[at++]!);
      }
    }
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
function transform(a: number, b: number, c: number, target: Float64Array | Float32Array, to: number, step: number): void {
  target[to] = a / 4;
  target[to + step] = -(a + b + c) / 6;
  target[to + 2 * step] = (b - a - c) / 6;
  target[to + 3 * step] = (a + 2 * b + 4 * c) / 24;
  target[to + 4 * step] = (a - 2 * b + 4 * c) / 24;
  target[to + 5 * step] = c;
}

/** Weights [M, C, 3, 3] -> 36 matrices [C, M] as panels: G w G^T. In float64, since its error stays in every result. */
export function packWinograd(weights: Weights, dims: readonly number[], panel = PANEL): Float32Array {
  const [outputs, inputs, ...kernel] = dims as [number, number, ...number[]];
  if (kernel.join() !== "3,3") throw new AclError(100000, `winograd weights must be 3 x 3, not [${kernel}]`);
  const plane = packedMatmulSize(inputs, outputs, panel);
  const packed = new Float32Array(packedWinogradSize(outputs, inputs, panel));
  const rows = new Rows(weights, inputs * 9);
  const floats = new Float32Array(rows.words.buffer, rows.words.byteOffset, rows.words.length);
  /** G w: 6 rows of 3. */
  const half = new Float64Array(18);
  for (let out = 0; out < outputs; out++) {
    const start = rows.seek(out);
    const first = Math.floor(out / panel) * inputs * panel + (out % panel);
    for (let channel = 0; channel < inputs; channel++) {
      const w = start + channel * 9;
      const at = first + channel * panel;
      for (let x = 0; x < 3; x++) transform(floats[w + x]!, floats[w + 3 + x]!, floats[w + 6 + x]!, half, x, 3);
      for (let i = 0; i < 6; i++) transform(half[3 * i]!, half[3 * i + 1]!, half[3 * i + 2]!, packed, at + 6 * i * plane, plane);
    }
  }
  const words = new Uint32Array(packed.buffer);
  for (let i = 0; i < words.length; i++) words[i] = packedBits(words[i]!);
  return packed;
}
