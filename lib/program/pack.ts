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

/** Row-major [k, n] or, `transposed`, [n, k] -> panels. */
export function packMatmul(b: Float32Array, k: number, n: number, panel = PANEL, transposed = false): Float32Array {
  const packed = new Float32Array(packedMatmulSize(k, n, panel));
  for (let column = 0; column < n; column += panel) {
    const width = Math.min(panel, n - column);
    const first = column * k;
    // Reads run through memory in both forms; the writes stay within a panel.
    if (transposed) {
      for (let i = 0; i < width; i++) {
        const from = (column + i) * k;
        for (let row = 0; row < k; row++) packed[first + row * panel + i] = b[from + row]!;
      }
    } else {
      for (let row = 0; row < k; row++) {
        const from = row * n + column;
        for (let i = 0; i < width; i++) packed[first + row * panel + i] = b[from + i]!;
      }
    }
  }
  return packed;
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
export function packConv(weights: Float32Array, dims: readonly number[], groups: number, panel = PANEL): Float32Array {
  const [m = 0, channels = 0, ...kernel] = dims;
  const taps = kernel.reduce((total, size) => total * size, 1);
  const packed = new Float32Array(packedConvSize(dims, groups, panel));
  const columns = m / groups;
  const depthwise = isDepthwise(channels, columns, groups);
  const groupSize = packedMatmulSize(taps * channels, columns, panel);
  for (let out = 0; out < m; out++) {
    const group = Math.floor(out / columns);
    const column = out % columns;
    const first = group * groupSize + Math.floor(column / panel) * taps * channels * panel + (column % panel);
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        const at = depthwise ? tap * m + out : first + (tap * channels + channel) * panel;
        packed[at] = weights[(out * channels + channel) * taps + tap]!;
      }
    }
  }
  return packed;
}

/** Elements of the transformed weights of a 3 x 3 convolution. */
export const packedWinogradSize = (outputs: number, inputs: number, panel = PANEL): number =>
  WINOGRAD_PRODUCTS * packedMatmulSize(inputs, outputs, panel);

/** G x (a, b, c): the transform of three weights for the points 0, 1, -1, 2, -2 (Lavin and Gray, 2015). */
const transformed = (a: number, b: number, c: number): readonly [number, number, number, number, number, number] => [
  a / 4,
  -(a + b + c) / 6,
  (b - a - c) / 6,
  (a + 2 * b + 4 * c) / 24,
  (a - 2 * b + 4 * c) / 24,
  c,
];

/** Weights [M, C, 3, 3] -> 36 matrices [C, M] as panels: G w G^T. In float64, since its error stays in every result. */
export function packWinograd(weights: Float32Array, dims: readonly number[], panel = PANEL): Float32Array {
  const [outputs, inputs, ...kernel] = dims as [number, number, ...number[]];
  if (kernel.join() !== "3,3") throw new AclError(100000, `winograd weights must be 3 x 3, not [${kernel}]`);
  const plane = packedMatmulSize(inputs, outputs, panel);
  const packed = new Float32Array(packedWinogradSize(outputs, inputs, panel));
  for (let out = 0; out < outputs; out++) {
    const first = Math.floor(out / panel) * inputs * panel + (out % panel);
    for (let channel = 0; channel < inputs; channel++) {
      const w = (out * inputs + channel) * 9;
      const at = first + channel * panel;
      // Columns of the window first, then rows.
      const [left, middle, right] = [0, 1, 2].map((x) => transformed(weights[w + x]!, weights[w + 3 + x]!, weights[w + 6 + x]!));
      for (let i = 0; i < 6; i++) {
        const row = transformed(left![i]!, middle![i]!, right![i]!);
        for (let j = 0; j < 6; j++) packed[at + (i * 6 + j) * plane] = row[j]!;
      }
    }
  }
  return packed;
}
