/** Copies: their kinds, and who carries them out. Synchronous ones are done by the caller at once; asynchronous ones are tasks, unless an end is pageable. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { copyRange } from "../host/copy-bytes";
import { TaskOp } from "../host/layout";
import { Direction } from "../../asm/abi/device";
import { Location, resolve, type Spot, canReach } from "./addresses";
import type { Pointer } from "./args";
import { runInStream } from "./reports";
import { type AclStream, checkLaunch, submitTask, syncStream } from "./streams";

/** aclrtMemcpyKind. */
export enum Kind {
  HOST_TO_HOST,
  HOST_TO_DEVICE,
  DEVICE_TO_HOST,
  DEVICE_TO_DEVICE,
  DEFAULT,
}
const DIRECTIONS: Readonly<Record<Kind, Direction>> = {
  [Kind.HOST_TO_HOST]: Direction.HOST_TO_HOST,
  [Kind.HOST_TO_DEVICE]: Direction.HOST_TO_DEVICE,
  [Kind.DEVICE_TO_HOST]: Direction.DEVICE_TO_HOST,
  [Kind.DEVICE_TO_DEVICE]: Direction.DEVICE_TO_DEVICE,
  [Kind.DEFAULT]: Direction.DEVICE_TO_DEVICE,
};
const WIDEST = 5_000_000;
const HIGHEST = 5_242_880;

export function checkKind(kind: number, what: string): void {
  if (Kind[kind] === undefined) {
    throw invalidParam(
      `${what}: kind is ${kind}; pass 0 (host to host), 1 (host to device), 2 (device to host), 3 (device to device) or 4 (by the addresses)`,
    );
  }
}

/** What the addresses say. */
export function kindOf(target: Spot, source: Spot): Kind {
  const to = target.location === Location.DEVICE;
  const from = source.location === Location.DEVICE;
  if (to) {
    return from ? Kind.DEVICE_TO_DEVICE : Kind.HOST_TO_DEVICE;
  }
  return from ? Kind.DEVICE_TO_HOST : Kind.HOST_TO_HOST;
}

export function checkCount(count: number, most: number, what: string): void {
  if (count < 0 || count > most) {
    throw invalidParam(`${what}: ${count} bytes, and the target has room for ${most}; pass 0 to ${most}`);
  }
}

export function checkPeers(target: Spot, source: Spot, what: string): void {
  if (target.location === Location.DEVICE && source.location === Location.DEVICE && !canReach(target.device!, source.device!)) {
    throw invalidParam(
      `${what}: device ${target.device!.index} and device ${source.device!.index} have no access to each other; call device_enable_peer_access first`,
    );
  }
}

/** Copies now, on this thread. */
export function copyNow(target: Spot, source: Spot, count: number): void {
  if (count === 0) {
    return; // an array without bytes may be one whose buffer is gone
  }
  copyRange(target.memory, target.offset, source.memory, source.offset, count);
}

export function copySync(target: Pointer, most: number, source: Pointer, count: number, kind: number, what: string): void {
  checkKind(kind, what);
  checkCount(count, most, what);
  const to = resolve(target, count, `${what}: target`);
  const from = resolve(source, count, `${what}: source`);
  checkPeers(to, from, what);
  copyNow(to, from, count);
}

/** The kind that was asked for must be the one that the addresses have. @throws AclError 107000, 207000 for host to host */
function checkAsync(to: Spot, from: Spot, kind: number, what: string): Kind {
  const actual = kindOf(to, from);
  if (kind !== Kind.DEFAULT && kind !== actual) {
    throw invalidParam(`${what}: kind ${kind} (${Kind[kind]}) does not fit the addresses, which are ${Kind[actual]} (${actual}); pass that, or 4`);
  }
  if (actual === Kind.HOST_TO_HOST) {
    throw new AclError(207000, `${what}: host to host is not for a stream; call memcpy`);
  }
  return actual;
}

/** An end that no core of the stream's device can reach: pageable host memory, or another device. */
export function isOutside(stream: AclStream, spot: Spot): boolean {
  return spot.device !== stream.device;
}

