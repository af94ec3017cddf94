/**
 * Elementary functions in f64, without tables: the scalar path of f64 registers, and of f32 ones where a vector is not worth it
 * (rounded to f32 they are correct to half an ulp but for rare ties). Errors below are against exact values.
 */

/** 2^k for any k: two factors, so that results below the normal range round once. */
@inline
function scaleBy(x: f64, k: i32): f64 {
  k = max<i32>(min<i32>(k, 2046), -2100);
  const half = k >> 1;
  const rest = k - half;
  return x * reinterpret<f64>(<u64>(1023 + max<i32>(half, -1022)) << 52) * reinterpret<f64>(<u64>(1023 + max<i32>(rest, -1022)) << 52);
}

/** e^r - 1 for |r| <= 0.35: Taylor to r^13, remainder below 2^-54. */
@inline
function expSmall(r: f64): f64 {
  let p: f64 = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return r + r * r * p;
}

/** Error <= 1 ulp. */
export function exp(x: f64): f64 {
  if (x != x) return x;
  if (x > 710) return Infinity;
  if (x < -750) return 0;
  const k = nearest<f64>(x * 1.4426950408889634);
  // ln2 in two parts; the first has 32 bits, so k times it is exact.
  const r = x - k * 0.6931471803691238 - k * 1.9082149292705877e-10;
  return scaleBy(1 + expSmall(r), <i32>k);
}

/** e^x - 1. Error <= 2 ulp. */
export function expm1(x: f64): f64 {
  if (abs<f64>(x) < 0.34) return expSmall(x);
  return exp(x) - 1;
}

/** log((1 + s) / (1 - s)) - 2 s, for |s| < 0.172: the odd series to s^23. */
@inline
function logSeries(s: f64): f64 {
  const t = s * s;
  let p: f64 = 2.0 / 23.0;
  p = p * t + 2.0 / 21.0;
  p = p * t + 2.0 / 19.0;
  p = p * t + 2.0 / 17.0;
  p = p * t + 2.0 / 15.0;
  p = p * t + 2.0 / 13.0;
  p = p * t + 2.0 / 11.0;
  p = p * t + 2.0 / 9.0;
  p = p * t + 2.0 / 7.0;
  p = p * t + 2.0 / 5.0;
  p = p * t + 2.0 / 3.0;
  return s * t * p;
}

/** Error <= 2 ulp. */
export function log(x: f64): f64 {
  if (x != x || x < 0) return NaN;
  if (x == 0) return -Infinity;
  if (x == Infinity) return x;
  let k: i32 = 0;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0;
    k = -54;
  }
  let bits = reinterpret<u64>(x);
  // The mantissa goes to [sqrt(1/2), sqrt(2)): 0x6a09e... is the fraction of sqrt(2).
  const top = bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd);
  k += <i32>(top >> 52) - 1023;
  bits = (top & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd;
  const m = reinterpret<f64>(bits);
  const s = (m - 1) / (m + 1);
  return <f64>k * 0.6931471803691238 + (2 * s + (logSeries(s) + <f64>k * 1.9082149292705877e-10));
}

/** log(1 + x). Error <= 3 ulp. */
export function log1p(x: f64): f64 {
  if (abs<f64>(x) < 0.25) {
    const s = x / (2 + x);
    return 2 * s + logSeries(s);
  }
  return log(1 + x);
}

/** 64 bits of 2/pi from bit 64 * `i` after the point. */
function twoOverPi(i: u32): u64 {
  switch (<i32>i) {
    case 0: return 0xa2f9836e4e441529;
    case 1: return 0xfc2757d1f534ddc0;
    case 2: return 0xdb6295993c439041;
    case 3: return 0xfe5163abdebbc561;
    case 4: return 0xb7246e3a424dd2e0;
    case 5: return 0x06492eea09d1921c;
    case 6: return 0xfe1deb1cb129a73e;
    case 7: return 0xe88235f52ebb4484;
    case 8: return 0xe99c7026b45f7e41;
    case 9: return 0x3991d639835339f4;
    case 10: return 0x9c845f8bbdf9283b;
    case 11: return 0x1ff897ffde05980f;
    case 12: return 0xef2f118b5a0a6d1f;
    case 13: return 0x6d367ecf27cb09b7;
    case 14: return 0x4f463f669e5fea2d;
    case 15: return 0x7527bac7ebe5f17b;
    case 16: return 0x3d0739f78a5292ea;
    case 17: return 0x6bfb5fb11f8d5d08;
    case 18: return 0x56033046fc7b6bab;
    case 19: return 0xf0cfbc209af4361d;
    default: return 0;
  }
}

