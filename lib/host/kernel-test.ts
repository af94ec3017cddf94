/**
 * The known-answer test of the micro module: every exported function on shapes with all kinds of edges. It decides whether a build may be used,
 * so it runs soon after device open and has to be cheap: operands are whole numbers, whose products and sums are exact, and a digest of the results is
 * compared with the one that plain loops give (test/unit/micro/known-answers.test.ts holds the loops). Functions with rounded results are few
 * and compared value by value.
 */
import { MicroCode } from "../../asm/abi/micro";
import { StripCode } from "../../asm/abi/strip";
import type { KernelExports } from "./kernel-exports";

const SCRATCH = 1024;
const A = 384 * 1024;
const B = A + 32 * 1024;
const C = B + 128 * 1024;
const D = C + 16 * 1024;
const WORK = D + 32 * 1024;
const PAGES = 11;

/** How long the event loop waits for a part of the test, about. */
const TURN_MS = 1;

type Reference = (...index: number[]) => number;

/** The operands: whole numbers from -4 to 4. */
export const small = (index: number): number => ((index * 7 + (index >> 3) * 5) % 9) - 4;

/** Shapes of the exact checks, for the loops that worked out their digests. */
export const PRODUCT = { heights: [1, 2, 3, 4, 5, 6, 13], columns: 19, depth: 5 } as const;
export const DEPTHWISE = {
  channels: 17,
  side: 13,
  // The longer run of the row form.
  pixels: 6,
  windows: [
    [3, 1],
    [3, 2],
    [5, 1],
  ],
} as const;
/** Two weights in a row of 17 are not 0: see `winogradWeight`. */
export const WINOGRAD = { side: 5, channels: 17 } as const;
/** The second is large enough for halves of everything, and each half leaves something over. */
export const INTEGERS = [
  { rows: 7, columns: 19, depth: 11 },
  { rows: 33, columns: 73, depth: 132 },
] as const;
export const REDUCED = { rows: 3, count: 37 } as const;

export const winogradWeight = (output: number, input: number, tap: number): number =>
  input === output || input === (output + 5) % WINOGRAD.channels ? small(output * 9 + tap + input) : 0;
/** The ends of both ranges come often: this is where a dot product that saturates or takes seven bits goes wrong. */
export const integerA = (index: number): number => (index % 3 === 0 ? 255 : (index * 37) % 256);
export const integerB = (index: number): number => (index % 4 === 0 ? -128 : ((index * 29) % 256) - 128);

/** One number for a run of results that are whole up to a small error: each rounded and weighted by its place. */
export function digest(values: ArrayLike<number>, from: number, count: number): number {
  let total = 0;
  for (let i = 0; i < count; i++) total += Math.round(values[from + i]!) * (1 + ((i * 13) % 61));
  return total;
}

class Bench {
  readonly memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES, shared: true });
  readonly f32 = new Float32Array(this.memory.buffer);
  readonly u32 = new Uint32Array(this.memory.buffer);
  readonly i32 = new Int32Array(this.memory.buffer);
  readonly u8 = new Uint8Array(this.memory.buffer);
  readonly s8 = new Int8Array(this.memory.buffer);
  wrong = "";

  fill(address: number, count: number, value: Reference = small): void {
    for (let i = 0; i < count; i++) this.f32[address / 4 + i] = value(i);
  }

  /** Digest of `count` results at `address` against the right one; the first wrong answer of the whole test stays. */
  exact(name: string, view: Float32Array | Int32Array, address: number, count: number): void {
    const found = digest(view, address / 4, count);
    if (found !== DIGESTS[name] && this.wrong === "") this.wrong = `${name}: digest ${found}, not ${DIGESTS[name]}`;
  }

  /** Value by value, each within `tolerance` of the right one (of 1 where that is smaller). */
  near(name: string, address: number, count: number, value: Reference, tolerance: number): void {
    for (let i = 0; i < count && this.wrong === ""; i++) {
      const found = this.f32[address / 4 + i]!;
      const right = value(i);
      if (!(Math.abs(found - right) <= tolerance * Math.max(1, Math.abs(right)))) this.wrong = `${name}: element ${i} is ${found}, not ${right}`;
    }
  }
}

