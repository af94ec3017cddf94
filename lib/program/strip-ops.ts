/** What strip operations exist for which register types, what they give, and which registers hold which dtypes. */
import { MicroCode } from "../../asm/abi/micro";
import { StripCode, StripType as Type } from "../../asm/abi/strip";
import { AclError } from "../errors/acl-error";
import { DTYPES, type DtypeName } from "../graph/dtype";
import type { StripOpName, StripType } from "./types";

export const TYPE_CODES: Readonly<Record<StripType, Type>> = {
  f32: Type.F32,
  f64: Type.F64,
  i32: Type.I32,
  u32: Type.U32,
  i64: Type.I64,
  u64: Type.U64,
};
export const TYPE_NAMES: readonly StripType[] = ["f32", "f64", "i32", "u32", "i64", "u64"];

export const typeBytes = (type: StripType): number => (type.endsWith("64") ? 8 : 4);
export const isFloatType = (type: StripType): boolean => type.startsWith("f");

/** @throws AclError 100029 for a name that an operator of the user has made up */
export function codeOf(op: StripOpName): number {
  const name = op.toUpperCase();
  const code = StripCode[name as keyof typeof StripCode] ?? MicroCode[name as keyof typeof MicroCode];
  if (code === undefined) {
    throw new AclError(100029, `strip programs have no operation "${op}"; see the names in StripOpName`);
  }
  return code;
}

/** Undefined for a number that is no operation. */
export function opOf(code: number): StripOpName | "move" | undefined {
  return (StripCode[code] ?? MicroCode[code])?.toLowerCase() as StripOpName | "move" | undefined;
}

/** Operations that only f32 loops have. */
const F32_ONLY: ReadonlySet<StripOpName> = new Set([
  "quantize_int8",
  "quantize_uint8",
  "gelu",
  "gelu_tanh",
  "silu",
  "hard_swish",
  "add_relu",
  "mul_relu",
  "muladd_relu",
  "prelu",
]);

const LOGIC: ReadonlySet<StripOpName> = new Set(["eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "isnan", "isinf"]);
const FLOAT_ONLY: ReadonlySet<StripOpName> = new Set([
  "sqrt",
  "rsqrt",
  "reciprocal",
  "exp",
  "log",
  "sin",
  "cos",
  "tan",
  "asin",
  "acos",
  "atan",
  "sinh",
  "cosh",
  "tanh",
  "asinh",
  "acosh",
  "atanh",
  "erf",
  "sigmoid",
]);
const INTEGER_ONLY: ReadonlySet<StripOpName> = new Set(["bitand", "bitor", "bitxor", "bitnot", "shl", "shr"]);
const THREE: ReadonlySet<StripOpName> = new Set(["clip", "muladd", "muladd_relu", "select", "quantize_int8", "quantize_uint8"]);
const TWO: ReadonlySet<StripOpName> = new Set([
  "add",
  "sub",
  "mul",
  "div",
  "min",
  "max",
  "pow",
  "mod",
  "fmod",
  "eq",
  "ne",
  "lt",
  "le",
  "gt",
  "ge",
  "and",
  "or",
  "xor",
  "bitand",
  "bitor",
  "bitxor",
  "shl",
  "shr",
  "add_relu",
  "mul_relu",
  "prelu",
]);
/** Vector loops whose body is a whole polynomial, and element loops that call a function. */
const POLYNOMIAL: ReadonlySet<StripOpName> = new Set(["exp", "log", "tanh", "sigmoid", "erf", "gelu", "gelu_tanh", "silu"]);
const FUNCTION: ReadonlySet<StripOpName> = new Set([
  "pow",
  "sin",
  "cos",
  "tan",
  "asin",
  "acos",
  "atan",
  "sinh",
  "cosh",
  "asinh",
  "acosh",
  "atanh",
  "mod",
  "fmod",
]);

export const arityOf = (op: StripOpName): number => (THREE.has(op) ? 3 : TWO.has(op) ? 2 : 1);

export function isDefined(op: StripOpName, type: StripType): boolean {
  if (F32_ONLY.has(op)) return type === "f32";
  if (FLOAT_ONLY.has(op)) return isFloatType(type);
  if (INTEGER_ONLY.has(op)) return !isFloatType(type);
  return true;
}

/** The type of the register that `op` on `type` writes. */
export function resultOf(op: StripOpName, type: StripType): StripType {
  if (LOGIC.has(op) || op === "cast_bool" || op.startsWith("quantize_")) return "i32";
  return op.startsWith("cast_") ? (op.slice(5) as StripType) : type;
}

/** The register type that elements of `dtype` load to (registerType in asm/micro/load.ts). */
export function registerOf(dtype: DtypeName): StripType {
  switch (dtype) {
    case "float64":
      return "f64";
    case "int64":
      return "i64";
    case "uint64":
      return "u64";
    case "uint32":
      return "u32";
    case "int32":
    case "int16":
    case "int8":
    case "int4":
    case "int2":
    case "uint16":
    case "uint8":
    case "uint4":
    case "uint2":
    case "bool":
      return "i32";
    default:
      return "f32";
  }
}

/** Whether a register holds the bytes of `dtype` as they lie in memory. */
export function isPlain(dtype: DtypeName): boolean {
  return dtype === "float32" || dtype === "float64" || dtype === "int32" || dtype === "uint32" || dtype === "int64" || dtype === "uint64";
}

/** Dtypes that MAP can load and store. */
export function isStripDtype(dtype: DtypeName): boolean {
  return dtype !== "string" && dtype !== "complex64" && dtype !== "complex128";
}

/** Least and greatest value of a narrow integer dtype; undefined for others. */
export function rangeOf(dtype: DtypeName): readonly [number, number] | undefined {
  if (!/^u?int(2|4|8|16)$/.test(dtype)) return undefined;
  const bits = DTYPES[dtype].bits;
  return dtype.startsWith("u") ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
}

/** Nanoseconds per element of one operation. */
export function operationCost(op: StripOpName | "move", type: StripType): number {
  const width = typeBytes(type) / 4;
  if (op === "move") return 0.5;
  if (POLYNOMIAL.has(op)) return type === "f32" ? 0.7 : 15;
  if (FUNCTION.has(op)) return isFloatType(type) ? 20 : 4;
  if (op.startsWith("cast_")) return 0.6;
  if (LOGIC.has(op) && width === 2) return 1;
  if (!isFloatType(type) && (op === "div" || op === "shl" || op === "shr" || width === 2)) return 2;
  return 0.1 * width;
}
