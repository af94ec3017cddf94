/** Contiguous elements of any dtype <-> a register of the type that holds them: f32, f64, i32 or i64 lanes (`registerType`). */
import { Dtype } from "../abi/program";
import { StripType } from "../abi/strip";
import { mayHoldNaN } from "./module";
import {
  loadBrain, loadHalf, narrowE2M1, narrowE4M3FN, narrowE4M3FNUZ, narrowE5M2, narrowE5M2FNUZ, narrowE8M0, storeBrain, storeHalf,
  widenE2M1, widenE4M3FN, widenE4M3FNUZ, widenE5M2, widenE5M2FNUZ, widenE8M0,
} from "./convert";

/** log2 of the bytes of an element on the device. */
export function sizeShift(dtype: u32): u32 {
  switch (<i32>dtype) {
    case Dtype.COMPLEX128: return 4;
    case Dtype.FLOAT64: case Dtype.INT64: case Dtype.UINT64: case Dtype.COMPLEX64: return 3;
    case Dtype.FLOAT32: case Dtype.INT32: case Dtype.UINT32: return 2;
    case Dtype.FLOAT16: case Dtype.BFLOAT16: case Dtype.INT16: case Dtype.UINT16: return 1;
    default: return 0;
  }
}

/** The type of the register that elements of `dtype` load to. */
export function registerType(dtype: u32): u32 {
  switch (<i32>dtype) {
    case Dtype.FLOAT64: return StripType.F64;
    case Dtype.INT64: return StripType.I64;
    case Dtype.UINT64: return StripType.U64;
    case Dtype.UINT32: return StripType.U32;
    case Dtype.INT32: case Dtype.INT16: case Dtype.INT8: case Dtype.INT4: case Dtype.INT2:
    case Dtype.UINT16: case Dtype.UINT8: case Dtype.UINT4: case Dtype.UINT2: case Dtype.BOOL:
      return StripType.I32;
    default: return StripType.F32;
  }
}

/** Whether a register holds the bytes of `dtype` as they are. */
export function isRegister(dtype: u32): bool {
  return dtype == Dtype.FLOAT32 || dtype == Dtype.FLOAT64 || dtype == Dtype.INT32 || dtype == Dtype.UINT32 || dtype == Dtype.INT64 || dtype == Dtype.UINT64;
}

export function typeShift(type: u32): u32 {
  return type == StripType.F32 || type == StripType.I32 || type == StripType.U32 ? 2 : 3;
}

@inline
function widen<T>(target: usize, source: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) store<i32>(target + (i << 2), <i32>load<T>(source + i * sizeof<T>()));
}

/** As `widen`, in groups of 16: reads and writes up to 15 elements more. */
@inline
function widenBytes<T>(target: usize, source: usize, count: u32): void {
  for (const end = source + count; source < end; source += 16) {
    const bytes = v128.load(source);
    const low = isSigned<T>() ? i16x8.extend_low_i8x16_s(bytes) : i16x8.extend_low_i8x16_u(bytes);
    const high = isSigned<T>() ? i16x8.extend_high_i8x16_s(bytes) : i16x8.extend_high_i8x16_u(bytes);
    v128.store(target, isSigned<T>() ? i32x4.extend_low_i16x8_s(low) : i32x4.extend_low_i16x8_u(low));
    v128.store(target, isSigned<T>() ? i32x4.extend_high_i16x8_s(low) : i32x4.extend_high_i16x8_u(low), 16);
    v128.store(target, isSigned<T>() ? i32x4.extend_low_i16x8_s(high) : i32x4.extend_low_i16x8_u(high), 32);
    v128.store(target, isSigned<T>() ? i32x4.extend_high_i16x8_s(high) : i32x4.extend_high_i16x8_u(high), 48);
    target += 64;
  }
}

