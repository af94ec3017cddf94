/**
 * PACK_INTEGER and MATMUL_INTEGER: exact products of 8-bit matrices less their zero points, in int32. The micro module multiplies uint8 by int8: int8
 * rows of A go by 128 up, uint8 columns of B by 128 down, and their zero points with them. Of
 *   (a - za)(b - zb) summed over k = sum of a b - za (sum of b - k zb) - zb (sum of a)
 * the last two terms are what the sums start from.
 */
import { Dtype, Instruction } from "../abi/program";
import { gemmInteger, panelColumns } from "../micro/module";
import { runStrip, STRIP_SCRATCH } from "./strip";
import { addressOf, dim, dtypeOf, offsetAt, rank, record, stride } from "./view";

/** Columns of B that are packed, and columns of C that are worked on, at a time. */
const COLUMNS: u32 = 1024;
/** Rows of C at a time: with their strip program behind they stay in the second-level cache. */
const ROWS: u32 = 128;
/** Depth of rows of A that are copied. */
const DEPTH: u32 = 2048;
const BLOCK_BYTES: u32 = 1 << 18;

const LINES: usize = (STRIP_SCRATCH + 63) & ~63;
const START: usize = LINES;
const ZEROS: usize = START + <usize>COLUMNS * 4;
const BLOCK_OF_C: usize = ZEROS + <usize>COLUMNS * 4;
const ROWS_OF_A: usize = BLOCK_OF_C + BLOCK_BYTES;

/** Bytes in place: none behind `source` + `count` is read. */
@inline
function copyBytes(target: usize, source: usize, count: u32): void {
  if (count < 16) {
    for (let i: usize = 0; i < <usize>count; i++) store<u8>(target + i, load<u8>(source + i));
    return;
  }
  const last = <usize>count - 16;
  for (let i: usize = 0; i < last; i += 16) v128.store(target + i, v128.load(source + i));
  v128.store(target + last, v128.load(source + last));
}

