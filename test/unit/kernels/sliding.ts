/** Windows over NHWC views and random operands, for the tests of the matrix kernels. */
import type { View, Window } from "../../../lib/program/types";
import { count, random } from "./harness";

export const draw = (n: number, seed: number): number[] => {
  const next = random(seed);
  return Array.from({ length: n }, () => Math.fround(next() * 2 - 1));
};
/** f32 sums of k products: a few units of 2^-24 per step of the sum of magnitudes. */
export const bound = (k: number): number => (4 + Math.sqrt(k)) * 2 ** -23;

export const nhwc = (view: View): View => {
  const rank = view.dims.length;
  const axes = [0, rank - 1, ...Array.from({ length: rank - 2 }, (_, i) => i + 1)];
  return { ...view, dims: axes.map((axis) => view.dims[axis]!), strides: axes.map((axis) => view.strides[axis]!) };
};
export const outSize = (size: number, i: number, w: Window): number =>
  Math.floor((size + w.padsBegin[i]! + w.padsEnd[i]! - (w.dilations[i]! * (w.kernel[i]! - 1) + 1)) / w.strides[i]!) + 1;

/** Calls `visit` for every output pixel and tap: indices of the source pixel (row-major), or -1 in the padding. */
export function slide(
  spatial: readonly number[],
  out: readonly number[],
  w: Window,
  visit: (pixel: number, tap: number, source: number) => void,
): void {
  for (let pixel = 0; pixel < count(out); pixel++) {
    for (let tap = 0; tap < count(w.kernel); tap++) {
      let [p, t, source, scale] = [pixel, tap, 0, 1];
      for (let i = spatial.length - 1; i >= 0; i--) {
        const at = (p % out[i]!) * w.strides[i]! + (t % w.kernel[i]!) * w.dilations[i]! - w.padsBegin[i]!;
        p = Math.floor(p / out[i]!);
        t = Math.floor(t / w.kernel[i]!);
        source = source < 0 || at < 0 || at >= spatial[i]! ? -1 : source + at * scale;
        scale *= spatial[i]!;
      }
      visit(pixel, tap, source);
    }
  }
}

export const window = (kernel: number[], more: Partial<Window> = {}): Window => ({
  kernel,
  strides: kernel.map(() => 1),
  dilations: kernel.map(() => 1),
  padsBegin: kernel.map(() => 0),
  padsEnd: kernel.map(() => 0),
  ...more,
});
export interface Case {
  readonly n: number;
  readonly c: number;
  readonly m: number;
  readonly groups: number;
  readonly spatial: number[];
  readonly w: Window;
  readonly form?: "direct" | "winograd";
}
