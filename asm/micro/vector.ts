/** Four f32 at a time: error <= 4 ulp everywhere, NaN stays NaN, results below the normal range are right. Polynomials: own near-minimax fits. */

/** The part of e^x that a fit gives: x clamped, n = round(x / ln 2), e^(x - n ln 2). */
@inline
function expMantissa(x: v128, n: v128): v128 {
  // ln2 in two parts: the first has 15 bits, so n times it is exact.
  const r = f32x4.sub(f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693145751953125))), f32x4.mul(n, f32x4.splat(1.428606765330187e-6)));
  let p = f32x4.splat(0.0013951717410236597);
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(0.008369598537683487));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(0.0416661873459816));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(0.16666512191295624));
  p = f32x4.add(f32x4.mul(p, r), f32x4.splat(0.5));
  return f32x4.add(f32x4.splat(1), f32x4.add(r, f32x4.mul(f32x4.mul(r, r), p)));
}

/** e^x, <= 1.5 ulp. The power of two goes in as two factors: subnormal results and the last octave before overflow need both. */
@inline
export function exp4(x: v128): v128 {
  const clamped = f32x4.min(f32x4.max(x, f32x4.splat(-104)), f32x4.splat(89));
  const n = f32x4.nearest(f32x4.mul(clamped, f32x4.splat(1.4426950408889634)));
  const k = i32x4.trunc_sat_f32x4_s(n);
  const half = i32x4.shr_s(k, 1);
  const one = i32x4.splat(127);
  const first = i32x4.shl(i32x4.add(half, one), 23);
  const second = i32x4.shl(i32x4.add(i32x4.sub(k, half), one), 23);
  return f32x4.mul(f32x4.mul(expMantissa(clamped, n), first), second);
}

/** Natural logarithm, <= 3 ulp: log((1 + s) / (1 - s)) after the mantissa has gone to [sqrt(1/2), sqrt(2)). */
@inline
export function log4(x: v128): v128 {
  const tiny = f32x4.lt(x, f32x4.splat(1.1754943508222875e-38));
  const scaled = v128.bitselect(f32x4.mul(x, f32x4.splat(8388608)), x, tiny);
  const top = i32x4.add(scaled, i32x4.splat(0x3f800000 - 0x3f3504f3));
  const k = i32x4.sub(i32x4.shr_s(top, 23), v128.bitselect(i32x4.splat(127 + 23), i32x4.splat(127), tiny));
  const m = i32x4.add(v128.and(top, i32x4.splat(0x007fffff)), i32x4.splat(0x3f3504f3));
  const f = f32x4.sub(m, f32x4.splat(1));
  const s = f32x4.div(f, f32x4.add(m, f32x4.splat(1)));
  const t = f32x4.mul(s, s);
  let p = f32x4.splat(0.23598457872867584);
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.28536495566368103));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.40000346302986145));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.6666666269302368));
  // 2 s = f - s f: the leading term stays exact, only the correction carries the rounding of the division.
  const e = f32x4.convert_i32x4_s(k);
  const correction = f32x4.sub(f32x4.mul(f32x4.mul(s, t), p), f32x4.mul(s, f));
  const low = f32x4.add(correction, f32x4.mul(e, f32x4.splat(1.428606765330187e-6)));
  let y = f32x4.add(f32x4.mul(e, f32x4.splat(0.693145751953125)), f32x4.add(f, low));
  y = v128.bitselect(f32x4.splat(-Infinity), y, f32x4.eq(x, f32x4.splat(0)));
  y = v128.bitselect(x, y, f32x4.eq(x, f32x4.splat(Infinity)));
  const defined = f32x4.ge(x, f32x4.splat(0));
  return v128.bitselect(y, f32x4.splat(NaN), defined);
}

/** 1 / (1 + e^-x), <= 3 ulp: for negative x as e^x / (1 + e^x), which keeps the small results. */
@inline
export function sigmoid4(x: v128): v128 {
  const e = exp4(v128.or(x, i32x4.splat(0x80000000)));
  const one = f32x4.splat(1);
  const numerator = v128.bitselect(e, one, i32x4.shr_s(x, 31));
  return f32x4.div(numerator, f32x4.add(one, e));
}

/** <= 3 ulp: odd polynomial below 0.625, else 1 - 2 / (e^2x + 1). */
@inline
export function tanh4(x: v128): v128 {
  const sign = v128.and(x, i32x4.splat(0x80000000));
  const a = f32x4.abs(x);
  const t = f32x4.mul(x, x);
  let p = f32x4.splat(-0.005670106969773769);
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.020610133185982704));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(-0.05373163893818855));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.13331356644630432));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(-0.3333328068256378));
  const small = f32x4.add(x, f32x4.mul(f32x4.mul(x, t), p));
  const e = exp4(f32x4.add(a, a));
  const large = f32x4.sub(f32x4.splat(1), f32x4.div(f32x4.splat(2), f32x4.add(e, f32x4.splat(1))));
  return v128.bitselect(small, v128.or(large, sign), f32x4.lt(a, f32x4.splat(0.625)));
}

/** <= 3 ulp: odd polynomial below 0.9, else 1 - e^q(x) with q a fit of log(erfc). */
@inline
export function erf4(x: v128): v128 {
  const sign = v128.and(x, i32x4.splat(0x80000000));
  const a = f32x4.abs(x);
  const t = f32x4.mul(x, x);
  let p = f32x4.splat(8.481195982312784e-05);
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(-0.0008168985368683934));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.00520335603505373));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(-0.026860341429710388));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.11283712834119797));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(-0.37612634897232056));
  p = f32x4.add(f32x4.mul(p, t), f32x4.splat(0.12837916612625122));
  const small = f32x4.add(x, f32x4.mul(x, p));
  // erf is 1 in f32 from 3.92 on; the fit holds to 3.95.
  const c = f32x4.min(a, f32x4.splat(3.95));
  let q = f32x4.splat(-2.062920066236984e-05);
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(0.00042908467003144324));
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(-0.0041450620628893375));
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(0.025051159784197807));
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(-0.10817490518093109));
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(-0.6334420442581177));
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(-1.1294680833816528));
  q = f32x4.add(f32x4.mul(q, c), f32x4.splat(0.0001650076446821913));
  const large = f32x4.sub(f32x4.splat(1), exp4(q));
  return v128.bitselect(small, v128.or(large, sign), f32x4.lt(a, f32x4.splat(0.9)));
}
