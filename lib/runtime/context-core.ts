/** A context: owner of streams and events, and the fault domain of STOP mode. */
import { AclError } from "../errors/acl-error";
import { kindOf } from "../errors/make";
import { Context, Core, CORE_LIMIT, FailureMode, Layout, Phase, STREAM_LIMIT } from "../host/layout";
import type { DeviceCore } from "./device-core";
import { deviceFailure } from "./failures";
import type { EventCore } from "./internals";
import { StreamCore } from "./stream-core";

/** More streams for runs without one than this gain nothing: they share the cores. */
const RUN_STREAMS_PER_CORE = 2;

export class ContextCore {
  readonly device: DeviceCore;
  readonly index: number;
  readonly streams = new Set<StreamCore>();
  live = true;
  readonly #at: number;
  #defaultStream: StreamCore | undefined;
  readonly #runStreams: StreamCore[] = [];
  #nextRunStream = 0;

  private constructor(device: DeviceCore, index: number) {
    this.device = device;
    this.index = index;
    this.#at = (Layout.CONTEXTS + index * Context.SIZE) >> 2;
  }

  static create(device: DeviceCore): ContextCore {
    device.check();
    const { machine } = device;
    const index = machine.table(() => machine.core.createContext());
    if (index < 0) {
      throw new AclError(207005, `device ${device.index} has no free context; destroy one`);
    }
    const context = new ContextCore(device, index);
    device.contexts.add(context);
    return context;
  }

  static of(device: DeviceCore, index: number): ContextCore {
    return new ContextCore(device, index);
  }

  get name(): string {
    return `context ${this.index} of device ${this.device.index}`;
  }

  check(): void {
    this.device.check();
    if (!this.live) {
      throw new AclError(107002, `${this.name} is destroyed; create another`);
    }
  }

  /** Throws what STOP mode has latched. */
  checkLatch(): void {
    const code = Atomics.load(this.device.machine.words, this.#at + (Context.ERROR >> 2));
    if (code !== 0) {
      const fault = this.device.machine.words[this.#at + (Context.FAULT >> 2)]!;
      throw deviceFailure(this.device.machine, code, fault, `${this.name} has stopped after a failure (mode STOP; reset or destroy it)`);
    }
  }

  /** Whether STOP mode has latched a failure. */
  get latched(): boolean {
    return Atomics.load(this.device.machine.words, this.#at + (Context.ERROR >> 2)) !== 0;
  }

  get stops(): boolean {
    return this.device.machine.words[this.#at + (Context.MODE >> 2)] === FailureMode.STOP;
  }

  /** One way: CONTINUE to STOP; the same mode again is fine. */
  setMode(mode: string): void {
    this.check();
    if (mode !== "CONTINUE" && mode !== "STOP") {
      throw new AclError(107000, `setFailureMode: ${kindOf(mode)} is no failure mode; pass "CONTINUE" or "STOP"`);
    }
    if (mode === "CONTINUE") {
      if (this.stops) {
        throw new AclError(207000, `${this.name} is in mode STOP and cannot go back to CONTINUE; destroy it and create another`);
      }
      return;
    }
    if (Atomics.load(this.device.machine.words, this.#at + (Context.ERROR >> 2)) !== 0) {
      throw new AclError(207000, `${this.name} has stopped after a failure; reset it before changing its mode`);
    }
    Atomics.store(this.device.machine.words, this.#at + (Context.MODE >> 2), FailureMode.STOP);
  }

  get defaultStream(): StreamCore {
    this.#defaultStream ??= this.createStream(0);
    return this.#defaultStream;
  }

  isDefault(stream: StreamCore): boolean {
    return stream === this.#defaultStream;
  }

  createStream(priority: number): StreamCore {
    this.check();
    const { machine } = this.device;
    const index = machine.table(() => machine.core.createStream(this.index, priority));
    if (index < 0) {
      throw new AclError(207008, `device ${this.device.index} has no free stream (limit ${STREAM_LIMIT}); destroy streams that are not needed`);
    }
    const stream = new StreamCore(this, index);
    this.streams.add(stream);
    return stream;
  }

  /** The next of the streams that serve runs without a stream of their own. */
  runStream(): StreamCore {
    const { options, machine } = this.device;
    const limit = Math.max(2, RUN_STREAMS_PER_CORE * Math.max(options.cores, machine.driver.coresUp));
    const at = this.#nextRunStream;
    this.#nextRunStream = (at + 1) % limit;
    let stream = this.#runStreams[at];
    if (stream === undefined) {
      stream = this.createStream(0);
      stream.forRuns = true;
      this.#runStreams[at] = stream;
    }
    return stream;
  }

  createEvent(): EventCore {
    this.check();
    const { machine } = this.device;
    const index = machine.table(() => machine.core.createEvent());
    if (index < 0) {
      throw new AclError(207007, `device ${this.device.index} has no free event; destroy events that are not needed`);
    }
    return { device: this.device, context: this, index, live: true };
  }

  /** Makes unbounded kernels of this context trap at their next poll. */
  poison(): void {
    this.check();
    const { words } = this.device.machine;
    // The context's word first: a core that enters a kernel says so and then reads it (asm/core/tiles.ts), so one of the two sees the other.
    Atomics.store(words, this.#at + (Context.POISON >> 2), 1);
    for (let core = 0; core < CORE_LIMIT; core++) {
      const at = (Layout.CORES + core * Core.SIZE) >> 2;
      if (Atomics.load(words, at + (Core.PHASE >> 2)) === Phase.KERNEL && words[at + (Core.CONTEXT >> 2)] === this.index) {
        Atomics.store(words, at + (Core.POISON >> 2), 1);
      }
    }
  }

  /** Waits until every stream has drained, then forgets every error, latched or not. */
  async reset(): Promise<void> {
    this.check();
    await this.drain();
    const { words } = this.device.machine;
    for (const stream of this.streams) {
      stream.forgetErrors();
    }
    words[this.#at + (Context.FAULT >> 2)] = 0;
    Atomics.store(words, this.#at + (Context.POISON >> 2), 0);
    Atomics.store(words, this.#at + (Context.ERROR >> 2), 0);
  }

  async drain(): Promise<void> {
    const { machine } = this.device;
    for (const stream of this.streams) {
      await machine.wait(stream.index, machine.core.tail(stream.index));
    }
  }

  async destroy(): Promise<void> {
    if (this.live && this.device.isDefault(this)) {
      throw new AclError(107002, `${this.name} is the default context of its device and goes with it; close the device instead`);
    }
    await this.release();
  }

  /** As `destroy`, of the default context too: a thread that lets go of a device leaves nothing of its own there. */
  async release(): Promise<void> {
    if (!this.live) {
      return;
    }
    this.live = false;
    if (this.device.machine.lost !== undefined) {
      return;
    }
    await this.drain();
    for (const stream of [...this.streams]) {
      await stream.destroy();
    }
    this.device.contexts.delete(this);
    const { machine } = this.device;
    machine.table(() => machine.core.destroyContext(this.index));
  }
}
