/**
 * GRID_SAMPLE and ROI_ALIGN: f32 pictures read between their pixels. One tile = a run of positions.
 * Views are [N, D, H, W, C] with dense channels, as in CONV; the taps of a position are found once and then weighed channel by channel.
 */
import { Instruction } from "../abi/program";
import { Border, SampleMode } from "../abi/isa";
import { canonicalF32 } from "../micro/load";
import { addressOf, dim, record, stride } from "./view";

/** Scratch: four taps for each of three axes, {i32 index or -1, f32 weight}. */
const TAP: usize = 8;
const AXIS: usize = 4 * TAP;

/** Back into [low, high] by mirrors at both ends. */
function reflect(x: f32, low: f32, high: f32): f32 {
  const range = high - low;
  if (range <= 0) return low;
  const outside = x < low ? low - x : x > high ? x - high : <f32>-1;
  if (outside < 0) return x;
  const turns = floor<f32>(outside / range);
  const rest = outside - turns * range;
  // An even number of whole turns comes back on the same side.
  const even = turns - 2 * floor<f32>(turns / 2) == 0;
  return x < low == even ? low + rest : high - rest;
}

/** The pixel that stands for index `i`: itself, what the border makes of it, or -1 for zero. */
@inline
function pixel(i: f32, size: i32, border: u32, low: f32, high: f32): i32 {
  if (i >= 0 && i < <f32>size) return <i32>i;
  if (border == Border.ZEROS) return -1;
  if (border == Border.EDGE) return i < 0 || i != i ? 0 : size - 1;
  const inside = reflect(i, low, high);
  return inside == inside ? max<i32>(0, min<i32>(size - 1, <i32>inside)) : 0;
}

@inline
function tap(at: usize, index: i32, weight: f32): void {
  store<i32>(at, index);
  store<f32>(at, weight, 4);
}

/** Weight of a pixel at distance 0..1 and of one at distance 1..2: Keys' cubic with a = -0.75. */
@inline
function near(x: f32): f32 {
  return (<f32>1.25 * x - <f32>2.25) * x * x + 1;
}
@inline
function far(x: f32): f32 {
  return ((<f32>-0.75 * x + <f32>3.75) * x - 6) * x + 3;
}

/** Taps of one axis for the grid's coordinate -1..1; returns how many. */
function axisTaps(at: usize, coordinate: f32, size: i32, mode: u32, border: u32, corners: bool): u32 {
  const low: f32 = corners ? 0 : <f32>-0.5, high: f32 = corners ? <f32>(size - 1) : <f32>size - <f32>0.5;
  let x: f32 = corners ? (coordinate + 1) / 2 * <f32>(size - 1) : ((coordinate + 1) * <f32>size - 1) / 2;
  if (mode == SampleMode.NEAREST) x = nearest<f32>(x);
  if (x < low || x > high) {
    // Taps of a cubic meet the border each for itself; further out they all stand on it.
    if (border == Border.EDGE && mode == SampleMode.CUBIC) x = max<f32>(-3, min<f32>(<f32>(size + 2), x));
    else if (border == Border.EDGE) x = x < 0 ? 0 : <f32>(size - 1);
    else if (border == Border.REFLECT) x = reflect(x, low, high);
  }
  if (mode == SampleMode.NEAREST) {
    tap(at, pixel(nearest<f32>(x), size, border, low, high), 1);
    return 1;
  }
  const first = floor<f32>(x), rest = x - first;
  if (mode == SampleMode.LINEAR) {
    tap(at, pixel(first, size, border, low, high), 1 - rest);
    tap(at + TAP, pixel(first + 1, size, border, low, high), rest);
    return 2;
  }
  tap(at, pixel(first - 1, size, border, low, high), far(1 + rest));
  tap(at + TAP, pixel(first, size, border, low, high), near(rest));
  tap(at + 2 * TAP, pixel(first + 1, size, border, low, high), near(1 - rest));
  tap(at + 3 * TAP, pixel(first + 2, size, border, low, high), far(2 - rest));
  return 4;
}

