/** bind: gives every graph input its concrete dims, and the names in them their numbers. */
import { AclError } from "../errors/acl-error";
import { type Dim, formatDims, isConcrete } from "../graph/dims";
import { DTYPES } from "../graph/dtype";
import type { Value } from "../graph/ir";
import { sizeOf } from "../graph/tensor";
import type { ImportedModel } from "../import/onnx/model";
import type { CompileState } from "./state";
import type { ModelInfo, ValueInfo } from "./types";

/** Metadata as the file declares it: names stay where the model leaves a dim open. */
export function modelInfo(model: ImportedModel): ModelInfo {
  const { name, producer, irVersion, opsets, metadata, graph } = model;
  // Inputs have a type (bindShapes refuses those without); outputs that the file leaves untyped get theirs after inference.
  const info = (value: Value): ValueInfo => ({ name: value.name, dtype: value.dtype ?? "float32", dims: value.dims ?? UNDECLARED });
  return { name, producer, irVersion, opsets, metadata, inputs: graph.inputs.map(info), outputs: graph.outputs.map(info) };
}

const UNDECLARED: readonly Dim[] = [];

/** Declared outputs keep the names of their open dims; the others are what inference found: sizes, or, where an input has open dims, open ones as well. */
export function completeOutputs({ inputs, outputs }: ModelInfo, inferred: readonly Value[]): ValueInfo[] {
  const isOpen = inputs.some(({ dims }) => dims.some((dim) => typeof dim === "string"));
  return outputs.map(({ name, ...declared }, index) => {
    const { dtype = declared.dtype, dims = [] } = inferred[index]!;
    const found = isOpen ? dims.map((_, axis) => `${name}.${axis}`) : dims;
    return { name, dtype, dims: declared.dims === UNDECLARED ? found : declared.dims };
  });
}

/**
 * Without any `shapes`, open dims count as 1: most often they are the batch, and a program for other shapes is compiled when it is asked for.
 * @throws AclError 100017 when a shape is missing, unknown, or does not fit the declared one
 */
export function bindShapes({ graph, options }: CompileState): void {
  const shapes = new Map(Object.entries(options.shapes ?? {}));
  const symbols = new Map<string, { readonly size: number; readonly input: string }>();
  for (const name of shapes.keys()) {
    if (!graph.inputs.some((input) => input.name === name)) {
      throw new AclError(
        100017,
        `shapes: the model has no input "${name}"; its inputs are ${graph.inputs.map((input) => `"${input.name}"`).join(", ")}`,
      );
    }
  }
  for (const input of graph.inputs) {
    const given = shapes.get(input.name);
    if (given) {
      checkGiven(input, given, symbols);
      input.dims = [...given];
    }
  }
  for (const input of graph.inputs) {
    const open = options.shapes === undefined ? 1 : undefined;
    input.dims = input.dims?.map((dim) => (typeof dim === "string" ? (symbols.get(dim)?.size ?? open ?? dim) : dim));
    checkInput(input);
  }
  for (const output of graph.outputs) {
    if (!graph.inputs.includes(output) && !output.constant) {
      delete output.dims; // declared with names; inference says what they are now
    }
  }
}

function checkGiven(input: Value, given: readonly number[], symbols: Map<string, { size: number; input: string }>): void {
  if (given.some((dim) => !Number.isSafeInteger(dim) || dim < 0)) {
    throw new AclError(100017, `shapes: "${input.name}" is given ${formatDims(given)}; dims are whole numbers of zero or more`);
  }
  if (input.dims && input.dims.length !== given.length) {
    throw new AclError(
      100017,
      `shapes: "${input.name}" is given ${formatDims(given)}, the model declares ${input.dims.length} dims ${formatDims(input.dims)}`,
    );
  }
  input.dims?.forEach((dim: Dim, axis) => {
    const size = given[axis]!;
    if (typeof dim === "number") {
      if (dim !== size) {
        throw new AclError(100017, `shapes: "${input.name}" is given ${formatDims(given)}, the model fixes axis ${axis} to ${dim}`);
      }
      return;
    }
    const bound = symbols.get(dim);
    if (bound && bound.size !== size) {
      throw new AclError(100017, `shapes: "${dim}" is ${bound.size} in input "${bound.input}" and ${size} in "${input.name}"; one name is one size`);
    }
    symbols.set(dim, { size, input: input.name });
  });
}

function checkInput(input: Value): void {
  const { dtype, dims } = input;
  if (dtype === undefined || DTYPES[dtype].bytes === 0) {
    throw new AclError(
      100026,
      `input "${input.name}" has ${dtype === undefined ? "no element type" : `element type ${dtype}, which no device holds`}`,
    );
  }
  if (!dims || !isConcrete(dims)) {
    throw new AclError(
      100017,
      `input "${input.name}" has ${dims ? `open dims ${formatDims(dims)}` : "no declared shape"}; pass its dims in \`shapes\``,
    );
  }
  if (sizeOf(dims) * DTYPES[dtype].bytes >= 2 ** 32) {
    throw new AclError(100017, `input "${input.name}" of ${formatDims(dims)} is larger than a device's memory`);
  }
}
