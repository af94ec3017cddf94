/** One run of a model, from feeds to results. The fast path (Executor.run) uses `runHere`; everything else is a `Run` with a promise. */
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import { Code, TaskOp } from "../host/layout";
import type { Machine } from "../host/machine";
import { NO_RING } from "../host/submitter";
import { deviceFailure } from "./failures";
import type { Frame } from "./frame";
import type { Model } from "./model";
import { pinnedAddress } from "./pinned";
import type { LateEntry, StreamCore } from "./stream-core";
import type { TensorData } from "./tensor";
import type { Results } from "./types";
import type { Variant } from "./variant";

/**
 * DONE: it has run. QUEUED: `frame.sequence` of the stream is in flight. FULL: the stream's ring had no room, LATER: the event loop has its turn first;
 * nothing happened.
 */
export type Started = "DONE" | "QUEUED" | "FULL" | "LATER";

/** Runs a loaded frame on the calling thread if it is short and the stream is empty, else queues it. Never waits for room. */
export function start(frame: Frame, stream: StreamCore, blocking = false): Started {
  const { machine } = stream;
  const { core } = machine;
  frame.arm();
  frame.ranOn = stream;
  const { costNs } = frame.variant.program;
  const place = core.fence(stream.index) === core.tail(stream.index) ? stream.device.help.place(stream, costNs, blocking) : "CORES";
  if (place === "LATER") {
    return place;
  }
  if (place === "HERE") {
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
      return done ? "DONE" : "QUEUED";
    }
  }
  return enqueue(frame, stream);
}

/** Queues a loaded frame. */
function enqueue(frame: Frame, stream: StreamCore): Started {
  frame.arm();
  frame.ranOn = stream;
  const sequence = stream.machine.trySubmit(stream.index, TaskOp.RUN, frame.address);
  if (sequence === 0) {
    return "FULL";
  }
  frame.sequence = sequence;
  return "QUEUED";
}

/** As `start`, but waits for room, blocking the thread. */
export function startBlocking(frame: Frame, stream: StreamCore): boolean {
  const started = start(frame, stream, true);
  if (started === "FULL") {
    frame.sequence = stream.machine.submit(stream.index, TaskOp.RUN, frame.address);
  }
  return started === "DONE";
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
  if (stream.forRuns) {
    stream.forgetErrors(); // the caller is told here
  }
  return deviceFailure(stream.machine, frame.status, frame.fault, where);
}

/** What a feed holds now. Pinned memory is used where it is; `slice` of a Buffer would be another view of its bytes. */
function taken(data: TensorData, machine: Machine): TensorData {
  if (pinnedAddress(machine, data) !== 0) {
    return data;
  }
  return data instanceof Uint8Array ? new Uint8Array(data) : data.slice();
}

export interface RunControl {
  readonly stream: StreamCore | undefined;
  readonly signal: AbortSignal | undefined;
  readonly outputs: Results | undefined;
}

/**
 * A run that may have to wait for a frame, for room in its stream, for cores, or all of them. Holds its model until the device has let go of the frame.
 * On a stream of the user's, runs that wait stand in the stream's own line, so that what is queued there keeps the order of the calls.
 */
export class Run implements LateEntry {
  readonly #model: Model;
  readonly #variant: Variant;
  readonly #control: RunControl;
  readonly #resolve: (results: Results) => void;
  readonly #reject: (error: unknown) => void;
  #settled = false;
  /** It is in the ring, or never will be. */
  #entered = false;
  #frame: Frame | undefined;
  /** Made for this run alone, beyond the model's frames. */
  #extraFrame = false;
  /** Until they are in a frame. */
  #fed: readonly TensorData[] | undefined;

  private constructor(model: Model, variant: Variant, control: RunControl, resolve: (results: Results) => void, reject: (error: unknown) => void) {
    this.#model = model;
    this.#variant = variant;
    this.#control = control;
    this.#resolve = resolve;
    this.#reject = reject;
    model.hold();
    control.signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  static go(model: Model, variant: Variant, fed: readonly TensorData[], control: RunControl): Promise<Results> {
    return new Promise((resolve, reject) => {
      new Run(model, variant, control, resolve, reject).#begin(fed);
    });
  }

  /** The rest of a run whose loaded frame `start` has queued, or found no room for. */
  static follow(model: Model, variant: Variant, frame: Frame, started: Started, control: RunControl): Promise<Results> {
    return new Promise((resolve, reject) => {
      const run = new Run(model, variant, control, resolve, reject);
      run.#frame = frame;
      run.#goOn(frame, frame.ranOn, started);
    });
  }

  #begin(fed: readonly TensorData[]): void {
    const { stream } = this.#control;
    try {
      if (!stream?.hasLateEntries) {
        const frame = this.#variant.take();
        if (frame !== undefined) {
          this.#launch(frame, fed, start);
          return;
        }
      }
      // What is fed is taken now, as with every copy of pageable memory.
      this.#fed = fed.map((data) => taken(data, this.#variant.machine));
    } catch (error) {
      this.#leave(error);
      return;
    }
    if (stream === undefined) {
      this.tryEnter();
    } else {
      stream.enterLate(this);
    }
  }

