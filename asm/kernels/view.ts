/** Views as kernels see them: a tensor record and the base of its binding. Elements are numbered in row-major order of the record's dims. */
import { Frame } from "../abi/stream";
import { Program, Tensor } from "../abi/program";
import { sizeShift } from "../micro/load";

/** Address of tensor record `index` of `program`. */
@inline
export function record(program: usize, index: u32): usize {
  return program + load<u32>(program, Program.TENSORS) + <usize>index * Tensor.SIZE;
}

/** Address of the first element of the view at `tensor`. */
@inline
export function addressOf(tensor: usize, frame: usize): usize {
  return <usize>load<u32>(frame + (<usize>load<u16>(tensor, Tensor.BINDING) << 2), Frame.BASES) + load<u32>(tensor, Tensor.OFFSET);
}

/** Where dim `i` of `tensor` lies: dims 6 to 11 are in the record that follows. Its stride is STRIDES - DIMS bytes further. */
@inline
export function dimAt(tensor: usize, i: u32): usize {
  return i < 6 ? tensor + Tensor.DIMS + (<usize>i << 2) : tensor + Tensor.SIZE + Tensor.DIMS + (<usize>(i - 6) << 2);
}

@inline
export function dim(tensor: usize, i: u32): u32 {
  return load<u32>(dimAt(tensor, i));
}

@inline
export function stride(tensor: usize, i: u32): i32 {
  return load<i32>(dimAt(tensor, i), Tensor.STRIDES - Tensor.DIMS);
}

@inline
export function rank(tensor: usize): u32 {
  return load<u8>(tensor, Tensor.RANK);
}

@inline
export function dtypeOf(tensor: usize): u32 {
  return load<u8>(tensor, Tensor.DTYPE);
}

export function elementCount(tensor: usize): u32 {
  let count: u32 = 1;
  for (let i: u32 = 0, n = rank(tensor); i < n; i++) count *= dim(tensor, i);
  return count;
}

/** Bytes from the first element to the one at `index` over dims [0, dims). */
export function offsetAt(tensor: usize, dims: u32, index: u32): i32 {
  let offset: i32 = 0;
  for (let i = <i32>dims - 1; i >= 0; i--) {
    const size = dim(tensor, i);
    const quotient = index / size;
    offset += <i32>(index - quotient * size) * stride(tensor, i);
    index = quotient;
  }
  return offset;
}

@inline
function spread<T>(target: usize, step: i32, source: usize, sourceStep: i32, count: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    store<T>(target, load<T>(source));
    target += step;
    source += sourceStep;
  }
}

/** One element of 1, 2 or 4 bytes over `bytes` of memory. */
function fill(shift: u32, target: usize, source: usize, bytes: usize): void {
  if (shift == 0) {
    memory.fill(target, load<u8>(source), bytes);
    return;
  }
  const value = shift == 1 ? i16x8.splat(load<i16>(source)) : i32x4.splat(load<i32>(source));
  const end = target + bytes;
  for (; target + 16 <= end; target += 16) v128.store(target, value);
  for (; target < end; target += <usize>1 << shift) {
    if (shift == 1) store<u16>(target, i16x8.extract_lane_u(value, 0));
    else store<u32>(target, i32x4.extract_lane(value, 0));
  }
}

/** `count` elements of 2^shift bytes, any steps on both sides. */
export function moveRun(shift: u32, target: usize, step: i32, source: usize, sourceStep: i32, count: u32): void {
  if (step == 1 << shift && sourceStep == step) {
    memory.copy(target, source, <usize>count << shift);
    return;
  }
  if (sourceStep == 0 && step == 1 << shift && shift <= 2) {
    fill(shift, target, source, <usize>count << shift);
    return;
  }
  switch (<i32>shift) {
    case 0: spread<u8>(target, step, source, sourceStep, count); break;
    case 1: spread<u16>(target, step, source, sourceStep, count); break;
    case 2: spread<u32>(target, step, source, sourceStep, count); break;
    case 3: spread<u64>(target, step, source, sourceStep, count); break;
    default:
      for (let i: u32 = 0; i < count; i++) {
        v128.store(target, v128.load(source));
        target += step;
        source += sourceStep;
      }
  }
}

/** Elements [from, from + count) of a view whose first element is at `first` -> contiguous at `target` (`inward`), or back from there. */
export function walk(tensor: usize, first: usize, from: u32, count: u32, packed: usize, inward: bool): void {
  const shift = sizeShift(dtypeOf(tensor));
  const size: i32 = 1 << shift;
  const n = rank(tensor);
  if (n == 0) {
    if (count != 0) moveRun(shift, inward ? packed : first, size, inward ? first : packed, size, 1);
    return;
  }
  const inner = dim(tensor, n - 1);
  const step = stride(tensor, n - 1);
  let row = from / inner;
  let column = from - row * inner;
  while (count > 0) {
    const run = min<u32>(inner - column, count);
    const place = first + offsetAt(tensor, n - 1, row) + <i32>column * step;
    if (inward) moveRun(shift, packed, size, place, step, run);
    else moveRun(shift, place, step, packed, size, run);
    packed += <usize>run << shift;
    count -= run;
    column = 0;
    row++;
  }
}