function* testProducts(e: KernelExports, bench: Bench): Generator<void> {
  // Two whole panels or one, and an edge that takes half a panel.
  const { heights, columns, depth } = PRODUCT;
  const panelPitch = depth * e.panelColumns() * 4;
  bench.fill(A, 13 * depth);
  bench.fill(D, depth * columns);
  e.pack(D, columns * 4, 4, depth, columns, B);
  for (const rows of heights) {
    yield;
    e.gemm(rows, columns, depth, A, depth * 4, B, panelPitch, C, columns * 4, 1);
    bench.exact(`gemm ${rows}`, bench.f32, C, rows * columns);
    // Adding the same again gives the double.
    e.gemm(rows, columns, depth, A, depth * 4, B, panelPitch, C, columns * 4, 0);
    for (let i = 0; i < rows * columns; i++) bench.f32[C / 4 + i]! /= 2;
    bench.exact(`gemm ${rows}`, bench.f32, C, rows * columns);
  }
  // The same product as a convolution of five taps with one channel each: the table names every element of A.
  for (let k = 0; k < depth; k++) for (let row = 0; row < 13; row++) bench.u32[D / 4 + k * 16 + row] = A + (row * depth + k) * 4;
  yield;
  e.convolve(13, columns, depth, 1, D, 64, B, panelPitch, C, columns * 4, 1);
  bench.exact("gemm 13", bench.f32, C, 13 * columns);
  testClosing(e, bench, panelPitch);
}

/** C holds the product that was right: with a bias below and limits around it, and one row with a NaN. */
function testClosing(e: KernelExports, bench: Bench, panelPitch: number): void {
  const { columns, depth } = PRODUCT;
  const sums = bench.f32.slice(C / 4, C / 4 + 13 * columns);
  bench.fill(D, columns);
  e.gemm(13, columns, depth, A, depth * 4, B, panelPitch, C, columns * 4, 1, D, -5, 6);
  bench.near("closing", C, 13 * columns, (i) => Math.min(6, Math.max(-5, sums[i!]! + small(i! % columns))), 0);
  bench.u32[A / 4] = 0xffc00001;
  e.gemm(13, columns, depth, A, depth * 4, B, panelPitch, C, columns * 4, 1, 0, 0, Number.NaN);
  const canonical = bench.u32.subarray(C / 4, C / 4 + columns).every((word) => word === 0x7fc00000);
  if (!canonical && bench.wrong === "") bench.wrong = "closing: a NaN in another form";
  bench.near("closing", C + columns * 4, 12 * columns, (i) => Math.max(0, sums[i! + columns]!), 0);
}

function* testDepthwise(e: KernelExports, bench: Bench): Generator<void> {
  const { channels, side, pixels, windows } = DEPTHWISE;
  bench.fill(A, side * side * channels);
  bench.fill(D, 26 * channels);
  const bias = D + 25 * channels * 4;
  const source = A + 2 * side * channels * 4;
  for (const [kernel, step] of windows) {
    yield;
    const name = `depthwise ${kernel} step ${step}`;
    if (kernel === 3) {
      e.depthwiseRow(kernel, step, pixels, channels, source, side * channels * 4, channels * 4, D, bias, C, channels * 4);
      bench.exact(name, bench.f32, C, pixels * channels);
      bench.f32.fill(0, C / 4, C / 4 + pixels * channels);
    }
    for (let t = 0; t < kernel * kernel; t++) {
      const tap = Math.floor(t / kernel) * side + (t % kernel);
      for (let i = 0; i < pixels; i++) bench.u32[B / 4 + t * 8 + i] = source + (tap + i * step) * channels * 4;
    }
    e.depthwise(pixels, channels, kernel * kernel, B, 32, D, bias, C, channels * 4);
    bench.exact(name, bench.f32, C, pixels * channels);
  }
}

/** Rows of a plane in all heights of the straight-line form, then steps of 2. */
function* testPlanes(e: KernelExports, bench: Bench): Generator<void> {
  const side = 21;
  bench.fill(A, side * side + 8);
  bench.fill(D, 9);
  for (const [step, rows, columns] of [
    [1, 7, 19],
    [2, 3, 9],
  ] as const) {
    yield;
    e.depthwisePlane(3, 3, step, step, side * 4, 4, rows, columns, A, side * 4, D, 2, C, columns * 4, Number.NaN, Number.NaN);
    const first = (i: number): number => (Math.floor(i / columns) * side + (i % columns)) * step;
    const tap = (i: number, t: number): number => small(first(i) + Math.floor(t / 3) * side + (t % 3)) * small(t);
    const value: Reference = (i) => [0, 1, 2, 3, 4, 5, 6, 7, 8].reduce((total, t) => total + tap(i!, t), 2);
    bench.near(`plane step ${step}`, C, rows * columns, value, 0);
  }
}

