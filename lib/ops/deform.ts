/** DeformConv: a convolution whose taps each lie beside their place in the window. Pictures sampled between pixels, then one product. */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { roundTo, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, int, ints } from "./define";
import type { Expansion } from "./expansion";
import { fixed, noise, positive, ramp, rejects, sample } from "./sample";
import { type WindowAttributes, windowOf } from "./window";

interface Given extends Omit<WindowAttributes, "auto_pad"> {
  readonly group: number;
  readonly offset_group: number;
}
const windowFor = (x: readonly number[], w: readonly number[], given: Given, node: string) =>
  windowOf(x.slice(2), w.slice(2), { ...given, auto_pad: "NOTSET" }, node);

/** Where tap `tap` of output `place` stands before it is moved: [down, across]. */
function tapPosition(given: ReturnType<typeof windowFor>, tap: number, place: number): [number, number] {
  const { kernel, strides, dilations, padsBegin } = given.window;
  const [across, width] = [given.dims[1] as number, kernel[1]!];
  const at = [Math.floor(place / across), place % across];
  const k = [Math.floor(tap / width), tap % width];
  return [0, 1].map((axis) => at[axis]! * strides[axis]! - padsBegin[axis]! + k[axis]! * dilations[axis]!) as [number, number];
}

/** A plane between its pixels; what lies outside is 0. */
function bilinear(plane: (row: number, column: number) => number, down: number, across: number): number {
  const [row, column] = [Math.floor(down), Math.floor(across)];
  const [b, r] = [down - row, across - column];
  return (
    (1 - b) * ((1 - r) * plane(row, column) + r * plane(row, column + 1)) + b * ((1 - r) * plane(row + 1, column) + r * plane(row + 1, column + 1))
  );
}

function reference(
  x: Tensor,
  w: Tensor,
  offset: Tensor,
  bias: Tensor | undefined,
  mask: Tensor | undefined,
  given: Given,
  out: ConcreteType,
): Tensor {
  const [, channels, height, width] = x.dims as [number, number, number, number];
  const [filters, perGroup] = w.dims as [number, number];
  const window = windowFor(x.dims, w.dims, given, "DeformConv");
  const [taps, places] = [sizeOf(w.dims.slice(2)), sizeOf(out.dims.slice(2))];
  const data = new Float64Array(sizeOf(out.dims));
  for (let i = 0; i < data.length; i++) {
    const [n, m, p] = [Math.floor(i / (filters * places)), Math.floor(i / places) % filters, i % places];
    let sum = bias ? Number(bias.data[m]) : 0;
    for (let c = 0; c < perGroup; c++) {
      const channel = Math.floor((m * given.group) / filters) * perGroup + c;
      const own = n * given.offset_group + Math.floor((channel * given.offset_group) / channels);
      const plane = (row: number, column: number): number =>
        row < 0 || row >= height || column < 0 || column >= width ? 0 : Number(x.data[((n * channels + channel) * height + row) * width + column]);
      for (let tap = 0; tap < taps; tap++) {
        const [down, across] = tapPosition(window, tap, p);
        const moved = [0, 1].map((axis) => Number(offset.data[((own * taps + tap) * 2 + axis) * places + p])) as [number, number];
        const weight = Number(w.data[(m * perGroup + c) * taps + tap]) * (mask ? Number(mask.data[(own * taps + tap) * places + p]) : 1);
        sum += weight * bilinear(plane, down + moved[0], across + moved[1]);
      }
    }
    data[i] = roundTo(out.dtype, sum);
  }
  return { ...out, data };
}

/** Samples of all taps: [N, C, taps, places]. */
function sampled(g: Expansion, x: Value, offset: Value, mask: Value | undefined, given: Given, window: ReturnType<typeof windowFor>): Value {
  const [batch, channels, height, width] = x.dims as [number, number, number, number];
  const [taps, places] = [sizeOf(window.window.kernel), sizeOf(window.dims as number[])];
  const groups = given.offset_group;
  const starts = Array.from({ length: taps * places }, (_, i) => tapPosition(window, Math.floor(i / places), i % places));
  // Sides of a power of two (zeros are what lies outside anyway): then coordinates go there and back without rounding.
  const [high, wide] = [height, width].map((size) => 2 ** Math.ceil(Math.log2(Math.max(1, size)))) as [number, number];
  const along = (axis: 0 | 1, size: number): Value => {
    const fixedAt = g.constant(
      "float32",
      [1, 1, taps, places],
      starts.map((start) => start[axis]),
    );
    const moves = g.reshape(g.slice(g.reshape(offset, [batch, groups, taps, 2, places]), 3, axis, axis + 1), [batch, groups, taps, places]);
    // As GridSample counts: -1 and 1 are the outer edges of the outer pixels.
    const doubled = g.call("Add", [g.call("Mul", [g.call("Add", [g.cast(moves, "float32"), fixedAt]), g.scalar(2)]), g.scalar(1)]);
    return g.call("Sub", [g.call("Div", [doubled, g.scalar(size)]), g.scalar(1)]);
  };
  const coordinates = [along(1, wide), along(0, high)].map((each) => g.reshape(each, [batch * groups, taps, places, 1]));
  const grid = g.call("Concat", coordinates, { axis: 3 });
  const single = g.cast(x, "float32");
  const grown = high + wide > height + width ? g.call("Pad", [single, g.list(0, 0, high - height, wide - width), undefined, g.list(2, 3)]) : single;
  const pictures = g.reshape(grown, [batch * groups, channels / groups, high, wide]);
  const found = g.call("GridSample", [pictures, grid], { align_corners: 0, mode: "linear", padding_mode: "zeros" });
  const weighed = mask ? g.call("Mul", [found, g.reshape(g.cast(mask, "float32"), [batch * groups, 1, taps, places])]) : found;
  return g.reshape(weighed, [batch, channels, taps, places]);
}

