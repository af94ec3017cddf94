/** What the public classes keep behind them, and how the runtime's files reach it. No public declaration mentions this file. */
import type { AclError } from "../errors/acl-error";
import { invalidParam, kindOf } from "../errors/make";
import type { Context } from "./context";
import type { ContextCore } from "./context-core";
import type { Device } from "./device";
import type { DeviceCore } from "./device-core";
import type { Event } from "./event";
import type { Notify } from "./notify";
import type { NotifyCore } from "./notify-core";
import type { DeviceBuffer, HostBuffer } from "./buffer";
import type { Stream } from "./stream";
import type { StreamCore } from "./stream-core";
import type { PreparedRun } from "./prepared";
import type { Frame } from "./frame";
import type { Executor } from "./executor";
import type { Model } from "./model";
import type { DtypeName } from "../graph/dtype";
import type { TemporaryBuffer, TemporaryOptions } from "./temporary";
import type { Tensor, TensorData } from "./tensor";

export interface EventCore {
  readonly device: DeviceCore;
  readonly context: ContextCore;
  readonly index: number;
  live: boolean;
}

/** A range of device memory behind a buffer handle. */
export interface BufferCore {
  readonly device: DeviceCore;
  readonly offset: number;
  readonly sizeBytes: number;
  /** False for ranges made from an address: disposing the handle leaves the memory alone. */
  readonly owned: boolean;
  readonly pinned: boolean;
  live: boolean;
}

/** Makers of handles; each class fills in its own. */
export const make = {} as {
  device(core: DeviceCore): Device;
  context(core: ContextCore): Context;
  stream(core: StreamCore): Stream;
  event(core: EventCore): Event;
  notify(core: NotifyCore): Notify;
  deviceBuffer(core: BufferCore): DeviceBuffer;
  hostBuffer(core: BufferCore): HostBuffer;
  temporary(device: DeviceCore, sizeBytes: number, options: TemporaryOptions): TemporaryBuffer;
  executor(model: Model): Executor;
  prepared(model: Model, frame: Frame): PreparedRun;
  /** A tensor whose parts are known to fit. */
  tensor(dtype: DtypeName, dims: readonly number[], data: TensorData): Tensor;
};

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** Constructors of handles are the runtime's: throws 107000 where somebody else calls one, instead of making a handle of nothing. */
export function checkMade(made: boolean, name: string, how: string): void {
  if (!made) {
    throw invalidParam(`new ${name}: ${/^[EI]/.test(name) ? "an" : "a"} ${name} is made by ${how}`);
  }
}

/** 107000: something else was given where a handle belongs. */
export function noHandle(what: string, given: unknown): AclError {
  return invalidParam(`${what} was expected and ${kindOf(given)} was given; pass what npurt returned`);
}

/** From a handle to what is behind it; each class fills in its own. Throws 107000 for anything that is no such handle. */
export const coreOf = {} as {
  device(handle: Device): DeviceCore;
  context(handle: Context): ContextCore;
  stream(handle: Stream): StreamCore;
  event(handle: Event): EventCore;
  buffer(handle: DeviceBuffer): BufferCore;
  prepared(handle: PreparedRun): Frame;
};