/** target[c] += weight * source[c] */
function addScaled(target: usize, source: usize, channels: u32, weight: f32): void {
  const w = f32x4.splat(weight);
  let c: u32 = 0;
  for (; c + 4 <= channels; c += 4, target += 16, source += 16) {
    v128.store(target, f32x4.add(v128.load(target), f32x4.mul(w, v128.load(source))));
  }
  for (; c < channels; c++, target += 4, source += 4) store<f32>(target, load<f32>(target) + weight * load<f32>(source));
}

function largest(target: usize, source: usize, channels: u32, weight: f32): void {
  for (let c: u32 = 0; c < channels; c++, target += 4, source += 4) store<f32>(target, max<f32>(load<f32>(target), weight * load<f32>(source)));
}

/**
 * T0 [N, positions, C] from T1 [N, D, H, W, C] at T2 [N, positions, axes], whose last number is along W; dense channels and coordinates.
 * P0 positions per tile, P1 SampleMode, P2 Border, P3 1 = -1 and 1 are the centres of the outer pixels.
 */
export function runGridSample(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const grid = record(program, load<u32>(instruction, Instruction.T2));
  const mode = load<u32>(instruction, Instruction.P1), border = load<u32>(instruction, Instruction.P2);
  const corners = load<u32>(instruction, Instruction.P3) != 0;
  const perTile = load<u32>(instruction, Instruction.P0), positions = dim(target, 1), channels = dim(target, 2), axes = dim(grid, 2);
  const to = min<u32>(tile * perTile + perTile, dim(target, 0) * positions);
  for (let i = tile * perTile; i < to; i++) {
    const n = i / positions, p = i - n * positions;
    const place = addressOf(target, frame) + <i32>n * stride(target, 0) + <i32>p * stride(target, 1);
    const at = addressOf(grid, frame) + <i32>n * stride(grid, 0) + <i32>p * stride(grid, 1);
    const from = addressOf(source, frame) + <i32>n * stride(source, 0);
    const columns = axisTaps(scratch, load<f32>(at), <i32>dim(source, 3), mode, border, corners);
    const rows = axisTaps(scratch + AXIS, load<f32>(at, 4), <i32>dim(source, 2), mode, border, corners);
    let planes: u32 = 1;
    if (axes == 3) planes = axisTaps(scratch + 2 * AXIS, load<f32>(at, 8), <i32>dim(source, 1), mode, border, corners);
    else tap(scratch + 2 * AXIS, 0, 1);
    memory.fill(place, 0, <usize>channels << 2);
    for (let z: u32 = 0; z < planes; z++) {
      const plane = scratch + 2 * AXIS + <usize>z * TAP;
      for (let y: u32 = 0; y < rows; y++) {
        const row = scratch + AXIS + <usize>y * TAP;
        for (let x: u32 = 0; x < columns; x++) {
          const column = scratch + <usize>x * TAP;
          if ((load<i32>(plane) | load<i32>(row) | load<i32>(column)) < 0) continue;
          const s = from + load<i32>(plane) * stride(source, 1) + load<i32>(row) * stride(source, 2) + load<i32>(column) * stride(source, 3);
          addScaled(place, s, channels, load<f32>(plane, 4) * load<f32>(row, 4) * load<f32>(column, 4));
        }
      }
    }
    canonicalF32(place, channels);
  }
}

/** The two pixels around `x` and their weights; false when it lies more than a pixel outside. */
function roiTaps(at: usize, x: f32, size: i32): bool {
  if (!(x >= -1 && x <= <f32>size)) return false;
  x = max<f32>(x, 0);
  const low = <i32>x;
  if (low >= size - 1) {
    tap(at, size - 1, 1);
    tap(at + TAP, size - 1, 0);
    return true;
  }
  const rest = x - <f32>low;
  tap(at, low, 1 - rest);
  tap(at + TAP, low + 1, rest);
  return true;
}

