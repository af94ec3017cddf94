/** Kernel binaries, their functions and argument lists behind handles. */
import { ArgumentKind, ARGUMENT_LIMIT } from "../../asm/abi/kernel";
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { PoolTag } from "../host/layout";
import { BinaryCore, type FunctionCore } from "../runtime/kernel-binary";
import { type LaunchWork, type Placed, submitLaunch, TIMEOUT_LIMIT_MS } from "../runtime/kernel-launch";
import { addressOf, resolve } from "./addresses";
import { placeByAllocator } from "./allocators";
import type { Pointer } from "./args";
import { current } from "./contexts";
import type { AclDevice } from "./devices";
import { HandleTable, HandleType } from "./handles";
import { forgetLaunches, noteLaunch } from "./launches";
import { Resource, streamLimit } from "./resources";
import { type AclStream, checkLaunch, noteTask } from "./streams";
import { executeTimeoutUs } from "./timeouts";
import { blockOn } from "./waiting";

const SLOT = 8;
/** Argument lists that a function keeps; older ones that were launched make room. */
const LISTS_KEPT = 1024;

interface AclBinary {
  readonly device: AclDevice;
  readonly core: BinaryCore;
  readonly functions: Map<string, number>;
  /** binary_set_exception_callback. */
  onException: ((info: number) => void) | undefined;
}

export interface AclFunction {
  readonly binary: AclBinary;
  readonly core: FunctionCore;
  readonly lists: Set<number>;
}

interface Param {
  readonly list: ArgumentList;
  readonly slot: number;
  /** Of the value; 0 = a placeholder. */
  readonly sizeBytes: number;
  /** Placeholder: offset in device memory and size of its buffer, 0 before it is asked for. */
  buffer: number;
  bufferBytes: number;
}

interface ArgumentList {
  readonly fn: AclFunction;
  readonly slots: Uint8Array;
  readonly params: Param[];
  readonly handles: number[];
  finalized: boolean;
  launched: boolean;
}

const binaries = new HandleTable<AclBinary>(HandleType.BINARY);
const functions = new HandleTable<AclFunction>(HandleType.FUNCTION);
const lists = new HandleTable<ArgumentList>(HandleType.KERNEL_ARGS);
const params = new HandleTable<Param>(HandleType.PLACEHOLDER);

/** Loads a binary on the current device. */
export function loadBinary(bytes: Uint8Array, name: string, what: string): number {
  const { device } = current(what);
  const core = BinaryCore.load(device.core, bytes, name);
  return binaries.add({ device, core, functions: new Map(), onException: undefined });
}

/** A binary that is loaded. */
export function binaryAt(handle: number, what: string): AclBinary {
  const binary = binaries.get(handle, `${what}: binary`);
  binary.core.check(what);
  return binary;
}

/** `find` names the function, or picks it among the names in the order of export. */
export function functionOf(handle: number, find: (names: readonly string[]) => string, what: string): number {
  const binary = binaries.get(handle, `${what}: binary`);
  const name = find(binary.core.names);
  const known = binary.functions.get(name);
  if (known !== undefined) {
    return known;
  }
  const made = functions.add({ binary, core: binary.core.function(name), lists: new Set() });
  binary.functions.set(name, made);
  return made;
}

export function functionAt(handle: number, what: string): AclFunction {
  const fn = functions.get(handle, `${what}: function`);
  fn.core.binary.check(what);
  return fn;
}

/** Waits for the binary's launches and gives it back, with its functions and their argument lists. */
export function unloadBinary(handle: number, what: string): void {
  const binary = binaries.remove(handle, `${what}: binary`);
  binary.core.closing = true; // a host function that runs while we wait may not launch it either
  const lost = binary.device.machine.lost !== undefined;
  for (const [stream, sequence] of lost ? [] : binary.core.launches) {
    blockOn(binary.device, stream, sequence, Number.POSITIVE_INFINITY);
  }
  for (const fn of binary.functions.values()) {
    const { lists: own } = functions.remove(fn, what);
    for (const list of own) {
      dropList(list, what);
    }
  }
  binary.core.unload();
}

