/** Copies: who owns each end, what is checked, what is staged. Pageable memory is host memory outside the device; everything else is an address. */
import { Direction } from "../../asm/abi/device";
import { invalidParam, kindOf, notSupported } from "../errors/make";
import { copyRange } from "../host/copy-bytes";
import { Layout, Stream, Task, TaskOp } from "../host/layout";
import type { Machine } from "../host/machine";
import { checkRange, foreign, placeOf } from "./address";
import { DeviceBuffer } from "./buffer";
import { openDevices } from "./device-core";
import { coreOf } from "./internals";
import { Place } from "./place";
import { isDetached } from "./tensor";
import type { StreamCore } from "./stream-core";

/** An address, a buffer handle, or an array: of the device's pinned memory, or of any host memory. */
export type Operand = number | DeviceBuffer | ArrayBufferView;

export interface CopyShape {
  readonly what: string;
  readonly target: Operand | Place;
  readonly targetPitch: number;
  readonly source: Operand | Place;
  readonly sourcePitch: number;
  readonly width: number;
  readonly height: number;
}

/** `pageable` bytes of the host, or a place in the memory of a device. */
type End = { readonly bytes: Uint8Array } | Place;
/** Addresses of pinned host memory begin here. */
const HOST_TAG = 2 ** 44;

/** A DataView whose buffer is gone throws where arrays say 0. */
function sizeOfArray(array: ArrayBufferView): number {
  try {
    return array.byteLength;
  } catch {
    return 0;
  }
}

/** Bytes of an operand that knows its size. */
export function sizeOfOperand(operand: Operand): number | undefined {
  if (typeof operand === "number") {
    return undefined;
  }
  // Anything else is for `resolve` to refuse.
  return ArrayBuffer.isView(operand) ? sizeOfArray(operand) : operand instanceof DeviceBuffer ? operand.sizeBytes : 0;
}

