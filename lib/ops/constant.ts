/** Constants, and changes of element type. */
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "../graph/dtype";
import { DTYPES, dtypeName } from "../graph/dtype";
import { decode, elements, isFloat, isInteger, isSigned, roundTo, sizeOf, type Tensor, tensor } from "../graph/tensor";
import { defineOp, float, floats, int, ints, required, stored, string } from "./define";
import { numbersOf } from "./reshape";
import { asStored, axesOf, ramp, rejects, sample, values } from "./sample";
import { stripType } from "./strip-builder";

interface ConstantAttributes {
  readonly value: Parameters<typeof decode>[0] | undefined;
  readonly value_float: number | undefined;
  readonly value_floats: readonly number[] | undefined;
  readonly value_int: number | undefined;
  readonly value_ints: readonly number[] | undefined;
}

function constantOf(attributes: ConstantAttributes, node: string): Tensor {
  const { value, value_float, value_floats, value_int, value_ints } = attributes;
  if (value) {
    return decode(value);
  }
  if (value_float !== undefined) {
    return tensor("float32", [], [value_float]);
  }
  if (value_floats) {
    return tensor("float32", [value_floats.length], value_floats);
  }
  if (value_int !== undefined) {
    return tensor("int64", [], [value_int]);
  }
  if (value_ints) {
    return tensor("int64", [value_ints.length], value_ints);
  }
  throw new AclError(100024, `${node} has none of value, value_float(s), value_int(s); strings and sparse tensors are not supported`);
}

export const Constant = defineOp({
  names: { onnx: ["Constant", 25] },
  inputs: [],
  attributes: { value: stored(), value_float: float(), value_floats: floats(), value_int: int(), value_ints: ints(), value_string: string() },
  infer: (_, attributes, { node }) => {
    const constant = constantOf(attributes, node);
    return [{ dtype: constant.dtype, dims: constant.dims, constant }];
  },
  reference: (_, attributes) => [constantOf(attributes, "Constant")],
  lower: (b, _, attributes) => b.alias(b.computed(constantOf(attributes, b.what))),
  samples: () => [
    sample("tensor", {}, { attributes: { value: asStored(ramp([2, 3])) } }),
    sample("integers", {}, { attributes: { value_ints: [1, -2, 3] } }),
    rejects("nothing", {}, 100024, /has none of value/),
  ],
});

export const ConstantOfShape = defineOp({
  names: { onnx: ["ConstantOfShape", 25] },
  inputs: ["shape"],
  attributes: { value: stored() },
  needs: ["shape"],
  infer: ({ shape }, { value }, { node }) => {
    const dims = numbersOf(shape, "shape", node)!;
    if (dims.some((dim) => dim < 0)) {
      throw new AclError(100021, `${node}: shape [${dims}] has a negative dim`);
    }
    return [{ dtype: value?.dtype ?? "float32", dims }];
  },
  reference: (_, { value }, [out]) => {
    const data = elements(out!.dtype, sizeOf(out!.dims));
    data.fill((value ? decode(value).data[0]! : 0) as never);
    return [{ ...out!, data }];
  },
  lower: (b, _, { value }) => b.map(b.target(), [], (s) => s.constant(stripType(b.dtype()), value ? decode(value).data[0]! : 0)),
  samples: () => [
    sample("zeros", { shape: axesOf(2, 3) }),
    sample("int64", { shape: axesOf(4) }, { attributes: { value: asStored(values("int64", [1], [7n])) } }),
    rejects("negative dim", { shape: axesOf(-2) }, 100021, /negative/),
  ],
});

/** Floats to integers truncate towards zero and saturate, NaN gives 0; integers to narrower integers wrap. */
function castTo(dtype: DtypeName, value: number | bigint, fromFloat: boolean): number | bigint {
  const { bits } = DTYPES[dtype];
  if (dtype === "bool") {
    return Number(Number(value) !== 0);
  }
  if (!isInteger(dtype)) {
    return roundTo(dtype, Number(value));
  }
  const wide = BigInt(bits);
  const low = isSigned(dtype) ? -(1n << (wide - 1n)) : 0n;
  const high = low + (1n << wide) - 1n;
  let exact: bigint;
  if (fromFloat) {
    const real = Number(value);
    exact = Number.isNaN(real) ? 0n : real >= Number(high) ? high : real <= Number(low) ? low : BigInt(Math.trunc(real));
  } else {
    exact = isSigned(dtype) ? BigInt.asIntN(bits, BigInt(value)) : BigInt.asUintN(bits, BigInt(value));
  }
  return bits === 64 ? exact : Number(exact);
}

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
  infer: ({ x }, { to }, { node }) => {
    const dtype = dtypeName(to);
    if (
      dtype === undefined ||
      (!isFloat(dtype) && !isInteger(dtype) && dtype !== "bool") ||
      (!isFloat(x.dtype) && !isInteger(x.dtype) && x.dtype !== "bool")
    ) {
      throw new AclError(100024, `${node}: Cast from ${x.dtype} to ${dtype ?? `type ${to}`} is not supported yet`);
    }
    return [{ dtype, dims: x.dims }];
  },
  reference: ({ x }, _, [out]) => {
    const data = elements(out!.dtype, x.data.length);
    for (let i = 0; i < data.length; i++) {
      data[i] = castTo(out!.dtype, x.data[i]!, isFloat(x.dtype));
    }
    return [{ ...out!, data }];
  },
  lower: (b, { x }) => {
    if (x.dtype === b.dtype()) {
      b.alias(x.view);
      return;
    }
    b.elementwise([x], (_, value) => value); // the store converts
  },
  samples: () => [
    sample("float32 to int32", { x: values("float32", [6], [1.9, -1.9, 0, 3e9, -3e9, Number.NaN]) }, { attributes: { to: 6 } }),
    sample("float32 to float16", { x: ramp([9], 0.3) }, { attributes: { to: 10 } }),
    sample("int64 to float32", { x: values("int64", [3], [16777217n, -5n, 0n]) }, { attributes: { to: 1 } }),
    sample("float32 to bool", { x: ramp([5]) }, { attributes: { to: 9 } }),
    sample("float32 to uint8 saturates", { x: values("float32", [4], [-1, 300, 7.9, 255]) }, { attributes: { to: 2 } }),
    sample("int64 to int32 wraps", { x: values("int64", [2], [4294967297n, -1n]) }, { attributes: { to: 6 } }),
    sample("float32 to int64", { x: values("float32", [4], [1e20, -1e20, -2.5, Number.NaN]) }, { attributes: { to: 7 } }),
    sample("int32 to uint8 wraps", { x: values("int32", [3], [255, 256, -1]) }, { attributes: { to: 2 } }),
    rejects("to string", { x: ramp([2]) }, 100024, /string/, { attributes: { to: 8 } }),
    rejects("no type", { x: ramp([2]) }, 100023, /"to"/),
  ],
});