function* testWinograd(e: KernelExports, bench: Bench): Generator<void> {
  const { side, channels } = WINOGRAD;
  bench.fill(A, side * side * channels);
  bench.f32.fill(0, D / 4, D / 4 + 9 * channels * channels);
  // Weights in the order of ONNX: outputs, inputs, taps.
  for (let output = 0; output < channels; output++) {
    for (const input of [output, (output + 5) % channels]) {
      for (let t = 0; t < 9; t++) bench.f32[D / 4 + (output * channels + input) * 9 + t] = winogradWeight(output, input, t);
    }
  }
  e.winogradWeights(D, 12, 4, 36, channels * 36, channels, channels, B);
  yield;
  e.winogradConvolve(A, side, side, channels, 1, 1, B, C, side, side, channels, channels * 4, 0, 4, WORK);
  bench.exact("winograd", bench.f32, C, side * side * channels);
}

/** Its power series: good to 1e-9 for the arguments of the test, all within -3.3 and 3.3. */
function erf(x: number): number {
  let power = x;
  let total = x;
  for (let n = 1; n < 40; n++) {
    power *= (-x * x) / n;
    total += power / (2 * n + 1);
  }
  return (total * 2) / Math.sqrt(Math.PI);
}
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

const STRIPS: readonly (readonly [number, Reference])[] = [
  [StripCode.NEG, (x) => -x!],
  [StripCode.ABS, (x) => Math.abs(x!)],
  [StripCode.SQRT, (x) => Math.sqrt(x!)],
  [StripCode.RECIPROCAL, (x) => 1 / x!],
  [StripCode.RSQRT, (x) => 1 / Math.sqrt(x!)],
  [StripCode.RELU, (x) => Math.max(x!, 0)],
  [StripCode.EXP, (x) => Math.exp(x!)],
  [StripCode.LOG, (x) => Math.log(x!)],
  [StripCode.TANH, (x) => Math.tanh(x!)],
  [StripCode.SIGMOID, (x) => sigmoid(x!)],
  [StripCode.ERF, (x) => erf(x!)],
  [MicroCode.GELU, (x) => (x! / 2) * (1 + erf(x! / Math.SQRT2))],
  [MicroCode.GELU_TANH, (x) => (x! / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x! + 0.044715 * x! ** 3)))],
  [MicroCode.SILU, (x) => x! * sigmoid(x!)],
  [MicroCode.HARD_SWISH, (x) => x! * Math.min(Math.max(x! / 6 + 0.5, 0), 1)],
  [StripCode.ADD, (x, y) => x! + y!],
  [StripCode.SUB, (x, y) => x! - y!],
  [StripCode.MUL, (x, y) => x! * y!],
  [StripCode.DIV, (x, y) => x! / y!],
  [StripCode.MIN, (x, y) => Math.min(x!, y!)],
  [StripCode.MAX, (x, y) => Math.max(x!, y!)],
  [MicroCode.ADD_RELU, (x, y) => Math.max(x! + y!, 0)],
  [MicroCode.PRELU, (x, y) => (x! < 0 ? x! * y! : x!)],
  [MicroCode.MUL_RELU, (x, y) => Math.max(x! * y!, 0)],
  [StripCode.CLIP, (x, y, z) => Math.min(Math.max(x!, y!), z!)],
  [StripCode.MULADD, (x, y, z) => x! * y! + z!],
  [MicroCode.MULADD_RELU, (x, y, z) => Math.max(x! * y! + z!, 0)],
];
/** Where the functions take more than one path. Negative arguments only for those that have values there. */
const POSITIVE = new Set<number>([StripCode.SQRT, StripCode.RSQRT, StripCode.LOG]);

function* testStrips(e: KernelExports, bench: Bench): Generator<void> {
  const x: Reference = (i) => (i! - 15.25) / 5;
  bench.fill(B, 16, () => -1.5);
  bench.fill(D, 32, (i) => 0.25 + (i! % 3));
  for (const [code, right] of STRIPS) {
    yield;
    const argument: Reference = (i) => Math.fround(POSITIVE.has(code) ? Math.abs(x(i!)) : x(i!));
    bench.fill(A, 32, argument);
    const done = e.strip(code, C, C + 128, A, 64, B, 0, D, 64);
    const value: Reference = (i) => right(argument(i!), -1.5, 0.25 + (i! % 3));
    bench.near(`strip ${StripCode[code] ?? MicroCode[code]}`, C, 32, done === 1 ? value : () => Number.NaN, 1e-6);
  }
}

