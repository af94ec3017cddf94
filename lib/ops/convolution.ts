/** Conv, 1-D to 3-D: one CONV instruction with a bias (and whatever is fused later) in its epilogue. NHWC in memory. */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import { sizeOf, type Tensor } from "../graph/tensor";
import { isPlain, planarWeights, takesPlanar, takesPlanes, takesWinograd } from "../program/winograd";
import type { Strip, View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, int, ints, string, type Type } from "./define";
import type { Lowering, Operand } from "./lowering";
import { filterAtRunTime, packedFilter, plainFloats, winogradFilter } from "./packing";
import { fixed, noise, ramp, rejects, sample } from "./sample";
import { StripBuilder } from "./strip-builder";
import { broadcastView, channelsLast, isDense, reshapeView } from "./views";
import { eachTap, type WindowAttributes, windowOf } from "./window";

interface ConvAttributes extends WindowAttributes {
  readonly group: number;
}

function check(x: Type, weights: Type, bias: Type | undefined, { group, kernel_shape }: ConvAttributes, node: string): void {
  requireDtype(x.dtype, "float", node);
  if (weights.dtype !== x.dtype || (bias && bias.dtype !== x.dtype)) {
    throw new AclError(100026, `${node} mixes ${x.dtype} and ${weights.dtype}; data, weights and bias need one element type`);
  }
  if (x.dims.length < 3 || x.dims.length > 5 || weights.dims.length !== x.dims.length) {
    throw shapeError(`${node}: data ${formatDims(x.dims)} and weights ${formatDims(weights.dims)} must both have 1 to 3 spatial dims`);
  }
  const [channels, [filters, perGroup]] = [x.dims[1]!, weights.dims as [number, number]];
  if (group < 1 || filters % group !== 0 || (typeof channels === "number" && channels !== perGroup * group)) {
    throw shapeError(`${node}: ${channels} channels in ${group} groups do not fit weights ${formatDims(weights.dims)}`);
  }
  if (kernel_shape && kernel_shape.join() !== weights.dims.slice(2).join()) {
    throw shapeError(`${node}: kernel_shape [${kernel_shape}] differs from weights ${formatDims(weights.dims)}`);
  }
  if (bias && (bias.dims.length !== 1 || bias.dims[0] !== filters)) {
    throw shapeError(`${node}: bias ${formatDims(bias.dims)} must have ${filters} elements`);
  }
}

function reference(x: Tensor, weights: Tensor, bias: Tensor | undefined, attributes: ConvAttributes, out: ConcreteType): Tensor {
  const [batch, channels, ...spatial] = x.dims as [number, number, ...number[]];
  const [filters, perGroup, ...kernel] = weights.dims as [number, number, ...number[]];
  const { window } = windowOf(spatial, kernel, attributes, "Conv");
  const outSpatial = out.dims.slice(2);
  const [inSize, outSize, taps] = [sizeOf(spatial), sizeOf(outSpatial), sizeOf(kernel)];
  const data = new Float64Array(sizeOf(out.dims));
  const source = x.data as Float64Array;
  const filter = weights.data as Float64Array;
  const perFilterGroup = filters / attributes.group;
  eachTap(spatial, outSpatial, window, (output, tap, input) => {
    if (input < 0) {
      return;
    }
    for (let n = 0; n < batch; n++) {
      for (let m = 0; m < filters; m++) {
        const first = Math.floor(m / perFilterGroup) * perGroup;
        let total = 0;
        for (let c = 0; c < perGroup; c++) {
          total += source[(n * channels + first + c) * inSize + input]! * filter[(m * perGroup + c) * taps + tap]!;
        }
        data[(n * filters + m) * outSize + output]! += total;
      }
    }
  });
  if (bias) {
    for (let i = 0; i < data.length; i++) {
      data[i]! += bias.data[Math.floor(i / outSize) % filters] as number;
    }
  }
  return mapTensors({ real: (v) => v }, [{ dtype: "float64", dims: out.dims, data }], out);
}

/** Fewer channels cost more in transforms than they save; more do not leave room for enough tiles at once. */
const WINOGRAD_CHANNELS = 16;
const WINOGRAD_MOST = 800;
/** 4 x 4 tiles of one sample; below, the transformed weights are read for too little. */
const WINOGRAD_TILES = 9;
/** Outputs that a tile has to have on average: at the borders some of its 16 are lost. */
const WINOGRAD_FILL = 8;

