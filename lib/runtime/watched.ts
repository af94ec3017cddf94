/** Buffers whose handles may be forgotten. */
import type { DeviceCore } from "./device-core";
import type { BufferCore } from "./internals";

/**
 * What the garbage collector is asked to tell of. Its records are old from the start and keep what they name until the whole heap is marked, even when
 * they are not wanted any more: so they name this, which lets go of the buffer, and with it of the device.
 */
export interface Watch {
  core: BufferCore | undefined;
}

/** Gives memory back whose handle was forgotten. */
const forgotten = new FinalizationRegistry<Watch>(({ core }) => core && freeBuffer(core));

export function watch(handle: object, core: BufferCore): void {
  const token = { core };
  core.device.watched.set(core, token);
  forgotten.register(handle, token, token);
}

export function unwatch(core: BufferCore): void {
  const token = core.device.watched.get(core);
  if (token !== undefined) {
    core.device.watched.delete(core);
    token.core = undefined;
    forgotten.unregister(token);
  }
}

/** The device is closed: nothing of it is given back one by one. */
export function unwatchAll(device: DeviceCore): void {
  for (const core of device.watched.keys()) {
    unwatch(core);
  }
}

export function freeBuffer(core: BufferCore): void {
  if (!core.live) {
    return;
  }
  core.live = false;
  unwatch(core);
  if (core.owned && core.device.machine.lost === undefined) {
    core.device.releaseBehind(core.offset);
  }
}
