/** Strip operations one element at a time: what a vector has no instruction for, and functions whose cost hides the loop. */
import { StripCode, StripType } from "../abi/strip";
import * as math from "../micro/math";

/** Byte offsets are cut to 64 bytes for a splat, whose step is 0. */
@inline
function mask(step: usize): usize {
  return step == 0 ? 63 : usize.MAX_VALUE;
}

function function1(code: u32, x: f64): f64 {
  switch (<i32>code) {
    case StripCode.EXP: return math.exp(x);
    case StripCode.LOG: return math.log(x);
    case StripCode.SIN: return math.sin(x);
    case StripCode.COS: return math.cos(x);
    case StripCode.TAN: return math.tan(x);
    case StripCode.ASIN: return math.asin(x);
    case StripCode.ACOS: return math.acos(x);
    case StripCode.ATAN: return math.atan(x);
    case StripCode.SINH: return math.sinh(x);
    case StripCode.COSH: return math.cosh(x);
    case StripCode.TANH: return math.tanh(x);
    case StripCode.ASINH: return math.asinh(x);
    case StripCode.ACOSH: return math.acosh(x);
    case StripCode.ATANH: return math.atanh(x);
    case StripCode.ERF: return math.erf(x);
    case StripCode.SIGMOID: {
      const e = math.exp(-abs<f64>(x));
      return (x < 0 ? e : 1) / (1 + e);
    }
    // NaN and zeros keep what they are.
    case StripCode.SIGN: return x > 0 ? 1 : x < 0 ? -1 : x;
    default: return unreachable();
  }
}

function function2(code: u32, x: f64, y: f64): f64 {
  switch (<i32>code) {
    case StripCode.POW: return math.pow(x, y);
    case StripCode.FMOD: return math.fmod(x, y);
    case StripCode.MOD: {
      const r = math.fmod(x, y);
      return r != 0 && r < 0 != y < 0 ? r + y : r;
    }
    default: return unreachable();
  }
}

@inline
function integerPower<T>(base: T, exponent: T): T {
  if (isSigned<T>() && exponent < 0) {
    // Only +-1 has a whole inverse; 0 has none and gives 0 like every division by zero here.
    return base == 1 ? 1 : base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0;
  }
  let value: T = 1;
  while (exponent != 0) {
    if ((exponent & 1) != 0) value *= base;
    base *= base;
    exponent = exponent >> 1;
  }
  return value;
}

@inline
function quotient<T>(x: T, y: T): T {
  if (y == 0) return 0;
  if (isSigned<T>() && y == -1) return <T>0 - x;
  return x / y;
}

/** Remainder with the sign of x. */
@inline
function remainder<T>(x: T, y: T): T {
  if (y == 0 || (isSigned<T>() && y == -1)) return 0;
  return x % y;
}

@inline
function integer2<T>(code: u32, x: T, y: T): T {
  const bits = <T>(sizeof<T>() * 8);
  switch (<i32>code) {
    case StripCode.DIV: return quotient<T>(x, y);
    case StripCode.FMOD: return remainder<T>(x, y);
    case StripCode.MOD: {
      const r = remainder<T>(x, y);
      return isSigned<T>() && r != 0 && r < 0 != y < 0 ? r + y : r;
    }
    case StripCode.POW: return integerPower<T>(x, y);
    case StripCode.MIN: return x < y ? x : y;
    case StripCode.MAX: return x > y ? x : y;
    case StripCode.SHL: return y < 0 || y >= bits ? 0 : x << y;
    case StripCode.SHR: return y < 0 || y >= bits ? 0 : x >> y;
    default: return unreachable();
  }
}

@inline
function compare<T>(code: u32, x: T, y: T): i32 {
  switch (<i32>code) {
    case StripCode.EQ: return i32(x == y);
    case StripCode.NE: return i32(x != y);
    case StripCode.LT: return i32(x < y);
    case StripCode.LE: return i32(x <= y);
    case StripCode.GT: return i32(x > y);
    case StripCode.GE: return i32(x >= y);
    case StripCode.AND: return i32(x != 0) & i32(y != 0);
    case StripCode.OR: return i32(x != 0) | i32(y != 0);
    case StripCode.XOR: return i32(x != 0) ^ i32(y != 0);
    case StripCode.NOT: return i32(x == 0);
    case StripCode.ISNAN: return i32(x != x);
    default: return isFloat<T>() ? i32(x == x && x - x != 0) : 0;
  }
}

/** Comparisons and logic: i32 out, whatever goes in. `ISINF` is any infinity. */
@inline
function compareLoop<T>(code: u32, d: usize, a: usize, ma: usize, b: usize, mb: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) {
    const at = i * sizeof<T>();
    store<i32>(d + (i << 2), compare<T>(code, load<T>(a + (at & ma)), load<T>(b + (at & mb))));
  }
}

