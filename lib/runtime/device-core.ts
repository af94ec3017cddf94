/** What is behind a Device handle: its machine, default context, staging, run streams, and the models loaded on it. */
import { AclError } from "../errors/acl-error";
import { deviceLost, invalidParam, kindOf } from "../errors/make";
import { PoolTag } from "../host/layout";
import { Machine } from "../host/machine";
import type { MachineToken } from "../host/types";
import { ContextCore } from "./context-core";
import { Help } from "./help";
import { type BufferCore, coreOf } from "./internals";
import { DEVICE_LIMIT, type DeviceOptions, resolveOptions, type ResolvedOptions } from "./options";
import { Staging } from "./staging";
import { turn } from "./turn";
import type { DeviceBuffer } from "./buffer";
import { unwatchAll, type Watch } from "./watched";

/** Devices that this thread has open, by index. */
export const openDevices = new Map<number, DeviceCore>();

/** Options of a device that another thread opened. */
const ATTACHED: ResolvedOptions = {
  driver: "threads",
  cores: 0,
  memoryBytes: 0,
  seed: 1,
  faults: {},
  costs: undefined,
  helpBelowNs: 0,
  watchdogMs: 10_000,
  spinUs: 50,
  traceRecords: 0,
  kernels: undefined,
  strict: false,
  firstSequence: 0,
};

export class DeviceCore {
  /** Buffers that are freed when their handles are forgotten; see buffer.ts. */
  readonly watched = new Map<BufferCore, Watch>();
  readonly machine: Machine;
  readonly index: number;
  readonly options: ResolvedOptions;
  readonly staging: Staging;
  readonly help = new Help();
  /** Each a `ModelEntry`; each counts its handles and leaves when it has none. */
  readonly models = new Set<unknown>();
  /** Give back what this thread's models hold, for a thread that lets go of a device which others go on using. */
  readonly closers = new Set<() => void>();
  /** Called before a stream says what became of its tasks. */
  readonly beforeReport = new Set<() => void>();
  /** Contexts that this thread made. */
  readonly contexts = new Set<ContextCore>();
  #context: ContextCore | undefined;
  #closing = false;

  private constructor(machine: Machine, options: ResolvedOptions) {
    this.machine = machine;
    this.index = machine.device;
    this.options = options;
    this.staging = new Staging(machine);
  }

  static open(asked: DeviceOptions): DeviceCore {
    const options = resolveOptions(asked);
    const index = asked.device ?? firstFree();
    if (!Number.isInteger(index) || index < 0 || index >= DEVICE_LIMIT) {
      throw new AclError(107001, `Device.open: device ${kindOf(index)} does not exist; pass 0 to ${DEVICE_LIMIT - 1}`);
    }
    if (openDevices.has(index)) {
      throw new AclError(
        507033,
        `Device.open: device ${index} is already open in this thread; use that handle, close it first, or leave \`device\` out`,
      );
    }
    const core = new DeviceCore(Machine.open({ ...options, device: index }), options);
    openDevices.set(index, core);
    return core;
  }

  static attach(token: MachineToken): DeviceCore {
    if (openDevices.has(token.device)) {
      throw new AclError(507033, `Device.attach: this thread already has a device ${token.device}; close it first`);
    }
    const machine = Machine.attach(token);
    const core = new DeviceCore(machine, { ...ATTACHED, memoryBytes: machine.bytes.length });
    openDevices.set(core.index, core);
    return core;
  }

  get context(): ContextCore {
    this.#context ??= ContextCore.create(this);
    return this.#context;
  }

  isDefault(context: ContextCore): boolean {
    return context === this.#context;
  }

  /** A context that another thread made: its streams may be used here, it is destroyed there. */
  foreignContext(index: number): ContextCore {
    return ContextCore.of(this, index);
  }

