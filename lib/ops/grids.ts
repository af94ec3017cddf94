/** Operators that lay data out anew by sizes that are known: grids, windows put back, crops, sequences turned round. */
import { type Dim, formatDims, normalizeAxis, shapeError } from "../graph/dims";
import type { Value } from "../graph/ir";
import { elements, roundTo, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { Window } from "../program/types";
import { requireDtype } from "./arithmetic";
import { defineOp, int, ints, required, string } from "./define";
import { numbersOf } from "./reshape";
import { axesOf, noise, ramp, rejects, sample, values } from "./sample";
import { type WindowAttributes, windowOf } from "./window";

const numbersIn = ({ data }: Tensor): number[] => Array.from(data as ArrayLike<number | bigint>, Number);
const split = (index: number, dims: readonly number[]): number[] => rowMajor(dims).map((stride, axis) => Math.floor(index / stride) % dims[axis]!);

/** Homogeneous coordinates of the points of a grid, x first: [points, axes + 1]. */
function points(size: readonly number[], corners: boolean): number[] {
  const at = (i: number, n: number): number => (corners ? (n > 1 ? -1 + (2 * i) / (n - 1) : 0) : (2 * i + 1) / n - 1);
  return Array.from({ length: sizeOf(size) }, (_, point) => {
    const place = split(point, size).map((i, axis) => at(i, size[axis]!));
    return [...place.reverse(), 1];
  }).flat();
}

export const AffineGrid = defineOp({
  names: { onnx: ["AffineGrid", 20] },
  inputs: ["theta", "size"],
  attributes: { align_corners: int(0) },
  needs: ["size"],
  infer: ({ theta, size }, _, { node }) => {
    requireDtype(theta.dtype, "float", node);
    const [n, , ...spatial] = numbersOf(size, "size", node)!;
    const axes = spatial.length;
    if ((axes !== 2 && axes !== 3) || theta.dims.length !== 3 || theta.dims[1] !== axes || theta.dims[2] !== axes + 1 || theta.dims[0] !== n) {
      throw shapeError(`${node}: theta ${formatDims(theta.dims)} does not fit a grid of [${spatial}] for ${n}`);
    }
    return [{ dtype: theta.dtype, dims: [n!, ...spatial, axes] }];
  },
  reference: ({ theta, size }, { align_corners }, [out]) => {
    const axes = theta.dims[1]!;
    const base = points(numbersIn(size).slice(2), align_corners !== 0);
    const count = base.length / (axes + 1);
    const data = elements(theta.dtype, sizeOf(out!.dims)) as Float64Array;
    for (let i = 0; i < data.length; i++) {
      const [axis, point, n] = [i % axes, Math.floor(i / axes) % count, Math.floor(i / axes / count)];
      let sum = 0;
      for (let k = 0; k <= axes; k++) {
        sum += base[point * (axes + 1) + k]! * (theta.data[(n * axes + axis) * (axes + 1) + k] as number);
      }
      data[i] = roundTo(theta.dtype, sum);
    }
    return [{ ...out!, data }];
  },
  expand: (g, { theta, size }, { align_corners }) => {
    const [n, , ...spatial] = g.numbers(size) as [number, number, ...number[]];
    const axes = spatial.length;
    const base = g.constant(theta.dtype!, [sizeOf(spatial), axes + 1], points(spatial, align_corners !== 0));
    return [g.reshape(g.call("MatMul", [base, g.transpose(theta, [0, 2, 1])]), [n, ...spatial, axes])];
  },
  tolerance: { relative: 1e-6, absolute: 1e-6, why: "f32 sums of a few products" },
  samples: () => [
    sample("plane", { theta: noise([2, 2, 3]), size: axesOf(2, 3, 4, 5) }),
    sample("volume, corners", { theta: noise([1, 3, 4]), size: axesOf(1, 1, 2, 3, 4) }, { attributes: { align_corners: 1 } }),
    rejects("theta of another grid", { theta: noise([1, 2, 3]), size: axesOf(1, 1, 2, 3, 4) }, 100021, /does not fit a grid/),
  ],
});

export const CenterCropPad = defineOp({
  names: { onnx: ["CenterCropPad", 18] },
  inputs: ["x", "shape"],
  attributes: { axes: ints() },
  needs: ["shape"],
  infer: ({ x, shape }, { axes }, { node }) => {
    const sizes = numbersOf(shape, "shape", node)!;
    const at = (axes ?? x.dims.map((_, i) => i)).map((axis) => normalizeAxis(axis, x.dims.length, node));
    if (at.length !== sizes.length || sizes.some((size) => size < 0)) {
      throw shapeError(`${node}: sizes [${sizes}] for axes [${at}]`);
    }
    return [{ dtype: x.dtype, dims: x.dims.map((dim, i) => (at.includes(i) ? sizes[at.indexOf(i)]! : dim)) }];
  },
  reference: ({ x }, _, [out]) => {
    const from = x.dims.map((dim, i) => (out!.dims[i]! > dim ? -Math.floor((out!.dims[i]! - dim) / 2) : Math.floor((dim - out!.dims[i]!) / 2)));
    const strides = rowMajor(x.dims);
    const data = elements(x.dtype, sizeOf(out!.dims));
    for (let i = 0; i < data.length; i++) {
      const place = split(i, out!.dims).map((at, axis) => at + from[axis]!);
      if (place.every((at, axis) => at >= 0 && at < x.dims[axis]!)) {
        data[i] = x.data[place.reduce((sum, at, axis) => sum + at * strides[axis]!, 0)]! as never;
      }
    }
    return [{ ...out!, data }];
  },
  expand: (g, { x, shape }, { axes }) => {
    const sizes = g.numbers(shape)!;
    const rank = x.dims!.length;
    return [
      (axes ?? x.dims!.map((_, i) => i)).reduce((value: Value, given, i) => {
        const [axis, size] = [normalizeAxis(given, rank, g.what), sizes[i]!];
        const dim = value.dims![axis] as number;
        if (size <= dim) {
          const start = Math.floor((dim - size) / 2);
          return size === dim ? value : g.slice(value, axis, start, start + size);
        }
        const before = Math.floor((size - dim) / 2);
        return g.call("Pad", [value, g.list(before, size - dim - before), undefined, g.list(axis)]);
      }, x),
    ];
  },
  samples: () => [
    sample("crop and pad", { x: ramp([5, 4, 3]), shape: axesOf(2, 7, 3) }),
    sample("two axes", { x: ramp([2, 5, 6]), shape: axesOf(8, 3) }, { attributes: { axes: [1, -1] } }),
    rejects("too few sizes", { x: ramp([2, 3]), shape: axesOf(1) }, 100021, /sizes \[1\]/),
  ],
});

export const Col2Im = defineOp({
  names: { onnx: ["Col2Im", 18] },
  inputs: ["x", "image", "block"],
  attributes: { strides: ints(), dilations: ints(), pads: ints() },
  needs: ["image", "block"],
  infer: ({ x, image, block }, lists, { node }) => {
    requireDtype(x.dtype, "float", node);
    const [sizes, kernel] = [numbersOf(image, "image_shape", node)!, numbersOf(block, "block_shape", node)!];
    const channels = Number(x.dims[1]) / sizeOf(kernel);
    if (x.dims.length !== 3 || sizes.length !== kernel.length || !Number.isInteger(channels)) {
      throw shapeError(`${node}: columns ${formatDims(x.dims)} are no blocks [${kernel}] of a picture [${sizes}]`);
    }
    const { dims: counts } = blocksOf(sizes, kernel, lists, node);
    if (x.dims[2] !== sizeOf(counts)) {
      throw shapeError(`${node}: ${x.dims[2]} columns for [${counts}] blocks`);
    }
    return [{ dtype: x.dtype, dims: [x.dims[0]!, channels, ...sizes] }];
  },
  reference: ({ x, image, block }, lists, [out]) => {
    const [sizes, kernel] = [numbersIn(image), numbersIn(block)];
    const { window, dims: counts } = blocksOf(sizes, kernel, lists, "Col2Im");
    const [taps, places, pixels] = [sizeOf(kernel), x.dims[2]!, sizeOf(sizes)];
    const data = elements(x.dtype, sizeOf(out!.dims)) as Float64Array;
    for (let i = 0; i < x.data.length; i++) {
      const [at, tap, channel] = [split(i % places, counts), split(Math.floor(i / places) % taps, kernel), Math.floor(i / places / taps)];
      const place = at.map((p, axis) => p * window.strides[axis]! - window.padsBegin[axis]! + tap[axis]! * window.dilations[axis]!);
      if (place.every((p, axis) => p >= 0 && p < sizes[axis]!)) {
        data[channel * pixels + place.reduce((sum, p, axis) => sum * sizes[axis]! + p, 0)]! += x.data[i] as number;
      }
    }
    return [{ ...out!, data }];
  },
  expand: (g, { x, image, block }, lists) => {
    // A transposed convolution whose filters are single ones: each row of the column goes to its tap.
    const [sizes, kernel] = [g.numbers(image)!, g.numbers(block)!];
    const { window, dims: counts } = blocksOf(sizes, kernel, lists, g.what);
    const { strides, dilations, padsBegin, padsEnd } = window;
    const [n, rows] = x.dims as [number, number];
    const taps = sizeOf(kernel);
    const ones = g.constant(
      "float32",
      [taps, 1, ...kernel],
      Array.from({ length: taps * taps }, (_, i) => Number(i % taps === Math.floor(i / taps))),
    );
    const source = g.reshape(g.cast(x, "float32"), [(n * rows) / taps, taps, ...counts]);
    // What the windows reach, which may be less than the picture.
    const reach = kernel.map((size, axis) => (counts[axis]! - 1) * strides[axis]! + (size - 1) * dilations[axis]! + 1);
    const left = sizes.map((size, axis) => size + padsBegin[axis]! + padsEnd[axis]! - reach[axis]!);
    const whole = g.call("ConvTranspose", [source, ones], {
      strides,
      dilations,
      pads: [...padsBegin, ...padsEnd],
      output_padding: left,
    });
    return [g.cast(g.reshape(whole, [n, rows / taps, ...sizes]), x.dtype!)];
  },
  tolerance: { relative: 1e-6, absolute: 1e-6, why: "f32 sums" },
  samples: () => [
    sample("blocks side by side", { x: noise([2, 8, 4]), image: axesOf(4, 4), block: axesOf(2, 2) }, { attributes: { strides: [2, 2] } }),
    sample("overlaps and pads", { x: noise([1, 9, 20]), image: axesOf(4, 5), block: axesOf(3, 3) }, { attributes: { pads: [1, 1, 1, 1] } }),
    rejects("strides of another rank", { x: noise([1, 9, 20]), image: axesOf(4, 5), block: axesOf(3, 3) }, 100021, /strides \[2\] needs 2/, {
      attributes: { strides: [2] },
    }),
    rejects("too few columns", { x: noise([1, 4, 3]), image: axesOf(4, 4), block: axesOf(2, 2) }, 100021, /3 columns for/),
    rejects("no blocks", { x: noise([1, 5, 4]), image: axesOf(4, 4), block: axesOf(2, 2) }, 100021, /no blocks/),
  ],
});

type Lists = Pick<WindowAttributes, "strides" | "dilations" | "pads">;

/** The blocks of a picture, and how many there are along each axis. @throws AclError if an attribute does not fit */
const blocksOf = (sizes: readonly number[], kernel: readonly number[], lists: Lists, node: string) =>
  windowOf(sizes, kernel, { ...lists, kernel_shape: undefined, auto_pad: "NOTSET" }, node) as { window: Window; dims: number[] };

/** Dims of the picture that MaxPool with these attributes makes `pooled` of. */
function unpooled(pooled: readonly Dim[], kernel: readonly number[], lists: Omit<Lists, "dilations">, node: string): number[] {
  const spatial = pooled.slice(2).map(Number);
  const { window } = windowOf(kernel, kernel, { ...lists, dilations: undefined, kernel_shape: undefined, auto_pad: "NOTSET" }, node);
  const { strides, padsBegin, padsEnd } = window;
  return [
    ...pooled.slice(0, 2).map(Number),
    ...kernel.map((size, axis) => (spatial[axis]! - 1) * strides[axis]! + size - padsBegin[axis]! - padsEnd[axis]!),
  ];
}

export const MaxUnpool = defineOp({
  names: { onnx: ["MaxUnpool", 22] },
  inputs: ["x", "indices", "shape?"],
  attributes: { kernel_shape: required(ints()), strides: ints(), pads: ints() },
  needs: ["shape"],
  infer: ({ x, indices, shape }, { kernel_shape, ...lists }, { node }) => {
    if (x.dims.join() !== indices.dims.join() || x.dims.length !== kernel_shape.length + 2) {
      throw shapeError(`${node}: indices ${formatDims(indices.dims)} do not fit ${formatDims(x.dims)}`);
    }
    const natural = unpooled(x.dims, kernel_shape, lists, node);
    const dims = numbersOf(shape, "output_shape", node) ?? natural;
    if (dims.length !== natural.length || dims.some((dim, axis) => dim < natural[axis]!)) {
      throw shapeError(`${node}: output_shape [${dims}] is smaller than the picture [${natural}] that was pooled`);
    }
    return [{ dtype: x.dtype, dims }];
  },
  reference: ({ x, indices }, { kernel_shape, ...lists }, [out]) => {
    // Positions count in the picture that the kernel alone would give.
    const natural = unpooled(x.dims, kernel_shape, lists, "MaxUnpool");
    const strided = rowMajor(out!.dims);
    const data = elements(x.dtype, sizeOf(out!.dims));
    for (let i = 0; i < x.data.length; i++) {
      data[split(Number(indices.data[i]), natural).reduce((sum, at, axis) => sum + at * strided[axis]!, 0)] = x.data[i]! as never;
    }
    return [{ ...out!, data }];
  },
  expand: (g, { x, indices, shape }, { kernel_shape, ...lists }) => {
    const natural = unpooled(x.dims!, kernel_shape, lists, g.what);
    const wanted = g.numbers(shape) ?? natural;
    const count = sizeOf(x.dims as number[]);
    const zeros = g.call("Expand", [g.scalar(0, x.dtype!), g.list(sizeOf(natural))]);
    const placed = g.call("ScatterElements", [zeros, g.reshape(indices, [count]), g.reshape(x, [count])], { axis: 0 });
    const rest = wanted.map((dim, axis) => dim - natural[axis]!);
    const picture = g.reshape(placed, natural);
    return [rest.every((dim) => dim === 0) ? picture : g.call("Pad", [picture, g.list(...rest.map(() => 0), ...rest)])];
  },
  samples: () => [
    sample(
      "two by two",
      { x: ramp([1, 1, 2, 2]), indices: values("int64", [1, 1, 2, 2], [5, 7, 13, 15]) },
      { attributes: { kernel_shape: [2, 2], strides: [2, 2] } },
    ),
    sample(
      "into a larger picture",
      { x: ramp([1, 1, 2, 2]), indices: values("int64", [1, 1, 2, 2], [5, 7, 13, 15]), shape: axesOf(1, 1, 5, 5) },
      { attributes: { kernel_shape: [2, 2], strides: [2, 2] } },
    ),
    rejects(
      "a picture that is too small",
      { x: ramp([1, 1, 2, 2]), indices: values("int64", [1, 1, 2, 2], [0, 1, 2, 3]), shape: axesOf(1, 1, 3, 4) },
      100021,
      /smaller than the picture/,
      { attributes: { kernel_shape: [2, 2], strides: [2, 2] } },
    ),
    rejects("indices of other dims", { x: ramp([1, 1, 2, 2]), indices: values("int64", [1, 1, 1, 1], [0]) }, 100021, /do not fit/, {
      attributes: { kernel_shape: [2, 2] },
    }),
  ],
});

export const ReverseSequence = defineOp({
  names: { onnx: ["ReverseSequence", 10] },
  inputs: ["x", "lengths"],
  attributes: { batch_axis: int(1), time_axis: int(0) },
  infer: ({ x, lengths }, { batch_axis, time_axis }, { node }) => {
    if (batch_axis + time_axis !== 1 || batch_axis * time_axis !== 0 || x.dims.length < 2 || lengths.dims.join() !== `${x.dims[batch_axis]}`) {
      throw shapeError(`${node}: ${formatDims(lengths.dims)} lengths for ${formatDims(x.dims)}; axes 0 and 1 are time and batch, in either order`);
    }
    return [{ dtype: x.dtype, dims: x.dims }];
  },
  reference: ({ x, lengths }, { batch_axis, time_axis }, [out]) => {
    const strides = rowMajor(x.dims);
    const data = elements(x.dtype, x.data.length);
    for (let i = 0; i < data.length; i++) {
      const at = split(i, x.dims);
      const length = Number(lengths.data[at[batch_axis]!]);
      const time = at[time_axis]! < length ? length - 1 - at[time_axis]! : at[time_axis]!;
      data[i] = x.data[at.with(time_axis, time).reduce((sum, p, axis) => sum + p * strides[axis]!, 0)]! as never;
    }
    return [{ ...out!, data }];
  },
  expand: (g, { x, lengths }, { batch_axis }) => {
    const dims = x.dims as number[];
    const first = batch_axis === 0 ? x : g.transpose(x, [1, 0, ...dims.slice(2).map((_, i) => i + 2)]);
    const [batch, time] = first.dims as [number, number];
    const steps = g.constant(
      "int64",
      [1, time],
      Array.from({ length: time }, (_, i) => i),
    );
    const count = g.cast(g.reshape(lengths, [batch, 1]), "int64");
    const turned = g.call("Sub", [g.call("Sub", [count, g.scalar(1, "int64")]), steps]);
    const places = g.call("Where", [g.call("Less", [steps, count]), turned, steps]);
    const found = g.call("GatherND", [first, g.call("Unsqueeze", [places, g.list(-1)])], { batch_dims: 1 });
    return [batch_axis === 0 ? found : g.transpose(found, [1, 0, ...dims.slice(2).map((_, i) => i + 2)])];
  },
  samples: () => [
    sample("time first", { x: ramp([4, 3, 2]), lengths: values("int64", [3], [4, 2, 1]) }),
    sample("batch first", { x: ramp([2, 5]), lengths: values("int64", [2], [3, 5]) }, { attributes: { batch_axis: 0, time_axis: 1 } }),
    rejects("lengths for another batch", { x: ramp([4, 3]), lengths: values("int64", [2], [1, 2]) }, 100021, /lengths for/),
  ],
});

export const TensorScatter = defineOp({
  names: { onnx: ["TensorScatter", 24] },
  inputs: ["past", "update", "starts?"],
  attributes: { axis: int(-2), mode: string("linear") },
  infer: ({ past, update }, { axis, mode }, { node }) => {
    const at = normalizeAxis(axis, past.dims.length, node);
    const fits = update.dims.length === past.dims.length && update.dims.every((dim, i) => i === at || dim === past.dims[i]);
    if (
      at === 0 ||
      !fits ||
      Number(update.dims[at]) > Number(past.dims[at]) ||
      past.dtype !== update.dtype ||
      (mode !== "linear" && mode !== "circular")
    ) {
      throw shapeError(`${node}: an update ${formatDims(update.dims)} does not fit ${formatDims(past.dims)} along axis ${at}, mode "${mode}"`);
    }
    return [{ dtype: past.dtype, dims: past.dims }];
  },
  reference: ({ past, update, starts }, { axis, mode }, [out]) => {
    const at = normalizeAxis(axis, past.dims.length, "TensorScatter");
    const strides = rowMajor(past.dims);
    const data = elements(past.dtype, past.data.length);
    data.set(past.data as never);
    for (let i = 0; i < update.data.length; i++) {
      const place = split(i, update.dims);
      const moved = place[at]! + Number(starts?.data[place[0]!] ?? 0);
      data[place.with(at, mode === "circular" ? moved % past.dims[at]! : moved).reduce((sum, p, k) => sum + p * strides[k]!, 0)] = update.data[
        i
      ]! as never;
    }
    return [{ ...out!, data }];
  },
  expand: (g, { past, update, starts }, { axis, mode }) => {
    const dims = update.dims as number[];
    const at = normalizeAxis(axis, dims.length, g.what);
    const along = (size: number, where: number): number[] => dims.map((_, i) => (i === where ? size : 1));
    const steps = g.constant(
      "int64",
      along(dims[at]!, at),
      Array.from({ length: dims[at]! }, (_, i) => i),
    );
    const moved = starts ? g.call("Add", [steps, g.reshape(g.cast(starts, "int64"), along(dims[0]!, 0))]) : steps;
    const places = mode === "circular" ? g.call("Mod", [moved, g.scalar(past.dims![at] as number, "int64")]) : moved;
    return [g.call("ScatterElements", [past, g.call("Expand", [places, g.list(...dims)]), update], { axis: at })];
  },
  samples: () => [
    sample("a place for each batch", { past: ramp([2, 1, 4, 3]), update: ramp([2, 1, 2, 3], 5), starts: values("int64", [2], [2, 0]) }),
    sample(
      "round the end",
      { past: ramp([1, 4, 2]), update: ramp([1, 3, 2], 5), starts: values("int64", [1], [2]) },
      { attributes: { mode: "circular" as never } },
    ),
    rejects("an update that is too long", { past: ramp([1, 2, 2]), update: ramp([1, 3, 2]) }, 100021, /does not fit/),
  ],
});
