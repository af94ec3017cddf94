/** Which convolutions have simpler or faster forms. */
import type { View, Window } from "./types";

/** A window of `size` in every dim with nothing special about it; for size 1 that includes no padding. */
export const isPlain = ({ kernel, strides, dilations, padsBegin, padsEnd }: Window, size: number): boolean =>
  [...strides, ...dilations].every((value) => value === 1) &&
  kernel.every((value) => value === size) &&
  (size > 1 || ![...padsBegin, ...padsEnd].some((pad) => pad !== 0));

/** Whether conv can run in form winograd at all; whether that pays is the lowering's decision. */
export function takesWinograd(target: View, source: View, window: Window, groups: number): boolean {
  if (target.dims.length !== 4 || groups !== 1 || window.kernel.length !== 2 || !isPlain(window, 3)) return false;
  const pixel = ({ dims, strides }: View): boolean => dims[3] === 1 || strides[3] === dims[1]! * 4;
  const row = ({ dims, strides }: View): boolean => dims[2] === 1 || strides[2] === dims[1]! * dims[3]! * 4;
  return [target, source].every((view) => pixel(view) && row(view));
}

/** More channels make longer runs side by side than a window row has columns. */
const PLANAR_CHANNELS = 4;

/** Whether conv can read `source` plane by plane, its channels as one more dim of the window: an image as it is fed. */
export const takesPlanar = ({ dims, strides, dtype }: View, groups: number): boolean =>
  dtype === "float32" &&
  groups === 1 &&
  (dims.length === 3 || dims.length === 4) &&
  dims[1]! > 1 &&
  dims[1]! <= PLANAR_CHANNELS &&
  strides.at(-1) === 4;

/** Weights [M, C, kernel...] as a planar conv sees them. */
export const planarWeights = ([m, ...window]: readonly number[]): number[] => [m!, 1, ...window];

/** A planar conv as one with channels for the outermost spatial dim and a single channel. */
export function planarViews(target: View, source: View, window: Window): { target: View; source: View; window: Window } {
  const channels = source.dims[1]!;
  return {
    target: { ...target, dims: target.dims.toSpliced(2, 0, 1), strides: target.strides.toSpliced(2, 0, 0) },
    source: { ...source, dims: source.dims.toSpliced(1, 0, 1), strides: source.strides.toSpliced(1, 0, 4) },
    window: {
      kernel: [channels, ...window.kernel],
      strides: [1, ...window.strides],
      dilations: [1, ...window.dilations],
      padsBegin: [0, ...window.padsBegin],
      padsEnd: [0, ...window.padsEnd],
    },
  };
}
