/**
 * ConvTranspose, 1-D to 3-D. Output positions with the same remainder by the stride see the same taps: each such phase is a CONV of its own over the
 * data, with some of the taps in reverse, that writes every stride-th pixel of the target. No multiplication by an inserted zero.
 */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, mapDim, shapeError } from "../graph/dims";
import { encode, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, int, ints, string } from "./define";
import { type Lowering, Operand } from "./lowering";
import { filterAtRunTime, packedFilter } from "./packing";
import { fixed, noise, ramp, rejects, sample } from "./sample";
import { StripBuilder } from "./strip-builder";
import { channelsLast, permuteView, reshapeView, sliceView } from "./views";
import type { WindowAttributes } from "./window";

interface Given extends WindowAttributes {
  readonly output_padding: readonly number[] | undefined;
  readonly output_shape: readonly number[] | undefined;
  readonly group: number;
}
interface Geometry {
  readonly kernel: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
  readonly begin: readonly number[];
  readonly dims: readonly Dim[];
}

function geometryOf(spatial: readonly Dim[], kernel: readonly number[], given: Given, node: string): Geometry {
  const rank = spatial.length;
  const list = (of: readonly number[] | undefined, otherwise: number, length = rank): readonly number[] => {
    if (of && of.length !== length) {
      throw shapeError(`${node}: [${of}] needs ${length} numbers for ${rank} spatial dims`);
    }
    return of ?? new Array<number>(length).fill(otherwise);
  };
  const [strides, dilations, extra] = [list(given.strides, 1), list(given.dilations, 1), list(given.output_padding, 0)];
  const pads = list(given.pads, 0, 2 * rank);
  if ([...strides, ...dilations].some((each) => each < 1)) {
    throw shapeError(`${node}: strides and dilations must be at least 1`);
  }
  const shape = given.output_shape?.slice(-rank);
  const begin = pads.slice(0, rank);
  const dims = spatial.map((dim, axis): Dim => {
    const reach = dilations[axis]! * (kernel[axis]! - 1) + 1 + extra[axis]!;
    const full = (n: number): number => strides[axis]! * (n - 1) + reach;
    const same = given.auto_pad.startsWith("SAME");
    if (shape || same) {
      const wanted = shape
        ? shape[axis]!
        : mapDim(
            dim,
            (n) => n * strides[axis]!,
            (n) => `${n}*${strides[axis]}`,
          );
      if (typeof dim === "number" && typeof wanted === "number") {
        const total = Math.max(0, full(dim) - wanted);
        begin[axis] = given.auto_pad === "SAME_UPPER" ? Math.floor(total / 2) : total - Math.floor(total / 2);
      }
      return wanted;
    }
    const cut = given.auto_pad === "VALID" ? 0 : pads[axis]! + pads[axis + rank]!;
    if (given.auto_pad === "VALID") {
      begin[axis] = 0;
    }
    return mapDim(
      dim,
      (n) => full(n) - cut,
      (n) => `${strides[axis]}*${n}+${reach - strides[axis]! - cut}`,
    );
  });
  if (dims.some((dim) => typeof dim === "number" && dim < 1)) {
    throw shapeError(`${node}: pads leave nothing of the output ${formatDims(dims)}`);
  }
  return { kernel, strides, dilations, begin, dims };
}

