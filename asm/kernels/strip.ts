/**
 * Runs a strip program over a range of elements: MAP tiles, and the epilogues of MATMUL, CONV and REDUCE on the elements they just wrote.
 * Scratch: register i at i * REGISTER_PITCH, then a staging buffer for raw elements, then the register table {pointer, step}.
 */
import {
  CONSTANT_LIMIT, GROUP, OperandMode, REGISTER_LIMIT, REGISTER_PITCH, SPLAT_BYTES, StripBlock, StripCode, StripOperand, StripOperation, StripType,
} from "../abi/strip";
import { Instruction } from "../abi/program";
import { canonicalF32, canonicalF64, isRegister, loadElements, sizeShift, storeElements, typeShift } from "../micro/load";
import { strip } from "../micro/module";
import { addressOf, dim, dtypeOf, rank, record, walk } from "./view";
import { vectorF32, vectorF64, vectorI32, vectorI64, vectorU32 } from "./strip-vector";
import { scalar } from "./strip-scalar";
import { cast } from "./strip-cast";

const STAGING: usize = <usize>REGISTER_LIMIT * REGISTER_PITCH;
const TABLE: usize = STAGING + REGISTER_PITCH;
/** Scratch that a strip program uses; a kernel with an epilogue keeps its own state above. */
export const STRIP_SCRATCH: usize = TABLE + <usize>(REGISTER_LIMIT + CONSTANT_LIMIT) * 8;

@inline
function pointer(table: usize, register: u32): usize {
  return load<u32>(table + (<usize>register << 3));
}

@inline
function step(table: usize, register: u32): usize {
  return load<u32>(table + (<usize>register << 3), 4);
}

@inline
function point(table: usize, register: u32, address: usize, bytes: u32): void {
  store<u32>(table + (<usize>register << 3), <u32>address);
  store<u32>(table + (<usize>register << 3), bytes, 4);
}

function runOperation(type: u32, code: u32, d: usize, a: usize, sa: usize, b: usize, sb: usize, c: usize, sc: usize, count: u32): void {
  if (code >= <u32>StripCode.CAST_F32 && code <= <u32>StripCode.CAST_BOOL) {
    cast(type, code, d, a, sa, count);
    return;
  }
  const end = d + (<usize>count << typeShift(type));
  let done: bool = false;
  switch (<i32>type) {
    case StripType.F32: done = strip(code, d, end, a, sa, b, sb, c, sc) != 0 || vectorF32(code, d, a, sa, b, sb, c, sc, end); break;
    case StripType.F64: done = vectorF64(code, d, a, sa, b, sb, c, sc, end); break;
    case StripType.I32: done = vectorI32(code, d, a, sa, b, sb, c, sc, end); break;
    case StripType.U32: done = vectorU32(code, d, a, sa, b, sb, c, sc, end); break;
    case StripType.I64: done = vectorI64(code, d, a, sa, b, sb, c, sc, end); break;
    default: done = code != StripCode.ABS && vectorI64(code, d, a, sa, b, sb, c, sc, end);
  }
  if (!done) scalar(type, code, d, a, sa, b, sb, c, sc, count);
}

/** Constants and splats: registers whose pointer stands still. */
function setUp(program: usize, block: usize, frame: usize, from: u32, to: u32, scratch: usize): void {
  const table = scratch + TABLE;
  const registers = <u32>load<u16>(block, StripBlock.REGISTERS);
  const constants = <u32>load<u16>(block, StripBlock.CONSTANTS);
  for (let i: u32 = 0; i < registers; i++) point(table, i, scratch + <usize>i * REGISTER_PITCH, 64);
  for (let i: u32 = 0; i < constants; i++) point(table, registers + i, block + StripBlock.SIZE + <usize>i * SPLAT_BYTES, 0);
  let operand = block + StripBlock.SIZE + <usize>constants * SPLAT_BYTES;
  for (let i = <u32>load<u16>(block, StripBlock.OPERANDS); i != 0; i--, operand += StripOperand.SIZE) {
    const mode = <u32>load<u8>(operand, StripOperand.MODE);
    if (mode == OperandMode.SPLAT) splat(program, operand, frame, scratch);
    else if (mode == OperandMode.PERIODIC) fillPeriodic(program, operand, frame, from, to - from, load<u32>(block, StripBlock.STEP), scratch);
  }
}