/** 64 bits of 2/pi from bit `at` (negative: zeros before the point). */
function piBits(at: i32): u64 {
  if (at <= -64) return 0;
  if (at < 0) return twoOverPi(0) >> <u64>(-at);
  const word = <u32>at >> 6;
  const shift = <u64>(at & 63);
  return shift == 0 ? twoOverPi(word) : (twoOverPi(word) << shift) | (twoOverPi(word + 1) >> (64 - shift));
}

@inline
function highProduct(a: u64, b: u64): u64 {
  const al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
  const middle = ah * bl + (al * bl >> 32);
  const cross = al * bh + (middle & 0xffffffff);
  return ah * bh + (middle >> 32) + (cross >> 32);
}

/** Quadrant of the last `reduce`. */
let quadrant: i32 = 0;

/** |x| -> remainder in [-pi/4, pi/4] and `quadrant`, for every finite x. Error <= 2^-60 relative to the larger of the remainder and 2^-40. */
function reduce(x: f64): f64 {
  if (x < 0.7853981633974483) {
    quadrant = 0;
    return x;
  }
  if (x < 1048576) {
    // pi/2 in parts of 33 bits: k times each of the first two is exact.
    const k = nearest<f64>(x * 0.6366197723675814);
    quadrant = <i32>k;
    return x - k * 1.5707963267341256 - k * 6.077100506303966e-11 - k * 2.0222662487959506e-21;
  }
  // x = m * 2^e, m of 53 bits: bits of 2/pi that weigh 4 or more after the product only add whole turns.
  const bits = reinterpret<u64>(x);
  const e = <i32>(bits >> 52) - 1075;
  const m = (bits & 0x000fffffffffffff) | 0x0010000000000000;
  const a = piBits(e - 2), b = piBits(e + 62), c = piBits(e + 126);
  // (a, b, c) * m modulo 2^64 in units of 2^-62: two bits of quadrant, then the fraction.
  const low = b * m + highProduct(c, m);
  const carry: u64 = low < b * m ? 1 : 0;
  let high = a * m + highProduct(b, m) + carry;
  quadrant = <i32>(high >> 62);
  high <<= 2;
  const fraction = high | (low >> 62);
  // To [-1/2, 1/2): the sign bit of the fraction rounds the quadrant up.
  if (<i64>fraction < 0) quadrant++;
  const tail = <f64>((low << 2) >> 11) * 1.1102230246251565e-16;
  return (<f64><i64>fraction + tail) * 5.421010862427522e-20 * 1.5707963267948966;
}

/** sin on [-pi/4, pi/4]. */
@inline
function sinCore(r: f64): f64 {
  const t = r * r;
  let p: f64 = 1.0 / 355687428096000.0;
  p = p * t - 1.0 / 1307674368000.0;
  p = p * t + 1.0 / 6227020800.0;
  p = p * t - 1.0 / 39916800.0;
  p = p * t + 1.0 / 362880.0;
  p = p * t - 1.0 / 5040.0;
  p = p * t + 1.0 / 120.0;
  p = p * t - 1.0 / 6.0;
  return r + r * t * p;
}

@inline
function cosCore(r: f64): f64 {
  const t = r * r;
  let p: f64 = 1.0 / 20922789888000.0;
  p = p * t - 1.0 / 87178291200.0;
  p = p * t + 1.0 / 479001600.0;
  p = p * t - 1.0 / 3628800.0;
  p = p * t + 1.0 / 40320.0;
  p = p * t - 1.0 / 720.0;
  p = p * t + 1.0 / 24.0;
  return 1 - (0.5 * t - t * t * p);
}

export function sin(x: f64): f64 {
  if (!(abs<f64>(x) < Infinity)) return NaN;
  const r = reduce(abs<f64>(x));
  const value = quadrant & 1 ? cosCore(r) : sinCore(r);
  return (quadrant & 2) != 0 != x < 0 ? -value : x == 0 ? x : value;
}

export function cos(x: f64): f64 {
  if (!(abs<f64>(x) < Infinity)) return NaN;
  const r = reduce(abs<f64>(x));
  const value = quadrant & 1 ? sinCore(r) : cosCore(r);
  return (quadrant + 1) & 2 ? -value : value;
}

export function tan(x: f64): f64 {
  if (!(abs<f64>(x) < Infinity)) return NaN;
  if (x == 0) return x;
  const r = reduce(abs<f64>(x));
  const value = quadrant & 1 ? -cosCore(r) / sinCore(r) : sinCore(r) / cosCore(r);
  return x < 0 ? -value : value;
}

/** Argument halved twice by atan(x) = 2 atan(x / (1 + sqrt(1 + x^2))), then the odd series to x^27. Error <= 2 ulp. */
export function atan(x: f64): f64 {
  if (x != x) return x;
  const large = abs<f64>(x) > 1;
  let r = large ? 1 / abs<f64>(x) : abs<f64>(x);
  let doublings: f64 = 1;
  while (r > 0.2) {
    r = r / (1 + sqrt<f64>(1 + r * r));
    doublings *= 2;
  }
  const t = r * r;
  let p: f64 = 0;
  for (let n: i32 = 27; n >= 3; n -= 2) p = t * (1.0 / <f64>n - p);
  let value = doublings * (r - r * p);
  if (large) value = 1.5707963267948966 - value;
  return x < 0 ? -value : x == 0 ? x : value;
}

