/** Devices: open, share, close; their memory and contexts. */
import "./symbols";
import { checkOptions, invalidParam, kindOf } from "../errors/make";
import { PoolTag } from "../host/layout";
import { dropParked } from "../host/memory";
import { checkRange, deviceAddress, placeOf } from "./address";
import type { DeviceBuffer, HostBuffer } from "./buffer";
import type { Context, StreamOptions } from "./context";
import { ContextCore } from "./context-core";
import { currentContext, currentOn } from "./current-context";
import { DeviceCore, openDevices } from "./device-core";
import type { Event } from "./event";
import { checkMade, coreOf, make, isObject, noHandle } from "./internals";
import type { Notify } from "./notify";
import { NotifyCore } from "./notify-core";
import { DEVICE_LIMIT, type DeviceOptions } from "./options";
import type { Stream, WaitOptions } from "./stream";
import type { TemporaryBuffer, TemporaryOptions } from "./temporary";
import { checkWait, StreamCore } from "./stream-core";

export type { DeviceOptions } from "./options";

/** What Device.list shows of a device. */
export interface DeviceSummary {
  readonly device: number;
  /** Whether this thread has it open. */
  readonly open: boolean;
}

export interface DeviceInfo extends DeviceSummary {
  readonly driver: "threads" | "sim" | "inline";
  readonly cores: number;
  /** Cores that have finished booting. */
  readonly coresUp: number;
  readonly memoryBytes: number;
  readonly usedBytes: number;
  readonly peakBytes: number;
  readonly freeBytes: number;
  readonly largestFreeBytes: number;
  readonly allocations: number;
  /** Live bytes by what they serve. */
  readonly usedBy: Readonly<Record<string, number>>;
  /** Kernel build: what was asked for, what runs, and why they differ. */
  readonly kernels: { readonly asked: string; readonly used: string; readonly why: string };
  readonly killedCores: number;
  /** Locks taken over from threads that died. */
  readonly takeOvers: number;
  /** Bytes that runs of this thread have copied between arrays and device memory: none for pinned feeds and outputs. */
  readonly copiedBytes: number;
}

/** What another Node thread needs for `Device.attach`; can be posted, and means nothing outside this process. */
export interface DeviceToken {
  readonly device: number;
  readonly abi: number;
  readonly memory: unknown;
  readonly module: unknown;
  readonly kernels: unknown;
}

/** Devices that Device.list shows at least, open or not. */
const LISTED = 8;

export class Device {
  readonly #core: DeviceCore;
  #context: Context | undefined;

