/** One run of a model, from feeds to results. The fast path (Executor.run) uses `runHere`; everything else is a `Run` with a promise. */
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import { Code, TaskOp } from "../host/layout";
import { NO_RING } from "../host/submitter";
import { deviceFailure } from "./failures";
import type { Frame } from "./frame";
import type { Model } from "./model";
import type { StreamCore } from "./stream-core";
import { Tensor, type TensorData } from "./tensor";
import type { Feeds, Results } from "./types";
import type { Variant } from "./variant";

/** Until the cores are up nobody else can run anything, so the caller does even what takes this long. */
const HELP_WHILE_BOOTING_NS = 20e6;
/** Without other cores, a program this short is not worth a turn of the event loop. */
const HELP_INLINE_NS = 1e6;

/** Programs estimated below this many nanoseconds are run by their caller. */
function helpLimitNs(stream: StreamCore): number {
  const { driver } = stream.machine;
  const asked = stream.device.options.helpBelowNs;
  if (asked === 0 || driver.name === "sim") {
    return 0;
  }
  if (driver.name === "inline") {
    return Math.max(asked, HELP_INLINE_NS);
  }
  return driver.coresUp > 0 ? asked : Math.max(asked, HELP_WHILE_BOOTING_NS);
}

/**
 * Runs a loaded frame on the calling thread if it is short and the stream is empty, else queues it.
 * True: it is done. False: `frame.sequence` of the stream is in flight.
 */
export function start(frame: Frame, stream: StreamCore): boolean {
  const { machine } = stream;
  const { core } = machine;
  frame.arm();
  frame.ranOn = stream;
  const { costNs } = frame.variant.program;
  if (costNs < helpLimitNs(stream) && core.fence(stream.index) === core.tail(stream.index)) {
    let sequence = core.submit(stream.index, TaskOp.RUN, frame.address, 0, 0, 0, 0, 0);
    if (sequence === NO_RING) {
      machine.giveRing(stream.index);
      sequence = core.submit(stream.index, TaskOp.RUN, frame.address, 0, 0, 0, 0, 0);
    }
    if (sequence > 0) {
      frame.sequence = sequence;
      const done = machine.help(stream.index, sequence) || spin(stream, sequence);
      if (!done) {
        machine.queued(stream.index);
      } else if (costNs >= stream.device.options.helpBelowNs) {
        // Run here only because no core is up: the next one is for them. They boot when the result has been taken.
        setImmediate(() => machine.lost ?? machine.driver.kick());
      }
      return done;
    }
  }
  frame.sequence = machine.submit(stream.index, TaskOp.RUN, frame.address);
  return false;
}

/** A core was faster and has the run: it is nearly done, so looking is cheaper than sleeping. */
function spin(stream: StreamCore, sequence: number): boolean {
  const { core } = stream.machine;
  for (let i = 0; i < 200; i++) {
    if (core.fence(stream.index) >= sequence) {
      return true;
    }
  }
  return false;
}

/** What a run came to: its results, or the error to throw. */
export function conclude(variant: Variant, frame: Frame, outputs: Results | undefined): Results {
  if (frame.status !== 0) {
    throw failureOf(variant, frame);
  }
  return variant.results(frame, outputs);
}

function failureOf(variant: Variant, frame: Frame): AclError {
  const stream = frame.ranOn;
  const where = `run of ${variant.name}`;
  if (frame.refused) {
    stream.report();
    return new AclError(Code.STREAM_ABORT, `${where}: ${stream.name} dropped it without running it`);
  }
  if (frame.status === Code.TASK_ABORT_STOP) {
    return aborted(where, undefined);
  }
  if (stream === frame.stream) {
    stream.forgetErrors(); // nobody synchronizes the run streams: the caller is told here
  }
  return deviceFailure(stream.machine, frame.status, frame.fault, where);
}

