/**
 * The DMA engine: copies and fills as tasks of a stream. Descriptors are tensor records in the argument ring whose OFFSET is an absolute address.
 * The strided copy is that of the COPY instruction; with two dtypes it converts like a Cast from register to register.
 */
import { Task, TaskOp } from "../abi/task";
import { Dtype, Tensor } from "../abi/program";
import { REGISTER_BYTES, StripCode, StripType } from "../abi/strip";
import { scratch } from "../core/local";
import { copyBlock } from "../kernels/copy";
import { cast } from "../kernels/strip-cast";
import { dim, dtypeOf, elementCount, rank, walk } from "../kernels/view";
import { loadElements, registerType, storeElements, typeShift } from "../micro/load";
import { copyDescribed, copyPointed, touch } from "./indirect";
import { randomTask } from "./random";
import { reduceTask } from "./reduce";

/** Elements converted at a time: one buffer of raw elements and two of registers fit L1 and hold 8 bytes each. */
const CHUNK: u32 = REGISTER_BYTES / 8;

function copy2d(target: usize, targetPitch: u32, source: usize, sourcePitch: u32, width: u32, height: u32): void {
  for (let row: u32 = 0; row < height; row++) {
    memory.copy(target, source, width);
    target += targetPitch;
    source += sourcePitch;
  }
}

/** The cast that turns register type `from` into `to`; 0 where the bits serve both. */
function castCode(from: u32, to: u32): u32 {
  if (from == to) return 0;
  const whole = from != StripType.F32 && from != StripType.F64 && to != StripType.F32 && to != StripType.F64;
  if (whole && typeShift(from) == typeShift(to)) return 0;
  switch (<i32>to) {
    case StripType.F32: return StripCode.CAST_F32;
    case StripType.F64: return StripCode.CAST_F64;
    case StripType.I32: return StripCode.CAST_I32;
    case StripType.U32: return StripCode.CAST_U32;
    case StripType.I64: return StripCode.CAST_I64;
    default: return StripCode.CAST_U64;
  }
}

/** Floats saturate into a narrow integer as they do in a MAP: cuts i32 values to the range of `dtype`. */
function saturate(dtype: u32, register: usize, count: u32): void {
  let low: i32 = 0, high: i32 = 0;
  switch (<i32>dtype) {
    case Dtype.INT8: low = -128; high = 127; break;
    case Dtype.UINT8: high = 255; break;
    case Dtype.INT16: low = -32768; high = 32767; break;
    case Dtype.UINT16: high = 65535; break;
    case Dtype.INT4: low = -8; high = 7; break;
    case Dtype.UINT4: high = 15; break;
    case Dtype.INT2: low = -2; high = 1; break;
    case Dtype.UINT2: high = 3; break;
    default: return;
  }
  for (let at = register, end = register + (<usize>count << 2); at < end; at += 4) store<i32>(at, max<i32>(low, min<i32>(high, load<i32>(at))));
}

function convertStrided(target: usize, source: usize, count: u32): void {
  const raw = scratch, read = scratch + 8192, written = scratch + 16384;
  const from = registerType(dtypeOf(source)), to = registerType(dtypeOf(target));
  const code: u32 = dtypeOf(target) == Dtype.BOOL ? StripCode.CAST_BOOL : castCode(from, to);
  for (let at: u32 = 0; at < count; at += CHUNK) {
    const part = min<u32>(CHUNK, count - at);
    walk(source, load<u32>(source, Tensor.OFFSET), at, part, raw, true);
    loadElements(dtypeOf(source), read, raw, part);
    if (code != 0) cast(from, code, written, read, 64, part);
    if (from == StripType.F32 || from == StripType.F64) saturate(dtypeOf(target), written, part);
    storeElements(dtypeOf(target), raw, code != 0 ? written : read, part);
    walk(target, load<u32>(target, Tensor.OFFSET), at, part, raw, false);
  }
}

function copyStrided(target: usize, source: usize): void {
  const count = elementCount(target);
  if (count == 0) return;
  if (dtypeOf(target) != dtypeOf(source)) {
    convertStrided(target, source, count);
    return;
  }
  const width: u32 = rank(target) == 0 ? 1 : dim(target, rank(target) - 1);
  copyBlock(target, load<u32>(target, Tensor.OFFSET), source, load<u32>(source, Tensor.OFFSET), 0, count / width, 0, width);
}

/** Repeats `bytes` low bytes of `pattern`; the last repetition may be cut. */
function fill(target: usize, size: u32, pattern: u32, bytes: u32): void {
  if (bytes <= 1) {
    memory.fill(target, <u8>pattern, size);
    return;
  }
  const head = min<u32>(size, 64);
  for (let i: u32 = 0; i < head; i++) store<u8>(target + i, <u8>(pattern >> ((i % bytes) << 3)));
  // What is filled doubles; 64 is a multiple of every pattern size.
  for (let done = head; done < size; done <<= 1) memory.copy(target + done, target, min<u32>(done, size - done));
}

function batch(list: usize, count: u32): void {
  for (; count != 0; count--, list += 12) memory.copy(load<u32>(list), load<u32>(list, 4), load<u32>(list, 8));
}

export function runDma(task: usize): void {
  const target = <usize>load<u32>(task, Task.P0);
  switch (<i32>load<u8>(task, Task.OP)) {
    case TaskOp.NOP: break;
    case TaskOp.COPY: memory.copy(target, load<u32>(task, Task.P1), load<u32>(task, Task.P2)); break;
    case TaskOp.COPY_2D:
      copy2d(target, load<u32>(task, Task.P1), load<u32>(task, Task.P2), load<u32>(task, Task.P3), load<u32>(task, Task.P4), load<u32>(task, Task.P5));
      break;
    case TaskOp.COPY_STRIDED: copyStrided(target, load<u32>(task, Task.P1)); break;
    case TaskOp.FILL: fill(target, load<u32>(task, Task.P1), load<u32>(task, Task.P2), load<u32>(task, Task.P3)); break;
    case TaskOp.REDUCE: reduceTask(task); break;
    case TaskOp.BATCH: batch(target, load<u32>(task, Task.P1)); break;
    case TaskOp.COPY_DESCRIBED: copyDescribed(task); break;
    case TaskOp.COPY_POINTED: copyPointed(task); break;
    case TaskOp.TOUCH: touch(target, load<u32>(task, Task.P1)); break;
    case TaskOp.RANDOM: randomTask(task); break;
    default: unreachable();
  }
}