function splat(program: usize, operand: usize, frame: usize, scratch: usize): void {
  const tensor = record(program, load<u32>(operand, StripOperand.TENSOR));
  const register = <u32>load<u8>(operand, StripOperand.REGISTER);
  const target = scratch + <usize>register * REGISTER_PITCH;
  const staging = scratch + STAGING;
  const dtype = dtypeOf(tensor);
  memory.copy(staging, addressOf(tensor, frame), <usize>1 << sizeShift(dtype));
  loadElements(dtype, target, staging, 1);
  const bytes = <usize>1 << typeShift(load<u8>(operand, StripOperand.TYPE));
  for (let at = bytes; at < 64; at += bytes) memory.copy(target + at, target, bytes);
  point(scratch + TABLE, register, target, 0);
}

@inline
function periodOf(tensor: usize): u32 {
  return dim(tensor, rank(tensor) - 1);
}

/**
 * One filling holds for every strip of the `count` elements from `from` on: the strips begin at the same place of the period, or (`fetch`) at
 * another place of a filling that is one period longer. lib/program/strip-encode.ts leaves room for that.
 */
function fillPeriodic(program: usize, operand: usize, frame: usize, from: u32, count: u32, step: u32, scratch: usize): void {
  const tensor = record(program, load<u32>(operand, StripOperand.TENSOR));
  const dtype = dtypeOf(tensor);
  const period = periodOf(tensor);
  const length = count <= step ? (count + GROUP - 1) & ~(GROUP - 1) : step % period == 0 ? step : step + period;
  const register = scratch + <usize>load<u8>(operand, StripOperand.REGISTER) * REGISTER_PITCH;
  const plain = isRegister(dtype);
  const staging = plain ? register : scratch + STAGING;
  const bytes = <usize>period << sizeShift(dtype);
  const phase = from % period;
  const source = addressOf(tensor, frame);
  const head = <usize>phase << sizeShift(dtype);
  // One rotated period (a strip has room for it, whatever its length), then what is already there again.
  memory.copy(staging, source + head, bytes - head);
  memory.copy(staging + bytes - head, source, head);
  const total = <usize>length << sizeShift(dtype);
  if (bytes >= 16) for (let at = bytes; at < total; at += 16) v128.store(staging + at, v128.load(staging + at - bytes));
  else for (let filled = bytes; filled < total; filled <<= 1) memory.copy(staging + filled, staging, min<usize>(filled, total - filled));
  if (!plain) loadElements(dtype, register, staging, length);
}

/** Brings `count` elements from `at` of one input into reach. `whole`: count is a multiple of GROUP, memory may be read in place. */
function fetch(tensor: usize, operand: usize, frame: usize, at: u32, count: u32, whole: bool, offset: usize, accumulator: usize, scratch: usize): void {
  const mode = <u32>load<u8>(operand, StripOperand.MODE);
  if (mode == OperandMode.SPLAT) return;
  const register = <u32>load<u8>(operand, StripOperand.REGISTER);
  const target = scratch + <usize>register * REGISTER_PITCH;
  const dtype = dtypeOf(tensor);
  if (mode == OperandMode.PERIODIC) {
    point(scratch + TABLE, register, target + (offset % periodOf(tensor) << typeShift(load<u8>(operand, StripOperand.TYPE))), 64);
    return;
  }
  if (mode == OperandMode.ACCUMULATOR) {
    // The instruction pads its buffer to whole groups.
    point(scratch + TABLE, register, accumulator + (offset << typeShift(load<u8>(operand, StripOperand.TYPE))), 64);
    return;
  }
  if (mode == OperandMode.FLAT) {
    const source = addressOf(tensor, frame) + (<usize>at << sizeShift(dtype));
    if (whole) {
      if (isRegister(dtype)) point(scratch + TABLE, register, source, 64);
      else loadElements(dtype, target, source, count);
      return;
    }
    if (isRegister(dtype)) memory.copy(target, source, <usize>count << sizeShift(dtype));
    else {
      memory.copy(scratch + STAGING, source, <usize>count << sizeShift(dtype));
      loadElements(dtype, target, scratch + STAGING, count);
    }
    point(scratch + TABLE, register, target, 64);
    return;
  }
  if (isRegister(dtype)) walk(tensor, addressOf(tensor, frame), at, count, target, true);
  else {
    walk(tensor, addressOf(tensor, frame), at, count, scratch + STAGING, true);
    loadElements(dtype, target, scratch + STAGING, count);
  }
}

