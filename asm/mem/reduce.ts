/** REDUCE task: target = target op source, element by element, as the copy engine does on its way. */
import { REGISTER_BYTES, StripType } from "../abi/strip";
import { Fold, Task } from "../abi/task";
import { scratch } from "../core/local";
import { loadElements, registerType, sizeShift, storeElements } from "../micro/load";

/** Elements at a time: raw elements and two registers of 8 bytes each fit L1. */
const CHUNK: u32 = REGISTER_BYTES / 8;

@inline
function fold<T>(kind: u32, target: usize, source: usize, count: u32): void {
  const end = target + <usize>count * sizeof<T>();
  switch (<i32>kind) {
    case Fold.SUM:
      for (; target < end; target += sizeof<T>(), source += sizeof<T>()) store<T>(target, load<T>(target) + load<T>(source));
      break;
    // max and min of floats give NaN if either side is one.
    case Fold.MAX:
      for (; target < end; target += sizeof<T>(), source += sizeof<T>()) store<T>(target, max<T>(load<T>(target), load<T>(source)));
      break;
    default:
      for (; target < end; target += sizeof<T>(), source += sizeof<T>()) store<T>(target, min<T>(load<T>(target), load<T>(source)));
  }
}

export function reduceTask(task: usize): void {
  const dtype = load<u32>(task, Task.P3);
  const kind = load<u32>(task, Task.P4);
  const shift = sizeShift(dtype);
  // 64 bytes of room behind each: loads run over by up to 15 elements.
  const raw = scratch, into = scratch + 8192, other = scratch + 16384;
  let target = <usize>load<u32>(task, Task.P0), source = <usize>load<u32>(task, Task.P1);
  for (let left = load<u32>(task, Task.P2); left != 0;) {
    const part = min<u32>(CHUNK, left);
    const bytes = <usize>part << shift;
    memory.copy(raw, target, bytes);
    loadElements(dtype, into, raw, part);
    memory.copy(raw, source, bytes);
    loadElements(dtype, other, raw, part);
    switch (<i32>registerType(dtype)) {
      case StripType.F32: fold<f32>(kind, into, other, part); break;
      case StripType.F64: fold<f64>(kind, into, other, part); break;
      case StripType.I32: fold<i32>(kind, into, other, part); break;
      case StripType.U32: fold<u32>(kind, into, other, part); break;
      case StripType.I64: fold<i64>(kind, into, other, part); break;
      default: fold<u64>(kind, into, other, part);
    }
    storeElements(dtype, target, into, part);
    target += bytes;
    source += bytes;
    left -= part;
  }
}
