/** Resize and Upsample. Every axis is a linear map of its own: whole repeats are one COPY, other picks a few, the rest a product with a small matrix. */
import { AclError } from "../errors/acl-error";
import { type Dim, mapDim, normalizeAxis, shapeError } from "../graph/dims";
import { rowMajor, sizeOf, type Tensor, walk } from "../graph/tensor";
import type { View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, float, floats, int, ints, string, type Upgrade } from "./define";
import { type Interpolation, type Taps, tapsOf } from "./interpolation";
import { type Lowering, Operand } from "./lowering";
import { packedMatrix } from "./packing";
import { copyPicked } from "./picks";
import { fixed, noise, ramp, rejects, sample, values } from "./sample";
import { constantValue } from "./upgrade";
import { dense, sliceView } from "./views";

interface Given {
  readonly mode: string;
  readonly coordinate_transformation_mode: string;
  readonly nearest_mode: string;
  readonly cubic_coeff_a: number;
  readonly exclude_outside: number;
  readonly extrapolation_value: number;
  readonly antialias: number;
  readonly axes: readonly number[] | undefined;
  readonly keep_aspect_ratio_policy: string;
}
interface Sizes {
  readonly roi?: Tensor | undefined;
  readonly scales?: Tensor | undefined;
  readonly sizes?: Tensor | undefined;
}
/** One entry per axis of the data; taps only where the axis changes. */
interface Plan {
  readonly dims: Dim[];
  readonly scales: number[];
  readonly roi: [number, number][];
}

const listOf = (of: Tensor | undefined): number[] => (of ? Array.from(of.data as ArrayLike<number | bigint>, Number) : []);
const ASPECT: Readonly<Record<string, ((ratios: number[]) => number) | undefined>> = {
  not_larger: (ratios) => Math.min(...ratios),
  not_smaller: (ratios) => Math.max(...ratios),
};

function planOf(dims: readonly Dim[], { roi, scales, sizes }: Sizes, { axes, keep_aspect_ratio_policy }: Given, node: string): Plan {
  const at = axes?.map((axis) => normalizeAxis(axis, dims.length, node)) ?? dims.map((_, axis) => axis);
  const [factors, wanted, region] = [listOf(scales), listOf(sizes), listOf(roi)];
  if (factors.length > 0 === wanted.length > 0) {
    throw shapeError(`${node}: exactly one of scales and sizes must be given`);
  }
  if (Math.max(factors.length, wanted.length) !== at.length || (region.length !== 0 && region.length !== 2 * at.length)) {
    throw shapeError(`${node}: scales, sizes and roi need an entry for each of ${at.length} axes`);
  }
  if (factors.some((factor) => !(factor > 0)) || wanted.some((size) => size < 0)) {
    throw shapeError(`${node}: scales must be above zero and sizes not below it`);
  }
  const plan: Plan = { dims: [...dims], scales: dims.map(() => 1), roi: dims.map(() => [0, 1]) };
  const one = wanted.length > 0 ? ASPECT[keep_aspect_ratio_policy]?.(at.map((axis, i) => wanted[i]! / Number(dims[axis]))) : undefined;
  at.forEach((axis, i) => {
    const dim = dims[axis]!;
    if (wanted.length > 0) {
      plan.dims[axis] =
        one === undefined
          ? wanted[i]!
          : mapDim(
              dim,
              (n) => Math.round(one * n),
              (n) => `round(${one}*${n})`,
            );
      plan.scales[axis] = one ?? (typeof dim === "number" ? wanted[i]! / dim : 1);
    } else {
      plan.scales[axis] = factors[i]!;
      plan.dims[axis] = mapDim(
        dim,
        (n) => Math.floor(n * factors[i]!),
        (n) => `floor(${n}*${factors[i]})`,
      );
    }
    if (region.length > 0) {
      plan.roi[axis] = [region[i]!, region[i + at.length]!];
    }
  });
  return plan;
}

