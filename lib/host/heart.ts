/**
 * The one timer of a device on a host thread. While tasks are in flight it is ref'd (a pending Atomics.waitAsync does not keep a process alive) and
 * beats every 25 ms: watchdog, dead openers, streams that have drained. Idle, it is unref'd at once and stopped a second later.
 */
const BEAT_MS = 25;
const IDLE_BEATS = 40;

export class Heart {
  readonly #beat: () => void;
  /** Whether any work of this thread is still in flight; drops what has drained. */
  readonly #busy: () => boolean;
  #timer: NodeJS.Timeout | undefined;
  #held = false;
  #idleBeats = 0;

  constructor(busy: () => boolean, beat: () => void) {
    this.#busy = busy;
    this.#beat = beat;
  }

  /** Work was submitted: the process stays alive until `settle` finds none. */
  hold(): void {
    if (this.#held) {
      return;
    }
    this.#held = true;
    this.#idleBeats = 0;
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.#tick(), BEAT_MS);
    } else {
      this.#timer.ref();
    }
  }

  /** Lets the process go if nothing is in flight any more. */
  settle(): void {
    if (this.#held && !this.#busy()) {
      this.#held = false;
      this.#timer?.unref();
    }
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#held = false;
  }

  #tick(): void {
    this.#beat();
    this.settle();
    if (!this.#held && ++this.#idleBeats >= IDLE_BEATS) {
      this.stop();
    }
  }
}