function reference(x: Tensor, weights: Tensor, bias: Tensor | undefined, given: Given, out: ConcreteType): Tensor {
  const [batch, channels, ...spatial] = x.dims as [number, number, ...number[]];
  const [, perGroup, ...kernel] = weights.dims as [number, number, ...number[]];
  const { strides, dilations, begin } = geometryOf(spatial, kernel, given, "ConvTranspose");
  const target = out.dims.slice(2);
  const filters = perGroup * given.group;
  const [inSize, outSize, taps] = [sizeOf(spatial), sizeOf(target), sizeOf(kernel)];
  const data = new Float64Array(sizeOf(out.dims));
  for (let input = 0; input < inSize; input++) {
    for (let tap = 0; tap < taps; tap++) {
      let [place, step, restIn, restTap] = [0, 1, input, tap];
      for (let axis = spatial.length - 1; axis >= 0 && place >= 0; axis--) {
        const at = (restIn % spatial[axis]!) * strides[axis]! - begin[axis]! + (restTap % kernel[axis]!) * dilations[axis]!;
        restIn = Math.floor(restIn / spatial[axis]!);
        restTap = Math.floor(restTap / kernel[axis]!);
        place = at < 0 || at >= target[axis]! ? -1 : place + at * step;
        step *= target[axis]!;
      }
      for (let i = 0; place >= 0 && i < batch * channels; i++) {
        const [n, c] = [Math.floor(i / channels), i % channels];
        const group = Math.floor(c / (channels / given.group));
        for (let m = 0; m < perGroup; m++) {
          data[(n * filters + group * perGroup + m) * outSize + place]! +=
            (x.data[i * inSize + input] as number) * (weights.data[(c * perGroup + m) * taps + tap] as number);
        }
      }
    }
  }
  if (bias) {
    data.forEach((value, i) => (data[i] = value + Number(bias.data[Math.floor(i / outSize) % filters])));
  }
  return mapTensors({ real: (v) => v }, [{ dtype: "float64", dims: out.dims, data }], out);
}

/** Along one axis: outputs r, r + stride, ... read taps k0, k0 + step, ... */
interface Phase {
  readonly remainder: number;
  readonly count: number;
  readonly taps: readonly number[];
  /** Data position that the first tap in the list reads for the first output. */
  readonly first: number;
  /** Data positions between two taps of the list. */
  readonly dilation: number;
}

function phasesOf(axis: number, { kernel, strides, dilations, begin }: Geometry, target: number): Phase[] {
  const [stride, dilation, pad] = [strides[axis]!, dilations[axis]!, begin[axis]!];
  return Array.from({ length: Math.min(stride, target) }, (_, remainder): Phase => {
    const at = (k: number): number => (remainder + pad - k * dilation) / stride;
    // Data positions fall as taps rise: the list is reversed so that the window runs forwards.
    const taps = Array.from({ length: kernel[axis]! }, (_, k) => k)
      .filter((k) => Number.isInteger(at(k)))
      .reverse();
    const between = taps.length > 1 ? at(taps[1]!) - at(taps[0]!) : 1;
    return { remainder, count: Math.ceil((target - remainder) / stride), taps, first: taps.length > 0 ? at(taps[0]!) : 0, dilation: between };
  });
}

const product = <T>(lists: readonly (readonly T[])[]): T[][] =>
  lists.reduce<T[][]>((all, list) => all.flatMap((head) => list.map((each) => [...head, each])), [[]]);

/** Weights [C, M / groups, kernel...] -> [M, C / groups, taps of this phase...]. */
function phaseWeights(b: Lowering, weights: Operand, taps: readonly (readonly number[])[], groups: number): Operand {
  const name = `${weights.value.name}@${taps.map((list) => list.join()).join(";")}`;
  const { data, dims } = weights.constant!;
  const [channels, perGroup, ...kernel] = dims as [number, number, ...number[]];
  const channelsPerGroup = channels / groups;
  const picked = product(taps).map((each) => each.reduce((at, tap, axis) => at * kernel[axis]! + tap, 0));
  const result = new Float64Array(groups * perGroup * channelsPerGroup * picked.length);
  let next = 0;
  for (let m = 0; m < groups * perGroup; m++) {
    const group = Math.floor(m / perGroup);
    for (let c = 0; c < channelsPerGroup; c++) {
      for (const tap of picked) {
        result[next++] = data[((group * channelsPerGroup + c) * perGroup + (m % perGroup)) * sizeOf(kernel) + tap] as number;
      }
    }
  }
  const constant = encode({ dtype: "float32", dims: [groups * perGroup, channelsPerGroup, ...taps.map((list) => list.length)], data: result });
  const source = weights.value.source === undefined ? {} : { source: `${weights.value.source}@${taps.map((list) => list.join()).join(";")}` };
  return new Operand({ name, dtype: "float32", dims: constant.dims, constant, ...source }, b.program);
}