  /** Its turn has come: takes a frame when there is one. */
  tryEnter(): void {
    if (this.#frame !== undefined) {
      return; // it has one, and waits for room
    }
    const go = (frame: Frame | undefined, error: unknown): void => {
      if (frame === undefined) {
        this.#leave(error);
      } else if (this.#entered) {
        this.#variant.give(frame);
      } else {
        // Many may come after each other here: the cores run them, not this thread.
        this.#launch(frame, this.#fed!, enqueue);
      }
    };
    try {
      const frame = this.#variant.take();
      if (frame === undefined) {
        this.#variant.takeLater(go);
      } else {
        go(frame, undefined);
      }
    } catch (error) {
      this.#leave(error);
    }
  }

  /** Something is submitted behind it now: it enters at once, with a frame of its own if need be, blocking while the ring is full. */
  enterNow(): void {
    if (this.#entered) {
      return;
    }
    const stream = this.#control.stream!;
    try {
      if (this.#frame === undefined) {
        const frame = this.#variant.take();
        this.#extraFrame = frame === undefined;
        this.#frame = frame ?? this.#variant.prepare();
        this.#variant.load(this.#frame, this.#fed!, this.#control.outputs);
      }
      stream.checkEntry();
      this.#goOn(this.#frame, stream, startBlocking(this.#frame, stream) ? "DONE" : "QUEUED");
    } catch (error) {
      this.#leave(error);
    }
  }

  #launch(frame: Frame, fed: readonly TensorData[], how: typeof start): void {
    this.#frame = frame;
    const stream = this.#control.stream ?? frame.stream;
    try {
      stream.checkEntry();
      this.#variant.load(frame, fed, this.#control.outputs);
      this.#goOn(frame, stream, how(frame, stream));
    } catch (error) {
      this.#leave(error);
    }
  }

  #goOn(frame: Frame, stream: StreamCore, started: Started): void {
    if (started === "FULL" || started === "LATER") {
      this.#control.stream?.enterLate(this);
      started === "FULL" ? this.#awaitRoom(frame, stream) : this.#awaitTurn(frame, stream);
      return;
    }
    this.#setEntered();
    if (started === "DONE") {
      this.#finish(frame);
      return;
    }
    stream.machine.whenReached(stream.index, frame.sequence, (error) => {
      if (error === undefined) {
        this.#finish(frame);
      } else {
        this.#settle(error);
        this.#variant.fail(error);
      }
    });
  }

  #awaitTurn(frame: Frame, stream: StreamCore): void {
    const { late } = stream.device.help;
    late.add(this);
    setImmediate(() => {
      late.delete(this);
      this.#retry(frame, stream, start);
    });
  }

  #awaitRoom(frame: Frame, stream: StreamCore): void {
    stream.machine.whenReached(stream.index, stream.machine.roomAfter(stream.index), (error) => {
      if (error === undefined) {
        this.#retry(frame, stream, enqueue);
      } else if (!this.#entered) {
        this.#leave(error);
        this.#variant.fail(error);
      }
    });
  }

  #retry(frame: Frame, stream: StreamCore, how: typeof start): void {
    if (this.#entered) {
      return;
    }
    try {
      stream.checkEntry();
      this.#goOn(frame, stream, how(frame, stream));
    } catch (error) {
      this.#leave(error);
    }
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
    this.#release();
  }

  #release(): void {
    const frame = this.#frame;
    this.#frame = undefined;
    if (frame !== undefined && this.#extraFrame) {
      this.#variant.giveUp(frame);
    } else if (frame !== undefined) {
      this.#variant.give(frame);
    }
    this.#model.drop();
  }

  /** Ends before the ring has seen it. */
  #leave(error: unknown): void {
    this.#settle(error);
    if (!this.#entered) {
      this.#setEntered();
      this.#release();
    }
  }

  #setEntered(): void {
    this.#entered = true;
    this.#fed = undefined;
    this.#control.stream?.entered(this);
  }

  /** The caller is told at once; a frame that the device has stays out until it has let go of it. */
  readonly #onAbort = (): void => {
    const error = aborted(`run of ${this.#variant.name}`, this.#control.signal?.reason);
    if (this.#entered) {
      this.#frame?.cancel(Code.TASK_ABORT_STOP);
      this.#settle(error);
    } else {
      this.#leave(error);
    }
  };

  #settle(error: unknown): void {
    if (!this.#settled) {
      this.#settled = true;
      this.#control.signal?.removeEventListener("abort", this.#onAbort);
      this.#reject(error);
    }
  }
}
