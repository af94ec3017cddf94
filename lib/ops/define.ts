/** What an operator is: one definition from the standard's words to the instruction. `registerOp` takes the same shape from users. */
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "../graph/dtype";
import type { Attribute, Dim, Node, Value } from "../graph/ir";
import { isStored } from "../graph/ir";
import type { Stored, Tensor } from "../graph/tensor";
import type { Expansion } from "./expansion";
import type { Lowering, Operand } from "./lowering";
import type { Sample } from "./sample";

/** Input names: "data" is required, "axes?" may be absent, "...inputs" takes all that are left. */
export type Named<I extends readonly string[], T> = {
  readonly [K in I[number] as K extends `${string}?` | `...${string}` ? never : K]: T;
} & { readonly [K in I[number] as K extends `${infer N}?` ? N : never]?: T } & {
  readonly [K in I[number] as K extends `...${infer N}` ? N : never]: readonly T[];
};

export interface AttributeSpec<T> {
  readonly otherwise: T | undefined;
  readonly required: boolean;
  readonly kind: string;
  /** undefined when the attribute is of another kind. */
  read(attribute: Attribute): T | undefined;
}
export type AttributeSpecs = Readonly<Record<string, AttributeSpec<unknown>>>;
export type Attributes<A extends AttributeSpecs> = { readonly [K in keyof A]: A[K] extends AttributeSpec<infer T> ? T : never };

function spec<T>(kind: string, read: (attribute: Attribute) => T | undefined) {
  function make(otherwise: T): AttributeSpec<T>;
  function make(): AttributeSpec<T | undefined>;
  function make(otherwise?: T): AttributeSpec<T | undefined> {
    return { kind, otherwise, required: false, read };
  }
  return make;
}
const readInts = (attribute: Attribute): readonly number[] | undefined =>
  Array.isArray(attribute) && attribute.every((each) => typeof each === "bigint") ? attribute.map(Number) : undefined;

export const int = spec("an integer", (attribute) => (typeof attribute === "bigint" ? Number(attribute) : undefined));
export const float = spec("a float", (attribute) => (typeof attribute === "number" ? attribute : undefined));
export const string = spec("a string", (attribute) => (typeof attribute === "string" ? attribute : undefined));
export const ints = spec("a list of integers", readInts);
export const floats = spec("a list of floats", (attribute): readonly number[] | undefined =>
  Array.isArray(attribute) && attribute.every((each) => typeof each === "number") ? (attribute as readonly number[]) : undefined,
);
export const strings = spec("a list of strings", (attribute): readonly string[] | undefined =>
  Array.isArray(attribute) && attribute.every((each) => typeof each === "string") ? (attribute as readonly string[]) : undefined,
);
export const stored = spec("a tensor", (attribute): Stored | undefined => (isStored(attribute) ? attribute : undefined));
/** Marks an attribute that has no default. */
export const required = <T>(of: AttributeSpec<T | undefined>): AttributeSpec<T> => ({ ...of, required: true }) as AttributeSpec<T>;

/** Kinds of attributes, for operators of users. */
export const attribute = { int, float, string, ints, floats, tensor: stored, required };

/** A value as inference sees it. `constant` decodes on first use: look at it only where the shape depends on the numbers. */
export interface Type {
  readonly dtype: DtypeName;
  readonly dims: readonly Dim[];
  readonly constant?: Tensor;
}

/** How close a device has to come to the reference: |got - want| <= absolute + relative * |want|. */
export interface Tolerance {
  readonly relative: number;
  readonly absolute: number;
  readonly why: string;
}

/** A node on its way to the newest form of its operator; upgrades return a changed copy. */
export interface Form {
  readonly inputs: readonly (Value | undefined)[];
  readonly attributes: ReadonlyMap<string, Attribute>;
}
export type Upgrade = (form: Form, node: Node) => Form;