export const DeformConv = defineOp({
  names: { onnx: ["DeformConv", 22] },
  inputs: ["x", "w", "offset", "bias?", "mask?"],
  attributes: { kernel_shape: ints(), strides: ints(), dilations: ints(), pads: ints(), group: int(1), offset_group: int(1) },
  infer: ({ x, w, offset }, given, { node }) => {
    requireDtype(x.dtype, "float", node);
    const [filters, perGroup] = w.dims as number[];
    if (x.dims.length !== 4 || w.dims.length !== 4) {
      throw new AclError(100024, `${node}: data ${formatDims(x.dims)} and weights ${formatDims(w.dims)}: pictures (two spatial dims) are supported`);
    }
    const channels = x.dims[1];
    if (
      (typeof channels === "number" && (channels !== perGroup! * given.group || channels % given.offset_group !== 0)) ||
      filters! % given.group !== 0
    ) {
      throw shapeError(
        `${node}: ${channels} channels in ${given.group} groups (${given.offset_group} of offsets) do not fit weights ${formatDims(w.dims)}`,
      );
    }
    const { dims } = windowOf(x.dims.slice(2), w.dims.slice(2) as number[], { ...given, auto_pad: "NOTSET" }, node);
    const moves = 2 * given.offset_group * sizeOf(w.dims.slice(2) as number[]);
    if (
      offset.dims.length !== 4 ||
      offset.dims[1] !== moves ||
      offset.dims.slice(2).some((dim, axis) => typeof dim === "number" && dim !== dims[axis])
    ) {
      throw shapeError(`${node}: offsets ${formatDims(offset.dims)} must be ${formatDims([x.dims[0]!, moves, ...dims])}`);
    }
    return [{ dtype: x.dtype, dims: [x.dims[0]!, filters!, ...dims] }];
  },
  reference: ({ x, w, offset, bias, mask }, given, [out]) => [reference(x, w, offset, bias, mask, given, out!)],
  expand: (g, { x, w, offset, bias, mask }, given) => {
    const [filters, perGroup] = w.dims as [number, number];
    const window = windowFor(x.dims as number[], w.dims as number[], given, g.what);
    const [taps, places] = [sizeOf(window.window.kernel), sizeOf(window.dims as number[])];
    const [batch, { group }] = [x.dims![0] as number, given];
    const columns = g.reshape(sampled(g, x, offset, mask, given, window), [batch, group, perGroup * taps, places]);
    const rows = g.reshape(g.cast(w, "float32"), [1, group, filters / group, perGroup * taps]);
    const product = g.reshape(g.call("MatMul", [rows, columns]), [batch, filters, ...(window.dims as number[])]);
    const sum = bias ? g.call("Add", [product, g.reshape(g.cast(bias, "float32"), [1, filters, 1, 1])]) : product;
    return [g.cast(sum, x.dtype!)];
  },
  tolerance: { relative: 2e-5, absolute: 1e-4, why: "f32 coordinates, weights and sums" },
  samples: () => [
    sample(
      "pads, a mask, a bias",
      {
        ...{ x: noise([2, 3, 5, 6]), w: fixed(noise([4, 3, 3, 2], 2)), offset: ramp([2, 12, 5, 7], 0.013) },
        ...{ bias: fixed(noise([4], 3)), mask: positive([2, 6, 5, 7], 0.02) },
      },
      { attributes: { pads: [1, 1, 1, 1] } },
    ),
    sample(
      "groups, strides, dilations",
      { x: noise([1, 4, 7, 7]), w: noise([6, 2, 2, 2], 2), offset: noise([1, 16, 3, 3], 4) },
      { attributes: { group: 2, offset_group: 2, strides: [2, 2], dilations: [2, 2] } },
    ),
    rejects(
      "offsets that do not fit",
      { x: noise([1, 1, 4, 4]), w: noise([1, 1, 2, 2]), offset: noise([1, 4, 3, 3]) },
      100021,
      /must be \[1,8,3,3\]/,
    ),
  ],
});
