/** Functions of one number that models need less often: circular and hyperbolic ones, rounding, tests. */
import type { StripOpName } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, int, type Tolerance } from "./define";
import { noise, positive, ramp, type Sample, sample, values } from "./sample";
import { stripType } from "./strip-builder";
import { unary } from "./unary";

const TRIGONOMETRIC: Tolerance = { relative: 4e-6, absolute: 1e-6, why: "f64 function rounded to f32, or f32 polynomial" };
const real = (name: string, newest: number, strip: StripOpName, f: (x: number) => number, samples?: () => readonly Sample[]): AnyOp =>
  unary({ name, newest, strip, real: f, takes: "float", tolerance: TRIGONOMETRIC, ...(samples ? { samples } : {}) });
const within = (): readonly Sample[] => [sample("inside -1..1", { x: noise([5, 7]) })];

export const Sin = real("Sin", 22, "sin", Math.sin);
export const Cos = real("Cos", 22, "cos", Math.cos);
export const Tan = real("Tan", 22, "tan", Math.tan);
export const Asin = real("Asin", 22, "asin", Math.asin, within);
export const Acos = real("Acos", 22, "acos", Math.acos, within);
export const Atan = real("Atan", 22, "atan", Math.atan);
export const Sinh = real("Sinh", 22, "sinh", Math.sinh);
export const Cosh = real("Cosh", 22, "cosh", Math.cosh);
export const Asinh = real("Asinh", 22, "asinh", Math.asinh);
export const Acosh = real("Acosh", 22, "acosh", Math.acosh, () => [sample("above 1", { x: positive([4, 7], 1) })]);
export const Atanh = real("Atanh", 22, "atanh", Math.atanh, within);
export const Round = unary({ name: "Round", newest: 22, strip: "round", real: halfEven, takes: "float" });
export const Sign = unary({
  name: "Sign",
  newest: 13,
  strip: "sign",
  real: (x) => Math.sign(x),
  whole: (x) => (x > 0n ? 1n : x < 0n ? -1n : 0n),
  takes: "number",
  samples: () => [sample("int32", { x: values("int32", [5], [-3, 0, 7, -2147483648, 2147483647]) })],
});

/** To the nearest whole number, halves to the even one. */
function halfEven(x: number): number {
  const low = Math.floor(x);
  const rest = x - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
}

function test(name: string, newest: number, strip: StripOpName, holds: (x: number) => boolean): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["x"],
    attributes: { detect_negative: int(1), detect_positive: int(1) },
    layout: "follow",
    infer: ({ x }, _, { node }) => {
      requireDtype(x.dtype, "float", node);
      return [{ dtype: "bool", dims: x.dims }];
    },
    reference: ({ x }, { detect_negative, detect_positive }, [out]) => [
      mapTensors({ real: (v) => +(holds(v) && (name !== "IsInf" || (v > 0 ? detect_positive !== 0 : detect_negative !== 0))) }, [x], out!),
    ],
    lower: (b, { x }, { detect_negative, detect_positive }) =>
      b.elementwise([x], (s, v) => {
        const found = s.op(strip, v!);
        if (name !== "IsInf" || (detect_negative && detect_positive)) {
          return found;
        }
        const zero = s.constant(stripType(x.dtype), 0);
        return detect_positive
          ? s.op("and", found, s.op("gt", v!, zero))
          : detect_negative
            ? s.op("and", found, s.op("lt", v!, zero))
            : s.op("lt", zero, zero);
      }),
    samples: () => [
      sample("special values", { x: values("float32", [5], [1, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0]) }),
      ...(name === "IsInf"
        ? [
            sample(
              "above only",
              { x: values("float32", [3], [Number.NEGATIVE_INFINITY, 1, Number.POSITIVE_INFINITY]) },
              { attributes: { detect_negative: 0 } },
            ),
          ]
        : [sample("numbers", { x: ramp([7]) })]),
    ],
  });
}
export const IsNaN = test("IsNaN", 20, "isnan", Number.isNaN);
export const IsInf = test("IsInf", 20, "isinf", (x) => Math.abs(x) === Number.POSITIVE_INFINITY);
