/**
 * Where each output position of a resized axis takes its value from: positions and weights, as the standard writes them. Positions are rounded to float32
 * at each step, as everybody does: where one falls between two pixels, the rounding decides which is the nearest.
 */
import { shapeError } from "../graph/dims";

export interface Interpolation {
  readonly mode: string;
  readonly coordinates: string;
  readonly nearest: string;
  readonly cubic: number;
  readonly excludeOutside: boolean;
  readonly antialias: boolean;
}
export interface Tap {
  readonly index: number;
  readonly weight: number;
}
/** Taps of each output position; none where it lies outside the region of interest. */
export type Taps = readonly (readonly Tap[])[];

export interface Axis {
  readonly size: number;
  readonly target: number;
  readonly scale: number;
  /** Region of interest, as fractions of the axis. */
  readonly roi: readonly [number, number];
}

const { fround } = Math;

function position(at: number, { size, target, scale, roi }: Axis, coordinates: string): number {
  const centre = (): number => fround(fround(fround(at + 0.5) / scale) - 0.5);
  switch (coordinates) {
    case "half_pixel":
      return centre();
    case "pytorch_half_pixel":
      return target > 1 ? centre() : 0;
    case "half_pixel_symmetric": {
      const adjustment = target / (scale * size);
      return (size / 2) * (1 - adjustment) + centre();
    }
    case "asymmetric":
      return fround(at / scale);
    case "align_corners": {
      // The length before it was rounded down to whole elements.
      const length = Math.abs(scale * size - target) < 1e-6 ? target : scale * size;
      return length !== 1 ? fround((at * (size - 1)) / (length - 1)) : 0;
    }
    case "tf_crop_and_resize":
      return target > 1 ? roi[0] * (size - 1) + (at * (roi[1] - roi[0]) * (size - 1)) / (target - 1) : 0.5 * (roi[0] + roi[1]) * (size - 1);
    default:
      throw shapeError(`coordinate_transformation_mode "${coordinates}" is not defined`);
  }
}

function nearestIndex(x: number, rounding: string): number {
  switch (rounding) {
    case "round_prefer_floor":
      return Math.ceil(x - 0.5);
    case "round_prefer_ceil":
      return Math.floor(x + 0.5);
    case "floor":
      return Math.floor(x);
    case "ceil":
      return Math.ceil(x);
    default:
      throw shapeError(`nearest_mode "${rounding}" is not defined`);
  }
}

function kernelOf({ mode, cubic }: Interpolation): { readonly reach: number; readonly weight: (distance: number) => number } {
  if (mode === "linear") {
    return { reach: 1, weight: (d) => Math.max(0, 1 - d) };
  }
  if (mode !== "cubic") {
    throw shapeError(`mode "${mode}" is not defined; modes are nearest, linear and cubic`);
  }
  const weight = (d: number): number =>
    d <= 1 ? ((cubic + 2) * d - (cubic + 3)) * d * d + 1 : d < 2 ? ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic : 0;
  return { reach: 2, weight };
}

export function tapsOf(axis: Axis, how: Interpolation): Taps {
  const { size, target } = axis;
  const clamp = (index: number): number => Math.min(size - 1, Math.max(0, index));
  return Array.from({ length: target }, (_, at) => {
    const x = position(at, axis, how.coordinates);
    if (how.coordinates === "tf_crop_and_resize" && (x < 0 || x > size - 1)) {
      return [];
    }
    if (how.mode === "nearest") {
      return [{ index: clamp(nearestIndex(x, how.nearest)), weight: 1 }];
    }
    const { reach, weight } = kernelOf(how);
    // When it shrinks, an antialiasing filter is as much wider.
    const scale = how.antialias ? Math.min(1, axis.scale) : 1;
    const base = Math.floor(x);
    const first = Math.floor(-reach / scale) + 1;
    const weights = new Map<number, number>();
    let total = 0;
    for (let i = first; i <= 1 - first; i++) {
      const index = base + i;
      const w = weight(Math.abs(index - x) * scale);
      if (w === 0 || (how.excludeOutside && (index < 0 || index >= size))) {
        continue;
      }
      weights.set(clamp(index), (weights.get(clamp(index)) ?? 0) + w);
      total += w;
    }
    const divide = how.antialias || how.excludeOutside ? total : 1;
    return [...weights].map(([index, w]) => ({ index, weight: w / divide }));
  });
}