/** The low byte of each element. */
function narrowBytes(target: usize, source: usize, count: u32): void {
  const byte = i32x4.splat(255), groups = target + (count & ~15);
  for (; target < groups; target += 16) {
    const a = v128.and(v128.load(source), byte), b = v128.and(v128.load(source, 16), byte);
    const c = v128.and(v128.load(source, 32), byte), d = v128.and(v128.load(source, 48), byte);
    v128.store(target, i8x16.narrow_i16x8_u(i16x8.narrow_i32x4_s(a, b), i16x8.narrow_i32x4_s(c, d)));
    source += 64;
  }
  narrow<u8>(target, source, count & 15);
}

@inline
function narrow<T>(target: usize, source: usize, count: u32): void {
  for (let i: usize = 0; i < <usize>count; i++) store<T>(target + i * sizeof<T>(), <T>load<i32>(source + (i << 2)));
}

@inline
function widenFloat(dtype: u32, x: u32): f32 {
  switch (<i32>dtype) {
    case Dtype.FLOAT8E4M3FN: return widenE4M3FN(x);
    case Dtype.FLOAT8E4M3FNUZ: return widenE4M3FNUZ(x);
    case Dtype.FLOAT8E5M2: return widenE5M2(x);
    case Dtype.FLOAT8E5M2FNUZ: return widenE5M2FNUZ(x);
    case Dtype.FLOAT4E2M1: return widenE2M1(x);
    default: return widenE8M0(x);
  }
}

@inline
function narrowFloat(dtype: u32, value: f32): u32 {
  switch (<i32>dtype) {
    case Dtype.FLOAT8E4M3FN: return narrowE4M3FN(value);
    case Dtype.FLOAT8E4M3FNUZ: return narrowE4M3FNUZ(value);
    case Dtype.FLOAT8E5M2: return narrowE5M2(value);
    case Dtype.FLOAT8E5M2FNUZ: return narrowE5M2FNUZ(value);
    case Dtype.FLOAT4E2M1: return narrowE2M1(value);
    default: return narrowE8M0(value);
  }
}

/** `count` contiguous elements at `source` -> register at `target`. May read and write up to 15 elements more (padded buffers). */
export function loadElements(dtype: u32, target: usize, source: usize, count: u32): void {
  switch (<i32>dtype) {
    case Dtype.FLOAT16: loadHalf(target, source, count); break;
    case Dtype.BFLOAT16: loadBrain(target, source, count); break;
    case Dtype.INT8: widenBytes<i8>(target, source, count); break;
    case Dtype.UINT8: widenBytes<u8>(target, source, count); break;
    case Dtype.INT16: widen<i16>(target, source, count); break;
    case Dtype.UINT16: widen<u16>(target, source, count); break;
    case Dtype.BOOL:
      for (let i: usize = 0; i < <usize>count; i++) store<i32>(target + (i << 2), i32(load<u8>(source + i) != 0));
      break;
    case Dtype.UINT4: for (let i: usize = 0; i < <usize>count; i++) store<u32>(target + (i << 2), <u32>load<u8>(source + i) & 15); break;
    case Dtype.UINT2: for (let i: usize = 0; i < <usize>count; i++) store<u32>(target + (i << 2), <u32>load<u8>(source + i) & 3); break;
    case Dtype.INT4: for (let i: usize = 0; i < <usize>count; i++) store<i32>(target + (i << 2), <i32>load<u8>(source + i) << 28 >> 28); break;
    case Dtype.INT2: for (let i: usize = 0; i < <usize>count; i++) store<i32>(target + (i << 2), <i32>load<u8>(source + i) << 30 >> 30); break;
    case Dtype.FLOAT8E4M3FN: case Dtype.FLOAT8E4M3FNUZ: case Dtype.FLOAT8E5M2: case Dtype.FLOAT8E5M2FNUZ: case Dtype.FLOAT4E2M1: case Dtype.FLOAT8E8M0:
      for (let i: usize = 0; i < <usize>count; i++) store<f32>(target + (i << 2), widenFloat(dtype, load<u8>(source + i)));
      break;
    default: memory.copy(target, source, <usize>count << sizeShift(dtype));
  }
}

