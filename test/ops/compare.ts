/** Comparison of tensors: |got - want| <= absolute + relative * |want|, NaN equals NaN, integers and bools exactly. */
import type { Tensor } from "../../dist/lib/graph/tensor";

/** The first differences as text; empty when all elements are close. */
export function differences(got: Tensor, want: Tensor, { relative, absolute }: { readonly relative: number; readonly absolute: number }): string[] {
  if (got.dtype !== want.dtype || got.dims.join() !== want.dims.join()) {
    return [`type ${got.dtype}[${got.dims}] instead of ${want.dtype}[${want.dims}]`];
  }
  const exact = !want.dtype.includes("float");
  const found: string[] = [];
  for (let i = 0; i < want.data.length && found.length < 4; i++) {
    const [a, b] = [got.data[i]!, want.data[i]!];
    const close =
      exact || a === b || (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(Number(a) - Number(b)) <= absolute + relative * Math.abs(Number(b));
    if (exact ? a !== b : !close) {
      found.push(`element ${i}: ${a} instead of ${b}`);
    }
  }
  return found;
}