export interface OpDefinition<I extends readonly string[] = readonly string[], A extends AttributeSpecs = AttributeSpecs> {
  /** The operator in each format: name, the opset of the newest form that is implemented, and a domain if it is not ONNX's own. */
  readonly names: { readonly onnx?: readonly [name: string, newest: number, domain?: string]; readonly tensorflow?: readonly string[] };
  readonly inputs: I;
  /** Most outputs that a node may use. */
  readonly outputs?: number;
  readonly attributes?: A;
  /** Opset -> what that opset changed: turns a node from before it into its form. */
  readonly upgrades?: Readonly<Record<number, Upgrade>>;
  /**
   * Memory order of the outputs: channels innermost, that of the first operand with the output's dims, or the one that a Transpose turns them to which
   * keeps their last axis. Default: row-major.
   */
  readonly layout?: "channels_last" | "follow" | "turned";
  /** The first output has the bytes of the first input: constants fold without being read. */
  readonly sameBytes?: boolean;
  /** The element that its one output repeats: constants fold without arithmetic. */
  repeats?(attributes: Attributes<A>): Stored;
  /** Inputs whose numbers, not only their types, must be known before lowering. */
  readonly needs?: readonly string[];
  /** The size of its result depends on numbers: where they are not known, it runs on the host between two programs. */
  readonly staged?: boolean;
  infer(inputs: Named<I, Type>, attributes: Attributes<A>, context: { readonly node: string; readonly outputs: number }): readonly Type[];
  /** Float64 (or exact integer) arithmetic, written for clarity: what every kernel is measured against. Also folds constants. */
  reference(inputs: Named<I, Tensor>, attributes: Attributes<A>, types: readonly ConcreteType[]): readonly Tensor[];
  /** Writes instructions. An operator has this, or `expand`, or both. */
  lower?(b: Lowering, inputs: Named<I, Operand>, attributes: Attributes<A>): void;
  /** Says the node in other operators (as ONNX's functions do); returns the values of its outputs, or undefined for a node that `lower` takes. */
  expand?(g: Expansion, inputs: Named<I, Value>, attributes: Attributes<A>): readonly (Value | undefined)[] | undefined;
  readonly tolerance?: Tolerance;
  /** Small models that check the operator. Built-in operators give a function, which nothing calls while models are loaded or run. */
  readonly samples: readonly Sample[] | (() => readonly Sample[]);
}
export interface ConcreteType {
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
}

/** An operator with its types forgotten, as the registry and the passes handle it. */
export interface AnyOp extends OpDefinition<readonly string[], AttributeSpecs> {
  readonly samples: readonly Sample[];
}

export function defineOp<const I extends readonly string[], A extends AttributeSpecs = Record<string, never>>(definition: OpDefinition<I, A>): AnyOp {
  const { samples } = definition;
  if (typeof samples === "function") {
    let made: readonly Sample[] | undefined;
    Object.defineProperty(definition, "samples", {
      enumerable: true,
      get() {
        made ??= samples();
        return made;
      },
    });
  }
  return definition as unknown as AnyOp;
}

/** Arranges positional inputs by the names of the definition. */
export function nameInputs<T>(definition: AnyOp, inputs: readonly (T | undefined)[], what: string): Named<readonly string[], T> {
  const named: Record<string, T | readonly T[] | undefined> = {};
  definition.inputs.forEach((pattern, index) => {
    if (pattern.startsWith("...")) {
      named[pattern.slice(3)] = inputs.slice(index).filter((each): each is T => each !== undefined);
      return;
    }
    const optional = pattern.endsWith("?");
    const name = optional ? pattern.slice(0, -1) : pattern;
    if (inputs[index] === undefined && !optional) {
      throw new AclError(100021, `${what} lacks its input "${name}" (number ${index + 1}); an operator's required inputs cannot be left out`);
    }
    if (inputs[index] !== undefined) {
      named[name] = inputs[index];
    }
  });
  const most = definition.inputs.some((pattern) => pattern.startsWith("...")) ? Number.POSITIVE_INFINITY : definition.inputs.length;
  if (inputs.length > most) {
    throw new AclError(100021, `${what} has ${inputs.length} inputs; the operator takes at most ${most}`);
  }
  return named as Named<readonly string[], T>;
}

/** Attributes of the first opsets that carry nothing. */
const IGNORED = new Set(["consumed_inputs"]);

export function readAttributes(definition: AnyOp, attributes: ReadonlyMap<string, Attribute>, what: string): Attributes<AttributeSpecs> {
  const specs = definition.attributes ?? {};
  const read: Record<string, unknown> = {};
  for (const [name, of] of Object.entries(specs)) {
    const attribute = attributes.get(name);
    // An empty list has no element type of its own.
    const value = attribute === undefined ? of.otherwise : Array.isArray(attribute) && attribute.length === 0 ? [] : of.read(attribute);
    if (value === undefined && attribute !== undefined) {
      throw new AclError(100023, `${what}: attribute "${name}" must be ${of.kind}`);
    }
    if (value === undefined && of.required) {
      throw new AclError(100023, `${what} lacks its attribute "${name}" (${of.kind})`);
    }
    read[name] = value;
  }
  for (const name of attributes.keys()) {
    if (!(name in specs) && !IGNORED.has(name)) {
      const known = Object.keys(specs).filter((each) => !each.startsWith("$"));
      throw new AclError(
        100023,
        `${what} has an attribute "${name}" that the operator does not know; it has ${known.length > 0 ? known.join(", ") : "none"}`,
      );
    }
  }
  return read;
}
