/** Normalization over a part of the shape: layers, instances, groups. Rows of float32 are one NORM; the rest is two folds around strips. */
import { type Dim, normalizeAxis, shapeError } from "../graph/dims";
import { isFloat, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type AnyOp, defineOp, float, int, ints, type Tolerance } from "./define";
import type { Lowering } from "./lowering";
import { FOLDS, foldAxes } from "./reduction";
import { fixed, noise, positive, ramp, rejects, sample } from "./sample";
import { stripType } from "./strip-builder";
import { broadcastView, reshapeView } from "./views";

const CLOSE: Tolerance = { relative: 2e-5, absolute: 5e-6, why: "f32 mean and deviation against float64" };
const wide = (dims: readonly number[]) => ({ dtype: "float64" as const, dims });

/** (x - mean) / sqrt(variance + epsilon) over `axes`, with mean and inverse deviation; `centred` false leaves the mean out. */
function normalized(x: Tensor, axes: readonly number[], epsilon: number, centred = true): { value: Tensor; mean: Tensor; inverse: Tensor } {
  const mean = foldAxes(x, axes, FOLDS.mean);
  const deviation = mapTensors({ real: (v, m) => (centred ? v! - m! : v!) }, [x, mean], wide(x.dims));
  const variance = foldAxes(mapTensors({ real: (v) => v * v }, [deviation], wide(x.dims)), axes, FOLDS.mean);
  const inverse = mapTensors({ real: (v) => 1 / Math.sqrt(v + epsilon) }, [variance], wide(variance.dims));
  return { value: mapTensors({ real: (v, i) => v! * i! }, [deviation, inverse], wide(x.dims)), mean, inverse };
}

/** A fold of `axes` seen with the full shape again: it stands still along them. */
function spreadView(folded: View, dims: readonly number[], axes: readonly number[]): View {
  const rest = [...folded.strides];
  return { ...folded, dims, strides: dims.map((_, axis) => (axes.includes(axis) ? 0 : rest.shift()!)) };
}

interface Finish {
  readonly scale?: View | undefined;
  readonly shift?: View | undefined;
}

/** Writes the normalized `source` to `target`; scale and shift broadcast to it. Gives the folded mean and inverse deviation. */
function lowerNormalized(
  b: Lowering,
  target: View,
  source: View,
  axes: readonly number[],
  epsilon: number,
  { scale, shift }: Finish,
  centred = true,
): { mean: View; inverse: View } {
  const type = source.dtype === "float64" ? "float64" : "float32";
  const register = stripType(type);
  const kept = source.dims.filter((_, axis) => !axes.includes(axis));
  const [mean, squares, inverse] = ["mean", "squares", "inverse"].map((part) => b.temporary(type, kept, undefined, `${b.node.name}.${part}`)) as [
    View,
    View,
    View,
  ];
  let deviation = source;
  if (centred) {
    b.reduce("mean", mean, source, axes);
    deviation = b.temporary(type, source.dims, undefined, `${b.node.name}.deviation`);
    b.map(deviation, [source, spreadView(mean, source.dims, axes)], (s, v, m) => s.op("sub", s.cast(v!, register), m!));
  }
  b.reduce("sum_square", squares, deviation, axes);
  const count = axes.reduce((n, axis) => n * source.dims[axis]!, 1);
  b.map(inverse, [squares], (s, v) =>
    s.op("div", s.constant(register, 1), s.op("sqrt", s.op("add", s.op("div", v!, s.constant(register, count)), s.constant(register, epsilon)))),
  );
  const more = [scale, shift].filter((view) => view !== undefined).map((view) => broadcastView(view, source.dims));
  b.map(target, [deviation, spreadView(inverse, source.dims, axes), ...more], (s, v, i, ...rest) => {
    const scaled = scale ? s.op("mul", s.op("mul", v!, i!), rest.shift()!) : s.op("mul", v!, i!);
    return shift ? s.op("add", scaled, rest.shift()!) : scaled;
  });
  return { mean, inverse };
}

const trailing = (axis: number, rank: number): number[] => Array.from({ length: rank - axis }, (_, i) => axis + i);

