/** Pools over sliding windows, and over everything. */
import { formatDims, shapeError } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import { elements, isFloat, roundTo, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { type AnyOp, type ConcreteType, defineOp, int, ints, required, string, type Type } from "./define";
import type { Lowering, Operand } from "./lowering";
import { noise, ramp, rejects, sample, values } from "./sample";
import { channelsLast } from "./views";
import { eachTap, type WindowAttributes, windowOf } from "./window";

type PoolKind = "max" | "average" | "average_include_pad";

function inferPool(x: Type, attributes: WindowAttributes, node: string): Type {
  if (x.dims.length < 3 || x.dims.length > 5) {
    throw shapeError(`${node}: data ${formatDims(x.dims)} must have 1 to 3 spatial dims`);
  }
  const { dims } = windowOf(x.dims.slice(2), attributes.kernel_shape!, attributes, node);
  return { dtype: x.dtype, dims: [x.dims[0]!, x.dims[1]!, ...dims] };
}

function referencePool(kind: PoolKind, x: Tensor, attributes: WindowAttributes, out: ConcreteType): Tensor {
  const spatial = x.dims.slice(2);
  const outSpatial = out.dims.slice(2);
  const { window } = windowOf(spatial, attributes.kernel_shape!, attributes, kind);
  const [planes, inSize, outSize] = [x.dims[0]! * x.dims[1]!, sizeOf(spatial), sizeOf(outSpatial)];
  const data = elements(x.dtype, sizeOf(out.dims)) as Float64Array;
  data.fill(kind === "max" ? Number.NEGATIVE_INFINITY : 0);
  const counts = new Float64Array(outSize);
  eachTap(spatial, outSpatial, window, (output, _, input, insidePads) => {
    if (input >= 0 || (kind === "average_include_pad" && insidePads)) {
      counts[output]!++;
    }
    for (let plane = 0; input >= 0 && plane < planes; plane++) {
      const [at, value] = [plane * outSize + output, x.data[plane * inSize + input] as number];
      data[at] = kind === "max" ? (value > data[at]! || Number.isNaN(value) ? value : data[at]!) : data[at]! + value;
    }
  });
  if (kind !== "max") {
    data.forEach((total, i) => (data[i] = total / counts[i % outSize]!));
  }
  data.forEach((value, i) => (data[i] = isFloat(out.dtype) ? roundTo(out.dtype, value) : value));
  return { dtype: out.dtype, dims: out.dims, data };
}

function lowerPool(b: Lowering, kind: PoolKind, x: Operand, attributes: WindowAttributes): void {
  const { window } = windowOf(x.dims.slice(2), attributes.kernel_shape!, attributes, b.what);
  const everything = window.kernel.every((size, i) => size === x.dims[i + 2] && b.dims()[i + 2] === 1 && window.padsBegin[i] === 0);
  if (everything && isFloat(x.dtype) && kind !== "average_include_pad") {
    lowerGlobal(b, kind === "max" ? "max" : "mean", x);
    return;
  }
  // Types that the kernel does not know are exact in float32.
  const type = (kind === "max" ? MAX_TYPES : AVERAGE_TYPES).has(x.dtype) ? x.dtype : "float32";
  const source = b.channelsLast(b.converted(x.view, type));
  b.through(type, channelsLast(x.dims.length), (target) => b.pool(kind, target, source, window));
}

/** One window over everything is a fold. */
function lowerGlobal(b: Lowering, kind: "mean" | "max", x: Operand): void {
  const target = b.target();
  const spatial = x.dims.map((_, axis) => axis).slice(2);
  b.reduce(kind, { ...target, dims: target.dims.slice(0, 2), strides: target.strides.slice(0, 2) }, x.view, spatial);
}

const WINDOW = {
  kernel_shape: required(ints()),
  strides: ints(),
  dilations: ints(),
  pads: ints(),
  auto_pad: string("NOTSET"),
  ceil_mode: int(0),
} as const;
const MAX_TYPES: ReadonlySet<DtypeName> = new Set(["float32", "float64", "int8", "uint8", "int32", "int64"]);
const AVERAGE_TYPES: ReadonlySet<DtypeName> = new Set(["float32", "float64"]);
const POOLABLE: ReadonlySet<DtypeName> = new Set([...MAX_TYPES, "float16", "bfloat16"]);

export const MaxPool = defineOp({
  names: { onnx: ["MaxPool", 22] },
  inputs: ["x"],
  outputs: 2,
  attributes: { ...WINDOW, storage_order: int(0) },
  layout: "channels_last",
  infer: ({ x }, attributes, { outputs }) => {
    const type = inferPool(x, attributes, "MaxPool");
    return [type, ...(outputs > 1 ? [{ dtype: "int64" as const, dims: type.dims }] : [])];
  },
  reference: ({ x }, attributes, [out]) => [referencePool("max", x, attributes, out!)],
  lower: (b, { x }, attributes) => {
    if (b.has(1)) {
      b.unsupported('the output "Indices" is not supported yet');
    }
    if (!POOLABLE.has(x.dtype)) {
      b.unsupported(`MaxPool of ${x.dtype} is not supported; it takes ${[...POOLABLE].join(", ")}`);
    }
    lowerPool(b, "max", x, attributes);
  },
  samples: () => [
    sample("2x2", { x: ramp([1, 3, 6, 6]) }, { attributes: { kernel_shape: [2, 2], strides: [2, 2] } }),
    sample("3x3 with pads", { x: noise([1, 2, 7, 7]) }, { attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] } }),
    sample("ceil mode", { x: noise([1, 1, 6, 6]) }, { attributes: { kernel_shape: [3, 3], strides: [2, 2], ceil_mode: 1 } }),
    sample("dilated 1-D", { x: noise([2, 5, 11]) }, { attributes: { kernel_shape: [3], dilations: [2] } }),
    sample("3-D", { x: noise([1, 2, 4, 4, 4]) }, { attributes: { kernel_shape: [2, 2, 2] } }),
    sample("uint8", { x: values("uint8", [1, 1, 2, 4], [1, 200, 3, 4, 5, 6, 255, 0]) }, { attributes: { kernel_shape: [2, 2], strides: [2, 2] } }),
    rejects("no kernel", { x: ramp([1, 1, 4, 4]) }, 100023, /kernel_shape/),
  ],
});

