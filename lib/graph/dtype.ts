/** Element types: names as users see them, their place in the device's numbering (asm/abi/program.ts, same as ONNX), and their storage. */
import { Dtype } from "../../asm/abi/program";

// biome-ignore format: table
export type DtypeName =
  | "float32" | "uint8" | "int8" | "uint16" | "int16" | "int32" | "int64" | "string" | "bool" | "float16" | "float64" | "uint32" | "uint64"
  | "complex64" | "complex128" | "bfloat16" | "float8e4m3fn" | "float8e4m3fnuz" | "float8e5m2" | "float8e5m2fnuz" | "uint4" | "int4"
  | "float4e2m1" | "float8e8m0" | "uint2" | "int2";

interface DtypeInfo {
  /** A `Dtype` of asm/abi, as a number: public types never mention the device's layouts. */
  readonly code: number;
  /** Bytes per element on the device (2- and 4-bit types take a byte there); 0 for string, which never gets there. */
  readonly bytes: number;
  /** Bits per element in a file or a feed. */
  readonly bits: number;
}

export const DTYPES: Readonly<Record<DtypeName, DtypeInfo>> = {
  float32: { code: Dtype.FLOAT32, bytes: 4, bits: 32 },
  uint8: { code: Dtype.UINT8, bytes: 1, bits: 8 },
  int8: { code: Dtype.INT8, bytes: 1, bits: 8 },
  uint16: { code: Dtype.UINT16, bytes: 2, bits: 16 },
  int16: { code: Dtype.INT16, bytes: 2, bits: 16 },
  int32: { code: Dtype.INT32, bytes: 4, bits: 32 },
  int64: { code: Dtype.INT64, bytes: 8, bits: 64 },
  string: { code: Dtype.STRING, bytes: 0, bits: 0 },
  bool: { code: Dtype.BOOL, bytes: 1, bits: 8 },
  float16: { code: Dtype.FLOAT16, bytes: 2, bits: 16 },
  float64: { code: Dtype.FLOAT64, bytes: 8, bits: 64 },
  uint32: { code: Dtype.UINT32, bytes: 4, bits: 32 },
  uint64: { code: Dtype.UINT64, bytes: 8, bits: 64 },
  complex64: { code: Dtype.COMPLEX64, bytes: 8, bits: 64 },
  complex128: { code: Dtype.COMPLEX128, bytes: 16, bits: 128 },
  bfloat16: { code: Dtype.BFLOAT16, bytes: 2, bits: 16 },
  float8e4m3fn: { code: Dtype.FLOAT8E4M3FN, bytes: 1, bits: 8 },
  float8e4m3fnuz: { code: Dtype.FLOAT8E4M3FNUZ, bytes: 1, bits: 8 },
  float8e5m2: { code: Dtype.FLOAT8E5M2, bytes: 1, bits: 8 },
  float8e5m2fnuz: { code: Dtype.FLOAT8E5M2FNUZ, bytes: 1, bits: 8 },
  uint4: { code: Dtype.UINT4, bytes: 1, bits: 4 },
  int4: { code: Dtype.INT4, bytes: 1, bits: 4 },
  float4e2m1: { code: Dtype.FLOAT4E2M1, bytes: 1, bits: 4 },
  float8e8m0: { code: Dtype.FLOAT8E8M0, bytes: 1, bits: 8 },
  uint2: { code: Dtype.UINT2, bytes: 1, bits: 2 },
  int2: { code: Dtype.INT2, bytes: 1, bits: 2 },
};

const NAMES = new Map<number, DtypeName>((Object.keys(DTYPES) as DtypeName[]).map((name) => [DTYPES[name].code, name]));

/** The name of an ONNX element type number; undefined if there is none. */
export function dtypeName(code: number): DtypeName | undefined {
  return NAMES.get(code);
}
