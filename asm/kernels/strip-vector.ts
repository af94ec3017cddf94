/** Strip operations that a 128-bit vector does: loops of 64 bytes. `sa`, `sb`, `sc` are 64, or 0 for a splat (its 64 bytes all hold the value). */
import { StripCode } from "../abi/strip";

/**
 * V8's revectoriser (its flag is on for a moment while the wide micro module is compiled, and sees all code that is optimised then) makes two adjacent
 * `f64x2.neg` into a 256-bit negation with a wrong mask: 1 becomes -3.999999 on V8 13.6. An exclusive or with the sign bit is not its pattern.
 */
@inline
function negate<T>(x: v128): v128 {
  return sizeof<T>() == 8 && isFloat<T>() ? v128.xor(x, i64x2.splat(i64.MIN_VALUE)) : v128.neg<T>(x);
}

@inline
function lanes1<T>(code: u32, x: v128): v128 {
  if (code == StripCode.NEG) return negate<T>(x);
  if (code == StripCode.ABS) return v128.abs<T>(x);
  if (isFloat<T>()) {
    if (code == StripCode.FLOOR) return v128.floor<T>(x);
    if (code == StripCode.CEIL) return v128.ceil<T>(x);
    if (code == StripCode.TRUNC) return v128.trunc<T>(x);
    if (code == StripCode.ROUND) return v128.nearest<T>(x);
    if (code == StripCode.SQRT) return v128.sqrt<T>(x);
    if (code == StripCode.RECIPROCAL) return v128.div<T>(v128.splat<T>(1), x);
    if (code == StripCode.RSQRT) return v128.div<T>(v128.splat<T>(1), v128.sqrt<T>(x));
    // pmin and pmax give their first operand when they compare false: NaN stays.
    if (code == StripCode.RELU) return v128.pmax<T>(x, v128.splat<T>(0));
  }
  return v128.not(x);
}

@inline
function lanes2<T>(code: u32, x: v128, y: v128): v128 {
  if (code == StripCode.ADD) return v128.add<T>(x, y);
  if (code == StripCode.SUB) return v128.sub<T>(x, y);
  if (code == StripCode.MUL) return v128.mul<T>(x, y);
  if (code == StripCode.BITOR) return v128.or(x, y);
  if (code == StripCode.BITXOR) return v128.xor(x, y);
  if (isFloat<T>()) {
    if (code == StripCode.DIV) return v128.div<T>(x, y);
  }
  if (isFloat<T>() || sizeof<T>() == 4) {
    if (code == StripCode.MIN) return v128.min<T>(x, y);
    if (code == StripCode.MAX) return v128.max<T>(x, y);
  }
  if (sizeof<T>() == 4) {
    if (code == StripCode.EQ) return bit(v128.eq<T>(x, y));
    if (code == StripCode.NE) return bit(v128.ne<T>(x, y));
    if (code == StripCode.LT) return bit(v128.lt<T>(x, y));
    if (code == StripCode.LE) return bit(v128.le<T>(x, y));
    if (code == StripCode.GT) return bit(v128.gt<T>(x, y));
    if (code == StripCode.GE) return bit(v128.ge<T>(x, y));
  }
  return v128.and(x, y);
}

@inline
function bit(mask: v128): v128 {
  return i32x4.shr_u(mask, 31);
}

/** As ROUND, ADD, CAST_I32 and CLIP do it one after the other: NaN is 0. */
@inline
function quantized(x: v128, scale: v128, zero: v128, low: i32, high: i32): v128 {
  const whole = i32x4.trunc_sat_f32x4_s(f32x4.add(f32x4.nearest(f32x4.mul(x, scale)), zero));
  return i32x4.min_s(i32x4.max_s(whole, i32x4.splat(low)), i32x4.splat(high));
}

@inline
function lanes3<T>(code: u32, x: v128, y: v128, z: v128): v128 {
  if (isFloat<T>() || sizeof<T>() == 4) {
    if (code == StripCode.CLIP) return v128.min<T>(v128.max<T>(x, y), z);
  }
  if (code == StripCode.QUANTIZE_INT8) return quantized(x, y, z, -128, 127);
  if (code == StripCode.QUANTIZE_UINT8) return quantized(x, y, z, 0, 255);
  if (code == StripCode.SELECT) return v128.bitselect(y, z, i32x4.ne(x, i32x4.splat(0)));
  return v128.add<T>(v128.mul<T>(x, y), z);
}