export const LayerNormalization = defineOp({
  names: { onnx: ["LayerNormalization", 17] },
  inputs: ["x", "scale", "shift?"],
  outputs: 3,
  attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
  infer: ({ x, scale, shift }, { axis }, { node, outputs }) => {
    requireDtype(x.dtype, "float", node);
    const at = normalizeAxis(axis, x.dims.length, node);
    for (const each of [scale, ...(shift ? [shift] : [])]) {
      if (each.dims.length > x.dims.length) {
        throw shapeError(`${node}: scale and bias have more dims than the data`);
      }
    }
    const folded = x.dims.map((dim, i): Dim => (i < at ? dim : 1));
    return [{ dtype: x.dtype, dims: x.dims }, ...Array.from({ length: outputs - 1 }, () => ({ dtype: "float32" as const, dims: folded }))];
  },
  reference: ({ x, scale, shift }, { axis, epsilon }, types) => {
    const { value, mean, inverse } = normalized(x, trailing(normalizeAxis(axis, x.dims.length, "LayerNormalization"), x.dims.length), epsilon);
    const y = mapTensors({ real: (v, s, t = 0) => v! * s! + t }, [value, scale, ...(shift ? [shift] : [])], types[0]!);
    return [y, ...[mean, inverse].slice(0, types.length - 1).map((each, i) => mapTensors({ real: (v) => v }, [each], types[i + 1]!))];
  },
  lower: (b, { x, scale, shift }, { axis, epsilon }) => {
    const axes = trailing(normalizeAxis(axis, x.dims.length, b.what), x.dims.length);
    const [row, rows] = [sizeOf(axes.map((each) => x.dims[each]!)), sizeOf(x.dims) / Math.max(1, sizeOf(axes.map((each) => x.dims[each]!)))];
    const flat = x.dtype === "float32" && sizeOf(scale.dims) === row && (!shift || sizeOf(shift.dims) === row) && row > 0;
    if (flat && !b.has(1) && !b.has(2)) {
      const target = reshapeView(b.target(), [rows, row])!;
      const zero = shift ? undefined : b.computed({ dtype: "float32", dims: [row], data: new Float64Array(row) });
      const line = (view: View): View => reshapeView(b.arranged(view), [row])!;
      b.norm(target, reshapeView(b.arranged(x.view), [rows, row])!, line(scale.view), shift ? line(shift.view) : zero!, epsilon);
      return;
    }
    const { mean, inverse } = lowerNormalized(b, b.target(), x.view, axes, epsilon, { scale: scale.view, shift: shift?.view });
    [mean, inverse].forEach((view, i) => {
      if (b.has(i + 1)) {
        b.map(b.target(i + 1), [reshapeView(view, b.dims(i + 1))!], (_, v) => v!);
      }
    });
  },
  tolerance: CLOSE,
  samples: () => [
    sample("last axis", { x: noise([4, 24]), scale: fixed(positive([24])), shift: fixed(ramp([24])) }),
    sample("two axes, no bias", { x: noise([3, 4, 5]), scale: positive([4, 5]) }, { attributes: { axis: 1 } }),
    sample("mean and deviation too", { x: noise([2, 3, 7]), scale: positive([7]), shift: ramp([7]) }, { outputs: 3 }),
    sample("scale of one number", { x: noise([3, 8]), scale: positive([1]) }),
    rejects("axis outside", { x: noise([2, 3]), scale: positive([3]) }, 100021, /axis 2/, { attributes: { axis: 2 } }),
  ],
});

export const RMSNormalization = defineOp({
  names: { onnx: ["RMSNormalization", 23] },
  inputs: ["x", "scale"],
  attributes: { axis: int(-1), epsilon: float(1e-5), stash_type: int(1) },
  infer: ({ x }, { axis }, { node }) => {
    requireDtype(x.dtype, "float", node);
    normalizeAxis(axis, x.dims.length, node);
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, scale }, { axis, epsilon }, [out]) => {
    const { value } = normalized(x, trailing(normalizeAxis(axis, x.dims.length, "RMSNormalization"), x.dims.length), epsilon, false);
    return [mapTensors({ real: (v, s) => v! * s! }, [value, scale], out!)];
  },
  lower: (b, { x, scale }, { axis, epsilon }) => {
    lowerNormalized(
      b,
      b.target(),
      x.view,
      trailing(normalizeAxis(axis, x.dims.length, b.what), x.dims.length),
      epsilon,
      { scale: scale.view },
      false,
    );
  },
  tolerance: CLOSE,
  samples: () => [
    sample("rows", { x: noise([3, 17]), scale: positive([17]) }),
    sample("two axes", { x: noise([2, 3, 5]), scale: positive([3, 5]) }, { attributes: { axis: 1 } }),
  ],
});

