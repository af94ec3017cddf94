/**
 * What every build of the micro module exports: equal names and signatures, so that the core links to any of them. Addresses, pitches and
 * lengths are bytes; rows, columns, depths and counts are elements. No function allocates, waits or keeps state but the scratch of `bind`.
 */
export interface KernelExports {
  scratchBytes(): number;
  /** Gives the instance its scratch (64-aligned, its own). Once, before anything else. */
  bind(scratch: number): void;

  // ---- f32 products over packed panels. `bias`: where sums start, 0 or left out: at zeros. Results lie between `least` and `greatest`; NaN or left
  // out: no limit.
  panelColumns(): number;
  pack(source: number, rowPitch: number, columnPitch: number, depth: number, columns: number, target: number): void;
  gemm(
    rows: number,
    columns: number,
    depth: number,
    a: number,
    aPitch: number,
    panels: number,
    panelPitch: number,
    c: number,
    cPitch: number,
    first: number,
    bias?: number,
    least?: number,
    greatest?: number,
  ): void;
  convolve(
    rows: number,
    columns: number,
    segments: number,
    depth: number,
    table: number,
    tablePitch: number,
    panels: number,
    panelPitch: number,
    c: number,
    cPitch: number,
    first: number,
    bias?: number,
    least?: number,
    greatest?: number,
  ): void;

  // ---- depthwise
  depthwise(
    pixels: number,
    channels: number,
    taps: number,
    table: number,
    tablePitch: number,
    weights: number,
    bias: number,
    target: number,
    targetPitch: number,
    least?: number,
    greatest?: number,
  ): void;
  depthwisePlane(
    height: number,
    width: number,
    stepY: number,
    stepX: number,
    down: number,
    across: number,
    rows: number,
    columns: number,
    source: number,
    pitch: number,
    weights: number,
    start: number,
    target: number,
    targetPitch: number,
    least: number,
    greatest: number,
  ): number;
  depthwiseRow(
    kernel: number,
    step: number,
    pixels: number,
    channels: number,
    source: number,
    rowPitch: number,
    pixelPitch: number,
    weights: number,
    bias: number,
    target: number,
    targetPitch: number,
    least?: number,
    greatest?: number,
  ): number;

  // ---- Winograd F(4 x 4, 3 x 3)
  winogradWeights(
    source: number,
    rowPitch: number,
    columnPitch: number,
    inputPitch: number,
    outputPitch: number,
    inputs: number,
    outputs: number,
    target: number,
  ): void;
  winogradWork(inputs: number, outputs: number, count: number): number;
  winogradInput(
    source: number,
    height: number,
    width: number,
    channels: number,
    padTop: number,
    padLeft: number,
    across: number,
    first: number,
    count: number,
    target: number,
    plane: number,
  ): void;
  winogradOutput(
    source: number,
    plane: number,
    channels: number,
    across: number,
    first: number,
    count: number,
    target: number,
    height: number,
    width: number,
    pixelPitch: number,
    bias?: number,
    least?: number,
    greatest?: number,
  ): void;
  winogradConvolve(
    source: number,
    height: number,
    width: number,
    inputs: number,
    padTop: number,
    padLeft: number,
    weights: number,
    target: number,
    outHeight: number,
    outWidth: number,
    outputs: number,
    targetPitch: number,
    first: number,
    count: number,
    work: number,
    bias?: number,
    least?: number,
    greatest?: number,
    whole?: number,
  ): void;

  // ---- element by element; code is a StripCode or a MicroCode, the range whole groups of 64 bytes, a step 64 or 0 (splat)
  strip(code: number, target: number, end: number, a: number, aStep: number, b: number, bStep: number, c: number, cStep: number): number;

  // ---- rows
  exponentRows(rows: number, count: number, source: number, sourcePitch: number, target: number, targetPitch: number, moments: number): void;
  softmaxRows(rows: number, count: number, source: number, sourcePitch: number, target: number, targetPitch: number): void;
  layerNormRows(
    rows: number,
    count: number,
    source: number,
    sourcePitch: number,
    target: number,
    targetPitch: number,
    gamma: number,
    beta: number,
    epsilon: number,
  ): void;
  sumRows(rows: number, count: number, source: number, sourcePitch: number, target: number): void;
  maxRows(rows: number, count: number, source: number, sourcePitch: number, target: number): void;
  /** 0: no element is NaN; 1: one may be. */
  mayHoldNaN(count: number, source: number): number;
  sumColumns(rows: number, count: number, source: number, sourcePitch: number, target: number, first: number): void;
  maxColumns(rows: number, count: number, source: number, sourcePitch: number, target: number, first: number): void;

  // ---- u8 x s8 products: C += A x B, exact in i32
  integerStep(): number;
  gemmInteger(
    rows: number,
    columns: number,
    depth: number,
    a: number,
    aPitch: number,
    panels: number,
    panelPitch: number,
    c: number,
    cPitch: number,
  ): void;
}
