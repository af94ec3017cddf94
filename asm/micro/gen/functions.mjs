/**
 * Elementary functions on groups of vectors: error against the exact result at each, NaN stays NaN. Polynomials and rational functions are
 * near-minimax fits of our own. pmin and pmax give their first operand when a comparison is false: the value goes first, so NaN stays.
 */

/**
 * Adding it rounds to a whole number: 1.5 * 2^23. The 127 is the bias of an exponent, so the low bits then hold the field of 2^n, and a shift by 23
 * leaves nothing else.
 */
const MAGIC = 12582912 + 127;
const MAGIC_BITS = 0x4b400000 + 127;

/** Coefficients of (e^r - 1 - r) / r^2 up to half of ln 2, highest first: 0.05 and 1.8 units of 2^-24 off in e^r. */
const EXACT = [0.0013951717410236597, 0.008369598537683487, 0.0416661873459816, 0.16666512191295624, 0.5];
const SHORT = [0.008312515494983134, 0.04189020078920632, 0.166671148350293, 0.49999231196970123];

/** e^(sign x) = fraction * 2^n from clamped x: [fraction, n + MAGIC, whose bits `powerOfTwo` takes]. */
function exponentParts(body, x, sign, coefficients) {
  const magic = body.constant(MAGIC);
  const shifted = body.madd(x, body.constant(sign * Math.LOG2E), magic);
  const n = body.sub(shifted, magic);
  // ln 2 in two parts: the first has 15 bits, so n times it is exact also without a fused step. r has the sign of x.
  let r = body.madd(n, body.constant(-sign * 0.693145751953125), x);
  r = body.madd(n, body.constant(-sign * 1.428606765330187e-6), r);
  const series = [...coefficients, 1, 1];
  const fraction = body.polynomial(
    r,
    series.map((coefficient, i) => ((series.length - 1 - i) % 2 === 1 ? sign * coefficient : coefficient)),
  );
  return { fraction, shifted };
}

/** 2^n for n from -127 (0) to 128 (Infinity). */
const powerOfTwo = (body, shifted) => body.shift("shl", shifted, 23);

/** e^x, <= 2 ulp, over the whole range: the power of two goes in as two factors, which subnormal results and the last octave need. */
export function exp(body, x) {
  const clamped = body.call("f32x4.pmax", body.call("f32x4.pmin", x, body.constant(89)), body.constant(-104));
  const { fraction, shifted } = exponentParts(body, clamped, 1, EXACT);
  const k = body.call("i32x4.sub", shifted, body.constant({ bits: MAGIC_BITS }));
  const half = body.shift("shr_s", k, 1);
  const first = body.shift("shl", body.call("i32x4.add", half, body.constant({ bits: 127 })), 23);
  const second = powerOfTwo(body, body.call("i32x4.sub", shifted, half));
  return body.mul(body.mul(fraction, first), second);
}

/** e^x for x <= 0, <= 2 ulp; results below 2^-126 are 0. */
export function expNegative(body, x) {
  // At -88 the exponent field is 0, and so is the factor.
  const { fraction, shifted } = exponentParts(body, body.call("f32x4.pmax", x, body.constant(-88)), 1, EXACT);
  return body.mul(fraction, powerOfTwo(body, shifted));
}

/** 1 / (1 + e^-x), <= 4 ulp; below -88.3 it is 0. The quotient keeps the small results: for x << 0 it is 1 / e^-x. */
export function sigmoid(body, x) {
  const clamped = body.call("f32x4.pmin", body.call("f32x4.pmax", x, body.constant(-89)), body.constant(88));
  const { fraction, shifted } = exponentParts(body, clamped, -1, SHORT);
  // At -88.4 the exponent field is all ones: the factor is infinite and the quotient 0.
  const one = body.constant(1);
  return body.div(one, body.madd(fraction, powerOfTwo(body, shifted), one));
}

/** An odd function with limits -1 and 1: x P(x^2) / Q(x^2) up to `limit`, where it rounds to the limit. One path for all x needs no selection. */
function oddRational(body, x, limit, numerator, denominator) {
  const c = body.call("f32x4.pmax", body.call("f32x4.pmin", x, body.constant(limit)), body.constant(-limit));
  const t = body.mul(c, c);
  const p = body.polynomial(t, numerator);
  const q = body.polynomial(t, denominator);
  const y = body.div(body.mul(c, p), q);
  // Rounding may lead past 1, which asin or sqrt(1 - y * y) would not forgive.
  return body.call("f32x4.pmax", body.call("f32x4.pmin", y, body.constant(1)), body.constant(-1));
}

