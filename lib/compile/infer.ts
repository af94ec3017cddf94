/**
 * infer: brings every node to the newest form of its operator, gives every value its type, and replaces nodes whose inputs are constants by their
 * result (a shape often depends on such arithmetic, so this cannot be a later pass).
 */
import { AclError } from "../errors/acl-error";
import { formatDims, isConcrete } from "../graph/dims";
import { DTYPES } from "../graph/dtype";
import { describeNode, forNode, type Graph, isStored, type Node, type Value } from "../graph/ir";
import { decode, encode, filled, sizeOf, type Tensor } from "../graph/tensor";
import { type AnyOp, type Attributes, type AttributeSpecs, type ConcreteType, type Form, nameInputs, readAttributes, type Type } from "../ops/define";
import { findOp, requireOps } from "../ops/registry";
import { inferControl, isControl, plainNodes } from "./control";

/** A larger result stays an instruction. Weights that nodes make are below this (AlexNet's largest are 151 MB) and want to be packed once, not per run. */
const FOLD_LIMIT_BYTES = 256 * 2 ** 20;

export interface Resolved {
  readonly op: AnyOp;
  readonly attributes: Attributes<AttributeSpecs>;
}

/** Works on symbolic dims as well; then nodes whose values are not known simply stay. */
export function* inferGraph({ graph }: { readonly graph: Graph }): Generator<void> {
  requireOps(plainNodes(graph.nodes));
  graph.nodes = yield* inferNodes(graph.nodes);
}

/** The nodes that are left. */
function* inferNodes(nodes: readonly Node[]): Generator<void, Node[]> {
  const kept: Node[] = [];
  for (const node of nodes) {
    if (isControl(node)) {
      kept.push(...(yield* inferControl(node, inferNodes)));
      continue;
    }
    const upgraded = upgrade(node);
    if (forNode(upgraded, () => inferNode(upgraded))) {
      nameResults(upgraded);
    } else {
      kept.push(upgraded);
    }
    yield;
  }
  return kept;
}

/** What a node of the file makes of initializers is the same whatever the shapes: its name says as much as its bytes. */
function nameResults({ inputs, outputs }: Node): void {
  if (inputs.every((input) => !input || input.source !== undefined)) {
    for (const output of outputs) {
      if (output) {
        output.source ??= output.name;
      }
    }
  }
}

export function resolve(node: Node): Resolved {
  const op = findOp(node)!;
  return { op, attributes: readAttributes(op, node.attributes, describeNode(node)) };
}

/** The newest form of a node. */
export function upgrade(node: Node): Node {
  const { names, upgrades = {} } = findOp(node)!;
  const newest = names.onnx?.[1] ?? node.opset;
  let form: Form = node;
  for (const opset of Object.keys(upgrades).map(Number)) {
    if (node.opset < opset) {
      form = upgrades[opset]!(form, node);
    }
  }
  return { ...node, opset: Math.max(node.opset, newest), inputs: [...form.inputs], attributes: form.attributes };
}

/** Types the outputs. Returns true when the node was folded into constants and can go. */
export function inferNode(node: Node): boolean {
  const what = describeNode(node);
  const value = node.op === "Constant" && node.domain === "" ? node.attributes.get("value") : undefined;
  const [output] = node.outputs;
  if (isStored(value) && output && node.outputs.length === 1) {
    // Some exporters keep all weights in such nodes: the bytes of the file are the constant, and the name says which.
    assignType(output, value, what);
    output.constant = value;
    output.source = output.name;
    return true;
  }
  const { op, attributes } = resolve(node);
  if (node.outputs.length > (op.outputs ?? 1)) {
    throw new AclError(100022, `${what} has ${node.outputs.length} outputs; this operator gives at most ${op.outputs ?? 1}`);
  }
  const types = op.infer(
    nameInputs(
      op,
      node.inputs.map((input) => input && typeOf(input)),
      what,
    ),
    attributes,
    { node: what, outputs: node.outputs.length },
  );
  node.outputs.forEach((output, index) => {
    const type = types[index];
    if (output && !type) {
      throw new AclError(100022, `${what} has no output number ${index + 1}`);
    }
    if (output && type) {
      assignType(output, type, what);
    }
  });
  return fold(node, op, attributes, types);
}

function typeOf({ dtype, dims, constant }: Value): Type {
  if (!constant) {
    return { dtype: dtype!, dims: dims! };
  }
  let decoded: Tensor | undefined;
  return {
    dtype: dtype!,
    dims: dims!,
    // A getter of the object itself: spread from another one it would be read at once.
    get constant() {
      decoded ??= decode(constant);
      return decoded;
    },
  };
}

function assignType(output: Value, { dtype, dims }: Type, what: string): void {
  if (output.dtype !== undefined && output.dtype !== dtype) {
    throw new AclError(100013, `${what} gives ${dtype}, but "${output.name}" is declared ${output.dtype}; the model contradicts itself`);
  }
  if (dims.some((dim) => typeof dim === "number" && dim < 0)) {
    throw new AclError(100021, `${what} gives ${dtype}${formatDims(dims)}, which no tensor can have; its inputs are too small for it`);
  }
  if (isConcrete(dims) && !(sizeOf(dims) * DTYPES[dtype].bytes < 2 ** 32)) {
    throw new AclError(100021, `${what} gives ${dtype}${formatDims(dims)}, which is larger than a device's memory`);
  }
  output.dtype = dtype;
  output.dims = [...dims];
}

function fold(node: Node, op: AnyOp, attributes: Attributes<AttributeSpecs>, types: readonly Type[]): boolean {
  const concrete = types.every((type): type is ConcreteType => isConcrete(type.dims));
  const shapeOnly = (node.op === "Shape" || node.op === "Size") && node.domain === "";
  if (!concrete || !(shapeOnly ? isConcrete(node.inputs[0]!.dims!) : node.inputs.every((input) => !input || input.constant))) {
    return false;
  }
  const bytes = types.reduce((total, { dtype, dims }) => total + sizeOf(dims as number[]) * DTYPES[dtype].bytes, 0);
  const source = node.inputs[0];
  if (op.sameBytes && source?.constant && node.outputs.length === 1 && node.outputs[0]) {
    node.outputs[0].constant = { ...source.constant, dims: types[0]!.dims as number[] };
    if (source.source !== undefined) {
      node.outputs[0].source = source.source;
    }
    return true;
  }
  if (bytes > FOLD_LIMIT_BYTES) {
    return false;
  }
  if (op.repeats && node.outputs[0]) {
    node.outputs[0].constant = filled(op.repeats(attributes), types[0]!.dims as number[]);
    return true;
  }
  const tensors = node.inputs.map((input): Tensor | undefined => {
    if (!input) {
      return undefined;
    }
    return shapeOnly ? { dtype: input.dtype!, dims: input.dims as number[], data: new Float64Array(0) } : decode(input.constant!);
  });
  const results = op.reference(nameInputs(op, tensors, describeNode(node)), attributes, types as ConcreteType[]);
  node.outputs.forEach((output, index) => {
    const result = results[index];
    if (output && result) {
      output.constant = encode({ ...result, dims: types[index]!.dims as number[] });
    }
  });
  return node.outputs.every((output) => !output || output.constant);
}
