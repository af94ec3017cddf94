/** Writes strip programs: values in single-assignment form over views that all have the same dims. */
import type { DtypeName } from "../graph/dtype";
import type { Strip, StripOpName, StripType, StripValue, View } from "../program/types";
import { broadcastView } from "./views";

const COMPARISONS: ReadonlySet<StripOpName> = new Set(["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "isnan", "isinf", "cast_bool"]);

const NARROW: ReadonlySet<DtypeName> = new Set(["int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2"]);

/** The register type that elements of `dtype` are widened to. */
export function stripType(dtype: DtypeName): StripType {
  switch (dtype) {
    case "float64":
      return "f64";
    case "int64":
      return "i64";
    case "uint64":
      return "u64";
    case "uint32":
    case "uint16":
    case "uint8":
    case "uint4":
    case "uint2":
      return "u32";
    case "bool":
    case "int32":
    case "int16":
    case "int8":
    case "int4":
    case "int2":
      return "i32";
    default:
      return "f32";
  }
}

/** The register type of value `index`. */
export function typeOf(values: readonly StripValue[], index: number): StripType {
  const value = values[index]!;
  if (value.kind !== "op") {
    return value.type;
  }
  if (COMPARISONS.has(value.op)) {
    return "i32";
  }
  return value.op.startsWith("cast_") ? (value.op.slice(5) as StripType) : value.type;
}

export class StripBuilder {
  readonly values: StripValue[] = [];
  readonly #outputs: { view: View; value: number }[] = [];

  /** @param dims the dims that every view of this strip is broadcast to */
  constructor(readonly dims: readonly number[]) {}

  input(view: View): number {
    return this.#add({ kind: "input", view: broadcastView(view, this.dims), type: stripType(view.dtype) });
  }

  constant(type: StripType, value: number | bigint): number {
    const exact = type === "i64" || type === "u64" ? BigInt(value) : Number(value);
    return this.#add({ kind: "constant", type, value: exact });
  }

  accumulator(type: StripType = "f32"): number {
    return this.#add({ kind: "accumulator", type });
  }

  /** `type` defaults to that of the first argument. */
  op(op: StripOpName, ...args: number[]): number {
    return this.#add({ kind: "op", op, type: typeOf(this.values, op === "select" ? args[1]! : args[0]!), args });
  }

  /** A value as register type `to`. */
  cast(value: number, to: StripType): number {
    const given = this.values[value]!;
    if (given.kind === "constant" && /32$/.test(given.type) && to === "f32") return this.constant(to, Math.fround(Number(given.value)));
    return typeOf(this.values, value) === to ? value : this.op(`cast_${to}`, value);
  }

  /** Converts to the element type of `view`. A float on its way to an integer of less than 32 bits is left to the store, which saturates. */
  output(view: View, value: number): void {
    const narrow = NARROW.has(view.dtype) && typeOf(this.values, value).startsWith("f");
    const converted =
      view.dtype === "bool"
        ? this.#isLogical(value)
          ? value
          : this.op("cast_bool", value)
        : narrow
          ? value
          : this.cast(value, stripType(view.dtype));
    this.#outputs.push({ view, value: converted });
  }

  /** Known to be 0 or 1. */
  #isLogical(index: number): boolean {
    const value = this.values[index]!;
    return (value.kind === "op" && COMPARISONS.has(value.op)) || (value.kind === "input" && value.view.dtype === "bool");
  }

  strip(): Strip {
    return { values: this.values, outputs: this.#outputs };
  }

  #add(value: StripValue): number {
    return this.values.push(value) - 1;
  }
}
