/** Sliding windows: what Conv and the pools share. */
import { type Dim, formatDims, mapDim, shapeError } from "../graph/dims";
import type { Window } from "../program/types";

export interface WindowAttributes {
  readonly kernel_shape: readonly number[] | undefined;
  readonly strides: readonly number[] | undefined;
  readonly dilations: readonly number[] | undefined;
  readonly pads: readonly number[] | undefined;
  readonly auto_pad: string;
  /** Round the number of windows up: the last one may start inside the end padding but not past it. */
  readonly ceil_mode?: number;
}

/** The window in full, and the spatial dims of the output. Open input dims are kept open, with zero pads where auto_pad needs the number. */
export function windowOf(
  spatial: readonly Dim[],
  kernel: readonly number[],
  attributes: WindowAttributes,
  node: string,
): { window: Window; dims: Dim[] } {
  const rank = spatial.length;
  const ones = new Array<number>(rank).fill(1);
  const { auto_pad, ceil_mode = 0 } = attributes;
  const strides = attributes.strides ?? ones;
  const dilations = attributes.dilations ?? ones;
  const pads = attributes.pads ?? new Array<number>(2 * rank).fill(0);
  for (const [name, list, length] of [
    ["kernel_shape", kernel, rank],
    ["strides", strides, rank],
    ["dilations", dilations, rank],
    ["pads", pads, 2 * rank],
  ] as const) {
    if (list.length !== length) {
      throw shapeError(`${node}: ${name} [${list}] needs ${length} numbers for ${rank} spatial dims`);
    }
    if (list.some((each) => !Number.isSafeInteger(each) || each < (name === "pads" ? 0 : 1))) {
      throw shapeError(`${node}: ${name} [${list}] must be ${name === "pads" ? "zero or more" : "at least 1"}`);
    }
  }
  const padsBegin: number[] = [];
  const padsEnd: number[] = [];
  const dims = spatial.map((dim, axis): Dim => {
    const [stride, reach] = [strides[axis]!, dilations[axis]! * (kernel[axis]! - 1) + 1];
    let [begin, end] = [pads[axis]!, pads[axis + rank]!];
    if (auto_pad === "SAME_UPPER" || auto_pad === "SAME_LOWER") {
      const total = typeof dim === "number" ? Math.max(0, (Math.ceil(dim / stride) - 1) * stride + reach - dim) : 0;
      const less = Math.floor(total / 2);
      [begin, end] = auto_pad === "SAME_UPPER" ? [less, total - less] : [total - less, less];
    } else if (auto_pad === "VALID") {
      [begin, end] = [0, 0];
    } else if (auto_pad !== "NOTSET") {
      throw shapeError(`${node}: auto_pad "${auto_pad}" is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID`);
    }
    padsBegin.push(begin);
    padsEnd.push(end);
    const same = auto_pad.startsWith("SAME");
    return mapDim(
      dim,
      (size) => {
        if (same) {
          return Math.ceil(size / stride);
        }
        const steps = (size + begin + end - reach) / stride;
        const count = (ceil_mode ? Math.ceil(steps) : Math.floor(steps)) + 1;
        return ceil_mode && (count - 1) * stride >= size + begin ? count - 1 : count;
      },
      (name) => (same ? `ceil(${name}/${stride})` : `(${name}+${begin + end - reach})/${stride}+1`),
    );
  });
  const least = spatial.includes(0) ? 0 : 1;
  if (dims.some((dim) => typeof dim === "number" && dim < least)) {
    throw shapeError(`${node}: a window of ${formatDims(kernel)} does not fit into ${formatDims(spatial)} with its pads`);
  }
  return { window: { kernel: [...kernel], strides: [...strides], dilations: [...dilations], padsBegin, padsEnd }, dims };
}

/** Padding behind the data that covers every window, also the last one of ceil_mode. */
export function coveringPads({ kernel, strides, dilations, padsBegin }: Window, spatial: readonly number[], out: readonly Dim[]): number[] {
  return kernel.map((size, axis) =>
    Math.max(0, (Number(out[axis]) - 1) * strides[axis]! + (size - 1) * dilations[axis]! + 1 - spatial[axis]! - padsBegin[axis]!),
  );
}

/** Calls `visit` with each output position, window tap and the input position it reads; taps in the padding have `input` -1. Row-major spatial indices. */
export function eachTap(
  spatial: readonly number[],
  out: readonly number[],
  window: Window,
  visit: (output: number, tap: number, input: number, insidePads: boolean) => void,
): void {
  const count = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);
  const rank = spatial.length;
  const [outputs, taps] = [count(out), count(window.kernel)];
  for (let output = 0; output < outputs; output++) {
    for (let tap = 0; tap < taps; tap++) {
      let input = 0;
      let step = 1;
      let insidePads = true;
      let [restOut, restTap] = [output, tap];
      for (let axis = rank - 1; axis >= 0; axis--) {
        const at =
          (restOut % out[axis]!) * window.strides[axis]! - window.padsBegin[axis]! + (restTap % window.kernel[axis]!) * window.dilations[axis]!;
        restOut = Math.floor(restOut / out[axis]!);
        restTap = Math.floor(restTap / window.kernel[axis]!);
        if (at < 0 || at >= spatial[axis]!) {
          input = -1;
          insidePads &&= at < spatial[axis]! + window.padsEnd[axis]!;
        } else if (input >= 0) {
          input += at * step;
        }
        step *= spatial[axis]!;
      }
      visit(output, tap, input, insidePads);
    }
  }
}
