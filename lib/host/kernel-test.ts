/**
 * The known-answer test of the micro module: every exported function once, on a shape with all kinds of edges, against plain loops. It decides
 * whether a build may be used, so it runs at device open and has to stay below a millisecond or two.
 */
import { MicroCode } from "../../asm/abi/micro";
import { StripCode } from "../../asm/abi/strip";
import type { KernelExports } from "./kernel-exports";

const SCRATCH = 1024;
const A = 128 * 1024;
const B = A + 32 * 1024;
const C = B + 128 * 1024;
const D = C + 16 * 1024;
const WORK = D + 32 * 1024;
const PAGES = 7;

type Reference = (...index: number[]) => number;

/** Whole numbers from -4 to 4: products and sums of them are exact, so any order of adding gives the same. */
const small = (index: number): number => ((index * 7 + (index >> 3) * 5) % 9) - 4;

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

  /** Compares `count` values from `address` on; the first difference of the whole test stays. */
  expect(name: string, view: Float32Array | Int32Array, address: number, count: number, value: Reference, tolerance = 0): void {
    for (let i = 0; i < count && this.wrong === ""; i++) {
      const found = view[address / 4 + i]!;
      const right = value(i);
      if (!(Math.abs(found - right) <= tolerance * Math.max(1, Math.abs(right)))) this.wrong = `${name}: element ${i} is ${found}, not ${right}`;
    }
  }
}

/** The right answers of one check, worked out once: plain loops in a cold engine are most of the cost of the test. */
function answers(count: number, value: Reference): Reference {
  const values = Array.from({ length: count }, (_, i) => value(i));
  return (i) => values[i!]!;
}

/** Sum over k < depth. */
function sum(depth: number, term: Reference): number {
  let total = 0;
  for (let k = 0; k < depth; k++) total += term(k);
  return total;
}

function testProducts(e: KernelExports, bench: Bench): void {
  const depth = 5;
  // Two whole panels or one, and an edge that takes half a panel.
  const columns = 19;
  const panel = e.panelColumns();
  const panelPitch = depth * panel * 4;
  bench.fill(A, 13 * depth);
  bench.fill(D, depth * columns);
  e.pack(D, columns * 4, 4, depth, columns, B);
  const a: Reference = (row, k) => small(row! * depth + k!);
  const b: Reference = (k, column) => small(k! * columns + column!);
  const product = answers(13 * columns, (i) => sum(depth, (k) => a(Math.floor(i! / columns), k!) * b(k!, i! % columns)));
  // Every height of a tile, and one more run.
  for (const rows of [1, 2, 3, 4, 5, 6, 13]) {
    e.gemm(rows, columns, depth, A, depth * 4, B, panelPitch, C, columns * 4, 1);
    bench.expect("gemm", bench.f32, C, rows * columns, product);
    e.gemm(rows, columns, depth, A, depth * 4, B, panelPitch, C, columns * 4, 0);
    bench.expect("gemm, adding", bench.f32, C, rows * columns, (i) => product(i!) * 2);
  }
  // The same product as a convolution of five taps with one channel each: the table names every element of A.
  for (let k = 0; k < depth; k++) for (let row = 0; row < 13; row++) bench.u32[D / 4 + k * 16 + row] = A + (row * depth + k) * 4;
  e.convolve(13, columns, depth, 1, D, 64, B, panelPitch, C, columns * 4, 1);
  bench.expect("convolve", bench.f32, C, 13 * columns, product);
}

