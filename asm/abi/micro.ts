/** Strip operations on f32 that only the micro module has; numbers behind those of StripCode. */
export enum MicroCode {
  GELU = 128, // x (1 + erf(x / sqrt 2)) / 2
  GELU_TANH,
  SILU, // x sigmoid(x)
  HARD_SWISH,
  ADD_RELU, // max(a + b, 0)
  MUL_RELU, // max(a * b, 0)
  MULADD_RELU, // max(a * b + c, 0)
  PRELU, // a, or a * b where a < 0
}
/** Bytes of scratch that an instance of the micro module needs. */
export const MICRO_SCRATCH_BYTES: u32 = 326656;