@inline
function loop1<T>(code: u32, d: usize, a: usize, sa: usize, end: usize): void {
  while (d < end) {
    const x0 = v128.load(a), x1 = v128.load(a, 16), x2 = v128.load(a, 32), x3 = v128.load(a, 48);
    const r0 = lanes1<T>(code, x0), r1 = lanes1<T>(code, x1), r2 = lanes1<T>(code, x2), r3 = lanes1<T>(code, x3);
    v128.store(d, r0);
    v128.store(d, r1, 16);
    v128.store(d, r2, 32);
    v128.store(d, r3, 48);
    a += sa;
    d += 64;
  }
}

@inline
function loop2<T>(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, end: usize): void {
  while (d < end) {
    const x0 = v128.load(a), x1 = v128.load(a, 16), x2 = v128.load(a, 32), x3 = v128.load(a, 48);
    const y0 = v128.load(b), y1 = v128.load(b, 16), y2 = v128.load(b, 32), y3 = v128.load(b, 48);
    const r0 = lanes2<T>(code, x0, y0), r1 = lanes2<T>(code, x1, y1), r2 = lanes2<T>(code, x2, y2), r3 = lanes2<T>(code, x3, y3);
    v128.store(d, r0);
    v128.store(d, r1, 16);
    v128.store(d, r2, 32);
    v128.store(d, r3, 48);
    a += sa;
    b += sb;
    d += 64;
  }
}

@inline
function loop3<T>(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): void {
  while (d < end) {
    const x0 = v128.load(a), x1 = v128.load(a, 16), x2 = v128.load(a, 32), x3 = v128.load(a, 48);
    const r0 = lanes3<T>(code, x0, v128.load(b), v128.load(c)), r1 = lanes3<T>(code, x1, v128.load(b, 16), v128.load(c, 16));
    const r2 = lanes3<T>(code, x2, v128.load(b, 32), v128.load(c, 32)), r3 = lanes3<T>(code, x3, v128.load(b, 48), v128.load(c, 48));
    v128.store(d, r0);
    v128.store(d, r1, 16);
    v128.store(d, r2, 32);
    v128.store(d, r3, 48);
    a += sa;
    b += sb;
    c += sc;
    d += 64;
  }
}

/** Runs `code` if there is a vector loop for it; false: the scalar path has to. `d` up to `end` is whole 64-byte groups. */
@inline
function common<T>(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  switch (<i32>code) {
    case StripCode.ADD: loop2<T>(StripCode.ADD, d, a, sa, b, sb, end); return true;
    case StripCode.SUB: loop2<T>(StripCode.SUB, d, a, sa, b, sb, end); return true;
    case StripCode.MUL: loop2<T>(StripCode.MUL, d, a, sa, b, sb, end); return true;
    case StripCode.BITAND: loop2<T>(StripCode.BITAND, d, a, sa, b, sb, end); return true;
    case StripCode.BITOR: loop2<T>(StripCode.BITOR, d, a, sa, b, sb, end); return true;
    case StripCode.BITXOR: loop2<T>(StripCode.BITXOR, d, a, sa, b, sb, end); return true;
    case StripCode.BITNOT: loop1<T>(StripCode.BITNOT, d, a, sa, end); return true;
    case StripCode.NEG: loop1<T>(StripCode.NEG, d, a, sa, end); return true;
    case StripCode.ABS: loop1<T>(StripCode.ABS, d, a, sa, end); return true;
    case StripCode.MULADD: loop3<T>(StripCode.MULADD, d, a, sa, b, sb, c, sc, end); return true;
    default: return false;
  }
}

@inline
function ordered<T>(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  switch (<i32>code) {
    case StripCode.MIN: loop2<T>(StripCode.MIN, d, a, sa, b, sb, end); return true;
    case StripCode.MAX: loop2<T>(StripCode.MAX, d, a, sa, b, sb, end); return true;
    case StripCode.CLIP: loop3<T>(StripCode.CLIP, d, a, sa, b, sb, c, sc, end); return true;
    default: return common<T>(code, d, a, sa, b, sb, c, sc, end);
  }
}

