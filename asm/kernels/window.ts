/** Sliding windows over views [N, D, H, W, C]: which source pixels an output pixel sees. Shared by CONV and POOL. */
import { ConvBlock } from "../abi/isa";
import { dim, stride } from "./view";

/** Geometry of the instruction at hand; core-local, set by `openWindow`. Index 0 is the outermost spatial dim. */
let block: usize = 0;
let source: usize = 0;
let sourceFirst: usize = 0;
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
}

@inline
function field(at: usize, i: u32): i32 {
  return load<i32>(block + at + (<usize>i << 2));
}

@inline
export function kernelSize(i: u32): u32 {
  return <u32>field(ConvBlock.KERNEL, i);
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
  y0 = <i32>z * field(ConvBlock.STRIDES, 0) - field(ConvBlock.PADS, 0);
  y1 = <i32>y * field(ConvBlock.STRIDES, 1) - field(ConvBlock.PADS, 1);
  y2 = <i32>x * field(ConvBlock.STRIDES, 2) - field(ConvBlock.PADS, 2);
  return <i32>sample * stride(target, 0) + <i32>z * stride(target, 1) + <i32>y * stride(target, 2) + <i32>x * stride(target, 3);
}

/** Moves on to the next output pixel of the target of `movePixel`. */
export function nextPixel(): void {
  x++;
  y2 += field(ConvBlock.STRIDES, 2);
  if (x < targetWidth) return;
  x = 0;
  y2 = -field(ConvBlock.PADS, 2);
  y++;
  y1 += field(ConvBlock.STRIDES, 1);
  if (y < targetHeight) return;
  y = 0;
  y1 = -field(ConvBlock.PADS, 1);
  z++;
  y0 += field(ConvBlock.STRIDES, 0);
  if (z < targetDepth) return;
  z = 0;
  y0 = -field(ConvBlock.PADS, 0);
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
function inside(i: u32, position: i32): bool {
  return position >= 0 && position + (field(ConvBlock.KERNEL, i) - 1) * field(ConvBlock.DILATIONS, i) < <i32>dim(source, i + 1);
}

/** Output pixels from the one at hand on, at most `most`, whose windows lie wholly inside the source and whose row is the same. */
export function insidePixels(most: u32): u32 {
  if (!inside(0, y0) || !inside(1, y1) || !inside(2, y2)) return 0;
  const room = <i32>dim(source, 3) - 1 - (field(ConvBlock.KERNEL, 2) - 1) * field(ConvBlock.DILATIONS, 2) - y2;
  return min<u32>(min<u32>(most, restOfRow()), <u32>(room / field(ConvBlock.STRIDES, 2)) + 1);
}

/** Output pixels before the next one whose window lies inside along the innermost dim, at most `most`, in the same row. */
export function edgePixels(most: u32): u32 {
  const left = min<u32>(most, restOfRow());
  if (!inside(0, y0) || !inside(1, y1) || y2 >= 0) return left;
  return min<u32>(left, <u32>((field(ConvBlock.STRIDES, 2) - 1 - y2) / field(ConvBlock.STRIDES, 2)));
}

/** Address of the first tap of the window at hand, wherever that lies. */
export function windowStart(): usize {
  return sourceFirst + <usize>(<i32>sample * stride(source, 0) + y0 * stride(source, 1) + y1 * stride(source, 2) + y2 * stride(source, 3));
}

/** Address of channel 0 of the source pixel under tap (i, j, k), 0 where it lies in the padding. */
@inline
export function tapAddress(i: u32, j: u32, k: u32): usize {
  const z = y0 + <i32>i * field(ConvBlock.DILATIONS, 0), y = y1 + <i32>j * field(ConvBlock.DILATIONS, 1), x = y2 + <i32>k * field(ConvBlock.DILATIONS, 2);
  // One unsigned comparison per dim covers both ends.
  if (<u32>z >= dim(source, 1) || <u32>y >= dim(source, 2) || <u32>x >= dim(source, 3)) return 0;
  return sourceFirst + <usize>(<i32>sample * stride(source, 0) + z * stride(source, 1) + y * stride(source, 2) + x * stride(source, 3));
}

/** Writes the address of every tap of the window at hand to `list`, `step` bytes apart; `blank` stands for the padding. */
export function listTaps(list: usize, step: usize, blank: usize): void {
  const a = kernelSize(0), b = kernelSize(1), c = kernelSize(2);
  if (inside(0, y0) && inside(1, y1) && inside(2, y2)) {
    const plane = field(ConvBlock.DILATIONS, 0) * stride(source, 1), row = field(ConvBlock.DILATIONS, 1) * stride(source, 2);
    const across = field(ConvBlock.DILATIONS, 2) * stride(source, 3);
    const first = windowStart();
    for (let i: u32 = 0; i < a; i++) {
      for (let j: u32 = 0; j < b; j++) {
        let tap = first + <usize>(<i32>i * plane + <i32>j * row);
        for (let k: u32 = 0; k < c; k++) {
          store<u32>(list, <u32>tap);
          tap += across;
          list += step;
        }
      }
    }
    return;
  }
  for (let i: u32 = 0; i < a; i++) {
    for (let j: u32 = 0; j < b; j++) {
      for (let k: u32 = 0; k < c; k++) {
        const address = tapAddress(i, j, k);
        store<u32>(list, <u32>(address == 0 ? blank : address));
        list += step;
      }
    }
  }
}

/** The same for `count` pixels from the one at hand on: tap t of pixel p at table + t * pitch + 4 p. */
export function listWindows(count: u32, table: usize, pitch: usize, blank: usize): void {
  for (let p: u32 = 0; p < count; p++) {
    listTaps(table, pitch, blank);
    table += 4;
    nextPixel();
  }
}

/** Addresses of the taps of the window at hand that lie in the source, side by side from `list` on; returns how many. */
export function listInside(list: usize): u32 {
  const first = list;
  const a = kernelSize(0), b = kernelSize(1), c = kernelSize(2);
  if (inside(0, y0) && inside(1, y1) && inside(2, y2)) {
    listTaps(list, 4, 0);
    return a * b * c;
  }
  for (let i: u32 = 0; i < a; i++) {
    for (let j: u32 = 0; j < b; j++) {
      for (let k: u32 = 0; k < c; k++) {
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
function zeroRun(target: usize, bytes: usize): void {
  for (let at: usize = 0; at < bytes; at += 4) store<u32>(target + at, 0);
}

/** The runs of a kernel row that starts at `tap` (which may be outside along the innermost dim) -> `target`, padding as zeros. */
function copyKernelRow(target: usize, tap: usize, channels: usize, offset: usize): void {
  const across = field(ConvBlock.DILATIONS, 2), pitch = stride(source, 3);
  for (let k: i32 = 0, n = <i32>kernelSize(2); k < n; k++) {
    if (<u32>(y2 + k * across) < dim(source, 3)) copyRun(target, tap + <usize>(k * across * pitch) + offset, channels);
    else zeroRun(target, channels);
    target += channels;
  }
}

/** Copies `bytes` of channels from `offset` on of every tap of the window at hand side by side to `target`. `dense`: a kernel row is one run. */
export function gatherWindow(target: usize, bytes: usize, offset: usize, dense: bool): void {
  const a = <i32>kernelSize(0), b = <i32>kernelSize(1), run = <usize>kernelSize(2) * bytes;
  const whole = dense && inside(2, y2);
  const first = windowStart();
  for (let i: i32 = 0; i < a; i++) {
    const up = i * field(ConvBlock.DILATIONS, 0);
    for (let j: i32 = 0; j < b; j++) {
      const down = j * field(ConvBlock.DILATIONS, 1);
      const row = first + <usize>(up * stride(source, 1) + down * stride(source, 2));
      if (<u32>(y0 + up) >= dim(source, 1) || <u32>(y1 + down) >= dim(source, 2)) zeroRun(target, run);
      else if (whole) copyRun(target, row + offset, run);
      else copyKernelRow(target, row, bytes, offset);
      target += run;
    }
  }
}

/**
 * Kernel rows of `count` pixels from the one at hand on, each a run of `run` bytes: run r of pixel p at table + r * pitch + 4 p. Runs that cross
 * the padding are copied to `edges`; `blank` has `run` bytes of zeros.
 */
export function listRuns(count: u32, table: usize, pitch: usize, run: usize, blank: usize, edges: usize): void {
  const a = <i32>kernelSize(0), b = <i32>kernelSize(1);
  const bytes = run / kernelSize(2);
  for (let p: u32 = 0; p < count; p++) {
    const whole = inside(2, y2);
    const first = windowStart();
    let entry = table + (<usize>p << 2);
    for (let i: i32 = 0; i < a; i++) {
      const up = i * field(ConvBlock.DILATIONS, 0);
      for (let j: i32 = 0; j < b; j++) {
        const down = j * field(ConvBlock.DILATIONS, 1);
        let place = first + <usize>(up * stride(source, 1) + down * stride(source, 2));
        if (<u32>(y0 + up) >= dim(source, 1) || <u32>(y1 + down) >= dim(source, 2)) place = blank;
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