/** Channels in `groups` groups, each normalized over its channels and all positions. */
function grouped(name: string, newest: number, groupsOf: (channels: number, given: number) => number): AnyOp {
  return defineOp({
    names: { onnx: [name, newest] },
    inputs: ["x", "scale", "shift"],
    attributes: { epsilon: float(1e-5), num_groups: int(1), stash_type: int(1) },
    infer: ({ x, scale, shift }, { num_groups }, { node }) => {
      requireDtype(x.dtype, "float", node);
      const channels = x.dims[1];
      const wrong = [scale, shift].some(
        ({ dims }) => dims.length !== 1 || (typeof channels === "number" && typeof dims[0] === "number" && dims[0] !== channels),
      );
      if (x.dims.length < 2 || wrong || (typeof channels === "number" && channels % groupsOf(channels, num_groups) !== 0)) {
        throw shapeError(`${node}: scale, bias and ${num_groups} groups do not fit the channels of [${x.dims}]`);
      }
      return [{ dtype: x.dtype, dims: x.dims }];
    },
    reference: ({ x, scale, shift }, { epsilon, num_groups }, [out]) => {
      const [batch, channels] = x.dims as [number, number];
      const dims = [batch, groupsOf(channels, num_groups), sizeOf(x.dims) / Math.max(1, batch * groupsOf(channels, num_groups))];
      const { value } = normalized({ ...x, dims }, [2], epsilon);
      const perChannel = (of: Tensor): Tensor => ({ ...of, dims: [channels, ...x.dims.slice(2).map(() => 1)] });
      return [mapTensors({ real: (v, s, t) => v! * s! + t! }, [{ ...value, dims: x.dims }, perChannel(scale), perChannel(shift)], out!)];
    },
    lower: (b, { x, scale, shift }, { epsilon, num_groups }) => {
      const [batch, channels, ...spatial] = x.dims as [number, number, ...number[]];
      const groups = groupsOf(channels, num_groups);
      const split = [batch, groups, channels / groups, ...spatial];
      const perChannel = (view: View): View => reshapeView(view, [1, groups, channels / groups, ...spatial.map(() => 1)])!;
      const axes = split.map((_, axis) => axis).slice(2);
      lowerNormalized(b, reshapeView(b.target(), split)!, reshapeView(b.arranged(x.view), split)!, axes, epsilon, {
        scale: perChannel(b.arranged(scale.view)),
        shift: perChannel(b.arranged(shift.view)),
      });
    },
    tolerance: CLOSE,
    samples: () => [
      sample(
        "2-D",
        { x: noise([2, 6, 5, 4]), scale: positive([6]), shift: ramp([6]) },
        { attributes: name === "GroupNormalization" ? { num_groups: 3 } : {} },
      ),
      sample(
        "1-D",
        { x: noise([1, 4, 9]), scale: fixed(positive([4])), shift: fixed(ramp([4])) },
        { attributes: name === "GroupNormalization" ? { num_groups: 2 } : {} },
      ),
      rejects("scale of another size", { x: noise([1, 4, 9]), scale: positive([3]), shift: ramp([3]) }, 100021, /do not fit/),
    ],
  });
}
export const InstanceNormalization = grouped("InstanceNormalization", 22, (channels) => Math.max(1, channels));
export const GroupNormalization = grouped("GroupNormalization", 21, (_, groups) => groups);

export const MeanVarianceNormalization = defineOp({
  names: { onnx: ["MeanVarianceNormalization", 13] },
  inputs: ["x"],
  attributes: { axes: ints([0, 2, 3] as readonly number[]) },
  infer: ({ x }, { axes }, { node }) => {
    requireDtype(x.dtype, "float", node);
    (axes ?? []).forEach((axis) => normalizeAxis(axis, x.dims.length, node));
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x }, { axes }, [out]) => [mapTensors({ real: (v) => v }, [normalized(x, over(axes, x.dims.length), 1e-18).value], out!)],
  lower: (b, { x }, { axes }) => {
    lowerNormalized(b, b.target(), x.view, over(axes, x.dims.length), isFloat(x.dtype) ? 1e-18 : 0, {});
  },
  tolerance: CLOSE,
  samples: () => [sample("default axes", { x: noise([2, 3, 4, 5]) }), sample("one axis", { x: noise([3, 7]) }, { attributes: { axes: [-1] } })],
});
const over = (axes: readonly number[] | undefined, rank: number): number[] =>
  (axes ?? []).map((axis) => (axis < 0 ? axis + rank : axis)).sort((a, b) => a - b);
