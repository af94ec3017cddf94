/** What is behind a Notify handle: its word in device memory. */
import { AclError } from "../errors/acl-error";
import { PoolTag } from "../host/layout";
import type { DeviceCore } from "./device-core";
import { coreOf } from "./internals";
import type { Stream } from "./stream";
import type { StreamCore } from "./stream-core";

const WORD_BYTES = 8;

export class NotifyCore {
  readonly device: DeviceCore;
  readonly word: number;
  live = true;

  constructor(device: DeviceCore) {
    device.check();
    this.device = device;
    this.word = device.machine.allocate(WORD_BYTES, PoolTag.SCRATCH, "a notify");
    device.machine.bytes.fill(0, this.word, this.word + WORD_BYTES);
  }

  /** The stream's core, if both live and belong together. */
  join(stream: Stream, call: string): StreamCore {
    const core = coreOf.stream(stream);
    if (!this.live) {
      throw new AclError(107017, `notify.${call}: the notify is destroyed; create another`);
    }
    if (core.device !== this.device) {
      throw new AclError(107003, `notify.${call}: the notify belongs to device ${this.device.index}, the stream to device ${core.device.index}`);
    }
    return core;
  }
}
