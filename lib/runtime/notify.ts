/** Notifies: a flag in device memory that one stream sets and another waits for, once per setting. */
import "./symbols";
import { checkInteger } from "../errors/make";
import { Compare, Update } from "../../asm/abi/task";
import { TaskOp } from "../host/layout";
import { checkMade, make } from "./internals";
import { NotifyCore } from "./notify-core";
import type { Stream } from "./stream";

const SET = 1;
const CLEAR = 1;

export class Notify {
  readonly #core: NotifyCore;

  static {
    make.notify = (core) => new Notify(core);
  }

  private constructor(core: NotifyCore) {
    checkMade(core instanceof NotifyCore, "Notify", "device.createNotify()");
    this.#core = core;
  }

  /** Sets the notify when `stream` gets there. @see CANN aclrtRecordNotify */
  record(stream: Stream): void {
    this.#core.join(stream, "record").submit(TaskOp.WRITE_VALUE, this.#core.word, SET, 0, Update.SET);
  }

  /**
   * What is queued in `stream` after this waits until the notify is set, and clears it: of several waits one goes through per setting.
   * @param timeoutMs after so many milliseconds the stream fails with 107020; 0 (default): never
   * @see CANN aclrtWaitAndResetNotify
   */
  wait(stream: Stream, timeoutMs = 0): void {
    checkInteger("notify.wait", "timeoutMs", timeoutMs, 0, 2 ** 31 - 1);
    this.#core.join(stream, "wait").submit(TaskOp.WAIT_VALUE, this.#core.word, SET, 0, timeoutMs, Compare.GREATER_EQUAL, CLEAR);
  }

  /** Frees the notify; streams that use it must have come past it. A second call does nothing. */
  destroy(): void {
    if (this.#core.live) {
      this.#core.live = false;
      if (this.#core.device.machine.lost === undefined) {
        this.#core.device.machine.release(this.#core.word);
      }
    }
  }

  dispose(): void {
    this.destroy();
  }

  [Symbol.dispose](): void {
    this.destroy();
  }
}
