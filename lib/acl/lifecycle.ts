/** Ends: of contexts with what they own, of devices with all contexts and memory. And the system parameters that live as long. */
import { AclError } from "../errors/acl-error";
import { invalidParam } from "../errors/make";
import { StreamState } from "../host/layout";
import { type AclContext, contextGeneration, contextOf, contextsOf, streamsOf, unbindDevice } from "./contexts";
import { type AclDevice, ContextWord, Shared, StreamWord } from "./devices";
import { DeviceWord, deviceWord, exclusively, nap, Word, words } from "./process";
import { abortStream, destroyStream, generationOf, stateOf, streamView } from "./streams";

/** Marks the allocations of the parity face in the pool; the low bits say how they are charged. */
export const ACL_OWNER = 0x41c0_0000;
const OWNER_MASK = 0xfff0_0000;
const PARAMETERS = 3;

/** What else a context owns: families that keep something per context say how it ends. */
export const contextEnds: ((context: AclContext) => void)[] = [];
/** The same for devices. */
export const deviceEnds: ((device: AclDevice) => void)[] = [];

/** A thread that destroys something and has not come back for so long has died at it. */
const PATIENCE_MS = 5000;
const NAP_MS = 1;

/** Waits for the context's tasks and frees its streams, events, notifies and itself. @throws AclError 507007 if another thread is at it, 107002 if one was */
export function destroyContext(context: AclContext, what: string): void {
  const { device, index, handle } = context;
  const [claim, generation] = [device.contextAt(index, ContextWord.ENDED), contextGeneration(device, index)];
  if (!device.claimEnd(claim, generation)) {
    throw new AclError(507007, `${what}: another thread is destroying ${context.core.name}; let one thread do it`);
  }
  try {
    contextOf(handle, what); // while we came here another thread may have destroyed it, and its index may be another context's
    destroyStreams(context);
    for (const end of contextEnds) {
      end(context);
    }
  } catch (error) {
    device.disclaimEnd(claim, generation);
    throw error;
  }
  const { machine } = device;
  // 0: a thread that had looked before the claim has made one more stream.
  while (machine.table(() => machine.core.destroyContext(index)) === 0) {
    destroyStreams(context);
  }
}

/** Every stream of the context; those that another thread is destroying are waited for. */
function destroyStreams(context: AclContext): void {
  const { device } = context;
  const end = performance.now() + PATIENCE_MS;
  for (let left = streamsOf(context); left.length > 0; left = streamsOf(context)) {
    for (const stream of left) {
      try {
        destroyStream(streamView(device, stream), false);
      } catch (error) {
        if (!(error instanceof AclError && error.code === 107003)) {
          throw error;
        }
        if (performance.now() > end) {
          device.disclaimEnd(device.streamAt(stream, StreamWord.ENDED), generationOf(device, stream));
        }
        nap(NAP_MS);
      }
    }
  }
}

/** As destroyContext; one that another thread is destroying is waited for. */
function endContext(context: AclContext): void {
  const { device, index, handle } = context;
  for (const end = performance.now() + PATIENCE_MS; contextsOf(device).some((one) => one.handle === handle); nap(NAP_MS)) {
    try {
      destroyContext(context, "reset_device");
      return;
    } catch (error) {
      if (!(error instanceof AclError && (error.code === 507007 || error.code === 107002))) {
        throw error;
      }
      if (performance.now() > end) {
        device.disclaimEnd(device.contextAt(index, ContextWord.ENDED), contextGeneration(device, index));
      }
    }
  }
}

/** Every live allocation of the parity face, as offsets. */
export function allocationsOf(device: AclDevice): number[] {
  const { core } = device.machine;
  const found: number[] = [];
  for (let start = core.nextAllocation(0) >>> 0; start !== 0; start = core.nextAllocation(start) >>> 0) {
    if ((core.allocationOwner(start) & OWNER_MASK) >>> 0 === ACL_OWNER) {
      found.push(start);
    }
  }
  return found;
}

/** The last user has gone: contexts, then memory. The device itself stays up for the next set_device. */
function endDevice(device: AclDevice, force: boolean): void {
  const contexts = contextsOf(device);
  if (force) {
    for (const context of contexts) {
      for (const stream of streamsOf(context)) {
        const view = streamView(device, stream);
        if (stateOf(view) !== StreamState.FREE) {
          abortStream(view);
        }
      }
    }
  }
  for (const context of contexts) {
    if (device.core.contexts.size === 0 || ![...device.core.contexts].some(({ index }) => index === context.index)) {
      endContext(context);
    }
  }
  device.set(Shared.PRIMARY, 0);
  for (const end of deviceEnds) {
    end(device);
  }
  for (const start of allocationsOf(device)) {
    device.machine.release(start);
  }
  device.charge(-device.chargedBytes);
  for (const word of [Shared.CUBE_LIMIT, Shared.VECTOR_LIMIT, Shared.PEERS_LOW, Shared.PEERS_HIGH]) {
    device.set(word, 0);
  }
  Atomics.add(device.shared, Shared.RESETS, 1);
  unbindDevice(device);
}

/** reset_device and reset_device_force. @throws AclError 507007 if nobody has set the device */
export function resetDevice(device: AclDevice | undefined, id: number, force: boolean): void {
  exclusively(() => {
    const refs = device === undefined ? 0 : deviceWord(device.index, DeviceWord.REFS);
    if (device === undefined || Atomics.load(words, refs) === 0) {
      throw new AclError(507007, `reset_device: device ${id} is not set (any more); call set_device before each reset_device`);
    }
    const left = force ? 0 : Atomics.sub(words, refs, 1) - 1;
    if (left === 0) {
      Atomics.store(words, refs, 0);
      endDevice(device, force);
    }
  });
}

/** Reads (`value` undefined) or sets a system parameter, of a context or of the process. @throws AclError 107021 if a context never set it */
export function systemParameter(context: AclContext | undefined, option: number, value: number | undefined, what: string): number {
  if (option < 0 || option >= PARAMETERS) {
    throw invalidParam(`${what}: option is ${option}; pass 0 (deterministic), 1 (debug kernel) or 2 (strong consistency)`);
  }
  const most = option === 0 ? 3 : 1;
  if (value !== undefined && (value < 0 || value > most)) {
    throw invalidParam(`${what}: value is ${value}; pass 0 to ${most}`);
  }
  const array = context === undefined ? words : context.device.shared;
  const at = context === undefined ? Word.OPTIONS + option : context.device.contextAt(context.index, ContextWord.PARAMETER) + option;
  if (value !== undefined) {
    Atomics.store(array, at, value + 1);
    return value;
  }
  const stored = Atomics.load(array, at);
  if (stored === 0 && context !== undefined) {
    throw new AclError(107021, `${what}: option ${option} was never set in this context; call ctx_set_sys_param_opt first`);
  }
  return Math.max(0, stored - 1);
}