/** The same for weights that are known only when the model runs. Taps of a phase are evenly spaced, so they are a slice. */
function phaseAtRunTime(b: Lowering, weights: View, taps: readonly (readonly number[])[], groups: number): View {
  const [channels, perGroup, ...kernel] = weights.dims as [number, number, ...number[]];
  const all = reshapeView(b.arranged(b.converted(weights, "float32")), [groups, channels / groups, perGroup, ...kernel])!;
  const picked = taps.reduce((view, list, axis) => sliceView(view, axis + 3, list[0]!, list.length, list.length > 1 ? list[1]! - list[0]! : 1), all);
  const turned = b.arranged(permuteView(picked, [0, 2, 1, ...kernel.map((_, axis) => axis + 3)]));
  return filterAtRunTime(b, reshapeView(turned, [groups * perGroup, channels / groups, ...taps.map((list) => list.length)])!, groups);
}

function lowerPhase(
  b: Lowering,
  target: View,
  source: View,
  weights: Operand,
  bias: View | undefined,
  phase: readonly Phase[],
  given: Given,
  geometry: Geometry,
): void {
  const part = phase.reduce((view, { remainder, count }, axis) => sliceView(view, axis + 2, remainder, count, geometry.strides[axis]!), target);
  const perChannel = bias && reshapeView(bias, [1, bias.dims[0]!, ...phase.map(() => 1)])!;
  if (phase.some(({ taps }) => taps.length === 0)) {
    b.map(part, perChannel ? [perChannel] : [], (s, value) => value ?? s.constant("f32", 0));
    return;
  }
  // A window that starts inside the data is a slice of it; one that starts before it has a pad.
  const shifted = phase.reduce(
    (view, { first }, axis) => (first > 0 ? sliceView(view, axis + 2, first, Math.max(0, view.dims[axis + 2]! - first)) : view),
    source,
  );
  if (sizeOf(shifted.dims) === 0) {
    b.map(part, perChannel ? [perChannel] : [], (s, value) => value ?? s.constant("f32", 0));
    return;
  }
  const padsBegin = phase.map(({ first }) => Math.max(0, -first));
  const padsEnd = phase.map(({ count, taps, dilation }, axis) =>
    Math.max(0, count - 1 + (taps.length - 1) * dilation + 1 - padsBegin[axis]! - shifted.dims[axis + 2]!),
  );
  const taps = phase.map((each) => each.taps);
  const filter = weights.stored
    ? packedFilter(b, phaseWeights(b, weights, taps, given.group), given.group)
    : phaseAtRunTime(b, weights.view, taps, given.group);
  const window = {
    kernel: phase.map(({ taps }) => taps.length),
    strides: phase.map(() => 1),
    dilations: phase.map(({ dilation }) => dilation),
    padsBegin,
    padsEnd,
  };
  const strip = new StripBuilder(part.dims);
  if (perChannel) {
    strip.output(part, strip.op("add", strip.accumulator(), strip.input(perChannel)));
  }
  b.conv(part, shifted, filter, window, given.group, perChannel ? strip.strip() : undefined);
}

