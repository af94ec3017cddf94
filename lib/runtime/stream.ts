/** Streams: first-in first-out queues of tasks. Calls return when the task is queued; `synchronize` says what became of it. */
import "./symbols";
import { Compare } from "../../asm/abi/task";
import { AclError } from "../errors/acl-error";
import { checkFunction, checkInteger, checkOptions, invalidParam, kindOf, requireInteger } from "../errors/make";
import type { DtypeName } from "../graph/dtype";
import { CONTEXT_LIMIT, Layout, Stream as Words, STREAM_LIMIT, StreamState, TaskOp } from "../host/layout";
import type { DeviceBuffer } from "./buffer";
import { sizeOfOperand } from "./copy";
import type { Device } from "./device";
import type { Event } from "./event";
import { checkMade, coreOf, make, isObject, noHandle } from "./internals";
import type { KernelFunction, KernelLaunchOptions } from "./kernel";
import { PreparedRun } from "./prepared";
import { StreamCore } from "./stream-core";
import type { WaitOptions } from "./types";
import { submitStrided } from "./strided";

/** Device memory: a buffer handle, or an address from `buffer.address` plus an offset. */
export type Address = number | DeviceBuffer;

/** A strided window on device memory. `strides` are bytes between neighbours (0 repeats, negative runs backwards); default: row-major without gaps. */
export interface StridedView {
  readonly address: Address;
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  readonly strides?: readonly number[];
  /** Bytes from `address` to the first element; default 0. */
  readonly offsetBytes?: number;
}

/** Deliberate misbehaviour, for tests of what happens then. */
export interface Probe {
  readonly probe: "nothing" | "unreachable" | "outOfBounds" | "divideByZero" | "runaway" | "runawayPolling" | "spin" | "mix";
  /** spin: iterations; mix: a number folded into the word at `address`. */
  readonly argument?: number;
  readonly address?: number;
}

/** What another thread needs to use a stream; can be posted. */
export interface StreamToken {
  readonly device: number;
  readonly context: number;
  readonly stream: number;
  readonly generation: number;
}

export type { WaitOptions } from "./types";

const COMPARES: ReadonlyMap<unknown, Compare> = new Map([
  [">=", Compare.GREATER_EQUAL],
  ["==", Compare.EQUAL],
  ["&", Compare.AND],
]);

/** Both halves of a 64-bit value, signed or unsigned. */
function wordsOf(where: string, value: unknown): [low: number, high: number] {
  if (typeof value !== "bigint" || value < -(2n ** 63n) || value >= 2n ** 64n) {
    throw invalidParam(`${where}: value is ${kindOf(value)}; pass a bigint from -2^63 to 2^64 - 1`);
  }
  return [Number(BigInt.asUintN(32, value)), Number(BigInt.asUintN(32, value >> 32n))];
}

export class Stream {
  readonly #core: StreamCore;

