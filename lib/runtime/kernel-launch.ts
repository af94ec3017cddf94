/** A launch: a frame, a program of one KERNEL instruction, and the arguments, laid out in the thread's mailbox and queued as one RUN. */
import { ABI_VERSION } from "../../asm/abi/device";
import { Opcode } from "../../asm/abi/isa";
import { ArgumentKind, Launch } from "../../asm/abi/kernel";
import { Instruction, Program, PROGRAM_MAGIC, Region } from "../../asm/abi/program";
import { Binding, Frame } from "../../asm/abi/stream";
import { RUN_UNBOUNDED } from "../../asm/abi/task";
import { invalidParam } from "../errors/make";
import { MAILBOX_BYTES, TaskOp } from "../host/layout";
import type { Machine } from "../host/machine";
import { deviceAddress, hostAddress, placeOf } from "./address";
import { type Operand, resolve } from "./copy";
import { checkKernelDriver, type FunctionCore, type ParamType } from "./kernel-binary";
import type { StreamCore } from "./stream-core";

/** Offsets in the mailbox. */
const PROGRAM = 128;
const REGION = PROGRAM + Program.SIZE;
const INSTRUCTION = REGION + 64;
const LAUNCH = INSTRUCTION + Instruction.SIZE;
const HEAD = LAUNCH + Launch.SIZE;
const RUN = TaskOp.RUN | (RUN_UNBOUNDED << 8);
/** Sleeping cores are woken for as many blocks as there are. */
const COST_NS = 0xffff_ffff;
export const BLOCK_LIMIT = 2 ** 24;
export const TIMEOUT_LIMIT_MS = 2 ** 31 - 1;

const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;

/** Data that travels with a launch; argument `slot` gets its address. */
export interface Placed {
  readonly slot: number;
  readonly bytes: Uint8Array;
}

export interface LaunchWork {
  readonly fn: FunctionCore;
  readonly blocks: number;
  /** Most that a block may run; 0 = as long as the device's watchdog allows. */
  readonly timeoutMs: number;
  readonly kinds: readonly ArgumentKind[];
  /** 8 bytes per argument, or where in device memory they lie. */
  readonly slots: Uint8Array | number;
  readonly placed: readonly Placed[];
  /** Most cores that may run it at a time; undefined = all. */
  readonly cores?: number;
}

const KINDS: Readonly<Record<ParamType, ArgumentKind>> = {
  ptr: ArgumentKind.POINTER,
  i32: ArgumentKind.I32,
  u32: ArgumentKind.I32,
  i64: ArgumentKind.I64,
  u64: ArgumentKind.I64,
  f32: ArgumentKind.F32,
  f64: ArgumentKind.F64,
};

export const kindsOf = (fn: FunctionCore): ArgumentKind[] => fn.params.map((param) => KINDS[param]);

/** What a kernel takes: a number, a bigint for 64-bit parameters, and for a ptr a buffer, an address, null, or an array whose bytes travel with the launch. */
export type KernelArgument = number | bigint | null | Operand;

/** An i32 without a declared signature may be an address: what can be no 32-bit number is one. */
function looksLikeAddress(value: KernelArgument): boolean {
  return typeof value === "number" ? placeOf(value) !== undefined : typeof value === "object" && value !== null;
}

/** Writes `value` as parameter `slot` of type `param`. Returns the kind it became. */
function writeArgument(
  stream: StreamCore,
  param: ParamType,
  value: KernelArgument,
  slot: number,
  view: DataView,
  placed: Placed[],
  what: string,
): ArgumentKind {
  const at = slot * 8;
  if (param === "ptr" || (param === "i32" && looksLikeAddress(value))) {
    return writePointer(stream, value, slot, view, placed, what);
  }
  if (param === "i64" || param === "u64") {
    if (typeof value !== "bigint" && !(typeof value === "number" && Number.isSafeInteger(value))) {
      throw invalidParam(`${what} is ${String(value)}; pass a whole number or a bigint`);
    }
    view.setBigInt64(at, BigInt.asIntN(64, BigInt(value)), true);
  } else if (typeof value !== "number") {
    throw invalidParam(`${what} must be a number (${param}), not ${value === null ? "null" : typeof value}`);
  } else if (param === "f32") {
    view.setFloat32(at, value, true);
  } else if (param === "f64") {
    view.setFloat64(at, value, true);
  } else {
    if (!Number.isInteger(value) || value < -(2 ** 31) || value >= 2 ** 32) {
      throw invalidParam(`${what} is ${value}, which is no ${param === "u32" ? "u32" : "i32"}; declare it "ptr" if it is an address`);
    }
    view.setInt32(at, value | 0, true);
  }
  return KINDS[param];
}

function writePointer(stream: StreamCore, value: KernelArgument, slot: number, view: DataView, placed: Placed[], what: string): ArgumentKind {
  if (value === null || value === 0) {
    return ArgumentKind.POINTER;
  }
  const { machine } = stream;
  const end = resolve(machine, value as Operand, 0, what);
  if ("bytes" in end) {
    placed.push({ slot, bytes: end.bytes });
    return ArgumentKind.PLACED;
  }
  if (end.machine !== machine) {
    throw invalidParam(`${what} belongs to device ${end.machine.device}, and the stream to device ${machine.device}; copy it there first`);
  }
  view.setBigUint64(slot * 8, BigInt(deviceAddress(machine.device, end.offset)), true);
  return ArgumentKind.POINTER;
}

