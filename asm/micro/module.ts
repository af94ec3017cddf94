/**
 * The functions of the micro module as the core imports them: an instance of the build that the host chose (lib/host/kernels.ts), bound to scratch
 * of this core, stands behind `micro`. What each does is said in asm/micro/gen. A call costs 5 to 10 ns, so each does a whole block of work.
 */

@external("micro", "panelColumns")
export declare function panelColumns(): u32;
@external("micro", "pack")
export declare function pack(source: usize, rowPitch: usize, columnPitch: usize, depth: u32, columns: u32, target: usize): void;
@external("micro", "gemm")
export declare function gemm(
  rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize, first: u32,
  bias: usize, least: f32, greatest: f32,
): void;
@external("micro", "convolve")
export declare function convolve(
  rows: u32, columns: u32, segments: u32, depth: u32, table: usize, tablePitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize,
  first: u32, bias: usize, least: f32, greatest: f32,
): void;
@external("micro", "depthwise")
export declare function depthwise(
  pixels: u32, channels: u32, taps: u32, table: usize, tablePitch: usize, weights: usize, bias: usize, target: usize, targetPitch: usize,
  least: f32, greatest: f32,
): void;
@external("micro", "depthwiseRow")
export declare function depthwiseRow(
  kernel: u32, step: u32, pixels: u32, channels: u32, source: usize, rowPitch: usize, pixelPitch: usize, weights: usize, bias: usize,
  target: usize, targetPitch: usize, least: f32, greatest: f32,
): u32;
@external("micro", "depthwisePlane")
export declare function depthwisePlane(
  height: u32, width: u32, stepY: u32, stepX: u32, down: usize, across: usize, rows: u32, columns: u32, source: usize, pitch: usize,
  weights: usize, start: f32, target: usize, targetPitch: usize, least: f32, greatest: f32,
): u32;
@external("micro", "winogradInput")
export declare function winogradInput(
  source: usize, height: u32, width: u32, channels: u32, padTop: u32, padLeft: u32, across: u32, first: u32, count: u32, target: usize,
  plane: usize,
): void;
@external("micro", "winogradOutput")
export declare function winogradOutput(
  source: usize, plane: usize, channels: u32, across: u32, first: u32, count: u32, target: usize, height: u32, width: u32, pixelPitch: usize,
  bias: usize, least: f32, greatest: f32,
): void;
@external("micro", "winogradWeights")
export declare function winogradWeights(
  source: usize, rowPitch: usize, columnPitch: usize, inputPitch: usize, outputPitch: usize, inputs: u32, outputs: u32, target: usize,
): void;
@external("micro", "winogradWork")
export declare function winogradWork(inputs: u32, outputs: u32, count: u32): usize;
@external("micro", "winogradConvolve")
export declare function winogradConvolve(
  source: usize, height: u32, width: u32, inputs: u32, padTop: u32, padLeft: u32, weights: usize, target: usize, outHeight: u32, outWidth: u32,
  outputs: u32, targetPitch: usize, first: u32, count: u32, work: usize, bias: usize, least: f32, greatest: f32, whole: u32,
): void;
@external("micro", "strip")
export declare function strip(code: u32, target: usize, end: usize, a: usize, aStep: usize, b: usize, bStep: usize, c: usize, cStep: usize): u32;
@external("micro", "exponentRows")
export declare function exponentRows(
  rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize, moments: usize,
): void;
@external("micro", "softmaxRows")
export declare function softmaxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize): void;
@external("micro", "layerNormRows")
export declare function layerNormRows(
  rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, targetPitch: usize, gamma: usize, beta: usize, epsilon: f32,
): void;
@external("micro", "sumRows")
export declare function sumRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize): void;
@external("micro", "maxRows")
export declare function maxRows(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize): void;
@external("micro", "mayHoldNaN")
export declare function mayHoldNaN(count: u32, source: usize): u32;
@external("micro", "sumColumns")
export declare function sumColumns(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, first: u32): void;
@external("micro", "maxColumns")
export declare function maxColumns(rows: u32, count: u32, source: usize, sourcePitch: usize, target: usize, first: u32): void;
@external("micro", "integerStep")
export declare function integerStep(): u32;
@external("micro", "gemmInteger")
export declare function gemmInteger(
  rows: u32, columns: u32, depth: u32, a: usize, aPitch: usize, panels: usize, panelPitch: usize, c: usize, cPitch: usize,
): void;
@external("micro", "scratchBytes")
export declare function scratchBytes(): usize;
@external("micro", "bind")
export declare function bind(address: usize): void;