export const AveragePool = defineOp({
  names: { onnx: ["AveragePool", 22] },
  inputs: ["x"],
  attributes: { ...WINDOW, count_include_pad: int(0) },
  layout: "channels_last",
  infer: ({ x }, attributes, { node }) => {
    requireDtype(x.dtype, "float", node);
    return [inferPool(x, attributes, node)];
  },
  reference: ({ x }, attributes, [out]) => [referencePool(attributes.count_include_pad ? "average_include_pad" : "average", x, attributes, out!)],
  lower: (b, { x }, attributes) => lowerPool(b, attributes.count_include_pad ? "average_include_pad" : "average", x, attributes),
  tolerance: { relative: 1e-6, absolute: 1e-6, why: "f32 sums" },
  samples: () => [
    sample("2x2", { x: ramp([1, 3, 6, 6]) }, { attributes: { kernel_shape: [2, 2], strides: [2, 2] } }),
    sample("one window over everything", { x: noise([2, 3, 5, 4]) }, { attributes: { kernel_shape: [5, 4] } }),
    sample("pads not counted", { x: noise([1, 2, 5, 5]) }, { attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1] } }),
    sample("pads counted", { x: noise([1, 2, 5, 5]) }, { attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1], count_include_pad: 1 } }),
    sample(
      "ceil mode, pads counted",
      { x: noise([1, 1, 6, 6]) },
      { attributes: { kernel_shape: [3, 3], strides: [2, 2], ceil_mode: 1, pads: [1, 1, 1, 1], count_include_pad: 1 } },
    ),
    rejects("integers", { x: values("int32", [1, 1, 2, 2], [1, 2, 3, 4]) }, 100026, /int32/, { attributes: { kernel_shape: [2, 2] } }),
  ],
});

function globalPool(name: string, kind: "mean" | "max"): AnyOp {
  return defineOp({
    names: { onnx: [name, 22] },
    inputs: ["x"],
    infer: ({ x }, _, { node }) => {
      requireDtype(x.dtype, "float", node);
      if (x.dims.length < 3) {
        throw shapeError(`${node}: data ${formatDims(x.dims)} has no spatial dims`);
      }
      return [{ dtype: x.dtype, dims: x.dims.map((dim, axis) => (axis < 2 ? dim : 1)) }];
    },
    reference: ({ x }, _, [out]) => {
      const size = sizeOf(x.dims.slice(2));
      const data = new Float64Array(sizeOf(out!.dims));
      for (let plane = 0; plane < data.length; plane++) {
        const part = (x.data as Float64Array).subarray(plane * size, (plane + 1) * size);
        const folded = kind === "max" ? part.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY) : part.reduce((a, b) => a + b, 0) / size;
        data[plane] = roundTo(out!.dtype, folded);
      }
      return [{ ...out!, data }];
    },
    lower: (b, { x }) => lowerGlobal(b, kind, x),
    tolerance: { relative: 2e-6, absolute: 1e-6, why: "f32 sums" },
    samples: () => [
      sample("2-D", { x: noise([2, 3, 5, 7]) }),
      sample("1-D", { x: noise([1, 4, 9]) }),
      rejects("no spatial dims", { x: ramp([2, 3]) }, 100021, /no spatial dims/),
    ],
  });
}
export const GlobalAveragePool = globalPool("GlobalAveragePool", "mean");
export const GlobalMaxPool = globalPool("GlobalMaxPool", "max");
