/** Running sums and products. */
import { normalizeAxis } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import { elements, roundTo, rowMajor } from "../graph/tensor";
import type { View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, int } from "./define";
import { lastAxis } from "./indexing";
import { numbersOf } from "./reshape";
import { noise, ramp, rejects, sample, scalar, values } from "./sample";
import { permuteView, sliceView } from "./views";

/** The type that the device folds in: narrow ones are widened, and narrowed by the store. */
const WIDE: Partial<Record<DtypeName, DtypeName>> = {
  float16: "float32",
  bfloat16: "float32",
  int8: "int32",
  int16: "int32",
  uint8: "uint32",
  uint16: "uint32",
};

function cumulative(name: string, newest: number, product: boolean): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["data", "axis"],
    attributes: { exclusive: int(0), reverse: int(0) },
    needs: ["axis"],
    infer: ({ data, axis }, _, { node }) => {
      requireDtype(data.dtype, "number", node);
      normalizeAxis(numbersOf(axis, "axis", node)![0]!, data.dims.length, node);
      return [{ dtype: data.dtype, dims: data.dims }];
    },
    reference: ({ data, axis }, { exclusive, reverse }, [out]) => {
      const at = normalizeAxis(Number(axis.data[0]), data.dims.length, name);
      const [size, inner] = [data.dims[at]!, rowMajor(data.dims)[at]!];
      const result = elements(out!.dtype, data.data.length);
      for (let start = 0; start < result.length; start++) {
        if (Math.floor(start / inner) % size !== 0) {
          continue;
        }
        let total: number | bigint = result instanceof Float64Array ? Number(product) : BigInt(product);
        for (let k = 0; k < size; k++) {
          const place = start + (reverse ? size - 1 - k : k) * inner;
          const next: number | bigint = product ? (total as number) * (data.data[place] as number) : (total as number) + (data.data[place] as number);
          const kept = exclusive ? total : next;
          result[place] = (typeof kept === "bigint" ? kept : roundTo(out!.dtype, kept)) as never;
          total = next;
        }
      }
      return [{ ...out!, data: result }];
    },
    lower: (b, { data, axis }, { exclusive, reverse }) => {
      const at = normalizeAxis(Number(axis.constant!.data[0]), data.dims.length, b.what);
      const size = data.dims[at]!;
      const dtype = WIDE[data.dtype] ?? data.dtype;
      const source = b.converted(data.view, dtype);
      // Backwards is forwards over a view that runs backwards.
      const along = (view: View): View =>
        permuteView(reverse && size > 0 ? sliceView(view, at, size - 1, size, -1) : view, lastAxis(data.dims.length, at));
      b.through(dtype, undefined, (target) => {
        b.emit(
          { op: "cumulate", target: along(target), source: along(source), product, exclusive: exclusive !== 0 },
          data.dims.reduce((count, dim) => count * dim, 1),
        );
      });
    },
    tolerance: { relative: 1e-6, absolute: 1e-6, why: "f64 folds, rounded at each store" },
    samples: () => [
      sample("rows", { data: noise([3, 9]), axis: scalar(1, "int64") }),
      sample("columns backwards, exclusive", { data: ramp([4, 3]), axis: scalar(-2, "int64") }, { attributes: { exclusive: 1, reverse: 1 } }),
      sample("int64", { data: values("int64", [3], [1n, -2n, 3n]), axis: scalar(0, "int64") }),
      sample("long", { data: noise([2, 3000, 2], 3), axis: scalar(1, "int64") }),
      sample("uint8 wraps", { data: values("uint8", [4], [100, 2, 255, 3]), axis: scalar(0, "int32") }, { attributes: { reverse: 1 } }),
      sample("float16", { data: ramp([2, 5], 0.25, "float16"), axis: scalar(1, "int64") }),
      rejects("axis outside", { data: ramp([3]), axis: scalar(1, "int64") }, 100021, /axis 1/),
    ],
  });
}
export const CumSum = cumulative("CumSum", 14, false);
export const CumProd = cumulative("CumProd", 26, true);
