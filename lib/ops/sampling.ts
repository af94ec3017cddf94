/** Pictures read between their pixels: GridSample and RoiAlign. Channels lie innermost, so that a tap's weight serves all of them. */
import { type Dim, formatDims, shapeError } from "../graph/dims";
import { elements, roundTo, rowMajor, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, float, int, string } from "./define";
import type { Lowering, Operand } from "./lowering";
import { noise, ramp, rejects, sample, values } from "./sample";
import { channelsLast, permuteView, reshapeView } from "./views";

const MODES = { nearest: "nearest", linear: "linear", bilinear: "linear", cubic: "cubic", bicubic: "cubic" } as const;
const BORDERS = { zeros: "zeros", border: "edge", reflection: "reflect" } as const;

/** Mirrored into [low, high]. */
function reflect(x: number, low: number, high: number): number {
  const range = high - low;
  if (range <= 0) {
    return low;
  }
  const distance = Math.abs((((x - low) % (2 * range)) + 2 * range) % (2 * range));
  return low + (distance > range ? 2 * range - distance : distance);
}

/** Pixels and weights along one axis for a coordinate of the grid. */
function axisTaps(coordinate: number, size: number, mode: string, border: string, corners: boolean): [index: number, weight: number][] {
  const [low, high] = corners ? [0, size - 1] : [-0.5, size - 0.5];
  let x = corners ? ((coordinate + 1) / 2) * (size - 1) : ((coordinate + 1) * size - 1) / 2;
  const even = (v: number): number => (Math.abs(v % 1) === 0.5 ? 2 * Math.round(v / 2) : Math.round(v));
  x = mode === "nearest" ? even(x) : x;
  if (x < low || x > high) {
    // Taps of a cubic meet the border each for itself; further out they all stand on it.
    const beyond = mode === "cubic" ? 3 : 0;
    x = border === "edge" ? Math.min(size - 1 + beyond, Math.max(-beyond, x)) : border === "reflect" ? reflect(x, low, high) : x;
  }
  const pixel = (i: number): number => {
    if (i >= 0 && i < size) {
      return i;
    }
    return border === "zeros" ? -1 : border === "edge" ? (i < 0 ? 0 : size - 1) : Math.min(size - 1, Math.max(0, Math.trunc(reflect(i, low, high))));
  };
  if (mode === "nearest") {
    return [[pixel(even(x)), 1]];
  }
  const first = Math.floor(x);
  const rest = x - first;
  if (mode === "linear") {
    return [
      [pixel(first), 1 - rest],
      [pixel(first + 1), rest],
    ];
  }
  const cubic = (d: number): number => (d <= 1 ? (1.25 * d - 2.25) * d * d + 1 : -0.75 * (d * d * d - 5 * d * d + 8 * d - 4));
  return [
    [pixel(first - 1), cubic(1 + rest)],
    [pixel(first), cubic(rest)],
    [pixel(first + 1), cubic(1 - rest)],
    [pixel(first + 2), cubic(2 - rest)],
  ];
}

interface GridAttributes {
  readonly mode: string;
  readonly padding_mode: string;
  readonly align_corners: number;
}

function gridReference(x: Tensor, grid: Tensor, { mode, padding_mode, align_corners }: GridAttributes, out: ConcreteType): Tensor {
  const spatial = x.dims.slice(2);
  const [channels, positions] = [x.dims[1]!, sizeOf(out.dims.slice(2))];
  const strides = rowMajor(x.dims);
  const data = elements(out.dtype, sizeOf(out.dims));
  const [how, border] = [MODES[mode as keyof typeof MODES], BORDERS[padding_mode as keyof typeof BORDERS]];
  for (let i = 0; i < x.dims[0]! * positions; i++) {
    // The grid's numbers go from the last axis to the first.
    const taps = spatial.map((size, axis) =>
      axisTaps(Number(grid.data[i * spatial.length + spatial.length - 1 - axis]), size, how, border, align_corners !== 0),
    );
    let places: [offset: number, weight: number][] = [[0, 1]];
    taps.forEach((list, axis) => {
      places = places.flatMap(([offset, weight]) =>
        list.flatMap(([index, part]): [number, number][] => (index < 0 ? [] : [[offset + index * strides[axis + 2]!, weight * part]])),
      );
    });
    const [n, p] = [Math.floor(i / positions), i % positions];
    for (let c = 0; c < channels; c++) {
      const sum = places.reduce((total, [offset, weight]) => total + weight * Number(x.data[n * strides[0]! + c * strides[1]! + offset]), 0);
      data[(n * channels + c) * positions + p] = roundTo(out.dtype, sum) as never;
    }
  }
  return { ...out, data };
}

