/**
 * Storage types that no register holds: each widens exactly to f32 (or i32) and narrows with one rounding, to nearest even.
 * float8 saturates as ONNX Cast does with saturate = 1. Constants are code, not tables: the core has no data segment.
 */

/** Four halves in the low 16 bits of the lanes -> f32, exact; the multiplication also scales subnormals. */
@inline
function widenHalf(x: v128): v128 {
  const magnitude = v128.and(x, i32x4.splat(0x7fff));
  const scaled = f32x4.mul(i32x4.shl(magnitude, 13), f32x4.splat(5.192296858534828e33));
  const special = v128.and(i32x4.ge_s(magnitude, i32x4.splat(0x7c00)), i32x4.splat(0x7f800000));
  return v128.or(v128.or(scaled, special), i32x4.shl(v128.and(x, i32x4.splat(0x8000)), 16));
}

/** `count` halves at `source` -> f32 at `target`. Reads and writes whole groups of eight: both buffers are padded to that. */
export function loadHalf(target: usize, source: usize, count: u32): void {
  const end = target + (<usize>count << 2);
  while (target < end) {
    const x = v128.load(source);
    v128.store(target, widenHalf(i32x4.extend_low_i16x8_u(x)));
    v128.store(target, widenHalf(i32x4.extend_high_i16x8_u(x)), 16);
    source += 16;
    target += 32;
  }
}

/** One f32 -> half, nearest even; NaN becomes 0x7e00. */
@inline
function narrowHalf(value: f32): u32 {
  const bits = reinterpret<u32>(value);
  const sign = (bits >> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7e00;
  if (magnitude >= 0x47800000) return sign | 0x7c00;
  // Subnormal halves: adding 0.5 lets the float adder round at 2^-24.
  if (magnitude < 0x38800000) return sign | (reinterpret<u32>(reinterpret<f32>(magnitude) + <f32>0.5) - 0x3f000000);
  return sign | ((magnitude + 0xc8000fff + ((magnitude >> 13) & 1)) >> 13);
}

export function storeHalf(target: usize, source: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) store<u16>(target + (i << 1), <u16>narrowHalf(load<f32>(source + (i << 2))));
}

export function loadBrain(target: usize, source: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) store<u32>(target + (i << 2), <u32>load<u16>(source + (i << 1)) << 16);
}

export function storeBrain(target: usize, source: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) {
    const bits = load<u32>(source + (i << 2));
    const rounded = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    store<u16>(target + (i << 1), <u16>rounded);
  }
}

/**
 * A small float: sign, exponent and `mantissa` bits in `bits` bits, exponent bias `bias`. `finite`: no infinity (E4M3FN, FNUZ, E2M1).
 * Widening is exact: the magnitude is moved into an f32 whose exponent is off by a power of two, then scaled.
 */
@inline
function widenSmall(x: u32, bits: u32, mantissa: u32, bias: i32): f32 {
  const magnitude = x & ((1 << (bits - 1)) - 1);
  const scale = reinterpret<f32>(<u32>(127 + 127 - bias) << 23);
  const value = reinterpret<f32>(magnitude << (23 - mantissa)) * scale;
  return x >> (bits - 1) ? -value : value;
}

/** Magnitude of `value` in units of the small format, rounded to nearest even: exponent and mantissa in one integer, may exceed the format. */
@inline
function narrowSmall(value: f32, mantissa: u32, bias: i32): u32 {
  const magnitude = reinterpret<u32>(value) & 0x7fffffff;
  const least = <u32>(128 - bias) << 23; // the smallest normal number of the format
  if (magnitude < least) {
    // Subnormal: the integer multiple of the smallest step; nearest() rounds half to even.
    const step = reinterpret<f32>(<u32>(254 - (128 - bias - <i32>mantissa)) << 23);
    return <u32>nearest<f32>(reinterpret<f32>(magnitude) * step);
  }
  const shift = 23 - mantissa;
  const rounded = magnitude + ((1 << (shift - 1)) - 1) + ((magnitude >> shift) & 1);
  return (rounded >> shift) - (<u32>(127 - bias) << mantissa);
}

@inline
export function widenE4M3FN(x: u32): f32 {
  return (x & 0x7f) == 0x7f ? reinterpret<f32>(0x7fc00000) : widenSmall(x, 8, 3, 7);
}

@inline
export function widenE4M3FNUZ(x: u32): f32 {
  return x == 0x80 ? reinterpret<f32>(0x7fc00000) : widenSmall(x, 8, 3, 8);
}

@inline
export function widenE5M2(x: u32): f32 {
  const magnitude = x & 0x7f;
  if (magnitude > 0x7c) return reinterpret<f32>(0x7fc00000);
  if (magnitude == 0x7c) return reinterpret<f32>(0x7f800000 | (x & 0x80) << 24);
  return widenSmall(x, 8, 2, 15);
}

@inline
export function widenE5M2FNUZ(x: u32): f32 {
  return x == 0x80 ? reinterpret<f32>(0x7fc00000) : widenSmall(x, 8, 2, 16);
}

@inline
export function widenE2M1(x: u32): f32 {
  return widenSmall(x & 15, 4, 1, 1);
}

/** E8M0 is 2^(x - 127) without sign or mantissa; 0xff is NaN, 0 is the subnormal f32 2^-127. */
@inline
export function widenE8M0(x: u32): f32 {
  if (x == 0xff) return reinterpret<f32>(0x7fc00000);
  return reinterpret<f32>(x == 0 ? 0x00400000 : x << 23);
}

@inline
export function narrowE4M3FN(value: f32): u32 {
  if (value != value) return 0x7f;
  return (reinterpret<u32>(value) >> 31 << 7) | min<u32>(narrowSmall(value, 3, 7), 0x7e);
}

/** FNUZ formats have no negative zero: 0x80 is their NaN. */
@inline
export function narrowE4M3FNUZ(value: f32): u32 {
  if (value != value) return 0x80;
  const magnitude = min<u32>(narrowSmall(value, 3, 8), 0x7f);
  return magnitude == 0 ? 0 : (reinterpret<u32>(value) >> 31 << 7) | magnitude;
}

@inline
export function narrowE5M2(value: f32): u32 {
  if (value != value) return 0x7e;
  return (reinterpret<u32>(value) >> 31 << 7) | min<u32>(narrowSmall(value, 2, 15), 0x7b);
}

@inline
export function narrowE5M2FNUZ(value: f32): u32 {
  if (value != value) return 0x80;
  const magnitude = min<u32>(narrowSmall(value, 2, 16), 0x7f);
  return magnitude == 0 ? 0 : (reinterpret<u32>(value) >> 31 << 7) | magnitude;
}

/** E2M1 has no NaN: it becomes zero, as in ONNX's reference. */
@inline
export function narrowE2M1(value: f32): u32 {
  if (value != value) return 0;
  return (reinterpret<u32>(value) >> 31 << 3) | min<u32>(narrowSmall(value, 1, 1), 7);
}

/** Rounds up to the next power of two (ONNX round_mode "up", its default for E8M0); zero and negative magnitudes clamp to the smallest. */
@inline
export function narrowE8M0(value: f32): u32 {
  const bits = reinterpret<u32>(value) & 0x7fffffff;
  if (bits > 0x7f800000) return 0xff;
  const exponent = (bits >> 23) + u32((bits & 0x7fffff) > (bits < 0x800000 ? 0x400000 : 0));
  return min<u32>(exponent, 0xfe);
}
