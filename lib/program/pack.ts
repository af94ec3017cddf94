/** Weights in the order that the micro-kernels read: panels of PANEL columns, [panel][k][column], zeros behind the last column. */
import { PANEL } from "../../asm/abi/isa";

/** Elements of a packed [k, n] matrix. */
export const packedMatmulSize = (k: number, n: number): number => Math.ceil(n / PANEL) * k * PANEL;

/** Row-major [k, n] -> panels. */
export function packMatmul(b: Float32Array, k: number, n: number): Float32Array {
  const packed = new Float32Array(packedMatmulSize(k, n));
  let at = 0;
  for (let panel = 0; panel < n; panel += PANEL) {
    const width = Math.min(PANEL, n - panel);
    for (let row = 0; row < k; row++) {
      packed.set(b.subarray(row * n + panel, row * n + panel + width), at);
      at += PANEL;
    }
  }
  return packed;
}

/** One input channel and one output channel per group: the kernel goes channel by channel and weights are [taps][channels]. */
export const isDepthwise = (channelsPerGroup: number, columnsPerGroup: number, groups: number): boolean =>
  groups > 1 && channelsPerGroup === 1 && columnsPerGroup === 1;

/** Elements of packed weights of dims [M, C / groups, kernel...]. */
export function packedConvSize(dims: readonly number[], groups: number): number {
  const [m = 0, channels = 0, ...kernel] = dims;
  const taps = kernel.reduce((total, size) => total * size, 1);
  if (isDepthwise(channels, m / groups, groups)) return taps * m;
  return groups * packedMatmulSize(taps * channels, m / groups);
}

/** Weights [M, C / groups, kernel...] -> per group panels over k = tap x channel, or [taps][M] when depthwise. */
export function packConv(weights: Float32Array, dims: readonly number[], groups: number): Float32Array {
  const [m = 0, channels = 0, ...kernel] = dims;
  const taps = kernel.reduce((total, size) => total * size, 1);
  const packed = new Float32Array(packedConvSize(dims, groups));
  const columns = m / groups;
  const depthwise = isDepthwise(channels, columns, groups);
  const groupSize = packedMatmulSize(taps * channels, columns);
  for (let out = 0; out < m; out++) {
    const group = Math.floor(out / columns);
    const column = out % columns;
    const panel = group * groupSize + Math.floor(column / PANEL) * taps * channels * PANEL + (column % PANEL);
    for (let channel = 0; channel < channels; channel++) {
      for (let tap = 0; tap < taps; tap++) {
        const at = depthwise ? tap * m + out : panel + (tap * channels + channel) * PANEL;
        packed[at] = weights[(out * channels + channel) * taps + tap]!;
      }
    }
  }
  return packed;
}