@inline
function moveBytes(target: usize, source: usize, step: i32, count: u32): void {
  if (step == 1) {
    copyBytes(target, source, count);
    return;
  }
  let i: u32 = 0;
  // Steps of two, sixteen at a time; the element behind them lies within what is read.
  if (step == 2) {
    for (; i + 16 < count; i += 16) {
      const low = v128.load(source), high = v128.load(source, 16);
      v128.store(target + i, v128.shuffle<u8>(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
      source += 32;
    }
  }
  for (; i < count; i++) {
    store<u8>(target + i, load<u8>(source));
    source += step;
  }
}

/** Flips the top bit of `count` bytes. May write up to 15 bytes more. */
@inline
function flipBytes(at: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i += 16) v128.store(at + i, v128.xor(v128.load(at + i), i8x16.splat(-128)));
}

/** Columns [column, column + count) of one row of B at `base`; the columns are dims [outer, rank) of the view, three at most. */
function fetchLine(source: usize, base: usize, outer: u32, column: u32, count: u32, target: usize): void {
  const last = rank(source) - 1, inner = last - outer;
  const width = dim(source, last), step = stride(source, last);
  let row = column / width, x = column - row * width;
  while (count > 0) {
    let place = base + <usize>(<i32>x * step);
    if (inner == 1) place += <i32>row * stride(source, outer);
    else if (inner == 2) {
      const high = row / dim(source, outer + 1);
      place += <i32>high * stride(source, outer) + <i32>(row - high * dim(source, outer + 1)) * stride(source, outer + 1);
    }
    const run = min<u32>(width - x, count);
    moveBytes(target, place, step, run);
    target += run;
    count -= run;
    row++;
    x = 0;
  }
}

/** Four lines of `count` columns, a whole number of panels -> one step of k of the panels at `target`; their sums go to `sums`. */
function interleave(lines: usize, count: u32, target: usize, panel: u32, panelBytes: usize, sums: usize): void {
  for (let column: u32 = 0; column < count; column += 8) {
    const a = v128.load64_zero(lines), b = v128.load64_zero(lines, COLUMNS);
    const c = v128.load64_zero(lines, 2 * COLUMNS), d = v128.load64_zero(lines, 3 * COLUMNS);
    const ab = v128.shuffle<u8>(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const cd = v128.shuffle<u8>(c, d, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const low = v128.shuffle<u16>(ab, cd, 0, 8, 1, 9, 2, 10, 3, 11), high = v128.shuffle<u16>(ab, cd, 4, 12, 5, 13, 6, 14, 7, 15);
    const place = target + <usize>(column / panel) * panelBytes + <usize>((column % panel) << 2);
    v128.store(place, low);
    v128.store(place, high, 16);
    v128.store(sums, i32x4.add(v128.load(sums), i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(low))));
    v128.store(sums, i32x4.add(v128.load(sums, 16), i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(high))), 16);
    lines += 8;
    sums += 32;
  }
}

/** One tile = some columns of one matrix, over the whole of k. */
export function runPackInteger(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const perTile = load<u32>(instruction, Instruction.P0), depth = load<u32>(instruction, Instruction.P1);
  const dims = rank(source), outer = dims - load<u32>(instruction, Instruction.P2);
  let n: u32 = 1;
  for (let i = outer; i < dims; i++) n *= dim(source, i);
  if (n == 0) return;
  const across = (n + perTile - 1) / perTile, batch = tile / across;
  const from = tile % across * perTile, to = min<u32>(from + perTile, n);
  const panel = panelColumns(), panelBytes = <usize>((depth + 3) & ~3) * panel;
  const place = addressOf(target, frame) + <usize>(<i32>batch * stride(target, 0));
  const sums = place + <usize>((n + panel - 1) / panel) * panelBytes;
  const first = addressOf(source, frame), unsigned = dtypeOf(source) == Dtype.UINT8, lines = scratch + LINES;
  for (let column = from; column < to; column += COLUMNS) {
    const count = min<u32>(COLUMNS, to - column), padded = (count + panel - 1) / panel * panel;
    memory.fill(sums + (<usize>column << 2), 0, <usize>padded << 2);
    for (let k: u32 = 0; k < depth; k += 4) {
      for (let j: u32 = 0; j < 4; j++) {
        const line = lines + <usize>j * COLUMNS;
        const real = k + j < depth ? count : 0;
        if (real != 0) {
          fetchLine(source, first + offsetAt(source, outer, batch * depth + k + j), outer, column, count, line);
          if (unsigned) flipBytes(line, count);
        }
        memory.fill(line + real, 0, padded - real);
      }
      interleave(lines, padded, place + <usize>(column / panel) * panelBytes + <usize>k * panel, panel, panelBytes, sums + (<usize>column << 2));
    }
  }
}

/** One matrix product as the functions below see it; core-local. */
let a: usize = 0;
let aRow: i32 = 0;
let aStep: i32 = 0;
/** What takes int8 to uint8: added to elements and zero points. */
let aShift: i32 = 0;
let depth: u32 = 0;
let zerosOfA: usize = 0;
let zeroStep: i32 = 0;
/** Whether a column has a zero point that the rows' sums must be known for. */
let sumsNeeded: bool = false;

/** Zero points of columns [j, j + width) and what those of A are multiplied with. */
function setUpColumns(zeros: usize, view: usize, step: i32, sums: usize, width: u32, scratch: usize): void {
  const unsigned = dtypeOf(view) == Dtype.UINT8;
  sumsNeeded = false;
  for (let i: usize = 0; i < <usize>width << 2; i += 4) {
    const zero: i32 = unsigned ? <i32>load<u8>(zeros) - 128 : <i32>load<i8>(zeros);
    store<i32>(scratch + ZEROS + i, zero);
    store<i32>(scratch + START + i, load<i32>(sums + i) - <i32>depth * zero);
    sumsNeeded = sumsNeeded || zero != 0;
    zeros += step;
  }
}

/** Rows [i, i + rows) of A over k [from, from + count) as dense uint8. */
function copyRows(i: u32, rows: u32, from: u32, count: u32, target: usize, pitch: usize): void {
  for (let r = i; r < i + rows; r++) {
    moveBytes(target, a + <usize>(<i32>r * aRow) + <usize>(<i32>from * aStep), aStep, count);
    if (aShift != 0) flipBytes(target, count);
    target += pitch;
  }
}

function sumOf(at: usize, count: u32): i32 {
  const end = at + count;
  let sums = i32x4.splat(0);
  for (; at + 16 <= end; at += 16) sums = i32x4.add(sums, i32x4.extadd_pairwise_i16x8_u(i16x8.extadd_pairwise_i8x16_u(v128.load(at))));
  let sum = i32x4.extract_lane(sums, 0) + i32x4.extract_lane(sums, 1) + i32x4.extract_lane(sums, 2) + i32x4.extract_lane(sums, 3);
  for (; at < end; at++) sum += <i32>load<u8>(at);
  return sum;
}

/** What a row of C starts from; `add`: what the next part of k adds to it. */
function startRow(c: usize, width: u32, zero: i32, sum: i32, add: bool, scratch: usize): void {
  if (zero == 0 && sum == 0) {
    if (!add) memory.fill(c, 0, <usize>width << 2);
    return;
  }
  const start = scratch + START, zeros = scratch + ZEROS, end = <usize>width << 2;
  const x = i32x4.splat(-zero), y = i32x4.splat(-sum);
  let i: usize = 0;
  for (; i + 16 <= end; i += 16) {
    const value = i32x4.add(i32x4.mul(v128.load(start + i), x), i32x4.mul(v128.load(zeros + i), y));
    v128.store(c + i, add ? i32x4.add(v128.load(c + i), value) : value);
  }
  for (; i < end; i += 4) {
    const value = -zero * load<i32>(start + i) - sum * load<i32>(zeros + i);
    store<i32>(c + i, add ? load<i32>(c + i) + value : value);
  }
}

/** Rows [i, i + rows) x `width` columns. Rows of A are read in place where they are dense uint8 of whole words. */
function product(i: u32, rows: u32, width: u32, panels: usize, c: usize, cPitch: usize, scratch: usize): void {
  const panel = panelColumns(), panelBytes = <usize>((depth + 3) & ~3) * panel;
  const inPlace = aStep == 1 && aShift == 0 && (depth & 3) == 0;
  let from: u32 = 0;
  do {
    const count = inPlace ? depth : min<u32>(DEPTH, depth - from);
    const pitch = inPlace ? <usize>aRow : <usize>((count + 15) & ~15);
    const source = inPlace ? a + <usize>(<i32>i * aRow) : scratch + ROWS_OF_A;
    if (!inPlace) copyRows(i, rows, from, count, source, pitch);
    for (let r: u32 = 0; r < rows; r++) {
      const at = zerosOfA + <usize>(<i32>(i + r) * zeroStep);
      const zero = from != 0 ? 0 : aShift != 0 ? <i32>load<i8>(at) + aShift : <i32>load<u8>(at);
      startRow(c + r * cPitch, width, zero, sumsNeeded ? sumOf(source + r * pitch, count) : 0, from != 0, scratch);
    }
    if (count != 0) gemmInteger(rows, width, count, source, pitch, panels + <usize>from * panel, panelBytes, c, cPitch);
    from += count;
  } while (from < depth);
}

/** One tile = a block of rows and columns of one matrix, or several small matrices. */
export function runMatmulInteger(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), left = record(program, load<u32>(instruction, Instruction.T1));
  const right = record(program, load<u32>(instruction, Instruction.T2));
  const rowZeros = record(program, load<u32>(instruction, Instruction.T3)), columnZeros = record(program, load<u32>(instruction, Instruction.T4));
  const outer = rank(target) - 2, m = dim(target, outer), n = dim(target, outer + 1);
  const rowsPerTile = load<u32>(instruction, Instruction.P0), columnsPerTile = load<u32>(instruction, Instruction.P1);
  const together = load<u32>(instruction, Instruction.P4), epilogue = load<u32>(instruction, Instruction.BLOCK);
  let batches: u32 = 1;
  for (let i: u32 = 0; i < outer; i++) batches *= dim(target, i);
  if (batches == 0 || m == 0 || n == 0) return;
  const down = (m + rowsPerTile - 1) / rowsPerTile, across = (n + columnsPerTile - 1) / columnsPerTile;
  const part = tile % (down * across), begin = tile / (down * across) * together;
  const i0 = part / across * rowsPerTile, j0 = part % across * columnsPerTile;
  const i1 = min<u32>(i0 + rowsPerTile, m), j1 = min<u32>(j0 + columnsPerTile, n);
  depth = load<u32>(instruction, Instruction.P2);
  aRow = stride(left, outer), aStep = stride(left, outer + 1), aShift = dtypeOf(left) == Dtype.INT8 ? 128 : 0;
  zeroStep = stride(rowZeros, outer);
  const panel = panelColumns(), panelBytes = <usize>((depth + 3) & ~3) * panel, cRow = stride(target, outer);
  for (let batch = begin; batch < min<u32>(begin + together, batches); batch++) {
    a = addressOf(left, frame) + offsetAt(left, outer, batch);
    zerosOfA = addressOf(rowZeros, frame) + offsetAt(rowZeros, outer, batch);
    const panels = addressOf(right, frame) + offsetAt(right, outer, batch), sums = panels + <usize>((n + panel - 1) / panel) * panelBytes;
    const zeros = addressOf(columnZeros, frame) + offsetAt(columnZeros, outer, batch), c = addressOf(target, frame) + offsetAt(target, outer, batch);
    for (let j = j0; j < j1; j += COLUMNS) {
      const width = min<u32>(COLUMNS, j1 - j), pitch = <usize>width << 2;
      setUpColumns(zeros + <usize>(<i32>j * stride(columnZeros, outer)), columnZeros, stride(columnZeros, outer), sums + (<usize>j << 2), width, scratch);
      const most = min<u32>(min<u32>(ROWS, BLOCK_BYTES / (width << 2)), BLOCK_BYTES / max<u32>(16, min<u32>((depth + 15) & ~15, DEPTH)));
      for (let i = i0; i < i1; i += most) {
        const rows = min<u32>(most, i1 - i), from = panels + <usize>(j / panel) * panelBytes;
        if (epilogue == 0) {
          product(i, rows, width, from, c + <usize>(<i32>i * cRow) + (<usize>j << 2), cRow, scratch);
          continue;
        }
        const block = scratch + BLOCK_OF_C, row = batch * m + i;
        product(i, rows, width, from, block, pitch, scratch);
        if (width == n) runStrip(program, program + epilogue, frame, row * n, (row + rows) * n, block, scratch);
        else for (let r: u32 = 0; r < rows; r++) runStrip(program, program + epilogue, frame, (row + r) * n + j, (row + r) * n + j + width, block + r * pitch, scratch);
      }
    }
  }
}
