/** Sliding windows over views [N, D, H, W, C]: which source pixels an output pixel sees. Shared by CONV and POOL. */
import { ConvBlock } from "../abi/isa";
import { dim, stride } from "./view";

/** Geometry of the instruction at hand; core-local, set by `openWindow`. Index 0 is the outermost spatial dim. */
let block: usize = 0;
let source: usize = 0;
let sourceFirst: usize = 0;
/** Window and source along each spatial dim: taps, bytes between taps, steps of the window, padding before it, size and bytes between source pixels. */
let taps0: i32 = 0;
let taps1: i32 = 0;
let taps2: i32 = 0;
let dilation0: i32 = 0;
let dilation1: i32 = 0;
let dilation2: i32 = 0;
let step0: i32 = 0;
let step1: i32 = 0;
let step2: i32 = 0;
let pad0: i32 = 0;
let pad1: i32 = 0;
let pad2: i32 = 0;
let size0: i32 = 0;
let size1: i32 = 0;
let size2: i32 = 0;
let pitch0: i32 = 0;
let pitch1: i32 = 0;
let pitch2: i32 = 0;
let samplePitch: i32 = 0;
/** Output pixel at hand: its sample, its place, and the position of its window's first tap (0 is the outermost spatial dim). */
let sample: u32 = 0;
let z: u32 = 0;
let y: u32 = 0;
let x: u32 = 0;
let y0: i32 = 0;
let y1: i32 = 0;
let y2: i32 = 0;
/** Spatial sizes of the target, as `movePixel` found them. */
let targetDepth: u32 = 0;
let targetHeight: u32 = 0;
let targetWidth: u32 = 0;

export function openWindow(convBlock: usize, sourceTensor: usize, first: usize): void {
  block = convBlock;
  source = sourceTensor;
  sourceFirst = first;
  taps0 = field(ConvBlock.KERNEL, 0), taps1 = field(ConvBlock.KERNEL, 1), taps2 = field(ConvBlock.KERNEL, 2);
  dilation0 = field(ConvBlock.DILATIONS, 0), dilation1 = field(ConvBlock.DILATIONS, 1), dilation2 = field(ConvBlock.DILATIONS, 2);
  step0 = field(ConvBlock.STRIDES, 0), step1 = field(ConvBlock.STRIDES, 1), step2 = field(ConvBlock.STRIDES, 2);
  pad0 = field(ConvBlock.PADS, 0), pad1 = field(ConvBlock.PADS, 1), pad2 = field(ConvBlock.PADS, 2);
  size0 = <i32>dim(source, 1), size1 = <i32>dim(source, 2), size2 = <i32>dim(source, 3);
  pitch0 = stride(source, 1), pitch1 = stride(source, 2), pitch2 = stride(source, 3);
  samplePitch = stride(source, 0);
}

@inline
function field(at: usize, i: u32): i32 {
  return load<i32>(block + at + (<usize>i << 2));
}

@inline
export function kernelSize(i: u32): u32 {
  return <u32>(i == 0 ? taps0 : i == 1 ? taps1 : taps2);
}

/** Taps of one window. */
export function tapCount(): u32 {
  return kernelSize(0) * kernelSize(1) * kernelSize(2);
}

/** Moves to output pixel `index` of `target` (row-major over N, D, H, W); returns its offset in bytes there. */
export function movePixel(target: usize, index: u32): i32 {
  targetWidth = dim(target, 3);
  targetHeight = dim(target, 2);
  targetDepth = dim(target, 1);
  const row = index / targetWidth, plane = row / targetHeight;
  x = index - row * targetWidth;
  y = row - plane * targetHeight;
  sample = plane / targetDepth;
  z = plane - sample * targetDepth;
  y0 = <i32>z * step0 - pad0;
  y1 = <i32>y * step1 - pad1;
  y2 = <i32>x * step2 - pad2;
  return <i32>sample * stride(target, 0) + <i32>z * stride(target, 1) + <i32>y * stride(target, 2) + <i32>x * stride(target, 3);
}