/** `memory`: where the arguments lie, 8 bytes each; without it in memory of the list's own. */
export function createList(fnHandle: number, what: string, memory?: Uint8Array): number {
  const fn = functionAt(fnHandle, what);
  if (fn.lists.size >= LISTS_KEPT) {
    const old = [...fn.lists].find((list) => lists.get(list, what).launched);
    if (old === undefined) {
      throw new AclError(207012, `${what}: "${fn.core.name}" has ${LISTS_KEPT} argument lists that were never launched; use one again`);
    }
    dropList(old, what);
  }
  const slots = memory ?? new Uint8Array(SLOT * ARGUMENT_LIMIT);
  const list = lists.add({ fn, slots, params: [], handles: [], finalized: false, launched: false });
  fn.lists.add(list);
  return list;
}

function dropList(handle: number, what: string): void {
  const list = lists.remove(handle, what);
  list.fn.lists.delete(handle);
  for (const param of list.handles) {
    const { buffer } = params.remove(param, what);
    if (buffer !== 0 && list.fn.binary.device.machine.lost === undefined) {
      list.fn.binary.device.machine.release(buffer);
    }
  }
}

function openList(handle: number, what: string): ArgumentList {
  const list = lists.get(handle, `${what}: args`);
  if (list.finalized) {
    throw invalidParam(`${what}: the argument list is finalized; make another with kernel_args_init, or change it with kernel_args_para_update`);
  }
  return list;
}

/** The next argument; `value` undefined = a placeholder. */
export function appendArgument(handle: number, value: Pointer | undefined, sizeBytes: number, what: string): number {
  const list = openList(handle, what);
  const slot = list.params.length;
  if (SLOT * (slot + 1) > list.slots.length) {
    throw invalidParam(`${what}: the list has room for ${Math.floor(list.slots.length / SLOT)} arguments`);
  }
  if (value !== undefined) {
    writeSlot(list, slot, value, sizeBytes, what);
  }
  const param: Param = { list, slot, sizeBytes, buffer: 0, bufferBytes: 0 };
  list.params.push(param);
  const made = params.add(param);
  list.handles.push(made);
  return made;
}

function writeSlot(list: ArgumentList, slot: number, value: Pointer, sizeBytes: number, what: string): void {
  if (sizeBytes < 1 || sizeBytes > SLOT) {
    throw invalidParam(`${what}: an argument of ${sizeBytes} bytes; pass 1 to ${SLOT}, and larger ones through a placeholder`);
  }
  const { bytes } = resolve(value, sizeBytes, `${what}: argument ${slot}`);
  list.slots.fill(0, slot * SLOT, (slot + 1) * SLOT).set(bytes.subarray(0, sizeBytes), slot * SLOT);
}

function paramOf(list: ArgumentList, handle: number, what: string): Param {
  const param = params.get(handle, `${what}: parameter`);
  if (param.list !== list) {
    throw invalidParam(`${what}: the parameter belongs to another argument list; pass what an append to this list returned`);
  }
  return param;
}

/** Address of the placeholder's host buffer: its bytes at launch travel with the launch. */
export function placeholderBuffer(handle: number, paramHandle: number, sizeBytes: number, what: string): number {
  const list = lists.get(handle, `${what}: args`);
  const param = paramOf(list, paramHandle, what);
  if (param.sizeBytes !== 0 || sizeBytes < 1) {
    const why = sizeBytes < 1 ? `${sizeBytes} bytes` : `argument ${param.slot} is no placeholder`;
    throw invalidParam(`${what}: ${why}; pass what kernel_args_append_place_holder returned, and a size of at least 1`);
  }
  const { device } = list.fn.binary;
  if (param.bufferBytes < sizeBytes) {
    const buffer = device.machine.allocate(sizeBytes, PoolTag.PINNED, what);
    if (param.buffer !== 0) {
      device.machine.release(param.buffer);
    }
    param.buffer = buffer;
  }
  param.bufferBytes = sizeBytes;
  return addressOf(device, param.buffer, true);
}

/** A new value for an argument that has one. */
export function updateArgument(handle: number, paramHandle: number, value: Pointer, sizeBytes: number, what: string): void {
  const list = lists.get(handle, `${what}: args`);
  const param = paramOf(list, paramHandle, what);
  if (param.sizeBytes !== sizeBytes) {
    const has = param.sizeBytes === 0 ? "is a placeholder; write to its buffer" : `has ${param.sizeBytes} bytes; pass as many`;
    throw invalidParam(`${what}: argument ${param.slot} ${has}`);
  }
  writeSlot(list, param.slot, value, sizeBytes, what);
}

