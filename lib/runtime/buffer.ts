/** Handles of device memory and of pinned host memory. */
import "./symbols";
import { invalidParam, kindOf } from "../errors/make";
import { deviceAddress, hostAddress } from "./address";
import { type BufferCore, checkMade, coreOf, make, isObject, noHandle } from "./internals";
import { arrayOf, dtypeEntry, type TensorData } from "./tensor";
import { Place } from "./place";
import { freeBuffer, unwatch, watch } from "./watched";
import type { DtypeName } from "../graph/dtype";

/**
 * A range of a device's memory. Free it with `dispose` (or `using`); a handle that is forgotten is freed by the garbage collector some day,
 * unless its `address` was read: nobody can know who still holds the number.
 * Tasks in flight may still use the range: the memory goes back when those of that moment have run.
 */
export class DeviceBuffer {
  readonly #core: BufferCore;

  static {
    make.deviceBuffer = (core) => new DeviceBuffer(core);
    coreOf.buffer = (handle) => {
      if (!isObject(handle) || !(#core in handle)) {
        throw noHandle("a buffer", handle);
      }
      return handle.#core;
    };
  }

  protected constructor(core: unknown) {
    checkMade(isObject((core as BufferCore)?.device), new.target.name, "device.allocate(sizeBytes) or device.allocatePinned(sizeBytes)");
    this.#core = core as BufferCore;
    if (this.#core.owned) {
      watch(this, this.#core);
    }
  }

  /** A plain number below 2^53 that tells the device: addresses in the range may be computed from it and passed to copies. */
  get address(): number {
    const { device, offset, pinned } = this.#core;
    unwatch(this.#core); // a number is out that no garbage collection sees: only `dispose` frees it now
    return pinned ? hostAddress(device.index, offset) : deviceAddress(device.index, offset);
  }

  get sizeBytes(): number {
    return this.#core.sizeBytes;
  }

  /** Index of the device that holds it. */
  get device(): number {
    return this.#core.device.index;
  }

  get disposed(): boolean {
    return !this.#core.live;
  }

  /**
   * Copies `data` to `offsetBytes` through the default stream of the device and waits for it.
   * @throws AclError 107000 if it does not fit
   */
  async write(data: ArrayBufferView, offsetBytes = 0): Promise<void> {
    if (!ArrayBuffer.isView(data)) {
      throw invalidParam(`buffer.write: data is ${kindOf(data)}; pass a typed array`);
    }
    const stream = this.#core.device.context.defaultStream;
    const width = data.byteLength;
    const target = this.#place("buffer.write", offsetBytes, width);
    stream.transfer({ what: "buffer.write", target, targetPitch: width, source: data, sourcePitch: width, width, height: 1 });
    await stream.synchronize();
  }

  /**
   * Copies from `offsetBytes` into `target` through the default stream of the device and waits for it. Without `target`: all bytes from there on.
   * @throws AclError 107000 if the range ends past the buffer
   */
  async read<T extends ArrayBufferView = Uint8Array>(target?: T, offsetBytes = 0): Promise<T> {
    if (target !== undefined && !ArrayBuffer.isView(target)) {
      throw invalidParam(`buffer.read: target is ${kindOf(target)}; pass a typed array`);
    }
    const stream = this.#core.device.context.defaultStream;
    const into = target ?? (new Uint8Array(Number.isInteger(offsetBytes) ? Math.max(0, this.sizeBytes - offsetBytes) : 0) as ArrayBufferView as T);
    const width = into.byteLength;
    const source = this.#place("buffer.read", offsetBytes, width);
    stream.transfer({ what: "buffer.read", target: into, targetPitch: width, source, sourcePitch: width, width, height: 1 });
    await stream.synchronize();
    return into;
  }

  #place(what: string, offsetBytes: number, sizeBytes: number): Place {
    this.#core.device.buffer(this, what);
    if (!Number.isInteger(offsetBytes)) {
      throw invalidParam(`${what}: offsetBytes is ${kindOf(offsetBytes)}; pass a whole number of bytes`);
    }
    if (offsetBytes < 0 || offsetBytes + sizeBytes > this.sizeBytes) {
      throw invalidParam(`${what}: bytes ${offsetBytes} to ${offsetBytes + sizeBytes} leave the buffer of ${this.sizeBytes} bytes`);
    }
    const { device, offset, pinned } = this.#core;
    return new Place(device.machine, offset + offsetBytes, pinned);
  }

  /** Frees the memory; a second call does nothing. @see CANN aclrtFree, aclrtFreeHost */
  dispose(): void {
    freeBuffer(this.#core);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A view keeps its buffer's handle: memory that JavaScript still sees is not given back by a garbage collection. */
const HOLDERS = new WeakMap<object, HostBuffer>();

/** The pinned buffer that `view` was made by; undefined for views that others made. */
export const holderOf = (view: ArrayBufferView): HostBuffer | undefined => HOLDERS.get(view);

/** Pinned host memory: JavaScript and the device see the same bytes, so copies of it are never staged. */
export class HostBuffer extends DeviceBuffer {
  static {
    make.hostBuffer = (core) => new HostBuffer(core);
  }

  /** The bytes themselves, shared with the device. Not to be used after `dispose`. */
  get bytes(): Uint8Array {
    return this.view("uint8") as Uint8Array;
  }

  /** The bytes as elements of `dtype`; `length` defaults to all that fit. */
  view(dtype: DtypeName, length?: number): TensorData {
    const core = coreOf.buffer(this);
    core.device.buffer(this, "hostBuffer.view");
    if (dtypeEntry(dtype) === undefined || dtype === "string") {
      throw invalidParam(`hostBuffer.view: ${kindOf(dtype)} is no dtype of device memory; pass a name such as "float32" or "uint8"`);
    }
    const array = arrayOf(dtype);
    const most = Math.floor(core.sizeBytes / array.BYTES_PER_ELEMENT);
    const count = length ?? most;
    if (!Number.isInteger(count) || count < 0 || count > most) {
      throw invalidParam(`hostBuffer.view: ${kindOf(count)} elements of ${dtype} do not fit ${core.sizeBytes} bytes; pass at most ${most}`);
    }
    core.device.machine.exposed = true;
    const view = new array(core.device.machine.memory.buffer, core.offset, count);
    HOLDERS.set(view, this);
    return view;
  }
}
