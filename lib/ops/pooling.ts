/** Pools over sliding windows, and over everything. */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import type { DtypeName } from "../graph/dtype";
import type { Value } from "../graph/ir";
import { elements, isFloat, roundTo, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { type AnyOp, type ConcreteType, defineOp, int, ints, required, string, type Type } from "./define";
import type { Expansion } from "./expansion";
import type { Lowering, Operand } from "./lowering";
import { noise, ramp, rejects, sample, values } from "./sample";
import { channelsLast } from "./views";
import { coveringPads, eachTap, type WindowAttributes, windowOf } from "./window";

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

type PlaceAttributes = WindowAttributes & { readonly storage_order: number };

/** What a step along each spatial axis adds to a place: within a plane by rows, or by columns. */
const placeSteps = (spatial: readonly number[], { storage_order }: PlaceAttributes): number[] =>
  storage_order ? rowMajor(spatial.toReversed()).toReversed() : rowMajor(spatial);

/** Where the largest element of each window lies in the whole tensor; of equal ones the first. */
function referencePlaces(x: Tensor, attributes: PlaceAttributes, out: ConcreteType): Tensor {
  const [spatial, outSpatial] = [x.dims.slice(2), out.dims.slice(2)];
  const { window } = windowOf(spatial, attributes.kernel_shape!, attributes, "MaxPool");
  const [inSize, outSize, steps, rows] = [sizeOf(spatial), sizeOf(outSpatial), placeSteps(spatial, attributes), rowMajor(spatial)];
  const best = new Float64Array(sizeOf(out.dims)).fill(Number.NaN);
  const data = elements("int64", best.length);
  eachTap(spatial, outSpatial, window, (output, _, input) => {
    for (let plane = 0; input >= 0 && plane < best.length / outSize; plane++) {
      const [at, value] = [plane * outSize + output, Number(x.data[plane * inSize + input])];
      if (!(value <= best[at]!)) {
        best[at] = value;
        data[at] = BigInt(plane * inSize + rows.reduce((place, row, axis) => place + (Math.floor(input / row) % spatial[axis]!) * steps[axis]!, 0));
      }
    }
  });
  return { ...out, data };
}

/** Taps that the instruction takes. */
const MOST_TAPS = 3072;

/** The largest of a window is the largest of its rows' largest. */
function axisByAxis(g: Expansion, x: Value, attributes: WindowAttributes): Value {
  const spatial = x.dims!.slice(2) as number[];
  const { window, dims } = windowOf(spatial, attributes.kernel_shape!, attributes, g.what);
  const padsEnd = coveringPads(window, spatial, dims);
  return window.kernel.reduce((value, _, axis) => {
    const own = (list: readonly number[], other: number): number[] => list.map((each, i) => (i === axis ? each : other));
    return g.call("MaxPool", [value], {
      ...{ kernel_shape: own(window.kernel, 1), strides: own(window.strides, 1), dilations: own(window.dilations, 1) },
      pads: [...own(window.padsBegin, 0), ...own(padsEnd, 0)],
    });
  }, x);
}

/** Most taps of a window whose places are asked for: each is a comparison of its own. */
const MOST_PLACES = 256;

/** A comparison per tap over the padded data. */
function placesOf(g: Expansion, x: Value, attributes: PlaceAttributes): Value {
  const [batch, channels, ...spatial] = x.dims as [number, number, ...number[]];
  const { window, dims: open } = windowOf(spatial, attributes.kernel_shape!, attributes, g.what);
  const { kernel, strides, dilations, padsBegin } = window;
  const [dims, steps] = [open as number[], placeSteps(spatial, attributes)];
  if (sizeOf(kernel) > MOST_PLACES) {
    throw new AclError(100024, `${g.what}: places of the largest in windows of ${sizeOf(kernel)} taps are not supported; at most ${MOST_PLACES} are`);
  }
  // In 32 bits there is a number below all of 8.
  const wide = isFloat(x.dtype!) || x.dtype === "int64" ? x : g.cast(x, "int32");
  const low =
    wide.dtype === "int32" ? g.scalar(-(2 ** 31), "int32") : g.scalar(isFloat(wide.dtype!) ? Number.NEGATIVE_INFINITY : -(2 ** 53), wide.dtype!);
  const axes = spatial.map((_, axis) => axis + 2);
  const padded = g.call("Pad", [wide, g.list(...padsBegin, ...coveringPads(window, spatial, dims)), low, g.list(...axes)]);
  let best: Value | undefined;
  let tapAt: Value = g.scalar(0, "int64");
  for (let tap = 0; tap < sizeOf(kernel); tap++) {
    const from = rowMajor(kernel).map((row, axis) => (Math.floor(tap / row) % kernel[axis]!) * dilations[axis]!);
    const ends = from.map((start, axis) => start + (dims[axis]! - 1) * strides[axis]! + 1);
    const part = g.call("Slice", [padded, g.list(...from), g.list(...ends), g.list(...axes), g.list(...strides)]);
    const here = g.scalar(
      from.reduce((sum, start, axis) => sum + start * steps[axis]!, 0),
      "int64",
    );
    tapAt = best ? g.call("Where", [g.call("Greater", [part, best]), here, tapAt]) : here;
    best = best ? g.call("Max", [best, part]) : part;
  }
  const plane = sizeOf(spatial);
  const starts = Array.from({ length: sizeOf(dims) }, (_, i) =>
    rowMajor(dims).reduce((sum, row, axis) => sum + ((Math.floor(i / row) % dims[axis]!) * strides[axis]! - padsBegin[axis]!) * steps[axis]!, 0),
  );
  const planes = Array.from({ length: batch * channels }, (_, i) => i * plane);
  const base = g.call("Add", [g.constant("int64", [1, 1, ...dims], starts), g.constant("int64", [batch, channels, ...dims.map(() => 1)], planes)]);
  return g.call("Add", [base, tapAt]);
}

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
  reference: ({ x }, attributes, [out, places]) => [
    referencePool("max", x, attributes, out!),
    ...(places ? [referencePlaces(x, attributes, places)] : []),
  ],
  // Without places it is one instruction, unless the window is too large for one.
  expand: (g, { x }, attributes) => {
    if (!g.has(1)) {
      return sizeOf(attributes.kernel_shape) > MOST_TAPS && attributes.kernel_shape.filter((size) => size > 1).length > 1
        ? [axisByAxis(g, x, attributes)]
        : undefined;
    }
    const { storage_order, ...window } = attributes;
    return [g.has(0) ? g.call("MaxPool", [x], { ...window, auto_pad: window.auto_pad as never }) : undefined, placesOf(g, x, attributes)];
  },
  lower: (b, { x }, attributes) => {
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
    sample(
      "a window that is larger than an instruction's",
      { x: noise([1, 2, 70, 64]) },
      { attributes: { kernel_shape: [60, 52], strides: [3, 5], pads: [2, 1, 0, 3] } },
    ),
    sample(
      "places",
      { x: noise([2, 3, 5, 6]) },
      { attributes: { kernel_shape: [3, 2], strides: [2, 1], pads: [1, 1, 1, 0], dilations: [1, 2] }, outputs: 2 },
    ),
    sample(
      "places by columns, ceil mode, all alike",
      { x: values("uint8", [1, 1, 4, 5], new Array(20).fill(0)) },
      { attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 0, 0], ceil_mode: 1, storage_order: 1 }, outputs: 2 },
    ),
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