/** [N, C, spatial...] with channels innermost in memory as [N, D, H, W, C]. */
function volume(b: Lowering, x: View): View {
  const view = b.channelsLast(b.converted(x, "float32"));
  const inner = permuteView(view, [0, ...view.dims.slice(2).map((_, i) => i + 2), 1]);
  const [n, ...rest] = inner.dims;
  const missing = new Array<number>(5 - inner.dims.length).fill(1);
  const strides = [inner.strides[0]!, ...missing.map(() => 0), ...inner.strides.slice(1)];
  return { ...inner, dims: [n!, ...missing, ...rest], strides };
}

export const GridSample = defineOp({
  names: { onnx: ["GridSample", 22] },
  inputs: ["x", "grid"],
  attributes: { mode: string("linear"), padding_mode: string("zeros"), align_corners: int(0) },
  layout: "channels_last",
  infer: ({ x, grid }, { mode, padding_mode }, { node }) => {
    requireDtype(x.dtype, "float", node);
    const axes = x.dims.length - 2;
    if ((axes !== 2 && axes !== 3) || grid.dims.length !== x.dims.length || grid.dims[axes + 1] !== axes || grid.dims[0] !== x.dims[0]) {
      throw shapeError(`${node}: a grid ${formatDims(grid.dims)} does not fit ${formatDims(x.dims)}; pictures and volumes have one`);
    }
    if (!(mode in MODES) || !(padding_mode in BORDERS)) {
      throw shapeError(`${node}: mode "${mode}" or padding_mode "${padding_mode}" does not exist`);
    }
    return [{ dtype: x.dtype, dims: [x.dims[0]!, x.dims[1]!, ...grid.dims.slice(1, -1)] }];
  },
  reference: ({ x, grid }, attributes, [out]) => [gridReference(x, grid, attributes, out!)],
  lower: (b, { x, grid }, { mode, padding_mode, align_corners }) => {
    const source = volume(b, x.view);
    const [n, ...rest] = grid.dims;
    const positions = sizeOf(rest.slice(0, -1));
    const axes = grid.dims[grid.dims.length - 1]!;
    const where = reshapeView(b.arranged(b.converted(grid.view, "float32")), [n!, positions, axes])!;
    b.through("float32", channelsLast(x.dims.length), (target) => {
      const inner = permuteView(target, [0, ...target.dims.slice(2).map((_, i) => i + 2), 1]);
      const flat = reshapeView(inner, [n!, positions, target.dims[1]!])!;
      b.emit(
        {
          op: "grid_sample",
          target: flat,
          source,
          grid: where,
          mode: MODES[mode as keyof typeof MODES],
          border: BORDERS[padding_mode as keyof typeof BORDERS],
          alignCorners: align_corners !== 0,
        },
        sizeOf(target.dims),
      );
    });
  },
  tolerance: { relative: 2e-5, absolute: 2e-5, why: "f32 coordinates and weights" },
  samples: () => [
    ...(["linear", "nearest", "cubic"] as const).flatMap((mode) =>
      (["zeros", "border", "reflection"] as const).map((padding) =>
        sample(
          `${mode}, ${padding}`,
          { x: noise([2, 5, 4, 6]), grid: ramp([2, 3, 4, 2], 0.11) },
          { attributes: { mode: mode as never, padding_mode: padding as never, align_corners: padding === "border" ? 1 : 0 } },
        ),
      ),
    ),
    sample("a volume", { x: noise([1, 3, 3, 4, 5]), grid: noise([1, 2, 2, 3, 3], 2) }),
    sample("float16", { x: ramp([1, 1, 3, 3], 0.5, "float16"), grid: noise([1, 2, 2, 2], 3) }),
    rejects("a grid of other axes", { x: ramp([1, 1, 3, 3]), grid: ramp([1, 2, 2, 3]) }, 100021, /does not fit/),
  ],
});