@inline
function compared<T>(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  switch (<i32>code) {
    case StripCode.EQ: loop2<T>(StripCode.EQ, d, a, sa, b, sb, end); return true;
    case StripCode.NE: loop2<T>(StripCode.NE, d, a, sa, b, sb, end); return true;
    case StripCode.LT: loop2<T>(StripCode.LT, d, a, sa, b, sb, end); return true;
    case StripCode.LE: loop2<T>(StripCode.LE, d, a, sa, b, sb, end); return true;
    case StripCode.GT: loop2<T>(StripCode.GT, d, a, sa, b, sb, end); return true;
    case StripCode.GE: loop2<T>(StripCode.GE, d, a, sa, b, sb, end); return true;
    case StripCode.SELECT: loop3<T>(StripCode.SELECT, d, a, sa, b, sb, c, sc, end); return true;
    default: return ordered<T>(code, d, a, sa, b, sb, c, sc, end);
  }
}

@inline
function real<T>(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, end: usize): bool {
  switch (<i32>code) {
    case StripCode.DIV: loop2<T>(StripCode.DIV, d, a, sa, b, sb, end); return true;
    case StripCode.FLOOR: loop1<T>(StripCode.FLOOR, d, a, sa, end); return true;
    case StripCode.CEIL: loop1<T>(StripCode.CEIL, d, a, sa, end); return true;
    case StripCode.TRUNC: loop1<T>(StripCode.TRUNC, d, a, sa, end); return true;
    case StripCode.ROUND: loop1<T>(StripCode.ROUND, d, a, sa, end); return true;
    case StripCode.SQRT: loop1<T>(StripCode.SQRT, d, a, sa, end); return true;
    case StripCode.RSQRT: loop1<T>(StripCode.RSQRT, d, a, sa, end); return true;
    case StripCode.RECIPROCAL: loop1<T>(StripCode.RECIPROCAL, d, a, sa, end); return true;
    case StripCode.RELU: loop1<T>(StripCode.RELU, d, a, sa, end); return true;
    default: return false;
  }
}

/** What the micro module has no loop for: rounding, comparisons, bits, bytes. */
export function vectorF32(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  switch (<i32>code) {
    case StripCode.FLOOR: loop1<f32>(StripCode.FLOOR, d, a, sa, end); return true;
    case StripCode.CEIL: loop1<f32>(StripCode.CEIL, d, a, sa, end); return true;
    case StripCode.TRUNC: loop1<f32>(StripCode.TRUNC, d, a, sa, end); return true;
    case StripCode.ROUND: loop1<f32>(StripCode.ROUND, d, a, sa, end); return true;
    case StripCode.EQ: loop2<f32>(StripCode.EQ, d, a, sa, b, sb, end); return true;
    case StripCode.NE: loop2<f32>(StripCode.NE, d, a, sa, b, sb, end); return true;
    case StripCode.LT: loop2<f32>(StripCode.LT, d, a, sa, b, sb, end); return true;
    case StripCode.LE: loop2<f32>(StripCode.LE, d, a, sa, b, sb, end); return true;
    case StripCode.GT: loop2<f32>(StripCode.GT, d, a, sa, b, sb, end); return true;
    case StripCode.GE: loop2<f32>(StripCode.GE, d, a, sa, b, sb, end); return true;
    case StripCode.SELECT: loop3<f32>(StripCode.SELECT, d, a, sa, b, sb, c, sc, end); return true;
    case StripCode.QUANTIZE_INT8: loop3<f32>(StripCode.QUANTIZE_INT8, d, a, sa, b, sb, c, sc, end); return true;
    case StripCode.QUANTIZE_UINT8: loop3<f32>(StripCode.QUANTIZE_UINT8, d, a, sa, b, sb, c, sc, end); return true;
    default: return false;
  }
}

export function vectorF64(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  return real<f64>(code, d, a, sa, b, sb, end) || ordered<f64>(code, d, a, sa, b, sb, c, sc, end);
}

export function vectorI32(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  return compared<i32>(code, d, a, sa, b, sb, c, sc, end);
}

export function vectorU32(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  return code != StripCode.ABS && compared<u32>(code, d, a, sa, b, sb, c, sc, end);
}

export function vectorI64(code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, end: usize): bool {
  return common<i64>(code, d, a, sa, b, sb, c, sc, end);
}