/**
 * Carries out `copy` where no core of the stream's device can: with pageable memory after waiting for the stream, as CANN does; between devices in stream
 * order, by this thread, which does not wait.
 */
export function copyOutside(stream: AclStream, spots: readonly Spot[], copy: () => void, what: string): void {
  if (spots.some((spot) => spot.device === undefined)) {
    syncStream(stream, Number.POSITIVE_INFINITY, what);
    copy();
  } else {
    runInStream(stream, copy, what);
  }
}

/** Queues a copy. */
export function copyAsync(target: Pointer, most: number, source: Pointer, count: number, kind: number, stream: AclStream, what: string): void {
  checkLaunch(stream, what);
  checkKind(kind, what);
  checkCount(count, most, what);
  const to = resolve(target, count, `${what}: target`);
  const from = resolve(source, count, `${what}: source`);
  const actual = checkAsync(to, from, kind, what);
  checkPeers(to, from, what);
  if (to.device === undefined || from.device === undefined) {
    syncStream(stream, Number.POSITIVE_INFINITY, what);
    copyNow(to, from, count);
  } else if (isOutside(stream, to) || isOutside(stream, from)) {
    copyOutside(stream, [to, from], () => copyNow(to, from, count), what);
  } else if (count > 0 && to.offset !== from.offset) {
    submitTask(stream, what, TaskOp.COPY | (DIRECTIONS[actual] << 8), to.offset, from.offset, count);
  }
}

export interface Rows {
  readonly target: Pointer;
  readonly targetPitch: number;
  readonly source: Pointer;
  readonly sourcePitch: number;
  readonly width: number;
  readonly height: number;
  readonly kind: number;
}

function checkRows({ width, height, targetPitch, sourcePitch, kind }: Rows, what: string): void {
  checkKind(kind, what);
  if (kind === Kind.HOST_TO_HOST) {
    throw invalidParam(`${what}: kind 0 (host to host) is not for 2-D copies; pass 1, 2 or 3`);
  }
  if (width <= 0 || width > WIDEST || height <= 0 || height > HIGHEST) {
    throw invalidParam(`${what}: width ${width} and height ${height}; pass 1 to ${WIDEST} and 1 to ${HIGHEST}`);
  }
  if (width > targetPitch || width > sourcePitch) {
    throw invalidParam(
      `${what}: width ${width} is more than a pitch (target ${targetPitch}, source ${sourcePitch}); pass pitches of at least the width`,
    );
  }
}

function resolveRows(rows: Rows, what: string): [Spot, Spot] {
  const span = (pitch: number): number => pitch * (rows.height - 1) + rows.width;
  return [resolve(rows.target, span(rows.targetPitch), `${what}: target`), resolve(rows.source, span(rows.sourcePitch), `${what}: source`)];
}

function copyRows(to: Spot, from: Spot, { targetPitch, sourcePitch, width, height }: Rows): void {
  for (let row = 0; row < height; row++) {
    copyRange(to.memory, to.offset + row * targetPitch, from.memory, from.offset + row * sourcePitch, width);
  }
}

export function copyRowsSync(rows: Rows, what: string): void {
  checkRows(rows, what);
  const [to, from] = resolveRows(rows, what);
  if (kindOf(to, from) === Kind.DEVICE_TO_DEVICE) {
    throw invalidParam(`${what}: device to device is for memcpy2d_async only`);
  }
  copyRows(to, from, rows);
}

export function copyRowsAsync(rows: Rows, stream: AclStream, what: string): void {
  checkLaunch(stream, what);
  checkRows(rows, what);
  const [to, from] = resolveRows(rows, what);
  const actual = checkAsync(to, from, rows.kind, what);
  checkPeers(to, from, what);
  if (isOutside(stream, to) || isOutside(stream, from)) {
    copyOutside(stream, [to, from], () => copyRows(to, from, rows), what);
    return;
  }
  const op = TaskOp.COPY_2D | (DIRECTIONS[actual] << 8);
  submitTask(stream, what, op, to.offset, rows.targetPitch, from.offset, rows.sourcePitch, rows.width, rows.height);
}