/** Samples per bin and axis: a tile stays bounded work. */
const MOST_SAMPLES = 64;

interface RoiAttributes {
  readonly coordinate_transformation_mode: string;
  readonly mode: string;
  readonly sampling_ratio: number;
  readonly spatial_scale: number;
}

function roiReference(x: Tensor, rois: Tensor, pictures: Tensor, a: RoiAttributes, out: ConcreteType): Tensor {
  const [, , height, width] = x.dims as [number, number, number, number];
  const [count, channels, high, wide] = out.dims as [number, number, number, number];
  const half = a.coordinate_transformation_mode === "half_pixel" ? 0.5 : 0;
  const data = elements(out.dtype, sizeOf(out.dims));
  const near = (at: number, size: number): [number, number][] => {
    if (at < -1 || at > size) {
      return [];
    }
    const [inside, low] = [Math.max(at, 0), Math.min(size - 1, Math.trunc(Math.max(at, 0)))];
    return low === size - 1
      ? [
          [low, 1],
          [low, 0],
        ]
      : [
          [low, 1 - (inside - low)],
          [low + 1, inside - low],
        ];
  };
  for (let r = 0; r < count; r++) {
    // In float32, since the number of samples is a step of it.
    const { fround } = Math;
    const [x1, y1, x2, y2] = [0, 1, 2, 3].map((i) => fround(fround(Number(rois.data[r * 4 + i]) * fround(a.spatial_scale)) - half)) as number[] as [
      number,
      number,
      number,
      number,
    ];
    const size = (span: number): number => (half ? span : Math.max(span, 1));
    const [binHeight, binWidth] = [fround(fround(size(y2 - y1)) / high), fround(fround(size(x2 - x1)) / wide)];
    const samples = (bin: number, most: number): number => a.sampling_ratio || Math.min(4 * most, Math.max(1, Math.ceil(bin)));
    const [down, across] = [samples(binHeight, height), samples(binWidth, width)];
    for (let bin = 0; bin < high * wide; bin++) {
      const taps: [place: number, weight: number][] = [];
      for (let i = 0; i < down * across; i++) {
        const y = y1 + (Math.floor(bin / wide) + (Math.floor(i / across) + 0.5) / down) * binHeight;
        const column = x1 + ((bin % wide) + ((i % across) + 0.5) / across) * binWidth;
        for (const [row, rowWeight] of near(y, height)) {
          for (const [at, weight] of near(column, width)) {
            taps.push([row * width + at, rowWeight * weight]);
          }
        }
      }
      for (let c = 0; c < channels; c++) {
        const start = (Number(pictures.data[r]) * channels + c) * height * width;
        const weighed = taps.map(([place, weight]) => weight * Number(x.data[start + place]));
        const total = weighed.reduce(
          (sum, value) => (a.mode === "max" ? Math.max(sum, value) : sum + value),
          a.mode === "max" ? Number.NEGATIVE_INFINITY : 0,
        );
        data[(r * channels + c) * high * wide + bin] = roundTo(
          out.dtype,
          taps.length === 0 ? 0 : a.mode === "max" ? total : total / (down * across),
        ) as never;
      }
    }
  }
  return { ...out, data };
}

/** Dense in memory, as the kernel walks it. */
const packed = (b: Lowering, of: Operand, dtype: "float32" | "int64"): View => b.arranged(b.converted(of.view, dtype));