/** Whether Winograd's F(4 x 4, 3 x 3) is the faster form of a 3 x 3 convolution of these sizes. */
function paysWinograd(target: View, source: View): boolean {
  const [, outputs, height, width] = target.dims as [number, number, number, number];
  const inputs = source.dims[1]!;
  const tiles = Math.ceil(height / 4) * Math.ceil(width / 4);
  return (
    Math.min(inputs, outputs) >= WINOGRAD_CHANNELS &&
    inputs + outputs <= WINOGRAD_MOST &&
    tiles >= WINOGRAD_TILES &&
    height * width >= tiles * WINOGRAD_FILL
  );
}

/** A 1 x 1 convolution of values that are row-major and stay so: planes [C, pixels] under a product with the weights [M, C]. */
function lowerPlanes(b: Lowering, source: View, weights: View, bias: View | undefined): void {
  const [batch, channels, ...spatial] = source.dims as [number, number, ...number[]];
  const [filters, pixels] = [weights.dims[0]!, sizeOf(spatial)];
  const planes = (view: View, count: number): View => reshapeView(view, [batch, count, pixels])!;
  const target = planes(b.target(), filters);
  const left = broadcastView(reshapeView(weights, [filters, channels])!, [batch, filters, channels]);
  const strip = new StripBuilder(target.dims);
  if (bias) strip.output(target, strip.op("add", strip.accumulator(), strip.input(reshapeView(bias, [1, filters, 1])!)));
  b.matmul(target, left, planes(source, channels), false, bias ? strip.strip() : undefined);
}

/** The sums in `target` and a number per channel. */
function biasStrip(b: Lowering, target: View, bias: Operand): Strip {
  const strip = new StripBuilder(target.dims);
  const perChannel = reshapeView(plainFloats(b, bias), [1, bias.dims[0]!, ...target.dims.slice(2).map(() => 1)])!;
  strip.output(target, strip.op("add", strip.accumulator(), strip.input(perChannel)));
  return strip.strip();
}

function packedWeights(b: Lowering, weights: Operand, group: number, form: "winograd" | "planar" | "direct"): View {
  if (form === "winograd") {
    return winogradFilter(b, weights);
  }
  const dims = form === "planar" ? planarWeights(weights.dims) : weights.dims;
  return weights.stored ? packedFilter(b, weights, group, dims) : filterAtRunTime(b, weights.view, group, dims);
}