/** <= 7 ulp, below 1 on average. */
export function tanh(body, x) {
  const numerator = [
    -8.43613373602281e-14, 5.257803914471282e-11, -2.0183996696232498e-8, 1.1144257769046817e-5, 0.003103001043200493, 0.13083156943321228, 1,
  ];
  return oddRational(body, x, 9.01, numerator, [0.00025447510415688157, 0.024491379037499428, 0.4641648232936859, 1]);
}

/** <= 7 ulp, below 1 on average. */
export function erf(body, x) {
  const numerator = [
    2.0419672637217445e-6, 0.00028480860055424273, 0.0037796166725456715, 0.052790310233831406, 0.1907840222120285, 1.1283791065216064,
  ];
  const denominator = [3.8004040106898174e-5, 0.0011652142275124788, 0.0149974524974823, 0.11425760388374329, 0.5024106502532959, 1];
  return oddRational(body, x, 3.92, numerator, denominator);
}

/** log((1 + s) / (1 - s)) after the mantissa has gone to [sqrt(1/2), sqrt(2)). */
export function log(body, x) {
  const tiny = body.call("f32x4.lt", x, body.constant(1.1754943508222875e-38));
  const scaled = body.select(body.mul(x, body.constant(8388608)), x, tiny);
  const top = body.call("i32x4.add", scaled, body.constant({ bits: 0x3f800000 - 0x3f3504f3 }));
  const bias = body.select(body.constant({ bits: 127 + 23 }), body.constant({ bits: 127 }), tiny);
  const k = body.call("i32x4.sub", body.shift("shr_s", top, 23), bias);
  const m = body.call("i32x4.add", body.call("v128.and", top, body.constant({ bits: 0x007fffff })), body.constant({ bits: 0x3f3504f3 }));
  const f = body.sub(m, body.constant(1));
  const s = body.div(f, body.add(m, body.constant(1)));
  const t = body.mul(s, s);
  const p = body.polynomial(t, [0.23598457872867584, 0.28536495566368103, 0.40000346302986145, 0.6666666269302368]);
  // 2 s = f - s f: the leading term stays exact, only the correction carries the rounding of the division.
  const e = body.call("f32x4.convert_i32x4_s", k);
  const correction = body.sub(body.mul(body.mul(s, t), p), body.mul(s, f));
  const low = body.madd(e, body.constant(1.428606765330187e-6), correction);
  let y = body.madd(e, body.constant(0.693145751953125), body.add(f, low));
  y = body.select(body.constant(-Infinity), y, body.call("f32x4.eq", x, body.constant(0)));
  y = body.select(x, y, body.call("f32x4.eq", x, body.constant(Infinity)));
  return body.select(y, body.constant({ bits: 0x7fc00000 }), body.call("f32x4.ge", x, body.constant(0)));
}

/**
 * x (1 + erf(x / sqrt 2)) / 2 as max(x, 0) - |x| / 2 * erfc(|x| / sqrt 2), with erfc = e^q and q a fit of its logarithm: no cancellation for x < 0, and
 * no selection by sign. Error <= 8 ulp for x > -1, <= 4e-6 of the result down to -5, <= 2e-7 below, where |x| stands still.
 */
export function gelu(body, x) {
  const z = body.call("f32x4.pmin", body.call("f32x4.abs", body.mul(x, body.constant(Math.SQRT1_2))), body.constant(3.95));
  const fit = [
    1.5649311535526067e-6, -2.8706283046631142e-5, 0.00020489515736699104, -0.0005605053156614304, -0.0014912689803168178, 0.02057088166475296,
    -0.10343380272388458, -0.6364784240722656, -1.1283890008926392,
  ];
  const e = expNegative(body, body.mul(z, body.polynomial(z, fit)));
  return body.madd(body.mul(z, e), body.constant(-Math.SQRT1_2), body.call("f32x4.pmax", x, body.constant(0)));
}

/** The tanh form of gelu: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. */
export function geluTanh(body, x) {
  // Far below zero the rounding of 1 + tanh must not meet a large factor.
  const half = body.mul(body.call("f32x4.pmax", x, body.constant(-5)), body.constant(0.5));
  const cube = body.mul(body.mul(x, x), body.constant(0.044715));
  const inner = body.mul(body.madd(cube, x, x), body.constant(0.7978845608028654));
  return body.madd(half, tanh(body, inner), half);
}

/** x / (1 + e^-x); -Infinity gives NaN, as the formula does. */
export function silu(body, x) {
  return body.mul(x, sigmoid(body, x));
}

/** x * clip(x / 6 + 0.5, 0, 1). */
export function hardSwish(body, x) {
  const gate = body.madd(x, body.constant(1 / 6), body.constant(0.5));
  return body.mul(x, body.call("f32x4.pmax", body.call("f32x4.pmin", gate, body.constant(1)), body.constant(0)));
}