@inline
function floatLoop<T>(code: u32, d: usize, a: usize, ma: usize, b: usize, mb: usize, count: u32): void {
  const end = <usize>count * sizeof<T>();
  if (code == StripCode.POW || code == StripCode.MOD || code == StripCode.FMOD) {
    for (let at: usize = 0; at < end; at += sizeof<T>()) store<T>(d + at, <T>function2(code, load<T>(a + (at & ma)), load<T>(b + (at & mb))));
  } else {
    for (let at: usize = 0; at < end; at += sizeof<T>()) store<T>(d + at, <T>function1(code, load<T>(a + (at & ma))));
  }
}

@inline
function integerLoop<T>(code: u32, d: usize, a: usize, ma: usize, b: usize, mb: usize, c: usize, mc: usize, count: u32): void {
  const end = <usize>count * sizeof<T>();
  switch (<i32>code) {
    case StripCode.RELU:
      for (let at: usize = 0; at < end; at += sizeof<T>()) {
        const x = load<T>(a + (at & ma));
        store<T>(d + at, isSigned<T>() && x < 0 ? 0 : x);
      }
      break;
    case StripCode.SIGN:
      for (let at: usize = 0; at < end; at += sizeof<T>()) {
        const x = load<T>(a + (at & ma));
        store<T>(d + at, x > 0 ? 1 : x == 0 ? 0 : <T>-1);
      }
      break;
    case StripCode.CLIP:
      for (let at: usize = 0; at < end; at += sizeof<T>()) {
        const x = load<T>(a + (at & ma)), low = load<T>(b + (at & mb)), high = load<T>(c + (at & mc));
        const raised = x < low ? low : x;
        store<T>(d + at, raised > high ? high : raised);
      }
      break;
    case StripCode.ABS: case StripCode.FLOOR: case StripCode.CEIL: case StripCode.ROUND: case StripCode.TRUNC:
      for (let at: usize = 0; at < end; at += sizeof<T>()) store<T>(d + at, load<T>(a + (at & ma)));
      break;
    default:
      for (let at: usize = 0; at < end; at += sizeof<T>()) store<T>(d + at, integer2<T>(code, load<T>(a + (at & ma)), load<T>(b + (at & mb))));
  }
}

/** SELECT of 8-byte elements: the condition has 4 bytes. */
function select8(d: usize, a: usize, ma: usize, b: usize, mb: usize, c: usize, mc: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) {
    const at = i << 3;
    store<u64>(d + at, load<i32>(a + ((i << 2) & ma)) != 0 ? load<u64>(b + (at & mb)) : load<u64>(c + (at & mc)));
  }
}

function move(type: u32, d: usize, a: usize, ma: usize, count: u32): void {
  if (type == StripType.F32 || type == StripType.I32 || type == StripType.U32) {
    for (let at: usize = 0, end = <usize>count << 2; at < end; at += 4) store<u32>(d + at, load<u32>(a + (at & ma)));
  } else {
    for (let at: usize = 0, end = <usize>count << 3; at < end; at += 8) store<u64>(d + at, load<u64>(a + (at & ma)));
  }
}

/** ABS of signed 64-bit integers is in the vector path; what is here leaves its argument as it is (unsigned, or already whole). */
export function scalar(type: u32, code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, count: u32): void {
  const ma = mask(sa), mb = mask(sb), mc = mask(sc);
  if (code == StripCode.MOVE) {
    move(type, d, a, ma, count);
    return;
  }
  if (code == StripCode.SELECT) {
    select8(d, a, ma, b, mb, c, mc, count);
    return;
  }
  const compares = code >= <u32>StripCode.EQ && code <= <u32>StripCode.ISINF;
  switch (<i32>type) {
    case StripType.F32: compares ? compareLoop<f32>(code, d, a, ma, b, mb, count) : floatLoop<f32>(code, d, a, ma, b, mb, count); break;
    case StripType.F64: compares ? compareLoop<f64>(code, d, a, ma, b, mb, count) : floatLoop<f64>(code, d, a, ma, b, mb, count); break;
    case StripType.I32: compares ? compareLoop<i32>(code, d, a, ma, b, mb, count) : integerLoop<i32>(code, d, a, ma, b, mb, c, mc, count); break;
    case StripType.U32: compares ? compareLoop<u32>(code, d, a, ma, b, mb, count) : integerLoop<u32>(code, d, a, ma, b, mb, c, mc, count); break;
    case StripType.I64: compares ? compareLoop<i64>(code, d, a, ma, b, mb, count) : integerLoop<i64>(code, d, a, ma, b, mb, c, mc, count); break;
    default: compares ? compareLoop<u64>(code, d, a, ma, b, mb, count) : integerLoop<u64>(code, d, a, ma, b, mb, c, mc, count); break;
  }
}
