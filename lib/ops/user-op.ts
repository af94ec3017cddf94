/** What stands between the compiler and an operator of the user: whatever its functions throw or answer becomes a typed error that names them. */
import { AclError } from "../errors/acl-error";
import { internal, kindOf } from "../errors/make";
import { DTYPES } from "../graph/dtype";
import { formatDims } from "../graph/dims";
import { type Tensor, sizeOf } from "../graph/tensor";
import type { AnyOp, ConcreteType, Type } from "./define";

const hasDtype = (dtype: unknown): boolean => typeof dtype === "string" && Object.hasOwn(DTYPES, dtype);
const isDim = (dim: unknown): boolean => typeof dim === "string" || (Number.isSafeInteger(dim) && (dim as number) >= 0);

function isType(type: Partial<Type> | null | undefined): boolean {
  return hasDtype(type?.dtype) && Array.isArray(type?.dims) && type.dims.every(isDim);
}

function isTensor(tensor: Partial<Tensor> | null | undefined, { dtype, dims }: ConcreteType): boolean {
  const fits = tensor?.dtype === dtype && Array.isArray(tensor.dims) && formatDims(tensor.dims) === formatDims(dims);
  return fits && tensor.data?.length === sizeOf(dims);
}

/** `op` with its functions guarded. */
export function guarded(op: AnyOp): AnyOp {
  const name = op.names.onnx![0];
  const wrong = (where: string, text: string, cause?: unknown): AclError =>
    internal(`${where} of operator "${name}" (registered with registerOp) ${text}; correct its definition`, cause);
  const attempt = <T>(where: string, call: () => T): T => {
    try {
      return call();
    } catch (error) {
      if (error instanceof AclError) {
        throw error;
      }
      throw wrong(where, `threw: ${error instanceof Error ? error.message : String(error)}`, error);
    }
  };
  const { lower, expand } = op;
  const guards: Partial<AnyOp> = {
    infer(inputs, attributes, context) {
      const types = attempt("infer", () => op.infer(inputs, attributes, context));
      if (!Array.isArray(types) || types.length === 0 || !types.every(isType)) {
        throw wrong("infer", `must give a list of {dtype, dims}, one for each output of ${context.node}, and gave ${kindOf(types)}`);
      }
      return types;
    },
    reference(inputs, attributes, types) {
      const results = attempt("reference", () => op.reference(inputs, attributes, types));
      if (!Array.isArray(results) || !types.every((type, i) => isTensor(results[i], type))) {
        const wanted = types.map(({ dtype, dims }) => `${dtype} ${formatDims(dims)}`).join(", ");
        throw wrong("reference", `must give tensors (${wanted}) as infer said, and gave something else`);
      }
      return results;
    },
    ...(lower && {
      lower(b, inputs, attributes) {
        attempt("lower", () => lower.call(op, b, inputs, attributes));
        const missing = b.node.outputs.find((output) => output !== undefined && !b.program.views.has(output));
        if (missing !== undefined) {
          throw wrong("lower", `left output "${missing.name}" of ${b.what} without a view`);
        }
      },
    }),
    ...(expand && { expand: (g, inputs, attributes) => attempt("expand", () => expand.call(op, g, inputs, attributes)) }),
  };
  // Its other fields stay where they are: samples may be a getter.
  return Object.assign(Object.create(op) as AnyOp, guards);
}