function copyFeeds(feeds: Feeds): Feeds {
  const copies: Record<string, Tensor | TensorData> = {};
  for (const [name, feed] of Object.entries(feeds)) {
    copies[name] = feed instanceof Tensor ? new Tensor(feed.dtype, feed.dims, feed.data.slice()) : feed.slice();
  }
  return copies;
}

export interface RunControl {
  readonly stream: StreamCore | undefined;
  readonly signal: AbortSignal | undefined;
  readonly outputs: Results | undefined;
}

/** A run that may have to wait for a frame, for cores, or both. Holds its model until the device has let go of the frame. */
export class Run {
  readonly #model: Model;
  readonly #variant: Variant;
  readonly #control: RunControl;
  readonly #resolve: (results: Results) => void;
  readonly #reject: (error: unknown) => void;
  #settled = false;
  #frame: Frame | undefined;

  private constructor(model: Model, variant: Variant, control: RunControl, resolve: (results: Results) => void, reject: (error: unknown) => void) {
    this.#model = model;
    this.#variant = variant;
    this.#control = control;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  static go(model: Model, variant: Variant, feeds: Feeds, control: RunControl): Promise<Results> {
    return new Promise((resolve, reject) => {
      const run = new Run(model, variant, control, resolve, reject);
      model.hold();
      run.#begin(feeds);
    });
  }

  /** The rest of a run that `start` has queued. */
  static follow(model: Model, variant: Variant, frame: Frame, control: RunControl): Promise<Results> {
    return new Promise((resolve, reject) => {
      const run = new Run(model, variant, control, resolve, reject);
      model.hold();
      run.#follow(frame, frame.ranOn);
    });
  }

  #begin(feeds: Feeds): void {
    const { signal } = this.#control;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    let frame: Frame | undefined;
    try {
      frame = this.#variant.take();
    } catch (error) {
      this.#settle(error);
      this.#model.drop();
      return;
    }
    if (frame !== undefined) {
      this.#launch(frame, feeds);
      return;
    }
    // What is fed is taken now, as with every copy of pageable memory.
    const copies = copyFeeds(feeds);
    this.#variant.takeLater((later) => {
      if (this.#settled) {
        this.#release(later);
      } else {
        this.#launch(later, copies);
      }
    });
  }

  #launch(frame: Frame, feeds: Feeds): void {
    this.#frame = frame;
    const stream = this.#control.stream ?? frame.stream;
    try {
      stream.check();
      this.#variant.load(frame, feeds);
      if (start(frame, stream)) {
        this.#finish(frame);
        return;
      }
    } catch (error) {
      this.#settle(error);
      this.#release(frame);
      return;
    }
    this.#follow(frame, stream);
  }

  #follow(frame: Frame, stream: StreamCore): void {
    this.#frame = frame;
    stream.machine.whenReached(stream.index, frame.sequence, (error) => {
      if (error === undefined) {
        this.#finish(frame);
      } else {
        this.#settle(error);
      }
    });
  }

  /** The device is done with the frame. */
  #finish(frame: Frame): void {
    if (!this.#settled) {
      try {
        const results = conclude(this.#variant, frame, this.#control.outputs);
        this.#settled = true;
        this.#control.signal?.removeEventListener("abort", this.#onAbort);
        this.#resolve(results);
      } catch (error) {
        this.#settle(error);
      }
    }
    this.#release(frame);
  }

  #release(frame: Frame): void {
    this.#frame = undefined;
    this.#variant.give(frame);
    this.#model.drop();
  }

  /** The caller is told at once; the frame stays out until the device has let go of it. */
  readonly #onAbort = (): void => {
    this.#frame?.cancel(Code.TASK_ABORT_STOP);
    this.#settle(aborted(`run of ${this.#variant.name}`, this.#control.signal?.reason));
  };

  #settle(error: unknown): void {
    if (!this.#settled) {
      this.#settled = true;
      this.#control.signal?.removeEventListener("abort", this.#onAbort);
      this.#reject(error);
    }
  }
}