export function finalizeList(handle: number, what: string): void {
  const list = lists.get(handle, `${what}: args`);
  const { core } = list.fn;
  if (list.params.length !== core.params.length) {
    throw invalidParam(`${what}: ${list.params.length} arguments, and "${core.name}" takes ${core.params.length}: (${core.params.join(", ")})`);
  }
  for (const { slot, sizeBytes, bufferBytes } of list.params) {
    checkSize(core, slot, sizeBytes, bufferBytes, what);
  }
  list.finalized = true;
}

function checkSize(core: FunctionCore, slot: number, sizeBytes: number, bufferBytes: number, what: string): void {
  const type = core.params[slot];
  if (sizeBytes === 0) {
    if (bufferBytes === 0 || type !== "i32") {
      const why = bufferBytes === 0 ? "has no buffer; call kernel_args_get_place_holder_buffer" : `stands for a ${type}; placeholders are addresses`;
      throw invalidParam(`${what}: placeholder ${slot} ${why}`);
    }
    return;
  }
  const fits = type === "i32" || sizeBytes === (type === "f32" ? 4 : SLOT);
  if (!fits) {
    throw invalidParam(`${what}: argument ${slot} has ${sizeBytes} bytes, and "${core.name}" takes a ${type} there`);
  }
}

/** i32 parameters are addresses or numbers: the upper half of the 8 bytes says which. */
function kinds(core: FunctionCore): ArgumentKind[] {
  const known: Readonly<Record<string, ArgumentKind>> = {
    i32: ArgumentKind.POINTER,
    i64: ArgumentKind.I64,
    f32: ArgumentKind.F32,
    f64: ArgumentKind.F64,
  };
  return core.params.map((param) => known[param] as ArgumentKind);
}

/** Milliseconds that a launch may take: its own limit, or that of set_op_execute_time_out. */
function limitMs(us: number): number {
  return Math.min(TIMEOUT_LIMIT_MS, Math.ceil((us || executeTimeoutUs()) / 1000));
}

/** `args`: where the arguments lie, or a copy of what the launch took of them. */
function submit(stream: AclStream, fnHandle: number, work: Omit<LaunchWork, "fn" | "kinds" | "cores">, what: string): void {
  checkLaunch(stream, what);
  const { core, binary } = functionAt(fnHandle, what);
  const cores = streamLimit(stream, Resource.VECTOR_CORE, what);
  const { slots } = work;
  const { placed, giveBack } = placeByAllocator(stream, work, what);
  let sequence: number;
  try {
    sequence = noteTask(submitLaunch(stream.core, { ...work, placed, fn: core, kinds: kinds(core), cores }));
  } catch (error) {
    giveBack?.();
    throw error;
  }
  if (giveBack !== undefined) {
    stream.device.machine.whenReached(stream.index, sequence, giveBack);
  }
  const args = typeof slots === "number" ? addressOf(stream.device, slots, false) : slots;
  noteLaunch(stream, sequence, { fn: fnHandle, args, argsBytes: SLOT * core.params.length, tell: (info) => binary.onException?.(info) });
}

export function launchList(fnHandle: number, blocks: number, stream: AclStream, timeoutUs: number, handle: number, what: string): void {
  const fn = functionAt(fnHandle, what);
  const list = lists.get(handle, `${what}: args`);
  if (list.fn !== fn) {
    throw invalidParam(`${what}: the argument list was made for "${list.fn.core.name}", and the function is "${fn.core.name}"`);
  }
  if (!list.finalized) {
    throw invalidParam(`${what}: the argument list is not finalized; call kernel_args_finalize first`);
  }
  const { bytes } = fn.binary.device.machine;
  const placed: Placed[] = list.params
    .filter(({ sizeBytes }) => sizeBytes === 0)
    .map(({ slot, buffer, bufferBytes }) => ({ slot, bytes: bytes.subarray(buffer, buffer + bufferBytes) }));
  const slots = list.slots.slice(0, SLOT * list.params.length);
  submit(stream, fnHandle, { blocks, timeoutMs: limitMs(timeoutUs), slots, placed }, what);
  list.launched = true;
}

