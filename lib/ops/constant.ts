/** Constants. */
import { AclError } from "../errors/acl-error";
import { decode, elements, sizeOf, type Stored, type Tensor, tensor } from "../graph/tensor";
import { defineOp, float, floats, int, ints, stored, string } from "./define";
import { numbersOf } from "./reshape";
import { asStored, axesOf, ramp, rejects, sample, values } from "./sample";
import { stripType } from "./strip-builder";

interface ConstantAttributes {
  readonly value: Parameters<typeof decode>[0] | undefined;
  readonly sparse_value: Parameters<typeof decode>[0] | undefined;
  readonly value_float: number | undefined;
  readonly value_floats: readonly number[] | undefined;
  readonly value_int: number | undefined;
  readonly value_ints: readonly number[] | undefined;
}

function constantOf(attributes: ConstantAttributes, node: string): Tensor {
  const { sparse_value, value = sparse_value, value_float, value_floats, value_int, value_ints } = attributes;
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
  throw new AclError(100024, `${node} has none of value, value_float(s), value_int(s), sparse_value; strings are not supported`);
}

export const Constant = defineOp({
  names: { onnx: ["Constant", 25] },
  inputs: [],
  attributes: {
    ...{ value: stored(), sparse_value: stored(), value_string: string() },
    ...{ value_float: float(), value_floats: floats(), value_int: int(), value_ints: ints() },
  },
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

const ZERO: Stored = { dtype: "float32", dims: [1], bytes: new Uint8Array(4) };

export const ConstantOfShape = defineOp({
  names: { onnx: ["ConstantOfShape", 25] },
  inputs: ["shape"],
  attributes: { value: stored() },
  needs: ["shape"],
  repeats: ({ value }) => value ?? ZERO,
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