export function asin(x: f64): f64 {
  if (!(abs<f64>(x) <= 1)) return NaN;
  if (x == 0) return x;
  if (abs<f64>(x) > 0.7) {
    const value = 1.5707963267948966 - 2 * atan(sqrt<f64>((1 - abs<f64>(x)) / (1 + abs<f64>(x))));
    return x < 0 ? -value : value;
  }
  return atan(x / sqrt<f64>((1 - x) * (1 + x)));
}

export function acos(x: f64): f64 {
  if (!(abs<f64>(x) <= 1)) return NaN;
  return 2 * atan(sqrt<f64>((1 - x) / (1 + x)));
}

export function sinh(x: f64): f64 {
  const a = abs<f64>(x);
  let value: f64;
  if (a < 20) {
    const m = expm1(a);
    value = 0.5 * (m + m / (m + 1));
  } else {
    const half = exp(0.5 * a);
    value = 0.5 * half * half;
  }
  return x < 0 ? -value : x == 0 ? x : value;
}

export function cosh(x: f64): f64 {
  const half = exp(0.5 * abs<f64>(x));
  return abs<f64>(x) > 20 ? 0.5 * half * half : 0.5 * (exp(x) + exp(-x));
}

export function tanh(x: f64): f64 {
  if (x == 0 || x != x) return x;
  const a = abs<f64>(x);
  const m = expm1(2 * a);
  const value = a > 22 ? 1 : m / (m + 2);
  return x < 0 ? -value : value;
}

export function asinh(x: f64): f64 {
  if (x == 0 || !(abs<f64>(x) < Infinity)) return x;
  const a = abs<f64>(x);
  const value = a > 1e8 ? log(a) + 0.6931471805599453 : log1p(a + a * a / (1 + sqrt<f64>(a * a + 1)));
  return x < 0 ? -value : value;
}

export function acosh(x: f64): f64 {
  if (!(x >= 1)) return NaN;
  if (x > 1e8) return log(x) + 0.6931471805599453;
  const d = x - 1;
  return log1p(d + sqrt<f64>(d * (x + 1)));
}

export function atanh(x: f64): f64 {
  if (x == 0) return x;
  const a = abs<f64>(x);
  const value = 0.5 * log1p(2 * a / (1 - a));
  return a > 1 ? NaN : x < 0 ? -value : value;
}

/** Below 3 a series of positive terms, above the continued fraction of erfc: error <= 4 ulp. */
export function erf(x: f64): f64 {
  if (x != x || x == 0) return x;
  const a = abs<f64>(x);
  let value: f64 = 1;
  if (a < 3) {
    let term = a;
    let total = a;
    for (let n: i32 = 1; n < 80 && term > total * 1e-17; n++) {
      term *= 2 * a * a / <f64>(2 * n + 1);
      total += term;
    }
    value = 1.1283791670955126 * exp(-a * a) * total;
  } else if (a < 6) {
    let f = a;
    for (let n: i32 = 60; n >= 1; n--) f = a + 0.5 * <f64>n / f;
    value = 1 - exp(-a * a) / (f * 1.772453850905516);
  }
  return x < 0 ? -value : value;
}

/** IEEE pow. Small whole exponents multiply out; else exp(y log x): relative error about |y log x| * 2^-52. */
export function pow(x: f64, y: f64): f64 {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return NaN;
  const whole = nearest<f64>(y) == y;
  const odd = whole && abs<f64>(y) < 9007199254740992 && (<i64>y & 1) != 0;
  if (abs<f64>(y) == Infinity) {
    const a = abs<f64>(x);
    return a == 1 ? 1 : a > 1 == y > 0 ? Infinity : 0;
  }
  if (x == 0) return y > 0 ? (odd ? x : 0) : odd ? 1 / x : Infinity;
  if (whole && abs<f64>(y) <= 64) {
    let base = x;
    let value: f64 = 1;
    for (let n = <i32>abs<f64>(y); n != 0; n >>= 1) {
      if (n & 1) value *= base;
      base *= base;
    }
    return y < 0 ? 1 / value : value;
  }
  if (x < 0 && !whole) return x == -Infinity ? (y > 0 ? Infinity : 0) : NaN;
  const value = y == 0.5 ? sqrt<f64>(abs<f64>(x)) : exp(y * log(abs<f64>(x)));
  return odd && x < 0 ? -value : value;
}

/** C fmod: the sign of x, exact. */
export function fmod(x: f64, y: f64): f64 {
  return x % y;
}
