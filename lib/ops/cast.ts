/** Changes of element type. The store of a strip converts; only what it does not know stands here. */
import { AclError } from "../errors/acl-error";
import { DTYPES, type DtypeName, dtypeName } from "../graph/dtype";
import { fromSmall, isSmallFloat, toSmall } from "../graph/small-float";
import { decode, elements, encode, isFloat, isInteger, isSigned, roundTo, saturated, type Tensor } from "../graph/tensor";
import type { View } from "../program/types";
import { type ConcreteType, defineOp, int, required, string } from "./define";
import type { Lowering, Operand } from "./lowering";
import { ramp, rejects, sample, values } from "./sample";

const SMALL_INTEGERS: ReadonlySet<DtypeName> = new Set(["int4", "uint4", "int2", "uint2"]);
const isReal = (dtype: DtypeName): boolean => isFloat(dtype) || isSmallFloat(dtype);
const isCastable = (dtype: DtypeName): boolean => isReal(dtype) || isInteger(dtype) || SMALL_INTEGERS.has(dtype) || dtype === "bool";

/** Floats to integers truncate towards zero and saturate, NaN gives 0; integers to narrower integers wrap, and so does whatever becomes 2 or 4 bits. */
function castTo(dtype: DtypeName, value: number | bigint, fromFloat: boolean, saturate: boolean): number | bigint {
  const { bits } = DTYPES[dtype];
  if (dtype === "bool") {
    return Number(Number(value) !== 0);
  }
  if (isSmallFloat(dtype)) {
    return fromSmall(dtype, toSmall(dtype, Number(value), saturate));
  }
  if (isFloat(dtype)) {
    return roundTo(dtype, Number(value));
  }
  let exact: bigint;
  if (fromFloat) {
    const real = Number(value);
    if (bits < 8) {
      return Number(castTo(dtype, castTo("int32", real, true, true), false, true));
    }
    exact = saturated(dtype, real);
  } else {
    exact = isSigned(dtype) ? BigInt.asIntN(bits, BigInt(value)) : BigInt.asUintN(bits, BigInt(value));
  }
  return bits === 64 ? exact : Number(exact);
}

function castTensor(x: Tensor, { dtype, dims }: ConcreteType, saturate: boolean): Tensor {
  const data = elements(dtype, x.data.length);
  for (let i = 0; i < data.length; i++) {
    data[i] = castTo(dtype, x.data[i]!, isReal(x.dtype), saturate);
  }
  return { dtype, dims, data };
}

/** The magnitude from which a float8 rounds past its largest number, and the code that stands there when the cast does not saturate. */
const OVERFLOW: Partial<Record<DtypeName, readonly [above: number, code: number]>> = {
  float8e4m3fn: [464, 0x7f],
  float8e4m3fnuz: [248, 0x80],
  float8e5m2: [61440, 0x7c],
  float8e5m2fnuz: [61440, 0x80],
};

function lowerCast(b: Lowering, x: Operand, saturate: boolean): void {
  const dtype = b.dtype();
  const limit = saturate ? undefined : OVERFLOW[dtype];
  if (x.dtype === dtype) {
    b.alias(x.view);
  } else if (limit === undefined) {
    // The store converts; into less than a byte it would saturate.
    const wraps = DTYPES[dtype].bits < 8 && !isSmallFloat(dtype);
    b.elementwise([x], (s, value) => (wraps ? s.cast(value!, "i32") : value!));
  } else {
    lowerOverflow(b, x.view, limit);
  }
}

/** The store saturates; what would have overflown is then replaced, as bytes. */
function lowerOverflow(b: Lowering, x: View, [above, code]: readonly [above: number, code: number]): void {
  const target = b.target();
  const bytes = { ...target, dtype: "uint8" as const };
  const stored = b.temporary(target.dtype, target.dims, undefined, `${b.node.name}.saturated`);
  b.map(stored, [x], (_, value) => value!);
  b.map(bytes, [{ ...stored, dtype: "uint8" as const }, x], (s, kept, value) => {
    const real = s.cast(value!, "f32");
    // E4M3FN has an even number at its end, so the tie stays; the others step over at the tie.
    const past = s.op(code === 0x7f ? "gt" : "ge", s.op("abs", real), s.constant("f32", above));
    const sign = code === 0x80 ? s.constant("u32", 0) : s.op("bitand", kept!, s.constant("u32", 0x80));
    return s.op("select", past, s.op("bitor", sign, s.constant("u32", code)), kept!);
  });
}

function requireCast(from: DtypeName, to: DtypeName | undefined, code: number, roundMode: string, node: string): DtypeName {
  if (to === undefined || !isCastable(to) || !isCastable(from)) {
    throw new AclError(100024, `${node}: Cast from ${from} to ${to ?? `type ${code}`} is not supported; numbers and bool are`);
  }
  if (to === "float8e8m0" && roundMode !== "up") {
    throw new AclError(100024, `${node}: round_mode "${roundMode}" is not supported; "up" is`);
  }
  return to;
}

