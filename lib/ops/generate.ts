/** Tensors that are made from sizes: ranges, windows, unit matrices. The sizes must be known when the model is compiled. */
import { AclError } from "../errors/acl-error";
import { formatDims, shapeError } from "../graph/dims";
import { type DtypeName, dtypeName } from "../graph/dtype";
import { elements, isInteger, roundTo, sizeOf, type Tensor } from "../graph/tensor";
import { requireDtype } from "./arithmetic";
import { type AnyOp, type ConcreteType, defineOp, int } from "./define";
import { numbersOf } from "./reshape";
import { ramp, rejects, sample, scalar, values } from "./sample";

export const Range = defineOp({
  names: { onnx: ["Range", 11] },
  inputs: ["start", "limit", "delta"],
  needs: ["start", "limit", "delta"],
  infer: ({ start, limit, delta }, _, { node }) => {
    requireDtype(start.dtype, "number", node);
    const [from, to, step] = [start, limit, delta].map((each) => {
      if (!each.constant) {
        throw new AclError(100024, `${node}: its bounds are computed at run time; shapes must be known when the model is compiled`);
      }
      return each.constant.data[0]!;
    }) as [number, number, number];
    if (Number(step) === 0) {
      throw shapeError(`${node}: a delta of 0 never arrives`);
    }
    return [{ dtype: start.dtype, dims: [Math.max(0, Math.ceil((Number(to) - Number(from)) / Number(step)))] }];
  },
  reference: ({ start, delta }, _, [out]) => {
    const data = elements(out!.dtype, out!.dims[0]!);
    const [from, step] = [start.data[0]!, delta.data[0]!];
    const whole = isInteger(out!.dtype) && typeof from === "bigint";
    for (let i = 0; i < data.length; i++) {
      data[i] = (whole ? from + BigInt(i) * BigInt(step) : Number(from) + i * Number(step)) as never;
    }
    return [{ ...out!, data }];
  },
  lower: (b, inputs, attributes) =>
    b.alias(
      b.computed(
        Range.reference({ start: inputs.start.constant!, limit: inputs.limit.constant!, delta: inputs.delta.constant! } as never, attributes, [
          { dtype: b.dtype(), dims: b.dims() },
        ])[0]!,
      ),
    ),
  samples: () => [
    sample("up", { start: scalar(1, "int64"), limit: scalar(9, "int64"), delta: scalar(3, "int64") }),
    sample("down, floats", { start: scalar(1), limit: scalar(-1), delta: scalar(-0.5) }),
    rejects("no step", { start: scalar(1), limit: scalar(2), delta: scalar(0) }, 100021, /never arrives/),
  ],
});

/** What a size decides alone. */
function filled({ dtype, dims }: ConcreteType, at: (i: number) => number): Tensor {
  const data = elements(dtype, sizeOf(dims));
  for (let i = 0; i < data.length; i++) {
    data[i] = data instanceof Float64Array ? roundTo(dtype, at(i)) : BigInt(at(i));
  }
  return { dtype, dims, data };
}

export const EyeLike = defineOp({
  names: { onnx: ["EyeLike", 22] },
  inputs: ["like"],
  attributes: { dtype: int(), k: int(0) },
  infer: ({ like }, { dtype }, { node }) => {
    if (like.dims.length !== 2) {
      throw shapeError(`${node}: ${formatDims(like.dims)} is no matrix`);
    }
    return [{ dtype: dtype === undefined ? like.dtype : (dtypeName(dtype) ?? like.dtype), dims: like.dims }];
  },
  reference: (_, { k }, [out]) => [filled(out!, (i) => Number((i % out!.dims[1]!) - Math.floor(i / out!.dims[1]!) === k))],
  lower: (b, _, { k }) =>
    b.alias(b.computed(filled({ dtype: b.dtype(), dims: b.dims() }, (i) => Number((i % b.dims()[1]!) - Math.floor(i / b.dims()[1]!) === k)))),
  samples: () => [
    sample("above the diagonal", { like: ramp([3, 5]) }, { attributes: { k: 1 } }),
    sample("another type", { like: ramp([4, 4]) }, { attributes: { dtype: 7, k: -2 } }),
    rejects("no matrix", { like: ramp([3]) }, 100021, /no matrix/),
  ],
});

