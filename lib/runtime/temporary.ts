/**
 * Temporary device memory: what can be computed again, or done without, makes room when an allocation of any kind would fail. The least recently used
 * goes first, after the streams that used it have come past what they had by then. All other memory is persistent.
 */
import "./symbols";
import { AclError } from "../errors/acl-error";
import { checkFunction, checkOptions } from "../errors/make";
import type { Machine } from "../host/machine";
import { deviceAddress } from "./address";
import type { DeviceCore } from "./device-core";
import { type BufferCore, coreOf, make } from "./internals";
import type { Stream } from "./stream";

export interface TemporaryOptions {
  /** Queues on `stream` what fills the memory again after it was evicted. Without it, a use after an eviction is an error. */
  readonly recompute?: (address: number, stream: Stream) => void;
}

/** How long an eviction waits for a stream that uses the memory. */
const LONGEST_WAIT_MS = 30_000;

/** What is behind a handle. */
class Temporary {
  readonly device: DeviceCore;
  readonly sizeBytes: number;
  readonly recompute: TemporaryOptions["recompute"];
  buffer: BufferCore | undefined;
  /** Streams that have used it since it was last filled. */
  readonly streams = new Set<number>();
  evictions = 0;
  live = true;

  constructor(device: DeviceCore, sizeBytes: number, recompute: TemporaryOptions["recompute"]) {
    this.device = device;
    this.sizeBytes = sizeBytes;
    this.recompute = recompute;
  }

  allocate(): BufferCore {
    this.buffer = this.device.allocate(this.sizeBytes, false, "a temporary buffer");
    return this.buffer;
  }

  release(): void {
    const { buffer } = this;
    this.buffer = undefined;
    this.streams.clear();
    if (buffer !== undefined && this.device.machine.lost === undefined) {
      this.device.machine.release(buffer.offset);
    }
  }
}

/** Temporaries of a machine that hold memory, least recently used first. */
const held = new WeakMap<Machine, Set<Temporary>>();

function heldOf(machine: Machine): Set<Temporary> {
  let known = held.get(machine);
  if (known === undefined) {
    known = new Set();
    held.set(machine, known);
    const all = known;
    machine.reclaim = () => evictOne(machine, all);
  }
  return known;
}

/** True if something went. One that a stuck stream uses is passed over. */
function evictOne(machine: Machine, all: Set<Temporary>): boolean {
  for (const temporary of all) {
    const idle = [...temporary.streams].every((stream) => machine.block(stream, machine.core.tail(stream), LONGEST_WAIT_MS));
    if (idle && all.delete(temporary)) {
      temporary.release();
      temporary.evictions++;
      return true;
    }
  }
  return false;
}

/** Memory that may be taken away between two uses. */
export class TemporaryBuffer {
  readonly #core: Temporary;

  static {
    make.temporary = (device, sizeBytes, options) => {
      checkOptions("device.allocateTemporary", options, ["recompute"]);
      if (options.recompute !== undefined) {
        checkFunction("device.allocateTemporary", "recompute", options.recompute);
      }
      const core = new Temporary(device, sizeBytes, options.recompute);
      core.allocate();
      heldOf(device.machine).add(core);
      return new TemporaryBuffer(core);
    };
  }

  private constructor(core: unknown) {
    this.#core = core as Temporary;
  }

  get sizeBytes(): number {
    return this.#core.sizeBytes;
  }

  /** True while its memory is taken away. */
  get evicted(): boolean {
    return this.#core.live && this.#core.buffer === undefined;
  }

  /** How often it was taken away. */
  get evictions(): number {
    return this.#core.evictions;
  }

  /**
   * The address for tasks that are queued on `stream` next, before anything else is allocated; ask again for later ones. After an eviction the memory is
   * allocated again and filled by `recompute` first.
   * @throws AclError 207001 if it was evicted and there is no `recompute`, or no room; 107000 if it was disposed
   */
  use(stream: Stream): number {
    const core = this.#core;
    const { machine, index } = core.device;
    const { index: streamIndex, machine: streamMachine } = coreOf.stream(stream);
    if (!core.live || streamMachine !== machine) {
      const why = core.live ? `stream ${streamIndex} is of another device` : "it was disposed";
      throw new AclError(107000, `temporary.use: ${why}; pass a stream of device ${index}, and a live buffer`);
    }
    const all = heldOf(machine);
    const evicted = core.buffer === undefined;
    if (evicted && core.recompute === undefined) {
      throw new AclError(
        207001,
        `temporary.use: ${core.sizeBytes} bytes on device ${index} were evicted to make room; fill another buffer, or pass recompute to allocateTemporary`,
      );
    }
    all.delete(core);
    const { offset } = core.buffer ?? core.allocate();
    const address = deviceAddress(index, offset);
    core.streams.add(streamIndex);
    if (evicted) {
      core.recompute?.(address, stream);
    }
    all.add(core); // now the most recently used; while it is being filled it cannot be evicted
    return address;
  }

  /** Frees it; a second call does nothing. */
  dispose(): void {
    const core = this.#core;
    if (core.live) {
      core.live = false;
      heldOf(core.device.machine).delete(core);
      core.release();
    }
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
