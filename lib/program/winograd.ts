/** Which convolutions have simpler or faster forms. */
import { PLANE_BYTES, PLANE_SLACK, WINOGRAD_BAND_BYTES } from "../../asm/abi/isa";
import { isDepthwise } from "./pack";
import type { View, Window } from "./types";

/** A window of `size` in every dim with nothing special about it; for size 1 that includes no padding. */
export const isPlain = ({ kernel, strides, dilations, padsBegin, padsEnd }: Window, size: number): boolean =>
  [...strides, ...dilations].every((value) => value === 1) &&
  kernel.every((value) => value === size) &&
  (size > 1 || ![...padsBegin, ...padsEnd].some((pad) => pad !== 0));

/** Whether conv can run in form winograd at all; whether that pays is the lowering's decision. */
export function takesWinograd(target: View, source: View, window: Window, groups: number): boolean {
  if (target.dims.length !== 4 || groups !== 1 || window.kernel.length !== 2 || !isPlain(window, 3)) return false;
  const spatial = ({ dims, strides }: View): Spatial => [dims[2]!, dims[3]!, dims[1]!, strides[2]!, strides[3]!, strides[1]!];
  return fitsWinograd(spatial(target), spatial(source));
}

/** Height, width and channels of a view, then their strides. */
type Spatial = readonly [height: number, width: number, channels: number, down: number, across: number, deep: number];

/** Whether each view has dense pixels side by side, or planes of dense rows, whose part for a row of patches fits beside the transforms. */
export function fitsWinograd(target: Spatial, source: Spatial): boolean {
  const planar = ([, , channels, , , deep]: Spatial): boolean => deep !== 4 && channels > 1;
  const dense = (view: Spatial): boolean => {
    const [height, width, channels, down, across] = view;
    return planar(view) ? across === 4 || width === 1 : (width === 1 || across === channels * 4) && (height === 1 || down === channels * width * 4);
  };
  const columns = Math.ceil(target[1] / 4) * 4 + 2;
  const bytes = (planar(source) ? 6 * columns * source[2] * 4 : 0) + (planar(target) ? 4 * target[1] * target[2] * 4 : 0);
  return dense(target) && dense(source) && bytes <= WINOGRAD_BAND_BYTES;
}

/** Elements of a padded source row that the windows of a row of `columns` touch. */
const reachOf = (columns: number, taps: number, step: number, dilation: number): number => (columns - 1) * step + (taps - 1) * dilation + 1;

/** Larger windows read each element so often that channels side by side pay for two copies. */
const PLANE_TAPS = 9;

/** Whether a window of one channel per group slides over planes with these rows: vectors run along them. */
export function fitsPlanes(columns: number, taps: readonly number[], steps: readonly number[], dilations: readonly number[]): boolean {
  const tall = reachOf(1, taps[0]!, 1, dilations[0]!);
  const bytes = (reachOf(columns, taps[1]!, steps[1]!, dilations[1]!) + PLANE_SLACK) * 4;
  return columns >= 4 && taps[0]! * taps[1]! <= PLANE_TAPS && steps[1]! <= 2 && tall * bytes <= PLANE_BYTES;
}

/** Whether conv can run over the planes of these row-major views: depthwise, 2-D. */
export const takesPlanes = (target: View, source: View, { kernel, strides, dilations }: Window, groups: number): boolean =>
  target.dims.length === 4 &&
  isDepthwise(source.dims[1]! / groups, target.dims[1]! / groups, groups) &&
  [target, source].every((view) => view.dtype === "float32" && (view.strides[3] === 4 || view.dims[3] === 1)) &&
  fitsPlanes(target.dims[3]!, kernel, strides, dilations);

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