/** @throws AclError 107000 if the arguments do not fit the function */
export function prepareLaunch(stream: StreamCore, fn: FunctionCore, blocks: number, timeoutMs: number, args: readonly KernelArgument[]): LaunchWork {
  if (args.length !== fn.params.length) {
    throw invalidParam(`launch of "${fn.name}": ${args.length} arguments, and the function takes ${fn.params.length}: (${fn.params.join(", ")})`);
  }
  const slots = new Uint8Array(8 * args.length);
  const view = new DataView(slots.buffer);
  const placed: Placed[] = [];
  const kinds = fn.params.map((param, i) =>
    writeArgument(stream, param, args[i] as KernelArgument, i, view, placed, `launch of "${fn.name}": argument ${i}`),
  );
  return { fn, blocks, timeoutMs, kinds, slots, placed };
}

/**
 * Queues the launch. Returns its sequence.
 * @throws AclError 107017 if the binary is unloaded, 107000 for 0 blocks or another device, 207000 on a driver without workers, 107003 and 507899 as every task
 */
export function submitLaunch(stream: StreamCore, work: LaunchWork): number {
  const { fn, blocks, kinds, slots } = work;
  const { machine } = stream;
  const what = `launch of "${fn.name}"`;
  stream.open();
  checkKernelDriver(stream.device, what);
  fn.binary.check(what);
  if (fn.binary.device.machine !== machine) {
    throw invalidParam(`${what}: its binary is loaded on device ${fn.binary.device.index}, and the stream belongs to device ${machine.device}`);
  }
  if (!Number.isInteger(blocks) || blocks < 1 || blocks > BLOCK_LIMIT) {
    throw invalidParam(`${what}: ${String(blocks)} blocks; pass 1 to ${BLOCK_LIMIT}`);
  }
  const inline = typeof slots === "number" ? 0 : slots.length;
  const slotsAt = HEAD + padded(kinds.length);
  const staged = placeData(stream, work, slotsAt + inline);
  machine.words.fill(0, machine.mailbox >>> 2, (machine.mailbox + slotsAt) >>> 2);
  writeProgram(machine, work);
  for (const [i, kind] of staged.kinds.entries()) {
    machine.bytes[machine.mailbox + HEAD + i] = kind;
  }
  if (typeof slots !== "number") {
    machine.bytes.set(staged.slots, machine.mailbox + slotsAt);
  }
  const sequence = machine.submitWithArguments(stream.index, RUN, staged.end);
  fn.binary.launched(stream.index, sequence);
  if (staged.block !== 0) {
    stream.device.staging.give(staged.block, stream.index, sequence);
  }
  return sequence;
}

/** Finds room for what travels with the launch: behind the arguments if it fits the mailbox, else in a staging block that is freed when the launch retires. */
function placeData(
  stream: StreamCore,
  { kinds, slots, placed }: LaunchWork,
  end: number,
): { kinds: ArgumentKind[]; slots: Uint8Array; end: number; block: number } {
  const { machine, device } = stream;
  const own = { kinds: [...kinds], slots: typeof slots === "number" ? new Uint8Array(0) : slots.slice(), end, block: 0 };
  if (placed.length === 0) {
    return own;
  }
  const view = new DataView(own.slots.buffer);
  const total = placed.reduce((sum, { bytes }) => sum + padded(bytes.length), 0);
  const fits = end + total <= MAILBOX_BYTES;
  own.block = fits ? 0 : device.staging.take(total);
  let at = fits ? end : 0;
  for (const { slot, bytes } of placed) {
    machine.bytes.set(bytes, (fits ? machine.mailbox : own.block) + at);
    own.kinds[slot] = fits ? ArgumentKind.PLACED : ArgumentKind.POINTER;
    view.setBigUint64(slot * 8, BigInt(fits ? at - LAUNCH : hostAddress(machine.device, own.block + at)), true);
    at += padded(bytes.length);
  }
  own.end = fits ? at : end;
  return own;
}

function writeProgram(machine: Machine, { fn, blocks, timeoutMs, kinds, slots, cores }: LaunchWork): void {
  const { words, mailbox } = machine;
  // A tile runs every `tiles`-th block from its own number on: with fewer tiles than cores, that many cores work.
  const tiles = cores !== undefined && cores < machine.cores ? Math.min(blocks, cores) : blocks;
  const put = (record: number, field: number, value: number): void => {
    words[(mailbox + record + field) >>> 2] = value;
  };
  put(0, Frame.PROGRAM, PROGRAM);
  put(0, Frame.BINDINGS, Binding.FIRST_INPUT);
  put(PROGRAM, Program.MAGIC, PROGRAM_MAGIC);
  put(PROGRAM, Program.VERSION, ABI_VERSION);
  put(PROGRAM, Program.REGIONS, REGION - PROGRAM);
  put(PROGRAM, Program.REGION_COUNT, 1);
  put(PROGRAM, Program.INSTRUCTIONS, INSTRUCTION - PROGRAM);
  put(PROGRAM, Program.INSTRUCTION_COUNT, 1);
  put(REGION, Region.COUNT, 1);
  put(REGION, Region.TILES, tiles);
  put(REGION, Region.COST_NS, COST_NS);
  put(INSTRUCTION, Instruction.OP, Opcode.KERNEL); // FLAGS and OPERANDS are 0
  put(INSTRUCTION, Instruction.TILES, tiles);
  put(INSTRUCTION, Instruction.NODE, fn.number);
  put(INSTRUCTION, Instruction.P0, LAUNCH - PROGRAM);
  put(INSTRUCTION, Instruction.P1, timeoutMs);
  put(LAUNCH, Launch.BINARY, fn.binary.address);
  put(LAUNCH, Launch.FUNCTION, fn.index);
  put(LAUNCH, Launch.BLOCKS, blocks);
  put(LAUNCH, Launch.COUNT, kinds.length);
  put(LAUNCH, Launch.ARGUMENTS, typeof slots === "number" ? slots : 0);
}