  static {
    make.stream = (core) => new Stream(core);
    coreOf.stream = (handle) => {
      if (!isObject(handle) || !(#core in handle)) {
        throw noHandle("a Stream", handle);
      }
      return handle.#core;
    };
  }

  private constructor(core: StreamCore) {
    checkMade(core instanceof StreamCore, "Stream", "device.createStream()");
    this.#core = core;
  }

  /** Number of the stream on its device. */
  get id(): number {
    return this.#core.index;
  }

  /** 0 is served first, 7 last. */
  get priority(): number {
    return this.#core.machine.words[(Layout.STREAMS + this.id * Words.SIZE + Words.PRIORITY) >> 2]!;
  }

  /** "CONTINUE" or "STOP"; see `setFailureMode`. */
  get failureMode(): "CONTINUE" | "STOP" {
    return this.#core.context.stops ? "STOP" : "CONTINUE";
  }

  /**
   * STOP makes a failure on any stream of this stream's *context* stop all of them, until the context is reset or destroyed. There is no way back to CONTINUE.
   * @throws AclError 207000 for STOP to CONTINUE
   * @see CANN aclrtSetStreamFailureMode
   */
  setFailureMode(mode: "CONTINUE" | "STOP"): void {
    this.#core.context.setMode(mode);
  }

  /**
   * Copies `sizeBytes` from `source` to `target` in stream order and returns at once.
   * Pinned host memory is read when the task runs; pageable memory is taken now, so later writes to it do not matter.
   * A pageable target has its bytes before a later `synchronize` resolves.
   * @param sizeBytes default: all of the operand that knows its size, the smaller if both do
   * @throws AclError 107000 if a range leaves its allocation (the text names it); 207000 if both ends are pageable; 507899 if the device is lost
   * @see CANN aclrtMemcpyAsync
   */
  memcpy(target: Address | ArrayBufferView, source: Address | ArrayBufferView, sizeBytes?: number): void {
    const size = sizeBytes ?? Math.min(sizeOfOperand(source) ?? Number.POSITIVE_INFINITY, sizeOfOperand(target) ?? Number.POSITIVE_INFINITY);
    if (size === Number.POSITIVE_INFINITY) {
      throw invalidParam("stream.memcpy: between two addresses, sizeBytes has to be given");
    }
    this.#core.transfer({ what: "stream.memcpy", target, targetPitch: size, source, sourcePitch: size, width: size, height: 1 });
  }

  /**
   * Copies `height` rows of `widthBytes`; rows are `targetPitch` and `sourcePitch` bytes apart.
   * @throws AclError as `memcpy`
   * @see CANN aclrtMemcpy2dAsync
   */
  memcpy2d(
    target: Address | ArrayBufferView,
    targetPitch: number,
    source: Address | ArrayBufferView,
    sourcePitch: number,
    widthBytes: number,
    height: number,
  ): void {
    this.#core.transfer({ what: "stream.memcpy2d", target, targetPitch, source, sourcePitch, width: widthBytes, height });
  }

  /**
   * Copies element for element between two strided views of equal dims; dtypes may differ and are converted.
   * Transpose, slice, concatenation and broadcast are all this.
   * @throws AclError 107000 if dims differ or a view leaves its allocation
   */
  copy(target: StridedView, source: StridedView): void {
    submitStrided(this.#core, target, source);
  }

  /**
   * Sets `sizeBytes` bytes from `target` on to `value` (0 to 255) in stream order.
   * @throws AclError 107000 if the range leaves its allocation
   * @see CANN aclrtMemsetAsync
   */
  memset(target: Address, value: number, sizeBytes = sizeOfOperand(target)): void {
    requireInteger("stream.memset", "value", value, 0, 255);
    this.#fill("stream.memset", target, value, 1, sizeBytes);
  }

  /** As `memset`, with a pattern of 1, 2 or 4 bytes; `sizeBytes` is a multiple of it. */
  fill(target: Address, pattern: number, patternBytes: 1 | 2 | 4, sizeBytes = sizeOfOperand(target)): void {
    if (patternBytes !== 1 && patternBytes !== 2 && patternBytes !== 4) {
      throw invalidParam(`stream.fill: patternBytes is ${kindOf(patternBytes)}; pass 1, 2 or 4`);
    }
    requireInteger("stream.fill", "pattern", pattern, -(2 ** 31), 2 ** 32 - 1);
    this.#fill("stream.fill", target, pattern >>> 0, patternBytes, sizeBytes);
  }

  #fill(what: string, target: Address, pattern: number, patternBytes: number, sizeBytes: number | undefined): void {
    if (sizeBytes === undefined || !Number.isInteger(sizeBytes) || sizeBytes < 0 || sizeBytes % patternBytes !== 0) {
      throw invalidParam(`${what}: sizeBytes is ${kindOf(sizeBytes)}; pass a whole multiple of ${patternBytes}`);
    }
    const offset = this.#core.localOffset(target, sizeBytes, `${what}: target`);
    if (sizeBytes > 0) {
      this.#core.submit(TaskOp.FILL, offset, sizeBytes, pattern, patternBytes);
    }
  }

  /**
   * Writes the 64-bit `value` to an 8-aligned address when the stream gets there.
   * @throws AclError 107008 if the address is not 8-aligned
   * @see CANN aclrtValueWrite
   */
  writeValue(target: Address, value: bigint): void {
    const [low, high] = wordsOf("stream.writeValue", value);
    const offset = this.#core.localOffset(target, 8, "stream.writeValue: target");
    if (offset % 8 !== 0) {
      throw new AclError(107008, `stream.writeValue: the address is not a multiple of 8; align it`);
    }
    this.#core.submit(TaskOp.WRITE_VALUE, offset, low, high);
  }

  /**
   * What is queued after this waits until the 64-bit word at an 8-aligned address is `>=` (default), `==` the value, or shares a bit with it (`&`).
   * @param options timeoutMs: after so many milliseconds the stream fails with 107020; default never
   * @throws AclError 107008 if the address is not 8-aligned
   * @see CANN aclrtValueWait
   */
  waitValue(target: Address, value: bigint, options: { readonly compare?: ">=" | "==" | "&"; readonly timeoutMs?: number } = {}): void {
    checkOptions("stream.waitValue", options, ["compare", "timeoutMs"]);
    const [low, high] = wordsOf("stream.waitValue", value);
    checkInteger("stream.waitValue", "timeoutMs", options.timeoutMs, 0, 2 ** 31 - 1);
    const compare = COMPARES.get(options.compare ?? ">=");
    const offset = this.#core.localOffset(target, 8, "stream.waitValue: target");
    if (offset % 8 !== 0 || compare === undefined) {
      throw offset % 8 === 0
        ? invalidParam(`stream.waitValue: compare is "${String(options.compare)}"; pass ">=", "==" or "&"`)
        : new AclError(107008, "stream.waitValue: the address is not a multiple of 8; align it");
    }
    this.#core.submit(TaskOp.WAIT_VALUE, offset, low, high, options.timeoutMs ?? 0, compare);
  }

  /** Queues one run of a prepared program, or a probe. Results of a prepared run are in its output views after the next `synchronize`. */
  launch(work: PreparedRun | Probe): void {
    if (!isObject(work)) {
      throw invalidParam(`stream.launch: ${kindOf(work)} cannot be launched; pass what executor.prepare() returned`);
    }
    if (work instanceof PreparedRun) {
      const frame = coreOf.prepared(work);
      frame.launchOn(this.#core);
    } else {
      const word = work.probe === "mix" ? this.#core.localOffset(work.address ?? 0, 4, "stream.launch: address") : 0;
      this.#core.probe(work.probe, work.argument ?? 0, word);
    }
  }

  /**
   * Queues `blocks` blocks of a kernel of one's own; they run on the device's cores, never on this thread. What became of it says the next `synchronize`:
   * 507034 ran too long, 507035 illegal operation, 507036 trapped otherwise, 507044 address outside the device's memory.
   * @throws AclError 107000 if arguments or blocks do not fit, 107017 if the kernel is disposed, 207000 on the inline and sim drivers
   * @see CANN aclrtLaunchKernelWithConfig
   */
  launchKernel(fn: KernelFunction, options: KernelLaunchOptions = {}): void {
    const { launchKernel } = require("./kernel") as typeof import("./kernel");
    launchKernel(this.#core, fn, options);
  }

  /** Queues `count` empty tasks. */
  nop(count = 1): void {
    this.#core.nop(count);
  }

  /**
   * Queues many tasks with one wake-up at the end: `stream.batch(() => { ... })`. Returns what `submit` returns.
   * Tasks may start before it ends.
   */
  batch<T>(submit: () => T): T {
    checkFunction("stream.batch", "submit", submit);
    return this.#core.machine.quietly(submit);
  }

  /** Records `event` here: it is reached when everything queued before has run. @see CANN aclrtRecordEvent */
  record(event: Event): void {
    this.#core.record(coreOf.event(event));
  }

  /** Tasks queued after this wait until `event`, as last recorded, is reached. An event never recorded does not hold anything up. @see CANN aclrtStreamWaitEvent */
  wait(event: Event): void {
    this.#core.waitEvent(coreOf.event(event));
  }

  /**
   * Resolves when everything queued so far has run.
   * @param options timeoutMs in milliseconds (at least 1; -1 waits for ever), signal
   * @throws AclError the first failure by CANN's order: 507046 time-out (the text names the task at the head), 107035 if the signal fires, 107023 aborted stream,
   *   the latched code of a stopped context, or the code of the latest failed task since the last report (`failures` lists all); 507899 if the device is lost
   * @see CANN aclrtSynchronizeStreamWithTimeout
   */
  synchronize(options?: WaitOptions): Promise<void> {
    return this.#core.synchronize(options);
  }

  /** As `synchronize`, but blocks this thread; on the inline and sim drivers it runs the tasks. */
  synchronizeSync(timeoutMs?: number): void {
    this.#core.synchronizeBlocking(timeoutMs);
  }

  /** True if nothing is queued or running. @see CANN aclrtStreamQuery */
  query(): boolean {
    return this.#core.query();
  }

  /** Drops what is queued; the stream is of no use afterwards. @see CANN aclrtStreamAbort */
  abort(): void {
    this.#core.abort();
  }

  /** What another thread that has attached to the device needs for `Stream.attach`. */
  share(): StreamToken {
    this.#core.check();
    const { device, context, index, generation } = this.#core;
    return { device: device.index, context: context.index, stream: index, generation };
  }

  /**
   * The stream that another thread shared. Both may submit to it.
   * @throws AclError 107003 if it has been destroyed
   */
  static attach(device: Device, token: StreamToken): Stream {
    const core = coreOf.device(device);
    core.check();
    const { machine } = core;
    const whole = (value: unknown, limit: number): boolean => Number.isInteger(value) && (value as number) >= 0 && (value as number) < limit;
    if (!isObject(token) || !whole(token.stream, STREAM_LIMIT) || !whole(token.context, CONTEXT_LIMIT)) {
      throw invalidParam(`Stream.attach: ${kindOf(token)} is no token; pass what stream.share() returned`);
    }
    const at = (Layout.STREAMS + token.stream * Words.SIZE) >> 2;
    const live = Atomics.load(machine.words, at + (Words.STATE >> 2)) !== StreamState.FREE;
    if (token.device !== device.id || !live || machine.words[at + (Words.GENERATION >> 2)] !== token.generation) {
      throw new AclError(
        107003,
        `Stream.attach: stream ${token.stream} of device ${token.device} is destroyed, or belongs to another device; share it again`,
      );
    }
    return make.stream(new StreamCore(coreOf.device(device).foreignContext(token.context), token.stream));
  }

  /** Waits for what is queued and destroys the stream; a second call does nothing. @see CANN aclrtDestroyStream */
  destroy(): Promise<void> {
    return this.#core.destroy();
  }

  dispose(): Promise<void> {
    return this.#core.destroy();
  }

  /** Destroys the stream when what is queued has run; does not wait for that. */
  [Symbol.dispose](): void {
    // The device may be lost meanwhile; then there is nothing left to destroy.
    this.#core.destroy().catch(() => {});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#core.destroy();
  }
}
