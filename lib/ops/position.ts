/** Folds that give something else than a combination of elements: logarithms of sums, positions. */
import { normalizeAxis } from "../graph/dims";
import { rowMajor, sizeOf } from "../graph/tensor";
import { mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, int } from "./define";
import { axesFor, FOLDS, foldAxes, foldedTarget, listed, ReduceMax, rounded } from "./reduction";
import { axesOf, noise, positive, ramp, rejects, sample, values } from "./sample";
import { StripBuilder } from "./strip-builder";
import { attributeToInput } from "./upgrade";
import { sliceView } from "./views";

function logarithm(name: string, exponentials: boolean): AnyOp {
  return defineOp({
    names: { onnx: [name, 18] },
    inputs: ["data", "axes?"],
    attributes: { keepdims: int(1), noop_with_empty_axes: int(0) },
    upgrades: { 18: attributeToInput("axes", 1) },
    needs: ["axes"],
    infer: ({ data, axes }, attributes, context) => {
      requireDtype(data.dtype, "float", context.node);
      return ReduceMax.infer({ data, axes } as never, attributes, context);
    },
    reference: ({ data, axes }, { noop_with_empty_axes }, [out]) => {
      const folded = axesFor(listed(axes), noop_with_empty_axes, data.dims.length, name);
      const largest = foldAxes(data, folded, FOLDS.max);
      const powers = exponentials ? mapTensors({ real: (v, m) => Math.exp(v! - m!) }, [data, largest], { dtype: "float64", dims: data.dims }) : data;
      const total = foldAxes(powers, folded, FOLDS.sum);
      const real = (m: number, sum: number): number => (exponentials ? m : 0) + Math.log(sum);
      return [rounded(mapTensors({ real }, [largest, total], { dtype: "float64", dims: total.dims }), out!)];
    },
    lower: (b, { data, axes }, { noop_with_empty_axes }) => {
      const folded = axesFor(listed(axes?.constant), noop_with_empty_axes, data.dims.length, b.what);
      const source = folded.length > 0 ? data.view : { ...data.view, dims: [...data.dims, 1], strides: [...data.view.strides, 0] };
      const over = folded.length > 0 ? folded : [data.dims.length];
      const target = foldedTarget(b, data.dims, folded);
      if (exponentials) {
        b.reduce("log_sum_exp", target, source, over);
        return;
      }
      const strip = new StripBuilder(target.dims);
      strip.output(target, strip.op("log", strip.accumulator(data.dtype === "float64" ? "f64" : "f32")));
      b.reduce("sum", target, source, over, strip.strip());
    },
    tolerance: { relative: 5e-6, absolute: 5e-6, why: "f32 result of exponentials and a logarithm" },
    samples: () => [
      sample("rows", { data: positive([3, 5]), axes: axesOf(1) }),
      sample("all, dims dropped", { data: positive([2, 9]) }, { attributes: { keepdims: 0 } }),
      ...(exponentials ? [sample("large values", { data: ramp([2, 9], 30), axes: axesOf(1) })] : []),
      rejects("integers", { data: values("int32", [2], [1, 2]) }, 100026, /int32/),
    ],
  });
}
export const ReduceLogSum = logarithm("ReduceLogSum", false);
export const ReduceLogSumExp = logarithm("ReduceLogSumExp", true);

/** The position of the largest (least) element of an axis, the first one unless the node wants the last. */
function position(name: string, fold: "arg_max" | "arg_min"): AnyOp {
  return defineOp({
    names: { onnx: [name, 13] },
    inputs: ["data"],
    attributes: { axis: int(0), keepdims: int(1), select_last_index: int(0) },
    infer: ({ data }, { axis, keepdims }, { node }) => {
      requireDtype(data.dtype, "number", node);
      const at = normalizeAxis(axis, data.dims.length, node);
      return [{ dtype: "int64", dims: keepdims ? data.dims.map((dim, i) => (i === at ? 1 : dim)) : data.dims.filter((_, i) => i !== at) }];
    },
    reference: ({ data }, { axis, select_last_index }, [out]) => {
      const at = normalizeAxis(axis, data.dims.length, name);
      const [inner, size] = [rowMajor(data.dims)[at]!, data.dims[at]!];
      const result = BigInt64Array.from({ length: sizeOf(out!.dims) }, (_, i) => {
        const start = Math.floor(i / inner) * inner * size + (i % inner);
        let best = 0;
        for (let k = 1; k < size; k++) {
          const [value, most] = [data.data[start + k * inner]!, data.data[start + best * inner]!];
          const beats = fold === "arg_max" ? value > most : value < most;
          best = beats || (select_last_index && value === most) ? k : best;
        }
        return BigInt(best);
      });
      return [{ ...out!, data: result }];
    },
    lower: (b, { data }, { axis, select_last_index }) => {
      const at = normalizeAxis(axis, data.dims.length, b.what);
      const target = foldedTarget(b, data.dims, [at]);
      if (!select_last_index) {
        b.reduce(fold, target, data.view, [at]);
        return;
      }
      // Seen from the end, the last one is the first.
      const last = data.dims[at]! - 1;
      const strip = new StripBuilder(target.dims);
      strip.output(target, strip.op("sub", strip.constant("i64", last), strip.accumulator("i64")));
      b.reduce(fold, target, sliceView(data.view, at, last, last + 1, -1), [at], strip.strip());
    },
    samples: () => [
      sample("last axis", { data: ramp([3, 7]) }, { attributes: { axis: -1 } }),
      sample("first axis, dims dropped", { data: noise([5, 4, 3]) }, { attributes: { keepdims: 0 } }),
      sample("ties", { data: values("float32", [2, 3], [1, 1, 0, 2, 3, 3]) }, { attributes: { axis: 1 } }),
      sample("ties, the last one", { data: values("int32", [2, 3], [1, 1, 0, 3, 2, 3]) }, { attributes: { axis: 1, select_last_index: 1 } }),
      rejects("axis outside", { data: ramp([2]) }, 100021, /axis 1/, { attributes: { axis: 1 } }),
    ],
  });
}
export const ArgMax = position("ArgMax", "arg_max");
export const ArgMin = position("ArgMin", "arg_min");
