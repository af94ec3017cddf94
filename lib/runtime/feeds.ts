/** Feeds and outputs that the fast checks have not accepted: which shapes they ask for, or what is wrong with them. */
import type { ModelInfo, ValueInfo } from "../compile/types";
import { AclError } from "../errors/acl-error";
import { kindOf, nearestName } from "../errors/make";
import { isObject } from "./internals";
import { arrayNameOf, arrayOf, countOf, isDetached, lanesOf, Tensor, type TensorData } from "./tensor";
import type { Feeds, Results, Shapes } from "./types";
import { sameDims, type Variant } from "./variant";

function mismatch(model: string, text: string): AclError {
  return new AclError(100017, `run of ${model}: ${text}`);
}

const written = (value: ValueInfo): string => `${value.dtype}[${value.dims.join(", ")}]`;

/** The model's input called `name`. */
function inputNamed(info: ModelInfo, name: string, model: string): ValueInfo {
  const input = info.inputs.find((value) => value.name === name);
  if (input === undefined) {
    const names = info.inputs.map((value) => value.name);
    throw mismatch(
      model,
      `"${name}" is no input; did you mean "${nearestName(name, names)}"? Inputs: ${info.inputs.map((value) => `${value.name} ${written(value)}`).join(", ")}`,
    );
  }
  return input;
}

/** Checks dims against the model's; `symbols` collects what its open dims stand for. */
export function bindDims(input: ValueInfo, dims: readonly number[], symbols: Map<string, number>, model: string): void {
  if (dims.length !== input.dims.length) {
    throw mismatch(model, `input "${input.name}" has rank ${input.dims.length} (${written(input)}) and is fed [${dims.join(", ")}]`);
  }
  for (const [axis, dim] of input.dims.entries()) {
    const fed = dims[axis]!;
    const wanted = typeof dim === "number" ? dim : (symbols.get(dim) ?? fed);
    if (fed !== wanted) {
      throw mismatch(
        model,
        `axis ${axis} of input "${input.name}" (${written(input)}) must be ${wanted} and is ${fed}${typeof dim === "string" ? `: "${dim}" is ${wanted} before it` : ""}`,
      );
    }
    if (typeof dim === "string") {
      symbols.set(dim, fed);
    }
  }
}

/** Feeds as tensors with the dims they have, checked against the model. @throws AclError 100017 naming the input and what it needs */
export function checkFeeds(info: ModelInfo, feeds: unknown, model: string): Record<string, Tensor> {
  if (feeds === null || typeof feeds !== "object" || ArrayBuffer.isView(feeds)) {
    throw mismatch(model, `feeds must be an object of tensors by input name (${info.inputs.map((value) => value.name).join(", ")})`);
  }
  for (const name of Object.keys(feeds)) {
    inputNamed(info, name, model);
  }
  const symbols = new Map<string, number>();
  const tensors: Record<string, Tensor> = {};
  for (const input of info.inputs) {
    const feed = (feeds as Record<string, Tensor | TensorData | undefined>)[input.name];
    if (feed === undefined || feed === null) {
      throw mismatch(model, `input "${input.name}" (${written(input)}) is missing`);
    }
    const tensor = asTensor(input, feed, symbols, model);
    if (tensor.dtype !== input.dtype) {
      throw mismatch(model, `input "${input.name}" must be ${input.dtype} and is ${tensor.dtype}`);
    }
    bindDims(input, tensor.dims, symbols, model);
    if (tensor.data.length !== countOf(tensor.dims) * lanesOf(tensor.dtype)) {
      throw mismatch(model, `the data of input "${input.name}" has ${tensor.data.length} elements; its buffer was transferred or shrunk`);
    }
    tensors[input.name] = tensor;
  }
  return tensors;
}

function asTensor(input: ValueInfo, feed: Tensor | TensorData, symbols: ReadonlyMap<string, number>, model: string): Tensor {
  if (feed instanceof Tensor) {
    return feed;
  }
  if (ArrayBuffer.isView(feed)) {
    return fromArray(input, feed, symbols, model);
  }
  const { dtype, dims, data } = feed as Partial<Tensor>;
  if (!isObject(feed) || dtype === undefined || dims === undefined || data === undefined) {
    throw mismatch(model, `input "${input.name}" must be a Tensor or a typed array, not ${kindOf(feed)}`);
  }
  return new Tensor(dtype, dims, data);
}