function deliver(tensor: usize, operand: usize, frame: usize, at: u32, count: u32, whole: bool, scratch: usize): void {
  const mode = <u32>load<u8>(operand, StripOperand.MODE);
  if (mode < <u32>OperandMode.DIRECT) return;
  const register = <u32>load<u8>(operand, StripOperand.REGISTER);
  const dtype = dtypeOf(tensor);
  const target = addressOf(tensor, frame) + (<usize>at << sizeShift(dtype));
  const source = pointer(scratch + TABLE, register);
  if (mode == OperandMode.DIRECT && whole) {
    const type = <u32>load<u8>(operand, StripOperand.TYPE);
    if (type == StripType.F32) canonicalF32(target, count);
    else if (type == StripType.F64) canonicalF64(target, count);
  } else if (mode != OperandMode.SCATTER) storeElements(dtype, target, source, count);
  else {
    storeElements(dtype, scratch + STAGING, source, count);
    walk(tensor, addressOf(tensor, frame), at, count, scratch + STAGING, false);
  }
}

/** Elements [from, to) of the dims that the operands share. `accumulator` holds the values of element `from` on, for mode ACCUMULATOR. */
export function runStrip(program: usize, block: usize, frame: usize, from: u32, to: u32, accumulator: usize, scratch: usize): void {
  if (from >= to) return;
  setUp(program, block, frame, from, to, scratch);
  const table = scratch + TABLE;
  const operands = block + StripBlock.SIZE + <usize>load<u16>(block, StripBlock.CONSTANTS) * SPLAT_BYTES;
  const operations = operands + <usize>load<u16>(block, StripBlock.OPERANDS) * StripOperand.SIZE;
  const last = operations + <usize>load<u16>(block, StripBlock.OPERATIONS) * StripOperation.SIZE;
  const length = load<u32>(block, StripBlock.STEP);
  let offset: usize = 0;
  for (let at = from; at < to; at += length) {
    const count = min<u32>(length, to - at);
    const whole = (count & (GROUP - 1)) == 0;
    const padded = (count + GROUP - 1) & ~(GROUP - 1);
    for (let o = operands; o < operations; o += StripOperand.SIZE) {
      const tensor = record(program, load<u32>(o, StripOperand.TENSOR));
      const mode = <u32>load<u8>(o, StripOperand.MODE);
      if (mode < <u32>OperandMode.DIRECT) fetch(tensor, o, frame, at, count, whole, offset, accumulator, scratch);
      else if (mode == OperandMode.DIRECT) {
        const register = <u32>load<u8>(o, StripOperand.REGISTER);
        const own = scratch + <usize>register * REGISTER_PITCH;
        point(table, register, whole ? addressOf(tensor, frame) + (<usize>at << sizeShift(dtypeOf(tensor))) : own, 64);
      }
    }
    for (let p = operations; p < last; p += StripOperation.SIZE) {
      const a = <u32>load<u8>(p, StripOperation.A), b = <u32>load<u8>(p, StripOperation.B), c = <u32>load<u8>(p, StripOperation.C);
      const d = pointer(table, load<u8>(p, StripOperation.TARGET));
      runOperation(
        load<u8>(p, StripOperation.TYPE), load<u8>(p, StripOperation.CODE), d,
        pointer(table, a), step(table, a), pointer(table, b), step(table, b), pointer(table, c), step(table, c), padded,
      );
    }
    for (let o = operands; o < operations; o += StripOperand.SIZE) {
      deliver(record(program, load<u32>(o, StripOperand.TENSOR)), o, frame, at, count, whole, scratch);
    }
    offset += length;
  }
}

/** MAP: tile `tile` is TILE elements from tile * TILE on. */
export function runMap(program: usize, instruction: usize, tile: u32, frame: usize, scratch: usize): void {
  const block = program + load<u32>(instruction, Instruction.BLOCK);
  const size = load<u32>(block, StripBlock.TILE);
  const from = tile * size;
  runStrip(program, block, frame, from, min<u32>(from + size, load<u32>(block, StripBlock.ELEMENTS)), 0, scratch);
}