export const RoiAlign = defineOp({
  names: { onnx: ["RoiAlign", 22] },
  inputs: ["x", "rois", "pictures"],
  attributes: {
    coordinate_transformation_mode: string("half_pixel"),
    mode: string("avg"),
    output_height: int(1),
    output_width: int(1),
    sampling_ratio: int(0),
    spatial_scale: float(1),
  },
  // Before opset 16 there were no halves of pixels.
  upgrades: {
    16: (form) => ({ ...form, attributes: new Map([["coordinate_transformation_mode", "output_half_pixel"], ...form.attributes]) }),
  },
  layout: "channels_last",
  infer: ({ x, rois, pictures }, { mode, output_height, output_width, sampling_ratio }, { node }) => {
    requireDtype(x.dtype, "float", node);
    const count: Dim = rois.dims[0] ?? 0;
    if (x.dims.length !== 4 || rois.dims.length !== 2 || rois.dims[1] !== 4 || pictures.dims.length !== 1 || pictures.dims[0] !== count) {
      throw shapeError(`${node}: boxes ${formatDims(rois.dims)} of pictures ${formatDims(pictures.dims)} do not fit ${formatDims(x.dims)}`);
    }
    if (sampling_ratio < 0 || sampling_ratio > MOST_SAMPLES || output_height < 1 || output_width < 1) {
      throw shapeError(`${node}: ${output_height} x ${output_width} bins of ${sampling_ratio} samples; at most ${MOST_SAMPLES} samples make sense`);
    }
    if (mode !== "avg" && mode !== "max") {
      throw shapeError(`${node}: mode "${mode}" is neither avg nor max`);
    }
    return [{ dtype: x.dtype, dims: [count, x.dims[1]!, output_height, output_width] }];
  },
  reference: ({ x, rois, pictures }, attributes, [out]) => [roiReference(x, rois, pictures, attributes, out!)],
  lower: (b, { x, rois, pictures }, { coordinate_transformation_mode, mode, sampling_ratio, spatial_scale }) => {
    const source = volume(b, x.view);
    const [boxes, of] = [packed(b, rois, "float32"), packed(b, pictures, "int64")];
    const offset = coordinate_transformation_mode === "half_pixel" ? 0.5 : 0;
    b.through("float32", channelsLast(4), (target) => {
      const inner = permuteView(target, [0, 2, 3, 1]);
      b.emit(
        {
          op: "roi_align",
          target: inner,
          source,
          rois: boxes,
          pictures: of,
          mode: mode as "avg",
          samples: sampling_ratio,
          scale: spatial_scale,
          offset,
        },
        sizeOf(target.dims),
      );
    });
  },
  tolerance: { relative: 2e-5, absolute: 2e-5, why: "f32 coordinates and weights" },
  samples: () => [
    sample(
      "mean",
      {
        x: noise([2, 5, 9, 8]),
        rois: values("float32", [3, 4], [0, 0, 7, 8, 2.5, 1, 6, 6.5, -3, 4, 20, 9]),
        pictures: values("int64", [3], [0n, 1n, 1n]),
      },
      { attributes: { output_height: 3, output_width: 2, sampling_ratio: 2 } },
    ),
    sample(
      "largest, samples by size, a scale",
      { x: noise([1, 3, 9, 8]), rois: values("float32", [2, 4], [0, 0, 14, 16, 5, 2, 12, 13]), pictures: values("int64", [2], [0n, 0n]) },
      { attributes: { mode: "max", output_height: 2, output_width: 2, spatial_scale: 0.5 } },
    ),
    rejects("no such number of samples", { x: ramp([1, 1, 3, 3]), rois: ramp([1, 4]), pictures: values("int64", [1], [0n]) }, 100021, /-1 samples/, {
      attributes: { sampling_ratio: -1 },
    }),
    rejects("boxes of five numbers", { x: ramp([1, 1, 3, 3]), rois: ramp([1, 5]), pictures: values("int64", [1], [0n]) }, 100021, /do not fit/),
  ],
});