export const ConvTranspose = defineOp({
  names: { onnx: ["ConvTranspose", 22] },
  inputs: ["x", "weights", "bias?"],
  attributes: {
    kernel_shape: ints(),
    strides: ints(),
    dilations: ints(),
    pads: ints(),
    output_padding: ints(),
    output_shape: ints(),
    auto_pad: string("NOTSET"),
    group: int(1),
  },
  layout: "channels_last",
  infer: ({ x, weights, bias }, given, { node }) => {
    requireDtype(x.dtype, "float", node);
    if (weights.dtype !== x.dtype || (bias && bias.dtype !== x.dtype)) {
      throw new AclError(100026, `${node} mixes ${x.dtype} and ${weights.dtype}; data, weights and bias need one element type`);
    }
    if (x.dims.length < 3 || x.dims.length > 5 || weights.dims.length !== x.dims.length) {
      throw shapeError(`${node}: data ${formatDims(x.dims)} and weights ${formatDims(weights.dims)} must both have 1 to 3 spatial dims`);
    }
    const [channels, filters] = [x.dims[1]!, weights.dims[0]!];
    if (given.group < 1 || (typeof channels === "number" && (channels !== filters || channels % given.group !== 0))) {
      throw shapeError(`${node}: ${channels} channels in ${given.group} groups do not fit weights ${formatDims(weights.dims)}`);
    }
    const columns = mapDim(
      weights.dims[1]!,
      (m) => m * given.group,
      (m) => `${m}*${given.group}`,
    );
    const { dims } = geometryOf(x.dims.slice(2), weights.dims.slice(2) as number[], given, node);
    return [{ dtype: x.dtype, dims: [x.dims[0]!, columns, ...dims] }];
  },
  reference: ({ x, weights, bias }, given, [out]) => [reference(x, weights, bias, given, out!)],
  lower: (b, { x, weights, bias }, given) => {
    if (x.dtype === "float64") {
      b.unsupported("convolutions of float64 are not supported; cast to float32");
    }
    const geometry = geometryOf(x.dims.slice(2), weights.dims.slice(2), given, b.what);
    const source = b.channelsLast(b.converted(x.view, "float32"));
    const shift = bias && b.converted(bias.view, "float32");
    b.through("float32", channelsLast(x.dims.length), (target) => {
      for (const phase of product(geometry.kernel.map((_, axis) => phasesOf(axis, geometry, target.dims[axis + 2]!)))) {
        lowerPhase(b, target, source, weights, shift, phase, given, geometry);
      }
    });
  },
  tolerance: { relative: 1e-5, absolute: 2e-5, why: "f32 sums over taps and channels against float64" },
  samples: () => [
    sample(
      "2x2 by 2",
      { x: noise([1, 3, 4, 5]), weights: fixed(noise([3, 2, 2, 2], 2)), bias: fixed(noise([2], 3)) },
      { attributes: { strides: [2, 2] } },
    ),
    sample(
      "3x3 by 2, pads",
      { x: noise([1, 3, 4, 5]), weights: fixed(noise([3, 4, 3, 3], 2)) },
      { attributes: { strides: [2, 2], pads: [1, 1, 1, 1], output_padding: [1, 1] } },
    ),
    sample(
      "stride larger than kernel",
      { x: noise([1, 2, 3, 3]), weights: fixed(noise([2, 2, 2, 2], 2)), bias: fixed(noise([2], 3)) },
      { attributes: { strides: [3, 3] } },
    ),
    sample(
      "dilated",
      { x: noise([1, 2, 4, 4]), weights: fixed(noise([2, 3, 3, 3], 2)) },
      { attributes: { dilations: [2, 2], strides: [3, 2], pads: [1, 0, 2, 1] } },
    ),
    sample(
      "dilation divides by stride",
      { x: noise([1, 1, 6]), weights: fixed(noise([1, 2, 3], 2)) },
      { attributes: { dilations: [2], strides: [2] } },
    ),
    sample("groups", { x: noise([1, 4, 3, 5]), weights: fixed(noise([4, 3, 1, 5], 2)) }, { attributes: { group: 2, strides: [1, 2] } }),
    sample("depthwise 1-D", { x: noise([2, 3, 7]), weights: fixed(noise([3, 1, 4], 2)) }, { attributes: { group: 3, strides: [2], pads: [1, 1] } }),
    sample(
      "output shape",
      { x: noise([1, 1, 3, 3]), weights: fixed(noise([1, 2, 3, 3], 2)) },
      { attributes: { strides: [3, 2], output_shape: [10, 8] } },
    ),
    rejects("channels do not fit", { x: ramp([1, 3, 4, 4]), weights: fixed(ramp([2, 2, 3, 3])) }, 100021, /do not fit weights/),
    sample(
      "weights at run time",
      { x: noise([1, 4, 4, 3]), weights: noise([4, 9, 3, 4], 2), bias: noise([18], 3) },
      { attributes: { strides: [2, 3], group: 2, pads: [1, 0, 0, 1] } },
    ),
  ],
});
