/** Events: places in streams, recorded by a task, waited for by other streams and by the host. */
import "./symbols";
import { AclError } from "../errors/acl-error";
import { aborted } from "../errors/make";
import { checkMade, coreOf, type EventCore, make, isObject, noHandle } from "./internals";
import { checkWait } from "./stream-core";
import type { WaitOptions } from "./types";

export class Event {
  readonly #core: EventCore;

  static {
    make.event = (core) => new Event(core);
    coreOf.event = (handle) => {
      if (!isObject(handle) || !(#core in handle)) {
        throw noHandle("an Event", handle);
      }
      return handle.#core;
    };
  }

  private constructor(core: EventCore) {
    checkMade(isObject(core?.device), "Event", "device.createEvent()");
    this.#core = core;
  }

  get id(): number {
    return this.#core.index;
  }

  #check(call: string): EventCore {
    this.#core.device.check();
    if (!this.#core.live) {
      throw new AclError(107017, `event.${call}: the event is destroyed; create another`);
    }
    return this.#core;
  }

  /** Where the latest record call stands: stream index and sequence; undefined if there was none. */
  #place(): { stream: number; sequence: number } | undefined {
    const { device, index } = this.#core;
    const stream = device.machine.core.eventStream(index);
    return stream === 0 ? undefined : { stream: stream - 1, sequence: device.machine.core.eventSequence(index) };
  }

  #done(): boolean {
    const place = this.#place();
    return place === undefined || this.#core.device.machine.core.fence(place.stream) >= place.sequence;
  }

  /** True if the latest record task has run, or there is none. @see CANN aclrtQueryEventStatus */
  query(): boolean {
    const { device } = this.#check("query");
    if (!this.#done() && device.machine.driver.name !== "threads") {
      device.machine.step(64);
    }
    device.machine.progress();
    return this.#done();
  }

  /**
   * Resolves when the record task that is the latest now has run.
   * @param options timeoutMs in milliseconds (at least 1; -1 waits for ever), signal
   * @throws AclError 507047 after timeoutMs; 107035 if the signal fires; 507899 if the device is lost
   * @see CANN aclrtSynchronizeEventWithTimeout
   */
  async synchronize(options: WaitOptions = {}): Promise<void> {
    const { device, index } = this.#check("synchronize");
    const where = `synchronize of event ${index} of device ${device.index}`;
    const timeoutMs = checkWait(where, options);
    const place = this.#place();
    if (place === undefined) {
      return;
    }
    const outcome = await device.machine.wait(place.stream, place.sequence, timeoutMs, options.signal);
    if (outcome === "timeout") {
      throw new AclError(507047, `${where} is not done after ${timeoutMs} ms: ${device.machine.describeHead(place.stream)}`);
    }
    if (outcome === "aborted") {
      throw aborted(where, options.signal?.reason);
    }
  }

  /** Microseconds of the device's clock at which the record task ran. @throws AclError 107006 if it has not */
  timestampUs(): number {
    const { device, index } = this.#check("timestampUs");
    if (this.#place() === undefined || !this.#done()) {
      throw new AclError(107006, `event ${index} of device ${device.index} has no time yet; record it and synchronize first`);
    }
    return device.machine.core.eventTime(index);
  }

  /**
   * Milliseconds from this event to `end`.
   * @throws AclError 107006 if one of them has not been recorded or has not run; 107007 if `end` ran first
   * @see CANN aclrtEventElapsedTime
   */
  elapsedMs(end: Event): number {
    coreOf.event(end);
    const elapsed = (end.timestampUs() - this.timestampUs()) / 1000;
    if (elapsed < 0) {
      throw new AclError(107007, `event ${end.id} ran ${-elapsed} ms before event ${this.id}; swap the two`);
    }
    return elapsed;
  }

  /** Destroys the event; a second call does nothing. Streams that already wait for it are not affected. */
  destroy(): void {
    const { device, index, live } = this.#core;
    if (live) {
      this.#core.live = false;
      if (device.machine.lost === undefined) {
        device.machine.table(() => device.machine.core.destroyEvent(index));
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