/** `count` register elements at `source` -> contiguous elements of `dtype` at `target`; writes exactly `count`. NaN leaves in one form only. */
export function storeElements(dtype: u32, target: usize, source: usize, count: u32): void {
  switch (<i32>dtype) {
    case Dtype.FLOAT16: storeHalf(target, source, count); break;
    case Dtype.BFLOAT16: storeBrain(target, source, count); break;
    case Dtype.INT8: case Dtype.UINT8: narrowBytes(target, source, count); break;
    case Dtype.INT16: case Dtype.UINT16: narrow<u16>(target, source, count); break;
    case Dtype.BOOL:
      for (let i: usize = 0; i < <usize>count; i++) store<u8>(target + i, u8(load<i32>(source + (i << 2)) != 0));
      break;
    case Dtype.UINT4: for (let i: usize = 0; i < <usize>count; i++) store<u8>(target + i, load<u8>(source + (i << 2)) & 15); break;
    case Dtype.UINT2: for (let i: usize = 0; i < <usize>count; i++) store<u8>(target + i, load<u8>(source + (i << 2)) & 3); break;
    // Signed 4- and 2-bit values lie sign-extended in their byte.
    case Dtype.INT4: for (let i: usize = 0; i < <usize>count; i++) store<i8>(target + i, <i8>(load<i32>(source + (i << 2)) << 28 >> 28)); break;
    case Dtype.INT2: for (let i: usize = 0; i < <usize>count; i++) store<i8>(target + i, <i8>(load<i32>(source + (i << 2)) << 30 >> 30)); break;
    case Dtype.FLOAT8E4M3FN: case Dtype.FLOAT8E4M3FNUZ: case Dtype.FLOAT8E5M2: case Dtype.FLOAT8E5M2FNUZ: case Dtype.FLOAT4E2M1: case Dtype.FLOAT8E8M0:
      for (let i: usize = 0; i < <usize>count; i++) store<u8>(target + i, <u8>narrowFloat(dtype, load<f32>(source + (i << 2))));
      break;
    default:
      memory.copy(target, source, <usize>count << sizeShift(dtype));
      if (dtype == Dtype.FLOAT32) canonicalF32(target, count);
      else if (dtype == Dtype.FLOAT64) canonicalF64(target, count);
  }
}

/** Below this many elements the loop is done before the micro module would be. */
const WORTH_A_CALL: u32 = 64;

/** Replaces every NaN by the canonical one: which payload an operation gives depends on the engine's tier. */
export function canonicalF32(target: usize, count: u32): void {
  if (count >= WORTH_A_CALL && !mayHoldNaN(count, target)) return;
  const end = target + (<usize>count << 2);
  while (target + 64 <= end) {
    const x0 = v128.load(target), x1 = v128.load(target, 16), x2 = v128.load(target, 32), x3 = v128.load(target, 48);
    const ordered = v128.and(v128.and(f32x4.eq(x0, x0), f32x4.eq(x1, x1)), v128.and(f32x4.eq(x2, x2), f32x4.eq(x3, x3)));
    if (!i32x4.all_true(ordered)) {
      for (let p = target; p < target + 64; p += 4) {
        if (load<f32>(p) != load<f32>(p)) store<u32>(p, 0x7fc00000);
      }
    }
    target += 64;
  }
  for (; target < end; target += 4) {
    if (load<f32>(target) != load<f32>(target)) store<u32>(target, 0x7fc00000);
  }
}

export function canonicalF64(target: usize, count: u32): void {
  const end = target + (<usize>count << 3);
  for (; target < end; target += 8) {
    if (load<f64>(target) != load<f64>(target)) store<u64>(target, 0x7ff8000000000000);
  }
}