/** A window of cosines: sum of factor[j] * cos(2 pi j i / N), with signs that alternate. */
function cosines(name: string, factors: readonly number[]): AnyOp {
  return defineOp({
    names: { onnx: [name, 17] },
    inputs: ["size"],
    attributes: { output_datatype: int(1), periodic: int(1) },
    needs: ["size"],
    infer: ({ size }, { output_datatype }, { node }) => {
      const dtype = dtypeName(output_datatype);
      if (!dtype) {
        throw new AclError(100023, `${node}: there is no element type ${output_datatype}`);
      }
      requireDtype(dtype, "number", node);
      return [{ dtype, dims: [numbersOf(size, "size", node)![0]!] }];
    },
    reference: (_, { periodic }, [out]) => {
      const step = (2 * Math.PI) / (out!.dims[0]! - (periodic ? 0 : 1));
      return [filled(out!, (i) => factors.reduce((sum, factor, j) => sum + (j % 2 ? -1 : 1) * factor * Math.cos(j * i * step), 0))];
    },
    expand: (g) => [g.scalar(0)], // its only input is known, so it is folded before
    samples: () => [
      sample("periodic", { size: scalar(10, "int64") }),
      sample("symmetric", { size: scalar(9, "int32") }, { attributes: { periodic: 0, output_datatype: 11 } }),
      rejects("a size computed at run time", { size: values("int64", [], [4]) }, 100024, /computed at run time/),
    ],
  });
}
export const HannWindow = cosines("HannWindow", [0.5, 0.5]);
export const HammingWindow = cosines("HammingWindow", [25 / 46, 21 / 46]);
export const BlackmanWindow = cosines("BlackmanWindow", [0.42, 0.5, 0.08]);

const mel = (hertz: number): number => 2595 * Math.log10(1 + hertz / 700);
const hertz = (value: number): number => 700 * (10 ** (value / 2595) - 1);

export const MelWeightMatrix = defineOp({
  names: { onnx: ["MelWeightMatrix", 17] },
  inputs: ["bins", "length", "rate", "lower", "upper"],
  attributes: { output_datatype: int(1) },
  needs: ["bins", "length", "rate", "lower", "upper"],
  infer: ({ bins, length, rate, lower, upper }, { output_datatype }, { node }) => {
    const dtype: DtypeName = dtypeName(output_datatype) ?? "float32";
    const [count, size] = [numbersOf(bins, "num_mel_bins", node)![0]!, numbersOf(length, "dft_length", node)![0]!];
    for (const [type, name] of [
      [rate, "sample_rate"],
      [lower, "lower_edge_hertz"],
      [upper, "upper_edge_hertz"],
    ] as const) {
      numbersOf(type, name, node);
    }
    return [{ dtype, dims: [Math.floor(size / 2) + 1, count] }];
  },
  reference: ({ bins, length, rate, lower, upper }, _, [out]) => {
    const [count, size, samples, low, high] = [bins, length, rate, lower, upper].map(({ data }) => Number(data[0])) as [
      number,
      number,
      number,
      number,
      number,
    ];
    const step = (mel(high) - mel(low)) / (count + 2);
    // The edges of the triangles, in bins of the transform.
    const edges = Array.from({ length: count + 2 }, (_, i) => Math.floor(((size + 1) * hertz(mel(low) + i * step)) / samples));
    return [
      filled(out!, (i) => {
        const [row, column] = [Math.floor(i / count), i % count];
        const [left, centre, right] = [edges[column]!, edges[column + 1]!, edges[column + 2]!];
        if (left === centre) {
          return Number(row === centre);
        }
        return row >= left && row <= centre ? (row - left) / (centre - left) : row > centre && row < right ? (right - row) / (right - centre) : 0;
      }),
    ];
  },
  expand: (g) => [g.scalar(0)], // all inputs are known, so it is folded before
  samples: () => [
    sample("speech", { bins: scalar(8, "int32"), length: scalar(64, "int32"), rate: scalar(8000, "int32"), lower: scalar(100), upper: scalar(3900) }),
    rejects(
      "a size computed at run time",
      { bins: values("int32", [], [8]), length: scalar(64, "int32"), rate: scalar(8000, "int32"), lower: scalar(0), upper: scalar(9) },
      100024,
      /computed at run time/,
    ),
  ],
});
