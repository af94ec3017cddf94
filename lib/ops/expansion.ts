/**
 * What an operator's `expand` writes to: nodes of other operators that together do what its own does. Every node is typed (and folded, where its inputs
 * are known) as soon as it is made, so dims and constants can be read at once.
 */
import type { Attribute, Node, Value } from "../graph/ir";
import { describeNode } from "../graph/ir";
import type { DtypeName } from "../graph/dtype";
import { DTYPES } from "../graph/dtype";
import { decode, encode, tensor } from "../graph/tensor";
import { NEWEST_OPSET } from "./registry";

type Attributes = Readonly<Record<string, Attribute | number | readonly number[] | undefined>>;

export class Expansion {
  readonly nodes: Node[] = [];
  /** Values so far: part of their names. */
  #made = 0;

  constructor(
    readonly node: Node,
    /** Types the outputs; true when they are known and the node can go. */
    private readonly infer: (node: Node) => boolean,
  ) {}

  get what(): string {
    return describeNode(this.node);
  }

  has(index: number): boolean {
    return this.node.outputs[index] !== undefined;
  }

  /** Whole numbers in `attributes` are integers, but for those that ONNX defines as floats. */
  call(op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}): Value {
    return this.calls(1, op, inputs, attributes)[0]!;
  }

  calls(count: number, op: string, inputs: readonly (Value | undefined)[], attributes: Attributes = {}, domain = ""): Value[] {
    const name = `${this.node.name}/${this.#made++}.${op}`;
    const outputs = Array.from({ length: count }, (_, index): Value => ({ name: `@${name}.${index}` }));
    this.take({ name, op, domain, opset: NEWEST_OPSET, inputs: [...inputs], outputs, attributes: asAttributes(attributes) });
    return outputs;
  }

  /** Output `index` of the node is `value`. */
  give(index: number, value: Value): void {
    const output = this.node.outputs[index];
    if (output) {
      const name = `${this.node.name}/output.${index}`;
      this.take({ name, op: "Identity", domain: "", opset: NEWEST_OPSET, inputs: [value], outputs: [output], attributes: new Map() });
    }
  }

  constant(dtype: DtypeName, dims: readonly number[], numbers: readonly (number | bigint)[]): Value {
    return { name: `@${this.node.name}/${this.#made++}`, dtype, dims, constant: encode(tensor(dtype, dims, numbers)) };
  }

  scalar(value: number, dtype: DtypeName = "float32"): Value {
    return this.constant(dtype, [], [value]);
  }

  /** 1-D int64. */
  list(...numbers: number[]): Value {
    return this.constant("int64", [numbers.length], numbers);
  }

  /** The numbers of an input that is known when the model is compiled, as inference demanded; undefined for an absent one. */
  numbers(value: Value | undefined): number[] | undefined {
    return value?.constant && Array.from(decode(value.constant).data as ArrayLike<number | bigint>, Number);
  }

  cast(value: Value, dtype: DtypeName): Value {
    return value.dtype === dtype ? value : this.call("Cast", [value], { to: DTYPES[dtype].code });
  }

  reshape(value: Value, dims: readonly number[]): Value {
    return value.dims!.join() === dims.join() ? value : this.call("Reshape", [value, this.list(...dims)], { allowzero: 1 });
  }

  transpose(value: Value, perm: readonly number[]): Value {
    return this.call("Transpose", [value], { perm });
  }

  /** Elements [start, end) of one axis. */
  slice(value: Value, axis: number, start: number, end: number, step = 1): Value {
    return this.call("Slice", [value, this.list(start), this.list(end), this.list(axis), this.list(step)]);
  }

  private take(node: Node): void {
    if (!this.infer(node)) {
      this.nodes.push(node);
    }
  }
}

function asAttributes(attributes: Attributes): Map<string, Attribute> {
  const map = new Map<string, Attribute>();
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) {
      continue;
    }
    if (typeof value === "number") {
      map.set(name, Number.isInteger(value) && !FLOATS.has(name) ? BigInt(value) : value);
    } else {
      map.set(name, Array.isArray(value) && value.every((each) => typeof each === "number") ? (value as number[]).map(BigInt) : (value as Attribute));
    }
  }
  return map;
}
/** Attributes of ONNX that are floats. */
const FLOATS: ReadonlySet<string> = new Set(["alpha", "beta", "gamma", "epsilon", "scale", "softcap", "value_float"]);
