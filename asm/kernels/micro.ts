/**
 * The micro module: inner loops in the build that suits this engine best (asm/micro/gen; chosen by lib/host/kernels.ts). Each core has an instance
 * of its own over the same memory. What the functions do and take is said there and in lib/host/kernel-exports.ts.
 */

// @ts-ignore: decorator
@external("micro", "bind")
export declare function bind(scratch: usize): void;
// @ts-ignore: decorator
@external("micro", "panelColumns")
export declare function panelColumns(): u32;
// @ts-ignore: decorator
@external("micro", "pack")
export declare function pack(source: usize, rowPitch: usize, columnPitch: usize, depth: u32, columns: u32, target: usize): void;
// @ts-ignore: decorator
@external("micro", "gemm")
export declare function gemm(
  rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize, first: u32,
): void;
// @ts-ignore: decorator
@external("micro", "convolve")
export declare function convolve(
  rows: u32, columns: u32, segments: u32, depth: u32, table: usize, tablePitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize,
  first: u32,
): void;
// @ts-ignore: decorator
@external("micro", "depthwise")
export declare function depthwise(
  pixels: u32, channels: u32, taps: u32, table: usize, tablePitch: usize, weights: usize, bias: usize, target: usize, targetPitch: usize,
): void;
// @ts-ignore: decorator
@external("micro", "depthwiseRow")
export declare function depthwiseRow(
  kernel: u32, step: u32, pixels: u32, channels: u32, source: usize, rowPitch: usize, pixelPitch: usize, weights: usize, bias: usize, target: usize,
  targetPitch: usize,
): u32;
// @ts-ignore: decorator
@external("micro", "winogradConvolve")
export declare function winogradConvolve(
  source: usize, height: u32, width: u32, inputs: u32, padTop: u32, padLeft: u32, weights: usize, target: usize, outHeight: u32, outWidth: u32,
  outputs: u32, targetPitch: usize, first: u32, count: u32, work: usize,
): void;
// @ts-ignore: decorator
@external("micro", "strip")
export declare function strip(
  code: u32, target: usize, end: usize, a: usize, aStep: usize, b: usize, bStep: usize, c: usize, cStep: usize,
): u32;
// @ts-ignore: decorator
@external("micro", "softmaxRows")
export declare function softmaxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize): void;
// @ts-ignore: decorator
@external("micro", "layerNormRows")
export declare function layerNormRows(
  rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize, gamma: usize, beta: usize, epsilon: f32,
): void;
