/** Copies that pick positions along one axis. */
import type { View } from "../program/types";
import type { Lowering } from "./lowering";
import { sliceView } from "./views";

/** Element i of `target` along `axis` is element `from[i]` of `source`. Runs of even steps become one copy each. */
export function copyPicked(b: Lowering, target: View, source: View, axis: number, from: readonly number[]): void {
  for (let start = 0; start < from.length; ) {
    const step = start + 1 < from.length ? from[start + 1]! - from[start]! : 1;
    let end = start + 1;
    while (end < from.length && from[end]! - from[end - 1]! === step) {
      end++;
    }
    b.copy(sliceView(target, axis, start, end - start), sliceView(source, axis, from[start]!, end - start, step));
    start = end;
  }
}
