/** Steps that turn an old form of a node into the newest one. */
import { AclError } from "../errors/acl-error";
import { type Attribute, isStored, type Node, type Value } from "../graph/ir";
import { encode, tensor } from "../graph/tensor";
import type { Upgrade } from "./define";

/** A constant value that an upgrade adds to a node. */
export function constantValue(name: string, dtype: "int64" | "float32", dims: readonly number[], numbers: readonly (number | bigint)[]): Value {
  const constant = encode(tensor(dtype, dims, numbers));
  return { name, dtype, dims, constant };
}

/** Attribute `name` (integers) became input number `index`. */
export function attributeToInput(name: string, index: number): Upgrade {
  return (form, node) => {
    const attribute = form.attributes.get(name);
    if (attribute === undefined || form.inputs.length > index) {
      return form;
    }
    const numbers = (Array.isArray(attribute) ? attribute : [attribute]) as readonly Attribute[];
    if (!numbers.every((each) => typeof each === "bigint")) {
      throw new AclError(100023, `node "${node.name}" (${node.op}): attribute "${name}" must be a list of integers`);
    }
    const inputs = [...form.inputs];
    while (inputs.length < index) {
      inputs.push(undefined);
    }
    inputs[index] = constantValue(`@${node.name}.${name}`, "int64", [numbers.length], numbers);
    return { inputs, attributes: without(form.attributes, name) };
  };
}

/** Adds an attribute that old forms did not have; names with $ are never in files. */
export function setAttribute(name: string, value: Attribute): Upgrade {
  return (form) => ({ ...form, attributes: new Map([...form.attributes, [name, value]]) });
}

export const chain =
  (...steps: readonly Upgrade[]): Upgrade =>
  (form, node) =>
    steps.reduce((current, step) => step(current, node), form);

export function without(attributes: ReadonlyMap<string, Attribute>, ...names: readonly string[]): Map<string, Attribute> {
  return new Map([...attributes].filter(([name]) => !names.includes(name)));
}

/** A constant operand with `count` dims of 1 behind it. */
export function unsqueezeInput(value: Value, count: number, node: Node): Value {
  if (!value.constant || !isStored(value.constant)) {
    throw new AclError(
      100024,
      `node "${node.name}" (${node.op}, opset ${node.opset}): \`axis\` with an operand computed at run time; convert the model to opset 7 or later`,
    );
  }
  const dims = [...value.constant.dims, ...new Array<number>(count).fill(1)];
  return { name: `@${node.name}.${value.name}`, dtype: value.constant.dtype, dims, constant: { ...value.constant, dims } };
}