/** Taps per axis; undefined where the axis stays as it is. */
function axisTaps(dims: readonly number[], out: readonly number[], plan: Plan, given: Given): (Taps | undefined)[] {
  const how: Interpolation = {
    mode: given.mode === "bilinear" || given.mode === "trilinear" ? "linear" : given.mode,
    coordinates: given.coordinate_transformation_mode,
    nearest: given.nearest_mode,
    cubic: given.cubic_coeff_a,
    excludeOutside: given.exclude_outside !== 0,
    antialias: given.antialias !== 0,
  };
  return dims.map((size, axis) => {
    const taps = tapsOf({ size, target: out[axis]!, scale: plan.scales[axis]!, roi: plan.roi[axis]! }, how);
    return size === out[axis] && taps.every((row, i) => row.length === 1 && row[0]!.index === i && row[0]!.weight === 1) ? undefined : taps;
  });
}

function reference(x: Tensor, taps: readonly (Taps | undefined)[], outside: number, out: ConcreteType): Tensor {
  let now: Tensor = mapTensors({ real: (v) => v, whole: (v) => v }, [x], { dtype: "float64", dims: x.dims });
  taps.forEach((rows, axis) => {
    if (!rows) {
      return;
    }
    const dims = now.dims.with(axis, rows.length);
    const data = new Float64Array(sizeOf(dims));
    const strides = rowMajor(now.dims);
    walk(dims, strides.with(axis, 0), (index, offset) => {
      const row = rows[Math.floor(index / rowMajor(dims)[axis]!) % rows.length]!;
      data[index] = row.reduce((sum, { index: from, weight }) => sum + weight * (now.data[offset + from * strides[axis]!] as number), 0);
    });
    now = { dtype: "float64", dims, data };
  });
  const strides = rowMajor(out.dims);
  const data = Float64Array.from(now.data as Float64Array, (value, index) =>
    taps.some((rows, axis) => rows && rows[Math.floor(index / strides[axis]!) % out.dims[axis]!]!.length === 0) ? outside : value,
  );
  return mapTensors({ real: (v) => v }, [{ dtype: "float64", dims: out.dims, data }], out);
}

const isPick = (taps: Taps): boolean => taps.every((row) => row.length === 1 && row[0]!.weight === 1);
/** How often every element is repeated, when that is all that happens. */
function repeats(taps: Taps | undefined, size: number): number | undefined {
  if (!taps) {
    return 1;
  }
  const times = taps.length / size;
  const even = Number.isInteger(times) && isPick(taps) && taps.every((row, i) => row[0]!.index === Math.floor(i / times));
  return even ? times : undefined;
}

/** All axes repeat: one copy whose source stands still along the new axes. */
function copyRepeated(b: Lowering, target: View, source: View, times: readonly number[]): void {
  const split = (view: View, strides: (axis: number) => number[]): View => ({
    ...view,
    dims: source.dims.flatMap((dim, axis) => (times[axis] === 1 ? [dim] : [dim, times[axis]!])),
    strides: source.dims.flatMap((_, axis) => (times[axis] === 1 ? [view.strides[axis]!] : strides(axis))),
  });
  b.copy(
    split(target, (axis) => [target.strides[axis]! * times[axis]!, target.strides[axis]!]),
    split(source, (axis) => [source.strides[axis]!, 0]),
  );
}

/** target = matrix x source along one axis; both dense in `order`. */
function multiplyAxis(b: Lowering, target: View, source: View, axis: number, taps: Taps, order: readonly number[]): void {
  const at = order.indexOf(axis);
  const size = source.dims[axis]!;
  const outer = order.slice(0, at).reduce((n, each) => n * source.dims[each]!, 1);
  const inner = order.slice(at + 1).reduce((n, each) => n * source.dims[each]!, 1);
  const flat = (view: View, dims: readonly number[]): View => dense(view.blob, view.dtype, dims);
  const matrix = new Float64Array(taps.length * size);
  const along = inner === 1;
  taps.forEach((row, i) => {
    for (const { index, weight } of row) {
      matrix[along ? index * taps.length + i : i * size + index] = weight;
    }
  });
  if (along) {
    const constant = constantValue(`${b.node.name}.axis${axis}`, "float32", [size, taps.length], [...matrix]);
    const weights = packedMatrix(b, new Operand(constant, b.program), false);
    b.matmul(flat(target, [outer, taps.length]), flat(source, [outer, size]), weights, true);
    return;
  }
  const left = b.computed({ dtype: "float32", dims: [taps.length, size], data: matrix });
  const spread: View = { ...left, dims: [outer, ...left.dims], strides: [0, ...left.strides] };
  b.matmul(flat(target, [outer, taps.length, inner]), spread, flat(source, [outer, size, inner]), false);
}