  static {
    make.device = (core) => new Device(core);
    coreOf.device = (handle) => {
      if (!isObject(handle) || !(#core in handle)) {
        throw noHandle("a Device", handle);
      }
      return handle.#core;
    };
  }

  private constructor(core: DeviceCore) {
    checkMade(core instanceof DeviceCore, "Device", "await Device.open()");
    this.#core = core;
  }

  /** The devices of this thread: eight, and more if more are open. Devices of other threads are theirs. */
  static list(): DeviceSummary[] {
    const count = Math.max(LISTED, ...[...openDevices.keys()].map((index) => index + 1));
    return Array.from({ length: Math.min(count, DEVICE_LIMIT) }, (_, device) => ({ device, open: openDevices.has(device) }));
  }

  /**
   * Opens a device: takes its memory and lets its cores boot in the background. Until they are up, small programs run on the calling thread.
   * @throws AclError 107000 for a bad option (the text names the nearest valid one), 107001 or 507033 for the device's number, 207001 if memory is refused
   * @see CANN aclrtSetDevice
   */
  static async open(options: DeviceOptions = {}): Promise<Device> {
    return make.device(DeviceCore.open(options));
  }

  /**
   * Uses a device that another thread of this process has opened and shared. When that thread ends, calls here throw 507899.
   * @throws AclError 107017 for a token of another version, 507899 if the device is closed
   */
  static attach(token: DeviceToken): Device {
    // By tag, since what was posted may be of another realm.
    if (token === null || typeof token !== "object" || Object.prototype.toString.call(token.memory) !== "[object WebAssembly.Memory]") {
      throw invalidParam("Device.attach: pass what device.share() returned, posted to this thread of the same process");
    }
    return make.device(DeviceCore.attach(token as Parameters<typeof DeviceCore.attach>[0]));
  }

  /** A token for `Device.attach` in another thread. @throws AclError 207000 on the sim and inline drivers */
  share(): DeviceToken {
    this.#core.check();
    return this.#core.machine.token();
  }

  get id(): number {
    return this.#core.index;
  }

  /** Resolves when every core is up. @throws AclError 507033 if one cannot start */
  async ready(): Promise<void> {
    this.#core.check();
    return this.#core.machine.driver.ready();
  }

  info(): DeviceInfo {
    this.#core.check();
    const { machine, options, index } = this.#core;
    const { core } = machine;
    const usedBy: Record<string, number> = {};
    for (let tag = PoolTag.USER; PoolTag[tag] !== undefined; tag++) {
      usedBy[PoolTag[tag].toLowerCase()] = core.poolTag(tag) >>> 0;
    }
    return {
      device: index,
      open: true,
      driver: options.driver,
      cores: machine.cores,
      coresUp: machine.driver.coresUp,
      memoryBytes: machine.bytes.length,
      usedBytes: core.poolLive() >>> 0,
      peakBytes: core.poolPeak() >>> 0,
      freeBytes: core.poolFree() >>> 0,
      largestFreeBytes: core.poolLargestFree() >>> 0,
      allocations: core.poolCount(),
      usedBy,
      kernels: { asked: machine.kernels.asked, used: machine.kernels.used, why: machine.kernels.why },
      killedCores: machine.counters.killed,
      takeOvers: machine.counters.takeOvers,
      copiedBytes: machine.counters.copiedBytes,
    };
  }

  /** @internal Shared memory of the device, for readers of its trace. */
  get memory(): SharedArrayBuffer {
    this.#core.machine.exposed = true;
    return this.#core.machine.memory.buffer;
  }

  /**
   * Allocates `sizeBytes` of device memory, 64-aligned, not cleared.
   * @throws AclError 207001 if it does not fit (the text says the largest free block), 107000 for a bad size
   * @see CANN aclrtMalloc
   */
  allocate(sizeBytes: number): DeviceBuffer {
    return make.deviceBuffer(this.#core.allocate(sizeBytes, false, "device.allocate"));
  }

  /**
   * Allocates memory that is taken away when another allocation would fail, least recently used first; `use` gives its address and says which stream uses it.
   * @throws AclError 207001 if it does not fit
   */
  allocateTemporary(sizeBytes: number, options: TemporaryOptions = {}): TemporaryBuffer {
    require("./temporary"); // few need it: it is no part of a start
    return make.temporary(this.#core, sizeBytes, options);
  }

  /** Allocates pinned host memory: JavaScript and device share the bytes. @throws AclError as `allocate` @see CANN aclrtMallocHost */
  allocatePinned(sizeBytes: number): HostBuffer {
    return make.hostBuffer(this.#core.allocate(sizeBytes, true, "device.allocatePinned"));
  }

  /**
   * A handle for `sizeBytes` from `address` on, inside one live allocation of this device. Disposing it frees nothing.
   * @throws AclError 107000 if the range is not in a live allocation
   */
  at(address: number, sizeBytes: number): DeviceBuffer {
    this.#core.check();
    const place = placeOf(address);
    if (place === undefined || place.device !== this.id) {
      throw invalidParam(`device.at: ${kindOf(address)} is no address of device ${this.id} (its memory starts at ${deviceAddress(this.id, 0)})`);
    }
    if (!Number.isInteger(sizeBytes) || sizeBytes < 0) {
      throw invalidParam(`device.at: sizeBytes is ${kindOf(sizeBytes)}; pass a whole number`);
    }
    checkRange(this.#core.machine, place.offset, sizeBytes, "device.at");
    return make.deviceBuffer({ device: this.#core, offset: place.offset, sizeBytes, owned: false, pinned: false, live: true });
  }

  /** The context that comes with the device. */
  get defaultContext(): Context {
    this.#core.check();
    this.#context ??= make.context(this.#core.context);
    return this.#context;
  }

  /** A context of its own: own streams, own failures. @throws AclError 207005 if there are no more @see CANN aclrtCreateContext */
  createContext(): Context {
    return make.context(ContextCore.create(this.#core));
  }

  /** The current context if it is of this device (see `context.run`), else the default one. */
  get #here(): Context {
    this.#core.check();
    return currentOn(this.#core) === undefined ? this.defaultContext : (currentContext() as Context);
  }

  /** A stream of the current context of this device, or the default one. */
  createStream(options?: StreamOptions): Stream {
    return this.#here.createStream(options);
  }

  /** An event of the current context of this device, or the default one. */
  createEvent(): Event {
    return this.#here.createEvent();
  }

  /**
   * Waits for every task of every stream of the device. Throws the first failure that a stream of this thread holds.
   * @throws AclError 507046 after timeoutMs, 107035 if the signal fires
   * @see CANN aclrtSynchronizeDeviceWithTimeout
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    this.#core.check();
    checkWait("device.synchronize", options);
    await this.#core.help.settle();
    const own = new Set<StreamCore>();
    for (const context of this.#core.contexts) {
      for (const stream of context.streams) {
        own.add(stream);
      }
    }
    const indices = new Set([...own].map(({ index }) => index));
    for (const [stream] of this.#core.liveStreams()) {
      if (!indices.has(stream)) {
        await new StreamCore(this.#core.context, stream).drain(options);
      }
    }
    for (const stream of own) {
      await stream.synchronize(options);
    }
  }

  /** A notify: a flag that one stream of the device sets and another waits for. @see CANN aclrtCreateNotify */
  createNotify(): Notify {
    return make.notify(new NotifyCore(this.#core));
  }

  /** Gives back what is only kept for speed: staging blocks, memories of closed devices. Returns the bytes given back. */
  trim(): number {
    this.#core.check();
    const before = this.#core.machine.core.poolLive() >>> 0;
    this.#core.staging.flush();
    return before - (this.#core.machine.core.poolLive() >>> 0) + dropParked();
  }

  /**
   * Waits up to `timeoutMs` (default 10,000; 0: not at all) for tasks in flight, then ends the cores. Everything that belongs to the device is gone.
   * On a thread that is attached: lets go of the device. A second call does nothing.
   * @see CANN aclrtResetDevice, aclrtResetDeviceForce
   */
  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    checkOptions("device.close", options, ["timeoutMs"]);
    const timeoutMs = options.timeoutMs ?? 10_000;
    if (typeof timeoutMs !== "number" || !(timeoutMs >= 0)) {
      throw invalidParam(`device.close: timeoutMs is ${kindOf(timeoutMs)}; pass milliseconds from 0 up`);
    }
    await this.#core.close(timeoutMs);
  }

  dispose(): Promise<void> {
    return this.close();
  }

  /** Ends the cores without waiting for tasks in flight. */
  [Symbol.dispose](): void {
    this.close({ timeoutMs: 0 }).catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