  allocate(sizeBytes: number, pinned: boolean, what: string): BufferCore {
    this.check();
    if (!Number.isInteger(sizeBytes) || sizeBytes <= 0 || sizeBytes > 2 ** 32) {
      throw invalidParam(`${what}: sizeBytes is ${kindOf(sizeBytes)}; pass a whole number above 0`);
    }
    const tag = pinned ? PoolTag.PINNED : PoolTag.USER;
    let offset = this.machine.tryAllocate(sizeBytes, tag);
    if (offset === 0) {
      this.machine.progress(); // disposed buffers may only wait for somebody to look
      offset = this.machine.allocate(sizeBytes, tag, what);
    }
    return { device: this, offset, sizeBytes, owned: true, pinned, live: true };
  }

  /**
   * Gives memory back when every task that is in flight now has run: one of them may write there, and the pool keeps its own records in free memory.
   */
  releaseBehind(offset: number): void {
    const { machine } = this;
    const streams = this.liveStreams();
    let left = streams.length;
    if (left === 0) {
      machine.release(offset);
      return;
    }
    for (const [stream, tail] of streams) {
      machine.whenReached(stream, tail, (error) => {
        left--;
        if (left === 0 && error === undefined && machine.lost === undefined) {
          machine.release(offset);
        }
      });
    }
  }

  /** The buffer's core, if it is live and of this device. */
  buffer(handle: DeviceBuffer, what: string): BufferCore {
    const core = coreOf.buffer(handle);
    if (!core.live) {
      throw invalidParam(`${what}: the buffer was disposed; allocate another`);
    }
    return core;
  }

  check(): void {
    if (this.machine.lost !== undefined) {
      throw this.machine.lost;
    }
  }

  /** As `check`, for new work: a device that is being closed only finishes what it has. */
  admit(): void {
    this.check();
    if (this.#closing) {
      throw deviceLost(this.index, "it is being closed");
    }
  }

  /** In-flight work of all live streams gets `timeoutMs` to finish, then everything stops. */
  async close(timeoutMs: number): Promise<void> {
    this.#closing = true;
    if (openDevices.get(this.index) === this) {
      openDevices.delete(this.index);
    }
    if (this.machine.lost === undefined && this.machine.opener && timeoutMs > 0) {
      await this.#drain(timeoutMs);
    }
    if (this.machine.lost === undefined && !this.machine.opener) {
      for (const context of [...this.contexts]) {
        // A device that is lost meanwhile is left all the same.
        await context.release().catch(() => {});
      }
      for (const closer of [...this.closers]) {
        closer();
      }
    }
    await this.machine.close("it was closed");
    unwatchAll(this);
  }

  async #drain(timeoutMs: number): Promise<void> {
    const end = this.machine.driver.now() + timeoutMs * 1000;
    while (this.help.late.size > 0 && this.machine.driver.now() < end) {
      await turn();
    }
    // Runs that waited for a frame or for room follow those that were in the rings.
    for (;;) {
      this.machine.progress();
      const live = this.liveStreams();
      if (live.length === 0) {
        return;
      }
      for (const [stream, tail] of live) {
        const leftMs = (end - this.machine.driver.now()) / 1000;
        if (this.machine.lost !== undefined || leftMs <= 0) {
          return;
        }
        // A device that is lost meanwhile is closed all the same.
        await this.machine.wait(stream, tail, leftMs).catch(() => {});
      }
    }
  }

  /** [index, sequence of the last task] of the streams that have tasks in flight. */
  liveStreams(): [number, number][] {
    const { core } = this.machine;
    const found: [number, number][] = [];
    for (let stream = 0; stream < this.machine.streamHigh; stream++) {
      const tail = core.tail(stream);
      if (core.fence(stream) < tail) {
        found.push([stream, tail]);
      }
    }
    return found;
  }
}

function firstFree(): number {
  for (let index = 0; index < DEVICE_LIMIT; index++) {
    if (!openDevices.has(index)) {
      return index;
    }
  }
  throw new AclError(207012, `Device.open: all ${DEVICE_LIMIT} devices are open in this thread; close one`);
}