/** Positions outside the region of interest hold `value`. */
function fillOutside(b: Lowering, target: View, taps: readonly (Taps | undefined)[], value: number): void {
  taps.forEach((rows, axis) => {
    rows?.forEach((row, at) => {
      if (row.length === 0) {
        b.map(sliceView(target, axis, at, 1), [], (s) => s.constant("f32", value));
      }
    });
  });
}

function lowerAxes(b: Lowering, x: Operand, taps: readonly (Taps | undefined)[], outside: number): void {
  const order = b.node.outputs[0]!.layout ?? x.dims.map((_, axis) => axis);
  // Axes that shrink go first: what follows has less to do.
  const changed = taps
    .flatMap((rows, axis) => (rows ? [{ rows, axis }] : []))
    .sort((a, c) => a.rows.length / x.dims[a.axis]! - c.rows.length / x.dims[c.axis]!);
  b.through("float32", order, (target) => {
    let now = b.arranged(b.converted(x.view, "float32"), order);
    changed.forEach(({ rows, axis }, i) => {
      const last = i === changed.length - 1;
      const next = last ? target : b.temporary("float32", now.dims.with(axis, rows.length), order);
      isPick(rows)
        ? copyPicked(
            b,
            next,
            now,
            axis,
            rows.map((row) => row[0]!.index),
          )
        : multiplyAxis(b, next, now, axis, rows, order);
      now = next;
    });
    fillOutside(b, target, taps, outside);
  });
}

/** Opset 10 had no region of interest and one way to find positions. */
const fromOpset10: Upgrade = (form) => ({
  inputs: form.inputs.length === 2 ? [form.inputs[0], undefined, form.inputs[1]] : form.inputs,
  attributes: new Map([...form.attributes, ["coordinate_transformation_mode", "asymmetric"], ["nearest_mode", "floor"]] as const),
});

export const Resize = defineOp({
  names: { onnx: ["Resize", 19] },
  inputs: ["x", "roi?", "scales?", "sizes?"],
  attributes: {
    mode: string("nearest"),
    coordinate_transformation_mode: string("half_pixel"),
    nearest_mode: string("round_prefer_floor"),
    cubic_coeff_a: float(-0.75),
    exclude_outside: int(0),
    extrapolation_value: float(0),
    antialias: int(0),
    axes: ints(),
    keep_aspect_ratio_policy: string("stretch"),
  },
  upgrades: { 11: fromOpset10 },
  needs: ["roi", "scales", "sizes"],
  layout: "follow",
  infer: ({ x, roi, scales, sizes }, given, { node }) => {
    const need = (type: typeof roi, name: string): Tensor | undefined => {
      if (type && !type.constant && !type.dims.includes(0)) {
        throw new AclError(100024, `${node}: "${name}" is computed at run time; shapes must be known when the model is compiled`);
      }
      return type?.constant;
    };
    const plan = planOf(x.dims, { roi: need(roi, "roi"), scales: need(scales, "scales"), sizes: need(sizes, "sizes") }, given, node);
    return [{ dtype: x.dtype, dims: plan.dims }];
  },
  reference: ({ x, ...sizes }, given, [out]) => [
    reference(x, axisTaps(x.dims, out!.dims, planOf(x.dims, sizes, given, "Resize"), given), given.extrapolation_value, out!),
  ],
  lower: (b, { x, roi, scales, sizes }, given) => {
    const plan = planOf(x.dims, { roi: roi?.constant, scales: scales?.constant, sizes: sizes?.constant }, given, b.what);
    const taps = axisTaps(x.dims, b.dims(), plan, given);
    const times = taps.map((rows, axis) => repeats(rows, x.dims[axis]!));
    if (taps.every((rows) => !rows)) {
      b.alias(x.view);
    } else if (times.every((count) => count !== undefined)) {
      copyRepeated(b, b.target(), x.view, times);
    } else {
      lowerAxes(b, x, taps, given.extrapolation_value);
    }
  },
  tolerance: { relative: 1e-5, absolute: 2e-6, why: "f32 sums of a few taps" },
  samples: () => [
    sample("nearest twice", { x: ramp([1, 3, 4, 5]), roi: undefined, scales: fixed(values("float32", [4], [1, 1, 2, 2])) }),
    sample("nearest down", { x: ramp([1, 2, 7, 5]), roi: undefined, scales: fixed(values("float32", [4], [1, 1, 0.6, 0.6])) }),
    sample(
      "linear",
      { x: noise([1, 2, 4, 5]), roi: undefined, scales: fixed(values("float32", [4], [1, 1, 2.5, 1.5])) },
      { attributes: { mode: "linear" as never } },
    ),
    sample(
      "linear to sizes, corners aligned",
      { x: noise([2, 3, 4, 5]), roi: undefined, scales: undefined, sizes: fixed(values("int64", [4], [2n, 3n, 7n, 3n])) },
      { attributes: { mode: "linear" as never, coordinate_transformation_mode: "align_corners" as never } },
    ),
    sample(
      "cubic, antialiased",
      { x: noise([1, 1, 9, 8]), roi: undefined, scales: fixed(values("float32", [4], [1, 1, 0.5, 0.75])) },
      { attributes: { mode: "cubic" as never, antialias: 1 } },
    ),
    sample("opset 10", { x: ramp([1, 1, 2, 2]), scales: fixed(values("float32", [4], [1, 1, 2, 3])) }, { opset: 10 }),
    rejects("nothing given", { x: ramp([1, 1, 2, 2]) }, 100021, /exactly one of scales and sizes/),
  ],
});