function* testRows(e: KernelExports, bench: Bench): Generator<void> {
  const { rows, count } = REDUCED;
  bench.fill(A, rows * count);
  bench.fill(B, 2 * count);
  e.sumRows(rows, count, A, count * 4, C);
  bench.exact("sumRows", bench.f32, C, rows);
  yield;
  e.maxRows(rows, count, A, count * 4, C);
  bench.exact("maxRows", bench.f32, C, rows);
  e.sumColumns(rows, count, A, count * 4, C, 1);
  bench.exact("sumColumns", bench.f32, C, count);
  e.maxColumns(rows, count, A, count * 4, C, 1);
  bench.exact("maxColumns", bench.f32, C, count);
  yield;
  const row = Array.from({ length: count }, (_, i) => small(i));
  const total = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
  const exponents = row.map(Math.exp);
  const exponentSum = total(exponents);
  e.softmaxRows(1, count, A, count * 4, C, count * 4);
  bench.near("softmaxRows", C, count, (i) => exponents[i!]! / exponentSum, 1e-6);
  const mean = total(row) / count;
  const deviation = Math.sqrt(total(row.map((value) => (value - mean) ** 2)) / count + 0.5);
  e.layerNormRows(1, count, A, count * 4, C, count * 4, B, B + count * 4, 0.5);
  bench.near("layerNormRows", C, count, (i) => ((row[i!]! - mean) / deviation) * small(i!) + small(count + i!), 1e-5);
}

function* testIntegers(e: KernelExports, bench: Bench): Generator<void> {
  for (const shape of INTEGERS) yield* testInteger(e, bench, shape);
}

function* testInteger(e: KernelExports, bench: Bench, { rows, columns, depth }: (typeof INTEGERS)[number]): Generator<void> {
  for (let i = 0; i < rows * depth; i++) bench.u8[A + i] = integerA(i);
  const panel = e.panelColumns();
  const panelPitch = Math.ceil(depth / 4) * 4 * panel;
  bench.s8.fill(0, B, B + Math.ceil(columns / panel) * panelPitch);
  for (let k = 0; k < depth; k++) {
    for (let column = 0; column < columns; column++) {
      const at = Math.floor(column / panel) * panelPitch + Math.floor(k / 4) * 4 * panel + (column % panel) * 4 + (k % 4);
      bench.s8[B + at] = integerB(k * columns + column);
    }
  }
  for (let i = 0; i < rows * columns; i++) bench.i32[C / 4 + i] = (i % columns) * 1000;
  yield;
  e.gemmInteger(rows, columns, depth, A, depth, B, panelPitch, C, columns * 4);
  bench.exact(`gemmInteger ${rows}`, bench.i32, C, rows * columns);
  yield;
}

/** Digests of the right answers. */
export const DIGESTS: Readonly<Record<string, number>> = {
  "depthwise 3 step 1": 1465,
  "depthwise 3 step 2": -4018,
  "depthwise 5 step 1": -8204,
  "gemm 1": -1939,
  "gemm 13": -1634,
  "gemm 2": -1992,
  "gemm 3": -1014,
  "gemm 4": -861,
  "gemm 5": -143,
  "gemm 6": -1086,
  "gemmInteger 33": -50963419112,
  "gemmInteger 7": -205273129,
  maxColumns: 2356,
  maxRows: 168,
  sumColumns: -792,
  sumRows: 28,
  winograd: 18223,
};

/** Runs all of it on an instance of its own, a function or two between yields. "" if every answer is right, else the first wrong one. */
function* test(module: WebAssembly.Module): Generator<void, string> {
  try {
    const bench = new Bench();
    const e = new WebAssembly.Instance(module, { env: { memory: bench.memory } }).exports as unknown as KernelExports;
    e.bind(SCRATCH);
    for (const part of [testProducts, testDepthwise, testPlanes, testWinograd, testStrips, testRows, testIntegers]) {
      yield;
      yield* part(e, bench);
    }
    return bench.wrong;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** "" if every answer of the module is right, else the first wrong one. */
export function testKernels(module: WebAssembly.Module): string {
  const steps = test(module);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** As `testKernels`, but the event loop gets its turn in between: most of its time is V8 compiling what is called first. Keeps no process alive. */
export function testKernelsInTurns(module: WebAssembly.Module, tested: (wrong: string) => void): void {
  const steps = test(module);
  const go = (): void => {
    const end = performance.now() + TURN_MS;
    do {
      const { done, value } = steps.next();
      if (done) {
        tested(value);
        return;
      }
    } while (performance.now() < end);
    setImmediate(go).unref();
  };
  go();
}