/** Moves on to the next output pixel of the target of `movePixel`. */
export function nextPixel(): void {
  x++;
  y2 += step2;
  if (x < targetWidth) return;
  x = 0;
  y2 = -pad2;
  y++;
  y1 += step1;
  if (y < targetHeight) return;
  y = 0;
  y1 = -pad1;
  z++;
  y0 += step0;
  if (z < targetDepth) return;
  z = 0;
  y0 = -pad0;
  sample++;
}

/** Bytes between neighbouring output pixels if all of `target` is evenly spaced, else 0. */
export function evenPitch(target: usize): i32 {
  let pitch: i32 = 0, expected: i32 = 0;
  for (let i: i32 = 3; i >= 0; i--) {
    const size = <i32>dim(target, i);
    if (size == 1) continue;
    if (expected == 0) expected = pitch = stride(target, i);
    else if (stride(target, i) != expected) return 0;
    expected *= size;
  }
  return pitch == 0 ? 4 : pitch;
}

/** Columns that are left in the row of output pixel at hand, itself included. */
export function restOfRow(): u32 {
  return targetWidth - x;
}

@inline
function inside(position: i32, taps: i32, dilation: i32, size: i32): bool {
  return position >= 0 && position + (taps - 1) * dilation < size;
}

@inline
function rowInside(): bool {
  return inside(y0, taps0, dilation0, size0) && inside(y1, taps1, dilation1, size1);
}

@inline
function columnInside(): bool {
  return inside(y2, taps2, dilation2, size2);
}

/** Output pixels from the one at hand on, at most `most`, whose windows lie wholly inside the source and whose row is the same. */
export function insidePixels(most: u32): u32 {
  if (!rowInside() || !columnInside()) return 0;
  return min<u32>(min<u32>(most, restOfRow()), <u32>((size2 - 1 - (taps2 - 1) * dilation2 - y2) / step2) + 1);
}

/**
 * Output pixels before the next one whose window lies inside along the innermost dim, at most `most`; all see the same kernel rows. What is left of a
 * row goes with the beginning of the next one.
 */
export function edgePixels(most: u32): u32 {
  const left = restOfRow();
  if (!rowInside()) return min<u32>(most, left);
  const leading = min<u32>(targetWidth, <u32>(step2 - 1 + pad2) / <u32>step2);
  if (y2 < 0) return min<u32>(most, leading - x);
  return min<u32>(most, y + 1 < targetHeight && inside(y1 + step1, taps1, dilation1, size1) ? left + leading : left);
}

/** Address of the first tap of the window at hand, wherever that lies. */
@inline
export function windowStart(): usize {
  return sourceFirst + <usize>(<i32>sample * samplePitch + y0 * pitch0 + y1 * pitch1 + y2 * pitch2);
}

/** Address of channel 0 of the source pixel under tap (i, j, k), 0 where it lies in the padding. */
@inline
export function tapAddress(i: u32, j: u32, k: u32): usize {
  const z = y0 + <i32>i * dilation0, y = y1 + <i32>j * dilation1, x = y2 + <i32>k * dilation2;
  // One unsigned comparison per dim covers both ends.
  if (<u32>z >= <u32>size0 || <u32>y >= <u32>size1 || <u32>x >= <u32>size2) return 0;
  return sourceFirst + <usize>(<i32>sample * samplePitch + z * pitch0 + y * pitch1 + x * pitch2);
}

/** First kernel row of the window at hand that lies in the source, and one past the last; all rows of a window with depth. */
export function firstRow(): i32 {
  return taps0 > 1 || y1 >= 0 ? 0 : min<i32>(taps1, (dilation1 - 1 - y1) / dilation1);
}
export function endRow(): i32 {
  return taps0 > 1 ? taps1 : max<i32>(firstRow(), min<i32>(taps1, (size1 - y1 + dilation1 - 1) / dilation1));
}