export const Upsample = defineOp({
  names: { onnx: ["Upsample", 9] },
  inputs: ["x", "scales"],
  attributes: { mode: string("nearest"), scales: floats() },
  upgrades: {
    9: (form, node) => {
      const scales = form.attributes.get("scales") as readonly number[] | undefined;
      const rank = form.inputs[0]?.dims?.length ?? 4;
      const sides = ["height_scale", "width_scale"].map((name) => Number(form.attributes.get(name) ?? 1));
      const factors = scales ?? [...new Array<number>(Math.max(0, rank - 2)).fill(1), ...sides];
      return {
        inputs: [form.inputs[0], constantValue(`@${node.name}.scales`, "float32", [factors.length], factors)],
        attributes: new Map([...form.attributes].filter(([name]) => name === "mode")),
      };
    },
  },
  needs: ["scales"],
  layout: "follow",
  infer: ({ x, scales }, { mode }, { node }) => {
    requireDtype(x.dtype, "number", node);
    if (!scales.constant) {
      throw new AclError(100024, `${node}: "scales" is computed at run time; shapes must be known when the model is compiled`);
    }
    return [{ dtype: x.dtype, dims: planOf(x.dims, { scales: scales.constant }, upsampling(mode), node).dims }];
  },
  reference: ({ x, scales }, { mode }, [out]) => {
    const given = upsampling(mode);
    return [reference(x, axisTaps(x.dims, out!.dims, planOf(x.dims, { scales }, given, "Upsample"), given), 0, out!)];
  },
  lower: (b, { x, scales }, { mode }) => Resize.lower!(b, { x, scales } as never, upsampling(mode) as never),
  tolerance: { relative: 1e-5, absolute: 2e-6, why: "f32 sums of a few taps" },
  samples: () => [
    sample("nearest", { x: ramp([1, 2, 3, 4]), scales: fixed(values("float32", [4], [1, 1, 2, 3])) }, { opset: 9 }),
    sample(
      "linear, attribute of opset 7",
      { x: noise([1, 2, 3, 4]) },
      { attributes: { scales: [1, 1, 2, 2.5], mode: "linear" as never }, floats: ["scales"], opset: 7 },
    ),
  ],
});

/** Upsample is Resize with the oldest of its rules. */
function upsampling(mode: string): Given {
  return {
    mode,
    coordinate_transformation_mode: "asymmetric",
    nearest_mode: "floor",
    cubic_coeff_a: -0.75,
    exclude_outside: 0,
    extrapolation_value: 0,
    antialias: 0,
    axes: undefined,
    keep_aspect_ratio_policy: "stretch",
  };
}
