/** Quantized arithmetic: strips between 8 bits and floats, products in int32. */
import { AclError } from "../errors/acl-error";
import { formatDims, normalizeAxis, shapeError } from "../graph/dims";
import { DTYPES, type DtypeName, dtypeName } from "../graph/dtype";
import { elements, isFloat, isSigned, roundTo, sizeOf, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { mapTensors, requireDtype } from "./arithmetic";
import { type ConcreteType, defineOp, int, type Tolerance, type Type } from "./define";
import { lowerIntegerProduct, requireZeros, zeroDims } from "./integer-product";
import type { Lowering, Operand } from "./lowering";
import { MatMul, multiply } from "./matmul";
import { fixed, noise, positive, ramp, rejects, sample, scalar, values } from "./sample";
import { reshapeView } from "./views";

const NARROW: ReadonlySet<DtypeName> = new Set(["int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2"]);
const SMALL_FLOATS: ReadonlySet<DtypeName> = new Set(["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"]);
/** A number on the boundary between two steps may round either way. */
const ONE_STEP: Tolerance = { relative: 0, absolute: 0, why: "whole numbers" };

/** Scale and zero point as what broadcasts to x: one number, or one for each position of an axis. Undefined for one for each block of an axis. */
function alongAxis(of: { readonly dims: readonly number[] }, rank: number, axis: number, node: string): number[] | undefined {
  if (of.dims.length > 1) {
    return undefined;
  }
  const dims = new Array<number>(rank).fill(1);
  if (sizeOf(of.dims) !== 1) {
    dims[normalizeAxis(axis, rank, node)] = of.dims[0]!;
  }
  return dims;
}

/** A view that repeats each number of a block along the axis: the axis is split into blocks and what is in them. */
interface Blocks {
  /** Dims of x with the axis split. */
  readonly split: readonly number[];
  /** Dims of the scales with an axis of 1 behind that of the blocks. */
  readonly scales: readonly number[];
}
function blocksOf(x: readonly number[], scale: readonly number[], axis: number, blockSize: number, node: string): Blocks {
  const at = normalizeAxis(axis, x.length, node);
  const size = blockSize || Math.ceil(x[at]! / Math.max(1, scale[at]!));
  const fits = scale.length === x.length && scale.every((dim, i) => dim === (i === at ? Math.ceil(x[at]! / size) : x[i]));
  if (!fits || x[at]! % size !== 0) {
    throw new AclError(100024, `${node}: blocks of ${size} of axis ${at} do not divide ${formatDims(x)} into scales ${formatDims(scale)}`);
  }
  return { split: x.toSpliced(at, 1, x[at]! / size, size), scales: scale.toSpliced(at + 1, 0, 1) };
}

/** x, scale and zero point seen under dims in which the latter two broadcast to x. */
function aligned<T>(
  x: T,
  scale: T,
  zero: T | undefined,
  dimsOf: (of: T) => readonly number[],
  seen: (of: T, dims: readonly number[]) => T,
  axis: number,
  block: number,
  node: string,
) {
  const all = dimsOf(x);
  const along = alongAxis({ dims: dimsOf(scale) }, all.length, axis, node);
  const blocks = along ? undefined : blocksOf(all, dimsOf(scale), axis, block, node);
  const small = along ?? blocks!.scales;
  return {
    x: blocks ? seen(x, blocks.split) : x,
    scale: seen(scale, small),
    zero: zero && seen(zero, sizeOf(dimsOf(zero)) === 1 ? small.map(() => 1) : small),
    dims: blocks?.split ?? all,
  };
}
const asDims = (of: Tensor, dims: readonly number[]): Tensor => ({ ...of, dims });

/** The same for the operands of a lowering. */
function alignedViews(b: Lowering, x: View, scale: Operand, zero: Operand | undefined, { axis, block_size }: Along) {
  const seen = (view: View, dims: readonly number[]): View => reshapeView(view, dims)!;
  return aligned(x, b.arranged(scale.view), zero && b.arranged(zero.view), ({ dims }) => dims, seen, axis, block_size, b.what);
}
interface Along {
  readonly axis: number;
  readonly block_size: number;
}

function checkAxis(x: Type, scale: Type, axis: number, node: string): void {
  if (scale.dims.length === 1 && scale.dims[0] !== 1) {
    const dim = x.dims[normalizeAxis(axis, x.dims.length, node)];
    if (typeof dim === "number" && dim !== scale.dims[0]) {
      throw shapeError(`${node}: ${scale.dims[0]} scales for an axis of ${dim}`);
    }
  }
}

export function halfEven(x: number): number {
  const low = Math.floor(x);
  const rest = x - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
}
export function saturate(dtype: DtypeName, value: number): number {
  if (SMALL_FLOATS.has(dtype)) {
    return roundTo(dtype, value);
  }
  const { bits } = DTYPES[dtype];
  const [low, high] = isSigned(dtype) ? [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] : [0, 2 ** bits - 1];
  return Math.min(high, Math.max(low, value));
}

export const QuantizeLinear = defineOp({
  names: { onnx: ["QuantizeLinear", 25] },
  inputs: ["x", "scale", "zero?"],
  attributes: { axis: int(1), saturate: int(1), block_size: int(0), output_dtype: int(0), precision: int(0) },
  layout: "follow",
  infer: ({ x, scale, zero }, { axis, output_dtype }, { node }) => {
    const dtype = zero?.dtype ?? (output_dtype ? dtypeName(output_dtype) : "uint8");
    if (!dtype || !(NARROW.has(dtype) || SMALL_FLOATS.has(dtype)) || !isFloat(x.dtype)) {
      throw new AclError(100024, `${node}: quantizing ${x.dtype} to ${dtype ?? output_dtype} is not supported; floats to at most 16 bits are`);
    }
    checkAxis(x, scale, axis, node);
    return [{ dtype, dims: x.dims }];
  },
  reference: ({ x, scale, zero }, { axis, block_size }, [out]) => {
    const of = aligned(x, scale, zero, ({ dims }) => dims, asDims, axis, block_size, "QuantizeLinear");
    const steps = (v: number): number => (SMALL_FLOATS.has(out!.dtype) ? v : halfEven(v));
    const real = (v: number, s: number, z = 0): number => saturate(out!.dtype, steps(Math.fround(v / s)) + z);
    return [{ ...mapTensors({ real }, [of.x, of.scale, ...(of.zero ? [of.zero] : [])], { ...out!, dims: of.dims }), dims: out!.dims }];
  },
  lower: (b, { x, scale, zero }, along) => {
    const of = alignedViews(b, b.arranged(x.view), scale, zero, along);
    const small = SMALL_FLOATS.has(b.dtype());
    const target = b.target();
    const known = (operand: Operand | undefined, view: View | undefined) => (operand?.scalar === undefined ? view : operand);
    const zeros = known(zero, of.zero);
    b.map(reshapeView(target, of.dims)!, [of.x, known(scale, of.scale)!, ...(zeros ? [zeros] : [])], (s, v, by, z) => {
      const ratio = scale.scalar === 1 ? s.cast(v!, "f32") : s.op("div", s.cast(v!, "f32"), s.cast(by!, "f32"));
      const steps = small ? ratio : s.op("round", ratio);
      return z === undefined ? steps : s.op("add", steps, s.cast(z, "f32"));
    });
  },
  tolerance: ONE_STEP,
  samples: () => [
    sample("uint8", { x: ramp([3, 7], 5), scale: scalar(2), zero: scalar(128, "uint8") }),
    sample("int8, per channel", {
      x: ramp([2, 3, 5], 4),
      scale: fixed(values("float32", [3], [0.5, 2, 4])),
      zero: fixed(values("int8", [3], [0, -3, 7])),
    }),
    sample("no zero point", { x: ramp([9], 100), scale: positive([], 0.5) }),
    sample("float8", { x: ramp([9], 50), scale: scalar(2), zero: scalar(0, "float8e4m3fn") }),
    sample(
      "uint4, blocks",
      { x: ramp([2, 6], 3), scale: positive([2, 3]), zero: values("uint4", [2, 3], [1, 2, 3, 4, 5, 6]) },
      { attributes: { block_size: 2 } },
    ),
    rejects("scales that do not fit", { x: ramp([2, 3]), scale: positive([2]) }, 100021, /2 scales for an axis of 3/),
  ],
});

export const DequantizeLinear = defineOp({
  names: { onnx: ["DequantizeLinear", 25] },
  inputs: ["x", "scale", "zero?"],
  attributes: { axis: int(1), block_size: int(0), output_dtype: int(0) },
  layout: "follow",
  infer: ({ x, scale }, { axis }, { node }) => {
    if ((!NARROW.has(x.dtype) && !SMALL_FLOATS.has(x.dtype) && x.dtype !== "int32") || !isFloat(scale.dtype)) {
      throw new AclError(100024, `${node}: dequantizing ${x.dtype} is not supported; integers of up to 32 bits and small floats are`);
    }
    checkAxis(x, scale, axis, node);
    return [{ dtype: scale.dtype, dims: x.dims }];
  },
  reference: ({ x, scale, zero }, { axis, block_size }, [out]) => {
    const of = aligned(x, scale, zero, ({ dims }) => dims, asDims, axis, block_size, "DequantizeLinear");
    const real = (v: number, s: number, z = 0): number => (v - z) * s;
    return [{ ...mapTensors({ real }, [of.x, of.scale, ...(of.zero ? [of.zero] : [])], { ...out!, dims: of.dims }), dims: out!.dims }];
  },
  lower: (b, { x, scale, zero }, along) => {
    const of = alignedViews(b, scale.dims.length > 1 ? b.arranged(x.view) : x.view, scale, zero, along);
    const small = SMALL_FLOATS.has(x.dtype);
    const write = (target: View): void =>
      b.map(target, [of.x, of.scale, ...(of.zero ? [of.zero] : [])], (s, v, by, z) => {
        const value = small ? v! : s.cast(v!, "i32");
        const moved = z === undefined ? value : s.op("sub", value, small ? z : s.cast(z, "i32"));
        return s.op("mul", s.cast(moved, "f32"), s.cast(by!, "f32"));
      });
    scale.dims.length > 1 ? b.through(b.dtype(), undefined, (target) => write(reshapeView(target, of.dims)!)) : write(b.target());
  },
  tolerance: { relative: 1e-6, absolute: 0, why: "one rounding" },
  samples: () => [
    sample("uint8", { x: values("uint8", [4], [0, 128, 200, 255]), scale: scalar(0.25), zero: scalar(128, "uint8") }),
    sample(
      "int8, per row",
      { x: values("int8", [2, 2], [-128, 127, 3, -4]), scale: positive([2]), zero: fixed(values("int8", [2], [1, -1])) },
      { attributes: { axis: 0 } },
    ),
    sample(
      "int4, blocks of rows",
      { x: values("int4", [4, 2], [-8, 7, 0, 1, 2, -3, 4, 5]), scale: positive([2, 2]) },
      { attributes: { axis: 0, block_size: 2 } },
    ),
    sample("float8", { x: values("float8e5m2", [3], [1.5, -4, 224]), scale: scalar(0.5) }),
    rejects("scales that do not fit", { x: values("uint8", [2], [1, 2]), scale: positive([3]) }, 100021, /3 scales/, { attributes: { axis: 0 } }),
  ],
});

export const DynamicQuantizeLinear = defineOp({
  names: { onnx: ["DynamicQuantizeLinear", 11] },
  inputs: ["x"],
  outputs: 3,
  infer: ({ x }, _, { node, outputs }) => {
    requireDtype(x.dtype, "float", node);
    return [
      { dtype: "uint8" as const, dims: x.dims },
      { dtype: "float32" as const, dims: [] },
      { dtype: "uint8" as const, dims: [] },
    ].slice(0, outputs);
  },
  reference: ({ x }, _, types) => {
    const data = x.data as Float64Array;
    const low = data.reduce((a, v) => Math.min(a, v), 0);
    const high = data.reduce((a, v) => Math.max(a, v), 0);
    const scale = Math.fround(Math.fround(high - low) / 255);
    const zero = saturate("uint8", halfEven(Math.fround(-low / scale)));
    const y = mapTensors({ real: (v) => saturate("uint8", halfEven(Math.fround(v / scale)) + zero) }, [x], types[0]!);
    const one = (dtype: DtypeName, value: number): Tensor => ({ dtype, dims: [], data: Float64Array.of(value) });
    return [y, one("float32", scale), one("uint8", zero)].slice(0, types.length);
  },
  lower: (b, { x }) => {
    const [low, high] = (["min", "max"] as const).map((fold) => {
      const found = b.temporary("float32", [], undefined, `${b.node.name}.${fold}`);
      b.reduce(
        fold,
        found,
        b.converted(x.view, "float32"),
        x.dims.map((_, axis) => axis),
      );
      return found;
    }) as [View, View];
    const scale = b.has(1) ? b.target(1) : b.temporary("float32", []);
    const zero = b.has(2) ? b.target(2) : b.temporary("uint8", []);
    b.map(scale, [low, high], (s, a, z) => {
      const nothing = s.constant("f32", 0);
      return s.op("div", s.op("sub", s.op("max", z!, nothing), s.op("min", a!, nothing)), s.constant("f32", 255));
    });
    b.map(zero, [low, scale], (s, a, by) => s.op("round", s.op("div", s.op("neg", s.op("min", a!, s.constant("f32", 0))), by!)));
    b.map(b.target(0), [x.view, scale, zero], (s, v, by, z) => s.op("add", s.op("round", s.op("div", v!, by!)), s.cast(z!, "f32")));
  },
  tolerance: { relative: 1e-6, absolute: 0, why: "f32 scale" },
  samples: () => [sample("both signs", { x: ramp([3, 5], 0.5) }, { outputs: 3 }), sample("above zero", { x: positive([7]) }, { outputs: 3 })],
});

function shifted(of: Tensor, zero: Tensor | undefined, rows: boolean): Tensor {
  const out: ConcreteType = { dtype: "int32", dims: of.dims };
  return mapTensors({ real: (v, z = 0) => v! - z }, [of, ...(zero ? [asDims(zero, zeroDims(zero, rows))] : [])], out);
}

const repeated = (count: number, numbers: readonly number[]): number[] => Array.from({ length: count }, (_, i) => numbers[i % numbers.length]!);

export const MatMulInteger = defineOp({
  names: { onnx: ["MatMulInteger", 10] },
  inputs: ["a", "b", "aZero?", "bZero?"],
  infer: ({ a, b, aZero, bZero }, _, context) => {
    if (![a, b].every(({ dtype }) => dtype === "int8" || dtype === "uint8") || a.dims.length < 2 || b.dims.length < 2) {
      throw shapeError(`${context.node}: takes matrices of int8 or uint8, not ${a.dtype}${formatDims(a.dims)} and ${b.dtype}${formatDims(b.dims)}`);
    }
    requireZeros(aZero, a, a.dims.at(-2)!, `${context.node}: the zero point of A`, "row");
    requireZeros(bZero, b, b.dims.at(-1)!, `${context.node}: the zero point of B`, "column");
    return MatMul.infer({ a: { dtype: "int32", dims: a.dims }, b: { dtype: "int32", dims: b.dims } } as never, {}, context);
  },
  reference: ({ a, b, aZero, bZero }, _, [out]) => {
    const product = multiply(shifted(a, aZero, true), shifted(b, bZero, false), "int32");
    const data = elements("int32", product.data.length) as Float64Array;
    data.set(product.data as Float64Array);
    return [{ ...out!, data }];
  },
  lower: (b, { a, b: right, aZero, bZero }) => lowerIntegerProduct(b, a, right, aZero, bZero),
  samples: () => [
    sample("zero points", {
      a: values("uint8", [2, 3], [1, 200, 3, 255, 0, 7]),
      b: values("int8", [3, 2], [1, -2, 3, -4, 127, -128]),
      aZero: scalar(128, "uint8"),
      bZero: scalar(1, "int8"),
    }),
    sample("a row each, batch", {
      a: values("int8", [2, 2, 2], [1, 2, 3, 4, 5, 6, 7, -8]),
      b: values("uint8", [2, 3], [1, 2, 3, 4, 5, 6]),
      aZero: fixed(values("int8", [2], [1, -1])),
    }),
    // Sums beyond 2^24, in several runs of k.
    sample("long rows, weights packed", {
      a: values("uint8", [2, 600], repeated(1200, [255, 254, 253, 3])),
      b: fixed(values("uint8", [600, 3], repeated(1800, [255, 255, 251, 255, 254]))),
    }),
    sample("long rows", {
      a: values("int8", [2, 4000], repeated(8000, [-128, -127, 126, -128])),
      b: values("int8", [4000, 3], repeated(12000, [-128, 127, -128, -1])),
      aZero: scalar(127, "int8"),
      bZero: values("int8", [3], [127, -128, 100]),
    }),
    sample("weights packed, a zero point for each column", {
      a: values("uint8", [3, 5], repeated(15, [0, 255, 7, 100])),
      b: fixed(values("int8", [5, 2], repeated(10, [-128, 127, 3]))),
      aZero: scalar(200, "uint8"),
      bZero: fixed(values("int8", [2], [5, -7])),
    }),
    sample("nothing to sum", { a: values("uint8", [2, 0], []), b: values("uint8", [0, 3], []) }),
    sample("zero points of each row of all matrices, of each column of each", {
      a: values("int8", [2, 2, 3], repeated(12, [-128, 127, 5])),
      b: values("int8", [2, 3, 2], repeated(12, [-128, 127, 1])),
      aZero: values("int8", [2, 1], [3, -4]),
      bZero: values("int8", [2, 1, 2], [1, -2, 127, -128]),
    }),
    rejects("floats", { a: noise([2, 2]), b: noise([2, 2]) }, 100021, /int8 or uint8/),
    ...(
      [
        ["rows", [3], []],
        ["a turned column", [1, 2], []],
        ["matrices", [3, 2, 1], []],
        ["no number", [0], []],
        ["columns", [], [3]],
        ["a turned row", [], [2, 1]],
      ] as const
    ).map(([what, rows, columns]) =>
      rejects(
        `zero points that do not fit: ${what}`,
        {
          a: values("int8", [2, 2, 2], repeated(8, [1, 2])),
          b: values("int8", [2, 2], repeated(4, [3, 4])),
          aZero: values("int8", rows, repeated(sizeOf(rows), [1])),
          bZero: values("int8", columns, repeated(sizeOf(columns), [1])),
        },
        100021,
        /zero point of [AB] has dims/,
      ),
    ),
    rejects(
      "a zero point of another type",
      { a: values("int8", [1, 1], [1]), b: values("int8", [1, 1], [1]), bZero: scalar(1, "uint8") },
      100026,
      /zero point of B of uint8 belongs to int8/,
    ),
  ],
});