function bytesOf(array: ArrayBufferView, what: string): Uint8Array {
  if (sizeOfArray(array) === 0 && isDetached(array)) {
    throw invalidParam(`${what}: the array's buffer was transferred elsewhere or shrunk; pass an array that still has its bytes`);
  }
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** Finds the memory behind `operand` and checks that it has `sizeBytes`. */
export function resolve(machine: Machine, operand: Operand | Place, sizeBytes: number, what: string): End {
  if (typeof operand === "number") {
    const place = placeOf(operand);
    if (place === undefined) {
      throw invalidParam(`${what}: ${operand} is neither a device address nor a pinned host address; pass buffer.address plus an offset`);
    }
    const owner = place.device === machine.device ? machine : openDevices.get(place.device)?.machine;
    if (owner === undefined) {
      throw foreign(what, machine, place);
    }
    checkRange(owner, place.offset, sizeBytes, what);
    return new Place(owner, place.offset, operand >= HOST_TAG);
  }
  if (ArrayBuffer.isView(operand)) {
    if (sizeBytes > sizeOfArray(operand)) {
      throw invalidParam(`${what} needs ${sizeBytes} bytes and the array has ${sizeOfArray(operand)}; pass a longer array or a smaller size`);
    }
    const pinned = (operand.buffer as ArrayBufferLike) === machine.memory.buffer;
    return pinned ? new Place(machine, operand.byteOffset, true) : { bytes: bytesOf(operand, what) };
  }
  if (operand instanceof Place) {
    return operand;
  }
  if (!(operand instanceof DeviceBuffer)) {
    throw invalidParam(`${what}: pass an address, a buffer or a typed array, not ${kindOf(operand)}`);
  }
  const buffer = coreOf.buffer(operand);
  buffer.device.buffer(operand, what);
  if (sizeBytes > buffer.sizeBytes) {
    const over = sizeBytes - buffer.sizeBytes;
    throw invalidParam(
      `${what} ends ${over} bytes past its buffer of ${buffer.sizeBytes} bytes; pass at most ${buffer.sizeBytes} bytes, or allocate more`,
    );
  }
  return new Place(buffer.device.machine, buffer.offset, buffer.pinned);
}

function checkBytes({ what, height }: CopyShape, name: string, value: number): void {
  if (!Number.isInteger(value) || value < 0 || value > 2 ** 32) {
    throw invalidParam(`${what}: ${height === 1 ? "sizeBytes" : name} is ${kindOf(value)}; pass a whole number of bytes`);
  }
}

function spanOf(pitch: number, width: number, height: number): number {
  return width === 0 || height === 0 ? 0 : pitch * (height - 1) + width;
}

/** Copies `height` rows of `width` bytes in stream order. */
export function transfer(stream: StreamCore, shape: CopyShape): void {
  const { machine } = stream;
  const { what, width, height, targetPitch, sourcePitch } = shape;
  checkBytes(shape, "width", width);
  checkBytes(shape, "height", height);
  checkBytes(shape, "targetPitch", targetPitch);
  checkBytes(shape, "sourcePitch", sourcePitch);
  if (height > 1 && (targetPitch < width || sourcePitch < width)) {
    throw invalidParam(`${what}: pitches ${targetPitch} and ${sourcePitch} must be at least the width ${width}`);
  }
  const target = resolve(machine, shape.target, spanOf(targetPitch, width, height), `${what}: target`);
  const source = resolve(machine, shape.source, spanOf(sourcePitch, width, height), `${what}: source`);
  if (width === 0 || height === 0) {
    return;
  }
  if ("bytes" in target) {
    if ("bytes" in source) {
      throw notSupported(`${what}: both ends are pageable host memory; copy them with JavaScript`);
    }
    toHost(stream, shape, target.bytes, source.machine, source.offset);
  } else if ("bytes" in source) {
    toDevice(stream, shape, target.machine, target.offset, source.bytes);
  } else if (target.machine !== machine || source.machine !== machine) {
    acrossDevices(stream, shape, target, source);
  } else if (target.offset !== source.offset || targetPitch !== sourcePitch) {
    submitCopy(stream, directionOf(source.host, target.host), target.offset, targetPitch, source.offset, sourcePitch, width, height);
  }
}

/** Which engine a copy occupies on a clock with costs. */
function directionOf(fromHost: boolean, toHost: boolean): Direction {
  if (fromHost) {
    return toHost ? Direction.HOST_TO_HOST : Direction.HOST_TO_DEVICE;
  }
  return toHost ? Direction.DEVICE_TO_HOST : Direction.DEVICE_TO_DEVICE;
}

function submitCopy(
  stream: StreamCore,
  direction: Direction,
  target: number,
  targetPitch: number,
  source: number,
  sourcePitch: number,
  width: number,
  height: number,
): number {
  return height === 1
    ? stream.machine.submit(stream.index, TaskOp.COPY | (direction << 8), target, source, width)
    : stream.machine.submit(stream.index, TaskOp.COPY_2D | (direction << 8), target, targetPitch, source, sourcePitch, width, height);
}

function copyRows(
  target: Uint8Array,
  at: number,
  targetPitch: number,
  source: Uint8Array,
  from: number,
  sourcePitch: number,
  width: number,
  height: number,
): void {
  for (let row = 0; row < height; row++) {
    copyRange(target, at + row * targetPitch, source, from + row * sourcePitch, width);
  }
}

/** The array's bytes are taken now: into place if the stream has nothing to do, else into a staging block. */
function toDevice(stream: StreamCore, shape: CopyShape, machine: Machine, offset: number, bytes: Uint8Array): void {
  const { targetPitch, sourcePitch, width, height } = shape;
  if (machine !== stream.machine) {
    stream.synchronizeBlocking(undefined);
    copyRows(machine.bytes, offset, targetPitch, bytes, 0, sourcePitch, width, height);
    return;
  }
  if (stream.idle) {
    copyRows(machine.bytes, offset, targetPitch, bytes, 0, sourcePitch, width, height);
    return;
  }
  const { staging } = stream.device;
  const block = staging.take(width * height);
  copyRows(machine.bytes, block, width, bytes, 0, sourcePitch, width, height);
  const sequence = submitCopy(stream, Direction.HOST_TO_DEVICE, offset, targetPitch, block, width, width, height);
  staging.give(block, stream.index, sequence);
}

/** The device's bytes of that moment in the stream arrive in the array before a later synchronize resolves. */
function toHost(stream: StreamCore, shape: CopyShape, bytes: Uint8Array, machine: Machine, offset: number): void {
  const { targetPitch, sourcePitch, width, height } = shape;
  if (machine !== stream.machine) {
    stream.synchronizeBlocking(undefined);
    copyRows(bytes, 0, targetPitch, machine.bytes, offset, sourcePitch, width, height);
    return;
  }
  if (stream.idle) {
    machine.completions.poll(); // earlier copies into the same array come first
    copyRows(bytes, 0, targetPitch, machine.bytes, offset, sourcePitch, width, height);
    return;
  }
  const { staging } = stream.device;
  const block = staging.take(width * height);
  const sequence = submitCopy(stream, Direction.DEVICE_TO_HOST, block, width, offset, sourcePitch, width, height);
  machine.whenReached(stream.index, sequence, (error) => {
    if (error !== undefined) {
      return;
    }
    // An array whose buffer was transferred or shrunk meanwhile has no bytes that anybody could look at.
    if (bytes.length > 0 && !failed(machine, stream.index, sequence)) {
      copyRows(bytes, 0, targetPitch, machine.bytes, block, width, width, height);
    }
    staging.giveNow(block);
  });
}

/** Whether task `sequence` retired with a code. A slot that is in use again says nothing: then it counts as done. */
function failed(machine: Machine, stream: number, sequence: number): boolean {
  const at = (Layout.STREAMS + stream * Stream.SIZE) >> 2;
  const { words } = machine;
  const slot = (words[at + (Stream.RING >> 2)]! + (sequence & words[at + (Stream.MASK >> 2)]!) * Task.SIZE) >> 2;
  return words[slot] === sequence >>> 0 && words[slot + (Task.STATUS >> 2)] !== 0;
}

/** Cores see their own memory only, so this waits for the stream and copies here. */
function acrossDevices(stream: StreamCore, shape: CopyShape, target: Place, source: Place): void {
  stream.synchronizeBlocking(undefined);
  const { targetPitch, sourcePitch, width, height } = shape;
  copyRows(target.machine.bytes, target.offset, targetPitch, source.machine.bytes, source.offset, sourcePitch, width, height);
}
