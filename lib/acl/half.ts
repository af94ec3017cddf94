/** Half precision as `float_to_float16` has it: round to nearest even; what is out of range, infinities and NaN saturate to +-65504. */

const MOST = 65504;
const MOST_BITS = 0x7bff;
const scratch = new Float64Array(1);
const scratchWords = new Uint32Array(scratch.buffer);

export function doubleToHalf(value: number): number {
  scratch[0] = value;
  const sign = (scratchWords[1]! >>> 16) & 0x8000;
  const size = Math.abs(value);
  if (!(size <= MOST)) {
    return sign | MOST_BITS;
  }
  if (size < 2 ** -14) {
    return sign | roundEven(size * 2 ** 24); // a subnormal counts units of 2^-24
  }
  const exponent = Math.floor(Math.log2(size));
  const exact = size < 2 ** exponent ? exponent - 1 : size >= 2 ** (exponent + 1) ? exponent + 1 : exponent;
  // The mantissa may round up to 1024: then the sum carries into the exponent, which is right.
  return sign | (((exact + 15) << 10) + roundEven((size / 2 ** exact - 1) * 1024));
}

function roundEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

export function halfToDouble(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 0x3ff;
  if (exponent === 31) {
    return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  return exponent === 0 ? sign * mantissa * 2 ** -24 : sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}