function testDepthwise(e: KernelExports, bench: Bench): void {
  const channels = 17;
  const side = 13;
  bench.fill(A, side * side * channels);
  bench.fill(D, 26 * channels);
  const bias = D + 25 * channels * 4;
  for (const [kernel, step] of [
    [3, 1],
    [3, 2],
    [5, 1],
  ] as const) {
    const right = answers(5 * channels, (i) => {
      const channel = i! % channels;
      const x = Math.floor(i! / channels) * step;
      const tap: Reference = (t) =>
        small(((Math.floor(t! / kernel) + 2) * side + x + (t! % kernel)) * channels + channel) * small(t! * channels + channel);
      return small(25 * channels + channel) + sum(kernel * kernel, tap);
    });
    const source = A + 2 * side * channels * 4;
    if (kernel === 3) {
      const done = e.depthwiseRow(kernel, step, 5, channels, source, side * channels * 4, channels * 4, D, bias, C, channels * 4);
      bench.expect(`depthwiseRow step ${step}`, bench.f32, C, 5 * channels, done === 1 ? right : () => Number.NaN);
    }
    for (let t = 0; t < kernel * kernel; t++) {
      for (let i = 0; i < 5; i++) bench.u32[B / 4 + t * 8 + i] = source + (Math.floor(t / kernel) * side + (t % kernel) + i * step) * channels * 4;
    }
    e.depthwise(5, channels, kernel * kernel, B, 32, D, bias, C, channels * 4);
    bench.expect(`depthwise ${kernel} x ${kernel}`, bench.f32, C, 5 * channels, right);
  }
}

function testWinograd(e: KernelExports, bench: Bench): void {
  // More channels than the widest block of any build. Two weights in a row of 17 keep the reference short.
  const [height, width, channels] = [5, 5, 17];
  const weight: Reference = (output, input, t) => (input === output || input === (output! + 5) % channels ? small(output! * 9 + t! + input!) : 0);
  bench.fill(A, height * width * channels);
  bench.fill(D, 9 * channels * channels, (i) => weight(Math.floor(i! / 9 / channels), Math.floor(i! / 9) % channels, i! % 9));
  // Weights in the order of ONNX: outputs, inputs, rows, columns.
  e.winogradWeights(D, 12, 4, 36, channels * 36, channels, channels, B);
  e.winogradConvolve(A, height, width, channels, 1, 1, B, C, height, width, channels, channels * 4, 0, 4, WORK);
  const right: Reference = (i) => {
    const output = i! % channels;
    const [y, x] = [Math.floor(i! / channels / width), Math.floor(i! / channels) % width];
    return sum(9, (t) => {
      const [row, column] = [y + Math.floor(t! / 3) - 1, x + (t! % 3) - 1];
      if (row < 0 || row >= height || column < 0 || column >= width) return 0;
      const term: Reference = (input) => small((row * width + column) * channels + input!) * weight(output, input!, t!);
      return term(output) + term((output + 5) % channels);
    });
  };
  bench.expect("winogradConvolve", bench.f32, C, height * width * channels, right, 1e-4);
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
  [StripCode.CLIP, (x, y, z) => Math.min(Math.max(x!, y!), z!)],
  [StripCode.MULADD, (x, y, z) => x! * y! + z!],
];
/** Where the functions take more than one path. Negative arguments only for those that have values there. */
const POSITIVE = new Set<number>([StripCode.SQRT, StripCode.RSQRT, StripCode.LOG]);

function testStrips(e: KernelExports, bench: Bench): void {
  const x: Reference = (i) => (i! - 15.25) / 5;
  bench.fill(B, 16, () => -1.5);
  bench.fill(D, 32, (i) => 0.25 + (i! % 3));
  for (const [code, right] of STRIPS) {
    const argument: Reference = (i) => Math.fround(POSITIVE.has(code) ? Math.abs(x(i!)) : x(i!));
    bench.fill(A, 32, argument);
    const done = e.strip(code, C, C + 128, A, 64, B, 0, D, 64);
    const value: Reference = (i) => right(argument(i!), -1.5, 0.25 + (i! % 3));
    bench.expect(`strip ${StripCode[code] ?? MicroCode[code]}`, bench.f32, C, 32, done === 1 ? value : () => Number.NaN, 1e-6);
  }
}