/** Writes the addresses of the taps in kernel rows [low, high) of the window at hand to `list`, `step` bytes apart; `blank` stands for the padding. */
function listTaps(list: usize, step: usize, blank: usize, low: i32, high: i32): void {
  const whole = rowInside() && columnInside();
  const first = windowStart();
  const across = dilation2 * pitch2;
  for (let i: i32 = 0; i < taps0; i++) {
    for (let j = low; j < high; j++) {
      let tap = first + <usize>(i * dilation0 * pitch0 + j * dilation1 * pitch1);
      const row = whole || (<u32>(y0 + i * dilation0) < <u32>size0 && <u32>(y1 + j * dilation1) < <u32>size1);
      for (let k: i32 = 0; k < taps2; k++) {
        const seen = whole || (row && <u32>(y2 + k * dilation2) < <u32>size2);
        store<u32>(list, <u32>(seen ? tap : blank));
        tap += across;
        list += step;
      }
    }
  }
}

/** The same for `count` pixels from the one at hand on: tap t of pixel p at table + t * pitch + 4 p. */
export function listWindows(count: u32, table: usize, pitch: usize, blank: usize, low: i32, high: i32): void {
  for (let p: u32 = 0; p < count; p++) {
    listTaps(table, pitch, blank, low, high);
    table += 4;
    nextPixel();
  }
}

/** Addresses of the taps of the window at hand that lie in the source, side by side from `list` on; returns how many. */
export function listInside(list: usize): u32 {
  if (rowInside() && columnInside()) {
    listTaps(list, 4, 0, 0, taps1);
    return <u32>(taps0 * taps1 * taps2);
  }
  const first = list;
  for (let i: i32 = 0; i < taps0; i++) {
    for (let j: i32 = 0; j < taps1; j++) {
      for (let k: i32 = 0; k < taps2; k++) {
        const address = tapAddress(i, j, k);
        if (address == 0) continue;
        store<u32>(list, <u32>address);
        list += 4;
      }
    }
  }
  return <u32>(list - first) >> 2;
}

/** Whole vectors, the last one overlapping; fewer than four elements one by one. `bytes` is a multiple of 4. */
@inline
export function copyRun(target: usize, from: usize, bytes: usize): void {
  if (bytes < 16) {
    for (let at: usize = 0; at < bytes; at += 4) store<u32>(target + at, load<u32>(from + at));
    return;
  }
  const last = bytes - 16;
  for (let at: usize = 0; at < last; at += 16) v128.store(target + at, v128.load(from + at));
  v128.store(target + last, v128.load(from + last));
}

@inline
export function zeroRun(target: usize, bytes: usize): void {
  for (let at: usize = 0; at < bytes; at += 4) store<u32>(target + at, 0);
}

/** The taps of a kernel row that starts at `tap` (which may be outside along the innermost dim) -> `target`, padding as zeros. */
function copyKernelRow(target: usize, tap: usize, channels: usize, offset: usize): void {
  let place = y2;
  tap += offset;
  for (let k = taps2; k > 0; k--) {
    if (<u32>place < <u32>size2) copyRun(target, tap, channels);
    else zeroRun(target, channels);
    target += channels;
    tap += dilation2 * pitch2;
    place += dilation2;
  }
}

/** Copies `bytes` of channels from `offset` on of every tap of the window at hand side by side to `target`. `dense`: a kernel row is one run. */
function gatherWindow(target: usize, bytes: usize, offset: usize, dense: bool): void {
  const run = <usize>taps2 * bytes;
  const whole = dense && columnInside();
  const first = windowStart();
  for (let i: i32 = 0; i < taps0; i++) {
    const up = i * dilation0;
    for (let j: i32 = 0; j < taps1; j++) {
      const down = j * dilation1;
      const row = first + <usize>(up * pitch0 + down * pitch1);
      if (<u32>(y0 + up) >= <u32>size0 || <u32>(y1 + down) >= <u32>size1) zeroRun(target, run);
      else if (whole) copyRun(target, row + offset, run);
      else copyKernelRow(target, row, bytes, offset);
      target += run;
    }
  }
}

