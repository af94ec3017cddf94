/**
 * Elementary functions on groups of vectors: error <= 4 ulp against the exact result (exceptions at each), NaN stays NaN. The polynomials are
 * near-minimax fits. pmin and pmax give their first operand when a comparison is false: the value goes first, so NaN stays.
 */

/** 1.5 * 2^23: adding it rounds to a whole number that then stands in the low bits. */
const MAGIC = 12582912;
const MAGIC_BITS = { bits: 0x4b400000 };
const SIGN = { bits: "0x80000000" };

/** e^x from clamped x: [polynomial of the rest, n + 2^23 * 1.5 as bits]. */
function exponentParts(body, x) {
  const magic = body.constant(MAGIC);
  const shifted = body.madd(x, body.constant(Math.LOG2E), magic);
  const n = body.sub(shifted, magic);
  // ln 2 in two parts: the first has 15 bits, so n times it is exact also without a fused step.
  let r = body.madd(n, body.constant(-0.693145751953125), x);
  r = body.madd(n, body.constant(-1.428606765330187e-6), r);
  const p = body.polynomial(r, [0.0013951717410236597, 0.008369598537683487, 0.0416661873459816, 0.16666512191295624, 0.5]);
  const fraction = body.add(body.constant(1), body.madd(body.mul(r, r), p, r));
  return { fraction, shifted };
}

/** e^x, <= 2 ulp, over the whole range: the power of two goes in as two factors, which subnormal results and the last octave need. */
export function exp(body, x) {
  const clamped = body.call("f32x4.pmax", body.call("f32x4.pmin", x, body.constant(89)), body.constant(-104));
  const { fraction, shifted } = exponentParts(body, clamped);
  const k = body.call("i32x4.sub", shifted, body.constant(MAGIC_BITS));
  const half = body.shift("shr_s", k, 1);
  const bias = body.constant({ bits: 127 });
  const first = body.shift("shl", body.call("i32x4.add", half, bias), 23);
  const second = body.shift("shl", body.call("i32x4.add", body.call("i32x4.sub", k, half), bias), 23);
  return body.mul(body.mul(fraction, first), second);
}

/** e^x for x <= 0, <= 2 ulp; results below 2^-126 are 0. */
export function expNegative(body, x) {
  // At -88 the exponent field is 0, and so is the factor.
  const { fraction, shifted } = exponentParts(body, body.call("f32x4.pmax", x, body.constant(-88)));
  const scale = body.shift("shl", body.call("i32x4.sub", shifted, body.constant({ bits: 0x4b400000 - 127 })), 23);
  return body.mul(fraction, scale);
}

/** 1 / (1 + e^-x), <= 4 ulp; below -87.3 it is 0. Negative x as e^x / (1 + e^x), which keeps the small results. */
export function sigmoid(body, x) {
  const e = expNegative(body, body.call("v128.or", x, body.constant(SIGN)));
  const one = body.constant(1);
  const numerator = body.select(e, one, body.shift("shr_s", x, 31));
  return body.div(numerator, body.add(one, e));
}

/** Odd polynomial below 0.625, else 1 - 2 e^-2x / (1 + e^-2x). */
export function tanh(body, x) {
  const sign = body.call("v128.and", x, body.constant(SIGN));
  const a = body.call("f32x4.abs", x);
  const t = body.mul(x, x);
  const p = body.polynomial(t, [-0.005670106969773769, 0.020610133185982704, -0.05373163893818855, 0.13331356644630432, -0.3333328068256378]);
  const small = body.madd(body.mul(x, t), p, x);
  const e = expNegative(body, body.mul(a, body.constant(-2)));
  const one = body.constant(1);
  const large = body.div(body.sub(one, e), body.add(one, e));
  return body.select(small, body.call("v128.or", large, sign), body.call("f32x4.lt", a, body.constant(0.625)));
}

/** Odd polynomial below 0.9, else 1 - e^q(x) with q a fit of log(erfc). */
export function erf(body, x) {
  const sign = body.call("v128.and", x, body.constant(SIGN));
  const a = body.call("f32x4.abs", x);
  const t = body.mul(x, x);
  const p = body.polynomial(
    t,
    [
      8.481195982312784e-5, -0.0008168985368683934, 0.00520333603505373, -0.026860341429710388, 0.11283712834119797, -0.37612634897232056,
      0.12837916612625122,
    ],
  );
  const small = body.madd(x, p, x);
  // erf is 1 in f32 from 3.92 on; the fit holds to 3.95.
  const c = body.call("f32x4.pmin", a, body.constant(3.95));
  const q = body.polynomial(
    c,
    [
      -2.062920066236984e-5, 0.00042908467003144324, -0.0041450620628893375, 0.025051159784197807, -0.10817490518093109, -0.6334420442581177,
      -1.1294680833816528, 0.0001650076446821913,
    ],
  );
  const large = body.sub(body.constant(1), expNegative(body, q));
  return body.select(small, body.call("v128.or", large, sign), body.call("f32x4.lt", a, body.constant(0.9)));
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

/** x (1 + erf(x / sqrt 2)) / 2: as good as erf, which for x below about -3 means an absolute error of 1e-7 |x|. */
export function gelu(body, x) {
  const half = body.mul(x, body.constant(0.5));
  return body.madd(half, erf(body, body.mul(x, body.constant(Math.SQRT1_2))), half);
}

/** The tanh form of gelu: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. */
export function geluTanh(body, x) {
  const half = body.mul(x, body.constant(0.5));
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
