/** Submitting tasks: rings that are not there yet, locks that are held, rings that are full. */
import { AclError } from "../errors/acl-error";
import type { Driver } from "./driver";
import { BUSY, LockedMemory, LockKind } from "./locked-memory";
import { ARGUMENT_RING_BYTES, Header, Layout, PoolTag, RING_SLOTS, Stream, Task, TaskOp, Thread, WORKER_LIMIT } from "./layout";
import type { Completions } from "./completions";

const FULL = -1;
const ARGUMENTS_FULL = -3;
export const NO_RING = -5;
/** How long a full ring may stay full before a blocking submit gives up. */
const FULL_LIMIT_MS = 30_000;

export abstract class Submitter extends LockedMemory {
  abstract readonly driver: Driver;
  abstract readonly completions: Completions;
  abstract readonly thread: number;
  /** Set once the device is closed or gone: what every further call throws. */
  lost: AclError | undefined;
  #quiet = 0;

  /** A task of `stream` is in flight: the process must live until it is done. */
  protected abstract hold(stream: number): void;

  /** Publishes one task and makes somebody look. Blocks while the ring is full. Returns its sequence. */
  submit(stream: number, op: number, p0 = 0, p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0): number {
    if (this.lost !== undefined) {
      throw this.lost;
    }
    let sequence = this.core.submit(stream, op, p0, p1, p2, p3, p4, p5);
    for (let since = 0; sequence < 0; sequence = this.core.submit(stream, op, p0, p1, p2, p3, p4, p5)) {
      since = this.#overcome(sequence, stream, since);
    }
    this.hold(stream);
    if (this.#quiet === 0) {
      this.driver.kick();
    }
    return sequence;
  }

  /** As `submit`, but never waits for room: 0 if the ring is full. */
  trySubmit(stream: number, op: number, p0 = 0, p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0): number {
    if (this.lost !== undefined) {
      throw this.lost;
    }
    let sequence = this.core.submit(stream, op, p0, p1, p2, p3, p4, p5);
    for (let since = 0; sequence < 0 && sequence !== FULL; sequence = this.core.submit(stream, op, p0, p1, p2, p3, p4, p5)) {
      since = this.#overcome(sequence, stream, since);
    }
    if (sequence === FULL) {
      return 0;
    }
    this.queued(stream);
    return sequence;
  }

  /** A sequence of `stream` behind which a full ring has room again: a quarter of it, so that one wake-up serves many tasks. */
  roomAfter(stream: number): number {
    return Math.min(this.core.fence(stream) + RING_SLOTS / 4, this.core.tail(stream));
  }

  /** A task that was submitted past this class is in flight. */
  queued(stream: number): void {
    this.hold(stream);
    this.driver.kick();
  }

  /** Runs `submit`; the cores are woken once, at its end. */
  quietly<T>(submit: () => T): T {
    this.#quiet++;
    try {
      return submit();
    } finally {
      this.#quiet--;
      this.driver.kick(WORKER_LIMIT); // the batch may have fed many streams
    }
  }

  /** As `submit`, with the first `sizeBytes` of this thread's mailbox as arguments. */
  submitWithArguments(stream: number, op: number, sizeBytes: number, p1 = 0, p2 = 0, p3 = 0): number {
    const send = (): number => this.core.submitWithArguments(stream, op, sizeBytes, p1, p2, p3, 0, 0);
    return this.submitBy(stream, send);
  }

  /** Submits through `send`, one of the core's submit calls. */
  submitBy(stream: number, send: () => number): number {
    if (this.lost !== undefined) {
      throw this.lost;
    }
    let answer = send();
    for (let since = 0; answer < 0; answer = send()) {
      since = this.#overcome(answer, stream, since);
    }
    this.hold(stream);
    if (this.#quiet === 0) {
      this.driver.kick();
    }
    return answer;
  }

  /** `count` equal tasks. Returns the sequence of the last task of the stream. */
  submitMany(stream: number, op: number, count: number, p0 = 0, p1 = 0, p2 = 0, p3 = 0): number {
    for (let left = count; left > 0; ) {
      const fitted = this.submitBy(stream, () => this.core.submitMany(stream, op, p0, p1, p2, p3, left) || FULL);
      left -= fitted;
    }
    return this.core.tail(stream);
  }

  get cores(): number {
    return this.words[(Layout.HEADER + Header.CORES) >> 2]!;
  }

  /** One past the highest stream index ever used. */
  get streamHigh(): number {
    return this.words[(Layout.HEADER + Header.STREAM_HIGH) >> 2]!;
  }

  /** Address of this thread's mailbox. */
  get mailbox(): number {
    return this.words[(Layout.THREADS + this.thread * Thread.SIZE + Thread.MAILBOX) >> 2]!;
  }

  /** Deals with a refused submit, blocking if need be; `since` is when the first refusal was (0: this is it). */
  #overcome(answer: number, stream: number, since: number): number {
    const now = performance.now();
    const first = since || now;
    switch (answer) {
      case NO_RING:
        this.giveRing(stream);
        return 0;
      case BUSY:
        this.awaitLock(Layout.STREAMS + stream * Stream.SIZE, LockKind.STREAM, first);
        return first;
      case FULL:
      case ARGUMENTS_FULL: {
        this.driver.kick();
        const wanted = answer === FULL ? this.roomAfter(stream) : Math.min(this.core.fence(stream) + 1, this.core.tail(stream));
        if (!this.driver.block(stream, wanted, FULL_LIMIT_MS)) {
          if (this.lost !== undefined) {
            throw this.lost as AclError;
          }
          throw new AclError(
            507002,
            `stream ${stream} of device ${this.device} is full (${RING_SLOTS} tasks) and does not move; ${this.describeHead(stream)}`,
          );
        }
        this.completions.poll();
        return 0;
      }
      default:
        throw new AclError(107003, `stream ${stream} of device ${this.device} is destroyed; create another`);
    }
  }

  /** What stands at the head of a stream, for texts about streams that do not move. */
  describeHead(stream: number): string {
    const at = (Layout.STREAMS + stream * Stream.SIZE) >> 2;
    const ring = this.words[at + (Stream.RING >> 2)]!;
    if (ring === 0) {
      return "it has no task";
    }
    const sequence = this.core.fence(stream) + 1;
    const slot = ring + (sequence & this.words[at + (Stream.MASK >> 2)]!) * Task.SIZE;
    const op = this.bytes[slot + Task.OP]!;
    const target = op === TaskOp.WAIT ? ` for task ${this.words[(slot + Task.P1) >> 2]} of stream ${this.words[(slot + Task.P0) >> 2]}` : "";
    return `its head is task ${sequence}, a ${TaskOp[op] ?? op}${target}`;
  }

  /** The ring of a stream comes with its first task. */
  giveRing(stream: number): void {
    const ring = this.allocate(RING_SLOTS * Task.SIZE + ARGUMENT_RING_BYTES, PoolTag.RING, `the ring of stream ${stream}`);
    const lock = Layout.STREAMS + stream * Stream.SIZE;
    const answer = this.locked(lock, LockKind.STREAM, () => this.core.attachRing(stream, ring, RING_SLOTS, ring + RING_SLOTS * Task.SIZE));
    if (answer === 0) {
      this.release(ring); // another thread was first
    }
  }
}