/** Windows of `count` neighbours in a row, wholly inside and with dense kernel rows. */
function gatherInside(target: usize, run: usize, count: u32): void {
  let first = windowStart();
  const across = step2 * pitch2, down = dilation1 * pitch1, up = dilation0 * pitch0;
  // The runs of the usual small windows are one vector, whose excess the next run covers, or two or four that may overlap. The excess that is read lies
  // in memory.
  const last = first + <usize>((<i32>count - 1) * across + (taps0 - 1) * up + (taps1 - 1) * down);
  const tiny = run <= 16 && last + 16 <= <usize>memory.size() << 16;
  const short = run >= 16 && run <= 64, half = run <= 32 ? 0 : 16, end = run - 16;
  for (let p: u32 = 0; p < count; p++) {
    for (let i: i32 = 0; i < taps0; i++) {
      let row = first + <usize>(i * up);
      for (let j = taps1; j > 0; j--) {
        if (tiny) v128.store(target, v128.load(row));
        else if (short) {
          v128.store(target, v128.load(row));
          v128.store(target + half, v128.load(row + half));
          v128.store(target + end - half, v128.load(row + end - half));
          v128.store(target + end, v128.load(row + end));
        } else copyRun(target, row, run);
        target += run;
        row += down;
      }
    }
    first += across;
  }
}

/** Gathers the windows of `count` pixels from the one at hand on: `bytes` of channels from `offset` on of every tap. */
export function gatherWindows(target: usize, count: u32, bytes: usize, offset: usize, dense: bool): void {
  const size = <usize>(taps0 * taps1 * taps2) * bytes;
  while (count > 0) {
    let done = dense ? insidePixels(count) : 0;
    if (done > 0) gatherInside(target, <usize>taps2 * bytes, done);
    else {
      gatherWindow(target, bytes, offset, dense);
      done = 1;
    }
    target += done * size;
    count -= done;
    for (; done > 0; done--) nextPixel();
  }
}

/**
 * Kernel rows of `count` pixels from the one at hand on, each a run of `run` bytes: run r of pixel p at table + r * pitch + 4 p. Runs that cross
 * the padding are copied to `edges`; `blank` has `run` bytes of zeros.
 */
export function listRuns(count: u32, table: usize, pitch: usize, run: usize, blank: usize, edges: usize): void {
  const bytes = run / taps2;
  for (let p: u32 = 0; p < count; p++) {
    const whole = columnInside();
    const first = windowStart();
    let entry = table + (<usize>p << 2);
    for (let i: i32 = 0; i < taps0; i++) {
      const up = i * dilation0;
      for (let j: i32 = 0; j < taps1; j++) {
        const down = j * dilation1;
        let place = first + <usize>(up * pitch0 + down * pitch1);
        if (<u32>(y0 + up) >= <u32>size0 || <u32>(y1 + down) >= <u32>size1) place = blank;
        else if (!whole) {
          copyKernelRow(edges, place, bytes, 0);
          place = edges;
          edges += run;
        }
        store<u32>(entry, <u32>place);
        entry += pitch;
      }
    }
    nextPixel();
  }
}

@inline
function inPadded(i: u32, position: i32): u32 {
  return u32(position < <i32>dim(source, i + 1) + field(ConvBlock.PADS_END, i));
}

/** Taps that lie in the source or its padding (a window may overhang the end padding when the output size is rounded up). */
export function paddedTaps(): u32 {
  let count: u32 = 1;
  for (let i: u32 = 0; i < 3; i++) {
    const base = i == 0 ? y0 : i == 1 ? y1 : y2;
    let inside: u32 = 0;
    for (let t: u32 = 0, n = kernelSize(i); t < n; t++) inside += inPadded(i, base + <i32>t * field(ConvBlock.DILATIONS, i));
    count *= inside;
  }
  return count;
}
