/** Conversions between register types with ONNX Cast semantics: float to int truncates and saturates, NaN gives 0; int to int keeps the low bits. */
import { StripCode, StripType } from "../abi/strip";

@inline
function convert<From, To>(x: From): To {
  // Saturating truncation is one instruction; AS `<i32>f32` uses it.
  return <To>x;
}

@inline
function castLoop<From, To>(d: usize, a: usize, ma: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) store<To>(d + i * sizeof<To>(), convert<From, To>(load<From>(a + (i * sizeof<From>() & ma))));
}

/** Between 32-bit integers and floats, four at a time; counts are whole groups. */
function vectorCast(type: u32, d: usize, a: usize, ma: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count << 2; i += 16) {
    const x = v128.load(a + (i & ma));
    if (type == StripType.I32) v128.store(d + i, f32x4.convert_i32x4_s(x));
    else if (type == StripType.U32) v128.store(d + i, f32x4.convert_i32x4_u(x));
    else v128.store(d + i, i32x4.trunc_sat_f32x4_s(x));
  }
}

@inline
function truthLoop<From>(d: usize, a: usize, ma: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) store<i32>(d + (i << 2), i32(load<From>(a + (i * sizeof<From>() & ma)) != 0));
}

@inline
function castFrom<From>(code: u32, d: usize, a: usize, ma: usize, count: u32): void {
  switch (<i32>code) {
    case StripCode.CAST_F32: castLoop<From, f32>(d, a, ma, count); break;
    case StripCode.CAST_F64: castLoop<From, f64>(d, a, ma, count); break;
    case StripCode.CAST_I32: castLoop<From, i32>(d, a, ma, count); break;
    case StripCode.CAST_U32: castLoop<From, u32>(d, a, ma, count); break;
    case StripCode.CAST_I64: castLoop<From, i64>(d, a, ma, count); break;
    case StripCode.CAST_U64: castLoop<From, u64>(d, a, ma, count); break;
    default: truthLoop<From>(d, a, ma, count);
  }
}

/** `d` may be `a` only where the sizes are equal or the target is the narrower. */
export function cast(type: u32, code: u32, d: usize, a: usize, sa: usize, count: u32): void {
  const ma: usize = sa == 0 ? 63 : usize.MAX_VALUE;
  const vector = type == StripType.F32 ? code == StripCode.CAST_I32 : code == StripCode.CAST_F32 && (type == StripType.I32 || type == StripType.U32);
  if (vector) return vectorCast(type, d, a, ma, count);
  switch (<i32>type) {
    case StripType.F32: castFrom<f32>(code, d, a, ma, count); break;
    case StripType.F64: castFrom<f64>(code, d, a, ma, count); break;
    case StripType.I32: castFrom<i32>(code, d, a, ma, count); break;
    case StripType.U32: castFrom<u32>(code, d, a, ma, count); break;
    case StripType.I64: castFrom<i64>(code, d, a, ma, count); break;
    default: castFrom<u64>(code, d, a, ma, count); break;
  }
}
