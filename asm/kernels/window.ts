/** Sliding windows over views [N, D, H, W, C]: which source pixels an output pixel sees. Shared by CONV and POOL. */
import { ConvBlock } from "../abi/isa";
import { dim, stride } from "./view";

/** Geometry of the instruction at hand; core-local, set by `openWindow`. Index 0 is the outermost spatial dim. */
let block: usize = 0;
let source: usize = 0;
let sourceFirst: usize = 0;
/** Output pixel: sample and three positions. */
let sample: u32 = 0;
let y0: i32 = 0;
let y1: i32 = 0;
let y2: i32 = 0;

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
  const w = dim(target, 3), h = dim(target, 2), d = dim(target, 1);
  const row = index / w, plane = row / h;
  const x = index - row * w, y = row - plane * h;
  sample = plane / d;
  const z = plane - sample * d;
  y0 = <i32>z * field(ConvBlock.STRIDES, 0) - field(ConvBlock.PADS, 0);
  y1 = <i32>y * field(ConvBlock.STRIDES, 1) - field(ConvBlock.PADS, 1);
  y2 = <i32>x * field(ConvBlock.STRIDES, 2) - field(ConvBlock.PADS, 2);
  return <i32>sample * stride(target, 0) + <i32>z * stride(target, 1) + <i32>y * stride(target, 2) + <i32>x * stride(target, 3);
}

/** Address of channel 0 of the source pixel under tap (i, j, k), 0 where it lies in the padding. */
@inline
export function tapAddress(i: u32, j: u32, k: u32): usize {
  const z = y0 + <i32>i * field(ConvBlock.DILATIONS, 0), y = y1 + <i32>j * field(ConvBlock.DILATIONS, 1), x = y2 + <i32>k * field(ConvBlock.DILATIONS, 2);
  // One unsigned comparison per dim covers both ends.
  if (<u32>z >= dim(source, 1) || <u32>y >= dim(source, 2) || <u32>x >= dim(source, 3)) return 0;
  return sourceFirst + <usize>(<i32>sample * stride(source, 0) + z * stride(source, 1) + y * stride(source, 2) + x * stride(source, 3));
}

/** Writes the address of every tap of the pixel to `list`, `step` bytes apart; `blank` stands for the padding. */
export function listTaps(list: usize, step: usize, blank: usize): void {
  const a = kernelSize(0), b = kernelSize(1), c = kernelSize(2);
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
