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