export const Conv = defineOp({
  names: { onnx: ["Conv", 22] },
  inputs: ["x", "weights", "bias?"],
  attributes: { kernel_shape: ints(), strides: ints(), dilations: ints(), pads: ints(), auto_pad: string("NOTSET"), group: int(1) },
  layout: "channels_last",
  infer: ({ x, weights, bias }, attributes, { node }) => {
    check(x, weights, bias, attributes, node);
    const { dims } = windowOf(x.dims.slice(2), weights.dims.slice(2) as number[], attributes, node);
    return [{ dtype: x.dtype, dims: [x.dims[0]!, weights.dims[0]!, ...dims] }];
  },
  reference: ({ x, weights, bias }, attributes, [out]) => [reference(x, weights, bias, attributes, out!)],
  lower: (b, { x, weights, bias }, attributes) => {
    if (x.dtype === "float64") {
      b.unsupported("convolutions of float64 are not supported; cast to float32");
    }
    const { window } = windowOf(x.dims.slice(2), weights.dims.slice(2), attributes, b.what);
    const given = b.converted(x.view, "float32");
    const rowMajor = b.node.outputs[0]!.layout === undefined && x.dtype === "float32" && isDense(given);
    const filter = (): View => plainFloats(b, weights);
    if (rowMajor && attributes.group === 1 && isPlain(window, 1)) {
      lowerPlanes(b, given, filter(), bias && plainFloats(b, bias));
      return;
    }
    const winogradOf = (target: View, source: View): boolean =>
      weights.stored !== undefined && !b.program.direct && paysWinograd(target, source) && takesWinograd(target, source, window, attributes.group);
    const target = rowMajor ? b.target() : undefined;
    const slides = target && takesPlanes(target, given, window, attributes.group) && isDense(filter());
    if (target && (slides || winogradOf(target, given))) {
      const form = slides ? "planes" : "winograd";
      const packed = slides ? filter() : winogradFilter(b, weights);
      b.conv(target, given, packed, window, attributes.group, bias && biasStrip(b, target, bias), form);
      return;
    }
    const planar = takesPlanar(given, attributes.group);
    const source = planar ? given : b.channelsLast(given);
    b.through("float32", channelsLast(x.dims.length), (target) => {
      const form = winogradOf(target, source) ? "winograd" : planar ? "planar" : "direct";
      b.conv(target, source, packedWeights(b, weights, attributes.group, form), window, attributes.group, bias && biasStrip(b, target, bias), form);
    });
  },
  tolerance: { relative: 1e-5, absolute: 2e-5, why: "f32 sums over taps and channels against float64" },
  samples: () => [
    sample(
      "3x3 with pads and bias",
      { x: noise([1, 3, 7, 6]), weights: fixed(noise([4, 3, 3, 3], 2)), bias: fixed(noise([4], 3)) },
      { attributes: { pads: [1, 1, 1, 1] } },
    ),
    sample("5x5 same upper", { x: noise([1, 1, 8, 8]), weights: fixed(noise([2, 1, 5, 5], 2)) }, { attributes: { auto_pad: "SAME_UPPER" as never } }),
    sample(
      "stride 2, dilation 2",
      { x: noise([2, 2, 9, 9]), weights: fixed(noise([3, 2, 3, 3], 2)) },
      { attributes: { strides: [2, 2], dilations: [2, 2] } },
    ),
    sample("groups", { x: noise([1, 4, 5, 5]), weights: fixed(noise([6, 2, 3, 3], 2)) }, { attributes: { group: 2 } }),
    sample("depthwise", { x: noise([1, 5, 6, 6]), weights: fixed(noise([5, 1, 3, 3], 2)) }, { attributes: { group: 5, pads: [1, 1, 1, 1] } }),
    sample(
      "depthwise, weights at run time",
      { x: noise([1, 5, 6, 6]), weights: noise([5, 1, 3, 3], 2) },
      { attributes: { group: 5, pads: [1, 1, 1, 1] } },
    ),
    sample(
      "depthwise over planes with bias",
      { x: noise([2, 6, 9, 13]), weights: fixed(noise([6, 1, 3, 3], 2)), bias: fixed(noise([6], 3)) },
      { attributes: { group: 6, pads: [1, 0, 1, 2], strides: [1, 2] } },
    ),
    sample(
      "depthwise, window taller than the image",
      { x: noise([2, 6, 2, 9]), weights: fixed(noise([6, 1, 5, 5], 2)), bias: fixed(noise([6], 3)) },
      { attributes: { group: 6, pads: [2, 2, 2, 2] } },
    ),
    sample(
      "depthwise, rows of windows in the padding",
      { x: noise([1, 5, 3, 6]), weights: fixed(noise([5, 1, 3, 5], 2)) },
      { attributes: { group: 5, pads: [6, 2, 6, 2], strides: [2, 1], dilations: [2, 1] } },
    ),
    sample(
      "depthwise with depth",
      { x: noise([1, 4, 2, 2, 5]), weights: fixed(noise([4, 1, 3, 3, 3], 2)) },
      { attributes: { group: 4, pads: [1, 1, 1, 1, 1, 1] } },
    ),
    sample("1x1 with bias, batch", { x: noise([2, 5, 3, 7]), weights: fixed(noise([70, 5, 1, 1], 2)), bias: fixed(noise([70], 3)) }),
    sample("1x1 with steps", { x: noise([1, 6, 5, 5]), weights: fixed(noise([4, 6, 1, 1], 2)) }, { attributes: { strides: [2, 2] } }),
    sample("1x1", { x: noise([1, 9, 4, 5]), weights: fixed(noise([17, 9, 1, 1], 2)) }),
    sample("1-D", { x: noise([1, 2, 11]), weights: fixed(noise([3, 2, 3], 2)) }),
    sample("3-D", { x: noise([1, 2, 4, 5, 6]), weights: fixed(noise([3, 2, 2, 2, 2], 2)) }, { attributes: { pads: [0, 1, 0, 1, 0, 1] } }),
    sample("many channels", { x: noise([1, 33, 6, 7]), weights: fixed(noise([18, 33, 3, 3], 2)) }, { attributes: { pads: [1, 1, 1, 1] } }),
    rejects("channels do not fit", { x: ramp([1, 3, 4, 4]), weights: fixed(ramp([2, 2, 3, 3])) }, 100021, /3 channels in 1 groups/),
    rejects("kernel larger than an axis without elements", { x: ramp([1, 6, 0]), weights: noise([4, 3, 3]) }, 100021, /does not fit/, {
      attributes: { group: 2 },
    }),
    rejects("kernel larger than data", { x: ramp([1, 1, 2, 2]), weights: fixed(ramp([1, 1, 3, 3])) }, 100021, /does not fit/),
    sample("weights at run time", { x: noise([2, 5, 6, 5]), weights: noise([19, 5, 3, 2], 2), bias: noise([19], 3) }),
    sample("groups, weights at run time", { x: noise([1, 6, 5]), weights: noise([4, 3, 3], 2) }, { attributes: { group: 2 } }),
    sample("depthwise, weights at run time", { x: noise([1, 9, 6, 6]), weights: noise([9, 1, 3, 3], 2) }, { attributes: { group: 9 } }),
  ],
});