/** The arguments lie in device memory, 8 bytes each, and are read when the blocks run. */
export function launchDeviceArgs(
  fnHandle: number,
  blocks: number,
  args: Pointer,
  sizeBytes: number,
  stream: AclStream,
  timeoutUs: number,
  what: string,
): void {
  const fn = functionAt(fnHandle, what);
  const { params: types } = fn.core;
  if (sizeBytes !== SLOT * types.length) {
    throw invalidParam(
      `${what}: ${sizeBytes} bytes of arguments, and "${fn.core.name}" takes ${types.length}, ${SLOT} bytes each: (${types.join(", ")})`,
    );
  }
  let slots: number | Uint8Array = new Uint8Array(0);
  if (sizeBytes > 0) {
    const spot = resolve(args, sizeBytes, `${what}: args`);
    if (spot.device !== undefined && spot.device !== stream.device) {
      throw invalidParam(`${what}: the arguments lie on device ${spot.device.index}, and the stream belongs to device ${stream.device.index}`);
    }
    if (spot.device === undefined) {
      throw invalidParam(
        `${what}: the arguments lie in pageable host memory (it looks like a host pointer); pass device memory, or use launch_kernel_with_host_args`,
      );
    }
    slots = spot.offset;
  }
  submit(stream, fnHandle, { blocks, timeoutMs: limitMs(timeoutUs), slots, placed: [] }, what);
}

/** The arguments lie in host memory and are taken now; behind them may lie data that some of them point to. */
export function launchHostArgs(
  fnHandle: number,
  blocks: number,
  stream: AclStream,
  timeoutUs: number,
  args: Pointer,
  sizeBytes: number,
  placeholders: readonly { readonly addrOffset?: unknown; readonly dataOffset?: unknown }[],
  what: string,
): void {
  const fn = functionAt(fnHandle, what);
  const end = SLOT * fn.core.params.length;
  if (sizeBytes < end) {
    throw invalidParam(`${what}: ${sizeBytes} bytes of arguments, and "${fn.core.name}" takes ${end / SLOT}, ${SLOT} bytes each`);
  }
  const bytes = sizeBytes === 0 ? new Uint8Array(0) : resolve(args, sizeBytes, `${what}: args`).bytes.slice(0, sizeBytes);
  const placed = placeholders.map(({ addrOffset, dataOffset }): Placed => {
    const [slot, from] = [Number(addrOffset) / SLOT, Number(dataOffset)];
    if (!Number.isInteger(slot) || fn.core.params[slot] !== "i32" || !Number.isInteger(from) || from < end || from >= sizeBytes) {
      throw invalidParam(
        `${what}: placeholder {addrOffset: ${String(addrOffset)}, dataOffset: ${String(dataOffset)}} names no address among the arguments, or no data behind them`,
      );
    }
    return { slot, bytes: bytes.subarray(from) };
  });
  submit(stream, fnHandle, { blocks, timeoutMs: limitMs(timeoutUs), slots: bytes.slice(0, end), placed }, what);
}

/** Each argument by itself, as large as its parameter: a typed array may be shorter than 8 bytes where an i32 is wanted. */
export function launchArgsArray(
  fnHandle: number,
  blocks: number,
  stream: AclStream,
  timeoutUs: number,
  args: readonly Pointer[],
  what: string,
): void {
  const { params: types } = functionAt(fnHandle, what).core;
  if (args.length !== types.length) {
    throw invalidParam(`${what}: ${args.length} arguments, and the function takes ${types.length}: (${types.join(", ")})`);
  }
  const slots = new Uint8Array(SLOT * types.length);
  for (const [slot, arg] of args.entries()) {
    const whole = types[slot] === "f32" ? 4 : SLOT;
    const sizeBytes = types[slot] === "i32" && typeof arg !== "number" ? Math.min(SLOT, arg.byteLength) : whole;
    slots.set(resolve(arg, sizeBytes, `${what}: argument ${slot}`).bytes.subarray(0, sizeBytes), slot * SLOT);
  }
  submit(stream, fnHandle, { blocks, timeoutMs: limitMs(timeoutUs), slots, placed: [] }, what);
}

/** Bytes that an argument list of the function takes. */
export function listBytes(fnHandle: number, what: string): number {
  return SLOT * functionAt(fnHandle, what).core.params.length;
}

export function forgetKernels(): void {
  binaries.clear();
  functions.clear();
  lists.clear();
  params.clear();
  forgetLaunches();
}
