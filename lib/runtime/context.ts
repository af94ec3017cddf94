/** Contexts: owners of streams and events, and fault domains. Memory belongs to the device. */
import "./symbols";
import { checkFunction, checkInteger, checkOptions } from "../errors/make";
import { ContextCore } from "./context-core";
import { currentContext, runInside } from "./current-context";
import type { Event } from "./event";
import { checkMade, coreOf, make, isObject, noHandle } from "./internals";
import type { Stream, WaitOptions } from "./stream";
import { checkWait } from "./stream-core";

export interface StreamOptions {
  /** 0 (served first) to 7. Default 0. Not pre-emptive: a tile that runs is not interrupted. */
  readonly priority?: number;
}

export class Context {
  readonly #core: ContextCore;
  #defaultStream: Stream | undefined;

  static {
    make.context = (core) => new Context(core);
    coreOf.context = (handle) => {
      if (!isObject(handle) || !(#core in handle)) {
        throw noHandle("a Context", handle);
      }
      return handle.#core;
    };
  }

  private constructor(core: ContextCore) {
    checkMade(core instanceof ContextCore, "Context", "device.createContext()");
    this.#core = core;
  }

  get id(): number {
    return this.#core.index;
  }

  /** Index of the context's device. */
  get device(): number {
    return this.#core.device.index;
  }

  /** The context of the innermost `run` around the caller; undefined outside of all. */
  static get current(): Context | undefined {
    return currentContext();
  }

  /**
   * Calls `body` with this context as the current one, and returns what it returns. It stays current in everything that `body` awaits or schedules; runs nest.
   * On the context's device, `device.createStream`, `device.createEvent` and runs without a stream then use it instead of the default context.
   * @throws AclError 107002 if the context is destroyed
   */
  run<T>(body: () => T): T {
    this.#core.check();
    checkFunction("context.run", "body", body);
    return runInside(this, body);
  }

  /** The stream that comes with the context. */
  get defaultStream(): Stream {
    this.#defaultStream ??= make.stream(this.#core.defaultStream);
    return this.#defaultStream;
  }

  /**
   * A new stream.
   * @throws AclError 107000 for a bad priority, 207008 if the device has no more, 107002 if the context is destroyed
   * @see CANN aclrtCreateStreamWithConfig
   */
  createStream(options: StreamOptions = {}): Stream {
    checkOptions("context.createStream", options, ["priority"]);
    checkInteger("context.createStream", "priority", options.priority, 0, 7);
    return make.stream(this.#core.createStream(options.priority ?? 0));
  }

  /** A new event. @throws AclError 207007 if the device has no more @see CANN aclrtCreateEvent */
  createEvent(): Event {
    return make.event(this.#core.createEvent());
  }

  get failureMode(): "CONTINUE" | "STOP" {
    return this.#core.stops ? "STOP" : "CONTINUE";
  }

  /**
   * CONTINUE (default): a stream goes on after a failed task, and the next synchronize reports it once.
   * STOP: a failure stops every stream of the context until `reset` or `destroy`. One way.
   * @throws AclError 207000 for STOP to CONTINUE
   */
  setFailureMode(mode: "CONTINUE" | "STOP"): void {
    this.#core.setMode(mode);
  }

  /** Waits for every stream of the context that this thread made; throws the first failure among them. @see CANN aclrtSynchronizeDevice */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    this.#core.check();
    checkWait("context.synchronize", options);
    this.#core.checkLatch();
    for (const stream of this.#core.streams) {
      await stream.synchronize(options);
    }
  }

  /** Makes unbounded kernels of this context trap at their next poll. */
  poison(): void {
    this.#core.poison();
  }

  /** Waits until its streams have drained and forgets all failures, latched ones too. The mode stays. */
  reset(): Promise<void> {
    return this.#core.reset();
  }

  /** Waits for its streams, destroys them and the context; a second call does nothing. @see CANN aclrtDestroyContext */
  destroy(): Promise<void> {
    return this.#core.destroy();
  }

  dispose(): Promise<void> {
    return this.#core.destroy();
  }

  [Symbol.dispose](): void {
    // The device may be lost meanwhile; then there is nothing left to destroy.
    this.#core.destroy().catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#core.destroy();
  }
}
