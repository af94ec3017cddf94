/**
 * The helper kernels of the acceptance programs, in AssemblyScript. No strings, static arrays or `new`: they would need static data.
 * Build: asc helpers.ts --runtime stub --importMemory --noExportMemory --noAssert -O3 -o helpers.wasm
 */

// @ts-expect-error: decorator
@external("env", "block_index")
declare function blockIndex(): u32;
// @ts-expect-error: decorator
@external("env", "block_count")
declare function blockCount(): u32;
// @ts-expect-error: decorator
@external("env", "scratch_address")
declare function scratchAddress(): usize;
// @ts-expect-error: decorator
@external("env", "poison_address")
declare function poisonAddress(): usize;
// @ts-expect-error: decorator
@external("env", "poll")
declare function poll(): void;
// @ts-expect-error: decorator
@external("env", "print")
declare function print(text: usize, bytes: u32): void;

export function EasyOP(x: usize): void {
  store<i32>(x, load<i32>(x) + 1);
}

export function ShortOP(x: usize): void {
  store<i32>(x, load<i32>(x) * 2);
}

/** As EasyOP, after some tens of milliseconds. */
export function LongOP(x: usize): void {
  let mixed: u32 = 1;
  for (let round = 0; round < 400; round++) {
    for (let i = 0; i < 100000; i++) mixed = mixed * 1664525 + 1013904223;
    poll();
  }
  store<u32>(scratchAddress(), mixed); // used, so the loop stays
  store<i32>(x, load<i32>(x) + 1);
}

export function ErrorOP(x: usize): void {
  unreachable();
}

/** z = x + y over `count` floats; each block does its share. */
export function AddDo(x: usize, y: usize, z: usize, count: u32): void {
  const blocks = blockCount();
  const block = blockIndex();
  const first = <u32>((<u64>count * block) / blocks);
  const end = <u32>((<u64>count * (block + 1)) / blocks);
  for (let i = first; i < end; i++) {
    const at = <usize>i << 2;
    store<f32>(z + at, load<f32>(x + at) + load<f32>(y + at));
  }
}

export function WriteDo(x: usize, value: i32): void {
  store<i32>(x, value);
}

export function ReadDo(x: usize, out: usize): void {
  store<i32>(out, load<i32>(x));
}

/** Prints "Hello World <block>" and a new line. */
export function PrintHello(): void {
  const text = scratchAddress();
  store<u64>(text, 0x6f57206f6c6c6548); // "Hello Wo"
  store<u32>(text + 8, 0x20646c72); // "rld "
  let at = text + 12;
  let scale: u32 = 1;
  const block = blockIndex();
  while (block / scale >= 10) scale *= 10;
  for (; scale > 0; scale /= 10) store<u8>(at++, <u8>(0x30 + ((block / scale) % 10)));
  store<u8>(at++, 0x0a);
  print(text, <u32>(at - text));
}

// ---- for tests of the launch itself

/** counts[block] += 1: a block that runs twice, or not at all, shows. */
export function CountBlocks(counts: usize): void {
  const at = counts + (<usize>blockIndex() << 2);
  store<u32>(at, load<u32>(at) + 1);
}

/** Every type of argument, written one after the other, 8 bytes apart. */
export function Echo(out: usize, a: i32, b: u32, c: i64, d: u64, e: f32, f: f64): void {
  store<i32>(out, a);
  store<u32>(out, b, 8);
  store<i64>(out, c, 16);
  store<u64>(out, d, 24);
  store<f32>(out, e, 32);
  store<f64>(out, f, 40);
}

/** out = sum of `count` bytes at `data`. */
export function SumBytes(data: usize, count: u32, out: usize): void {
  let sum: u32 = 0;
  for (let i: u32 = 0; i < count; i++) sum += load<u8>(data + i);
  store<u32>(out, sum);
}

export function OutOfBounds(): void {
  store<u32>(0xfffffffc, 1);
}

export function DivideByZero(out: usize, zero: u32): void {
  store<u32>(out, 1 / zero);
}

function deeper(n: u32): u32 {
  return n == 0xffffffff ? 0 : deeper(n + 1) * 3 + load<u32>(scratchAddress() + (n & 1023));
}

export function Recurse(out: usize): void {
  store<u32>(out, deeper(0));
}

/** Never ends and never polls. The load keeps the loop. */
export function Runaway(x: usize): void {
  while (atomic.load<u32>(x) != 0xffffffff) {}
}

export function RunawayPolling(x: usize): void {
  while (atomic.load<u32>(x) != 0xffffffff) poll();
}

/** Polls without a call. */
export function RunawayReading(x: usize): void {
  const poison = poisonAddress();
  while (atomic.load<u32>(x) != 0xffffffff) {
    if (atomic.load<u32>(poison)) unreachable();
  }
}

/** Polls and ends when the word is 1. */
export function WaitFor(x: usize): void {
  while (atomic.load<u32>(x) != 1) poll();
}

/** A print longer than one slot: the bytes at `text`. */
export function PrintText(text: usize, bytes: u32): void {
  print(text, bytes);
}

export function Answer(): i32 {
  return 42;
}

// ---- operators of the inference pipeline that a04-rebuild.cjs takes apart

/** First row of this block's share of `rows`; that of the next block is where it ends. */
function firstRow(rows: u32, block: u32): u32 {
  return <u32>((<u64>rows * block) / blockCount());
}

/** Element (row, column) of x * w. */
function dot(x: usize, w: usize, row: u32, column: u32, inner: u32, columns: u32): f32 {
  let sum: f32 = 0;
  for (let k: u32 = 0; k < inner; k++) sum += load<f32>(x + ((row * inner + k) << 2)) * load<f32>(w + ((k * columns + column) << 2));
  return sum;
}

export function MatMul(x: usize, w: usize, out: usize, rows: u32, inner: u32, columns: u32): void {
  const end = firstRow(rows, blockIndex() + 1);
  for (let row = firstRow(rows, blockIndex()); row < end; row++) {
    for (let column: u32 = 0; column < columns; column++) store<f32>(out + ((row * columns + column) << 2), dot(x, w, row, column, inner, columns));
  }
}

export function AddBias(x: usize, bias: usize, out: usize, rows: u32, columns: u32): void {
  const end = firstRow(rows, blockIndex() + 1);
  for (let row = firstRow(rows, blockIndex()); row < end; row++) {
    for (let column: u32 = 0; column < columns; column++) {
      const at = (row * columns + column) << 2;
      store<f32>(out + at, load<f32>(x + at) + load<f32>(bias + (column << 2)));
    }
  }
}

export function Relu(x: usize, out: usize, rows: u32, columns: u32): void {
  const end = firstRow(rows, blockIndex() + 1) * columns;
  for (let i = firstRow(rows, blockIndex()) * columns; i < end; i++) store<f32>(out + (i << 2), max<f32>(load<f32>(x + (i << 2)), 0));
}

/** The three in one: a row is never written in between. */
export function MatMulAddRelu(x: usize, w: usize, bias: usize, out: usize, rows: u32, inner: u32, columns: u32): void {
  const end = firstRow(rows, blockIndex() + 1);
  for (let row = firstRow(rows, blockIndex()); row < end; row++) {
    for (let column: u32 = 0; column < columns; column++) {
      const sum = dot(x, w, row, column, inner, columns) + load<f32>(bias + (column << 2));
      store<f32>(out + ((row * columns + column) << 2), max<f32>(sum, 0));
    }
  }
}