/**
 * T0 [rois, H, W, C] from T1 [N, 1, H, W, C], T2 rois [rois, 4] as x1 y1 x2 y2, T3 int64 [rois] pictures; dense.
 * P0 rois per tile, P1 1 = the largest tap instead of the mean, P2 samples per bin and axis (0 = by size), P3 scale, P4 offset: bits of f32.
 */
export function runRoiAlign(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const target = record(program, load<u32>(instruction, Instruction.T0)), source = record(program, load<u32>(instruction, Instruction.T1));
  const rois = addressOf(record(program, load<u32>(instruction, Instruction.T2)), frame);
  const pictures = addressOf(record(program, load<u32>(instruction, Instruction.T3)), frame);
  const perTile = load<u32>(instruction, Instruction.P0), asked = load<u32>(instruction, Instruction.P2);
  const scale = load<f32>(instruction, Instruction.P3), offset = load<f32>(instruction, Instruction.P4);
  const to = min<u32>(tile * perTile + perTile, dim(target, 0)), high = dim(target, 1), wide = dim(target, 2);
  for (let roi = tile * perTile; roi < to; roi++) {
    const box = rois + (<usize>roi << 4), picture = load<i64>(pictures + (<usize>roi << 3));
    if (<u64>picture >= <u64>dim(source, 0)) unreachable();
    const left = load<f32>(box) * scale - offset, top = load<f32>(box, 4) * scale - offset;
    let width = load<f32>(box, 8) * scale - offset - left, height = load<f32>(box, 12) * scale - offset - top;
    if (offset == 0) {
      width = max<f32>(width, 1);
      height = max<f32>(height, 1);
    }
    const binHeight = height / <f32>high, binWidth = width / <f32>wide;
    // Bounded work: a box four times as large as the picture lies mostly outside of it.
    const down = asked != 0 ? asked : <u32>min<f32>(max<f32>(ceil<f32>(binHeight), 1), 4 * <f32>dim(source, 2));
    const across = asked != 0 ? asked : <u32>min<f32>(max<f32>(ceil<f32>(binWidth), 1), 4 * <f32>dim(source, 3));
    const from = addressOf(source, frame) + <i32>picture * stride(source, 0);
    for (let bin: u32 = 0; bin < high * wide; bin++) {
      const row = bin / wide, column = bin - row * wide;
      const place = addressOf(target, frame) + <i32>roi * stride(target, 0) + <i32>row * stride(target, 1) + <i32>column * stride(target, 2);
      roiBin(place, source, from, top + <f32>row * binHeight, binHeight / <f32>down, down, left + <f32>column * binWidth, binWidth / <f32>across, across, load<u32>(instruction, Instruction.P1) != 0, scratch);
    }
  }
}

function roiBin(place: usize, source: usize, from: usize, y: f32, stepY: f32, down: u32, x: f32, stepX: f32, across: u32, most: bool, scratch: usize): void {
  const channels = dim(source, 4);
  if (most) for (let c: usize = 0; c < <usize>channels; c++) store<f32>(place + (c << 2), -Infinity);
  else memory.fill(place, 0, <usize>channels << 2);
  let seen: bool = false;
  const mean: f32 = <f32>1 / <f32>(down * across);
  for (let i: u32 = 0; i < down; i++) {
    if (!roiTaps(scratch, y + (<f32>i + <f32>0.5) * stepY, <i32>dim(source, 2))) continue;
    for (let j: u32 = 0; j < across; j++) {
      if (!roiTaps(scratch + AXIS, x + (<f32>j + <f32>0.5) * stepX, <i32>dim(source, 3))) continue;
      seen = true;
      for (let t: usize = 0; t < 4; t++) {
        const row = scratch + (t >> 1) * TAP, column = scratch + AXIS + (t & 1) * TAP;
        const s = from + load<i32>(row) * stride(source, 2) + load<i32>(column) * stride(source, 3);
        const weight = load<f32>(row, 4) * load<f32>(column, 4);
        if (most) largest(place, s, channels, weight);
        else addScaled(place, s, channels, weight * mean);
      }
    }
  }
  if (!seen) memory.fill(place, 0, <usize>channels << 2);
  canonicalF32(place, channels);
}