function testRows(e: KernelExports, bench: Bench): void {
  const count = 37;
  const value: Reference = (row, i) => Math.fround(small(row! * count + i!) * 0.75);
  bench.fill(A, 3 * count, (i) => value(Math.floor(i! / count), i! % count));
  bench.fill(B, 2 * count);
  const row = (i: number): number => (i / count) | 0;
  const over = (r: number, term: Reference): number => sum(count, (i) => term(value(r, i!)));
  const means = [0, 1, 2].map((r) => over(r, (x) => x!) / count);
  const deviations = means.map((mean, r) => Math.sqrt(over(r, (x) => (x! - mean) ** 2) / count + 0.5));
  const exponents = [0, 1, 2].map((r) => over(r, (x) => Math.exp(x!)));
  e.softmaxRows(3, count, A, count * 4, C, count * 4);
  bench.expect("softmaxRows", bench.f32, C, 3 * count, (i) => Math.exp(value(row(i!), i! % count)) / exponents[row(i!)]!, 1e-6);
  e.layerNormRows(3, count, A, count * 4, C, count * 4, B, B + count * 4, 0.5);
  const normal: Reference = (i) =>
    ((value(row(i!), i! % count) - means[row(i!)]!) / deviations[row(i!)]!) * small(i! % count) + small(count + (i! % count));
  bench.expect("layerNormRows", bench.f32, C, 3 * count, normal, 1e-5);
  const columns =
    (fold: (...values: number[]) => number): Reference =>
    (i) =>
      fold(value(0, i!), value(1, i!), value(2, i!));
  e.sumRows(3, count, A, count * 4, C);
  bench.expect("sumRows", bench.f32, C, 3, (r) => over(r!, (x) => x!));
  e.maxRows(3, count, A, count * 4, C);
  bench.expect("maxRows", bench.f32, C, 3, (r) => Math.max(...Array.from({ length: count }, (_, i) => value(r!, i))));
  e.sumColumns(3, count, A, count * 4, C, 1);
  bench.expect(
    "sumColumns",
    bench.f32,
    C,
    count,
    columns((x, y, z) => x! + y! + z!),
  );
  e.maxColumns(3, count, A, count * 4, C, 1);
  bench.expect("maxColumns", bench.f32, C, count, columns(Math.max));
}

function testIntegers(e: KernelExports, bench: Bench): void {
  const [rows, columns, depth] = [7, 19, 11];
  // The ends of both ranges: this is where a dot product that saturates or takes seven bits goes wrong.
  const a: Reference = (i) => (i! % 3 === 0 ? 255 : (i! * 37) % 256);
  const b: Reference = (i) => (i! % 4 === 0 ? -128 : ((i! * 29) % 256) - 128);
  for (let i = 0; i < rows * depth; i++) bench.u8[A + i] = a(i);
  for (let i = 0; i < depth * columns; i++) bench.s8[D + i] = b(i);
  const start = D + 4096;
  const sums = D + 8192;
  for (let i = 0; i < columns; i++) bench.i32[start / 4 + i] = i * 1000;
  e.packInteger(D, columns, 1, depth, columns, B, sums);
  bench.expect("packInteger", bench.i32, sums, columns, (i) => sum(depth, (k) => b(k! * columns + i!)));
  e.gemmInteger(rows, columns, depth, A, depth, B, start, C, columns * 4);
  const right: Reference = (i) =>
    (i! % columns) * 1000 + sum(depth, (k) => a(Math.floor(i! / columns) * depth + k!) * b(k! * columns + (i! % columns)));
  bench.expect("gemmInteger", bench.i32, C, rows * columns, right);
}

/** Runs all of it on an instance of its own. "" if every answer is right, else the first wrong one. */
export function testKernels(module: WebAssembly.Module): string {
  try {
    const bench = new Bench();
    const e = new WebAssembly.Instance(module, { env: { memory: bench.memory } }).exports as unknown as KernelExports;
    e.bind(SCRATCH);
    for (const test of [testProducts, testDepthwise, testWinograd, testStrips, testRows, testIntegers]) test(e, bench);
    return bench.wrong;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