/** A bare array has the model's dims; one open dim may follow from its length. */
function fromArray(input: ValueInfo, data: TensorData, symbols: ReadonlyMap<string, number>, model: string): Tensor {
  const name = arrayNameOf(data);
  if (name !== arrayOf(input.dtype).name && !(name === "Float16Array" && input.dtype === "float16")) {
    throw mismatch(
      model,
      `input "${input.name}" must be ${input.dtype} (${arrayOf(input.dtype).name}) and is ${name === undefined ? kindOf(data) : `a ${name}`}`,
    );
  }
  if (isDetached(data)) {
    throw mismatch(model, `the buffer of input "${input.name}" was transferred elsewhere; pass an array that still has its data`);
  }
  const dims = input.dims.map((dim) => (typeof dim === "number" ? dim : (symbols.get(dim) ?? -1)));
  const open = dims.filter((dim) => dim < 0).length;
  const rest = dims.reduce((product, dim) => (dim < 0 ? product : product * dim), lanesOf(input.dtype));
  if (open > 1 || (open === 1 && (rest === 0 || data.length % rest !== 0))) {
    throw mismatch(
      model,
      `the dims of input "${input.name}" (${written(input)}) do not follow from an array of ${data.length} elements; pass a Tensor`,
    );
  }
  const full = dims.map((dim) => (dim < 0 ? data.length / rest : dim));
  if (countOf(full) * lanesOf(input.dtype) !== data.length) {
    throw mismatch(model, `input "${input.name}" (${written(input)}) needs ${countOf(full) * lanesOf(input.dtype)} elements and has ${data.length}`);
  }
  return new Tensor(input.dtype, full, data);
}

/** The arrays of checked feeds, by input of the program. Compiling may have taken a while: what was transferred or shrunk meanwhile is found here. */
export function arraysOf(variant: Variant, tensors: Readonly<Record<string, Tensor>>): TensorData[] {
  return variant.program.inputs.map(({ name, sizeBytes }) => {
    const { data } = tensors[name]!;
    if (data.byteLength !== sizeBytes) {
      throw mismatch(variant.name, `the buffer of input "${name}" was transferred or shrunk; pass a tensor that has its data`);
    }
    return data;
  });
}

/** Checks the `outputs` option of a run: all outputs, each a tensor of the right dtype and dims. @throws AclError 100018 */
export function checkOutputs(variant: Variant, outputs: Results): void {
  if (!isObject(outputs)) {
    throw new AclError(100018, `run of ${variant.name}: outputs are ${kindOf(outputs)}; pass an object of tensors by output name`);
  }
  for (const name of Object.keys(outputs)) {
    if (variant.port(name, "outputs") === undefined) {
      const names = variant.program.outputs.map((port) => port.name);
      throw new AclError(100018, `run of ${variant.name}: "${name}" is no output; did you mean "${nearestName(name, names)}"?`);
    }
  }
  for (const port of variant.program.outputs) {
    const tensor = outputs[port.name];
    const text = `output "${port.name}" must be a Tensor ${port.dtype}[${port.dims.join(", ")}]`;
    if (!(tensor instanceof Tensor)) {
      throw new AclError(100018, `run of ${variant.name}: ${text}; pass all outputs or none`);
    }
    if (tensor.dtype !== port.dtype || !sameDims(tensor.dims, port.dims)) {
      throw new AclError(100018, `run of ${variant.name}: ${text} and is ${tensor.dtype}[${tensor.dims.join(", ")}]`);
    }
    if (tensor.data.byteLength !== port.sizeBytes) {
      throw outputGone(variant.name, port.name);
    }
  }
}

/** The array of an output has no longer the bytes that its dims need. */
export function outputGone(model: string, output: string): AclError {
  return new AclError(100018, `run of ${model}: the buffer of output "${output}" was transferred or shrunk; pass a tensor that has its data`);
}

/** The dims of all inputs as one string: what a variant is compiled for. */
export function signatureOf(info: ModelInfo, feeds: Feeds | Shapes): string {
  return info.inputs
    .map(({ name }) => {
      const value = (feeds as Record<string, Tensor | readonly number[]>)[name]!;
      return (Array.isArray(value) ? value : (value as Tensor).dims).join("x");
    })
    .join(";");
}