const castSamples = (to: (dtype: DtypeName) => { readonly attributes?: { readonly to: number }; readonly like?: DtypeName }) => {
  const cast = (title: string, x: ReturnType<typeof ramp>, dtype: DtypeName, more: Readonly<Record<string, number>> = {}) => {
    const { attributes, like } = to(dtype);
    return sample(title, { x, ...(like ? { like: ramp([1], 1, like) } : {}) }, { attributes: { ...attributes, ...more } });
  };
  const wide = values("float32", [9], [0, 0.3, -1.7, 470, -500, 7e4, -9e4, Number.NaN, Number.POSITIVE_INFINITY]);
  return [
    cast("float32 to int32", values("float32", [6], [1.9, -1.9, 0, 3e9, -3e9, Number.NaN]), "int32"),
    cast("float32 to float16", ramp([9], 0.3), "float16"),
    cast("int64 to float32", values("int64", [3], [16777217n, -5n, 0n]), "float32"),
    cast("float32 to bool", ramp([5]), "bool"),
    cast("float32 to uint8 saturates", values("float32", [4], [-1, 300, 7.9, 255]), "uint8"),
    cast("int64 to int32 wraps", values("int64", [2], [4294967297n, -1n]), "int32"),
    cast("float32 to int64", values("float32", [4], [1e20, -1e20, -2.5, Number.NaN]), "int64"),
    cast("int32 to uint8 wraps", values("int32", [3], [255, 256, -1]), "uint8"),
    cast("int8 to int4 wraps", values("int8", [4], [7, 8, -9, 100]), "int4"),
    cast("float32 to int4 wraps", values("float32", [5], [7.9, 8, -9, 100, Number.NaN]), "int4"),
    cast("float32 to float4e2m1", values("float32", [5], [0.3, 5, -7, 2.5, Number.NaN]), "float4e2m1"),
    cast("int4 to float32", values("int4", [4], [-8, 7, 0, -1]), "float32"),
    ...(["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"] as const).flatMap((dtype) => [
      cast(`float32 to ${dtype}`, wide, dtype),
      cast(`float32 to ${dtype} without saturation`, wide, dtype, { saturate: 0 }),
      cast(`${dtype} to float32`, values(dtype, [4], [0, 0.5, -1.5, 224]), "float32"),
    ]),
  ];
};

export const Cast = defineOp({
  names: { onnx: ["Cast", 25] },
  inputs: ["x"],
  attributes: { to: required(int()), saturate: int(1), round_mode: string("up") },
  upgrades: {
    6: (form) => ({
      ...form,
      // Opset 1 named the type in a string.
      attributes: new Map(
        [...form.attributes].map(([name, value]) => [
          name,
          name === "to" && typeof value === "string" ? BigInt(DTYPES[value.toLowerCase() as DtypeName]?.code ?? 1) : value,
        ]),
      ),
    }),
  },
  layout: "follow",
  infer: ({ x }, { to, round_mode }, { node }) => [{ dtype: requireCast(x.dtype, dtypeName(to), to, round_mode, node), dims: x.dims }],
  reference: ({ x }, { saturate }, [out]) => [castTensor(x, out!, saturate !== 0)],
  lower: (b, { x }, { saturate }) => lowerCast(b, x, saturate !== 0),
  samples: () => [
    ...castSamples((dtype) => ({ attributes: { to: DTYPES[dtype].code } })),
    rejects("to string", { x: ramp([2]) }, 100024, /string/, { attributes: { to: 8 } }),
    rejects("no type", { x: ramp([2]) }, 100023, /"to"/),
  ],
});

export const CastLike = defineOp({
  names: { onnx: ["CastLike", 25] },
  inputs: ["x", "like"],
  attributes: { saturate: int(1), round_mode: string("up") },
  infer: ({ x, like }, { round_mode }, { node }) => [{ dtype: requireCast(x.dtype, like.dtype, 0, round_mode, node), dims: x.dims }],
  reference: ({ x }, { saturate }, [out]) => [castTensor(x, out!, saturate !== 0)],
  lower: (b, { x }, { saturate }) => lowerCast(b, x, saturate !== 0),
  samples: () => castSamples((like) => ({ like })),
});

export const BitCast = defineOp({
  names: { onnx: ["BitCast", 26] },
  inputs: ["x"],
  attributes: { to: required(int()) },
  infer: ({ x }, { to }, { node }) => {
    const dtype = dtypeName(to);
    if (dtype === undefined || dtype === "string" || DTYPES[dtype].bits !== DTYPES[x.dtype].bits) {
      throw new AclError(100026, `${node}: ${x.dtype} and ${dtype ?? `type ${to}`} differ in size; BitCast keeps the bits`);
    }
    return [{ dtype, dims: x.dims }];
  },
  reference: ({ x }, _, [out]) => [decode({ ...out!, bytes: encode(x).bytes })],
  lower: (b, { x }) => b.alias({ ...x.view, dtype: b.dtype() }),
  samples: () => [
    sample("float32 to int32", { x: ramp([5]) }, { attributes: { to: 6 } }),
    sample("int16 to uint16", { x: values("int16", [2], [-1, 5]) }, { attributes: { to: 4 } }),
    rejects("another size", { x: ramp([2]) }, 100026, /differ in size/, { attributes: { to: 7 } }),
  ],
});
