/** Blocking waits of parity calls. While a thread blocks it still runs the host functions that are its own to run, and answers other threads. */
import { Header, Layout, Stream, StreamState, Task, TaskOp } from "../host/layout";
import type { Machine } from "../host/machine";
import type { AclDevice } from "./devices";
import { askToLook, drain, expectsMessages, nap } from "./process";

/** A function that this thread runs once the stream has reached `marker`. */
export interface HostCall {
  readonly device: AclDevice;
  readonly stream: number;
  readonly marker: number;
  /** Runs the function, and lets the stream go on if it waits for that. */
  serve(): void;
}

/** Host functions that the runtime itself serves, in launch order. */
const hostCalls = new Set<HostCall>();
/** A blocked thread looks this often whether another thread asks something. */
const SLICE_MS = 200;
const SHORT_MS = 1;
/** Time that passes on a virtual clock when only a time-out can still move something. */
const STEP_MS = 1;

/** Called at every turn of a blocking call, while there are any at least every TURN_MS. */
export const turnHooks = new Set<() => void>();
const TURN_MS = 20;

/** Has `call` served when its marker is reached: while this thread blocks, or by the event loop. */
export function addHostCall(call: HostCall): void {
  hostCalls.add(call);
  call.device.machine.whenReached(call.stream, call.marker, (error) => {
    if (error !== undefined) {
      hostCalls.delete(call);
    } else {
      serveHostCalls();
    }
  });
}

/** A stream that a function which runs now on this thread holds up from `marker` on. */
interface Hold {
  readonly device: AclDevice;
  readonly stream: number;
  readonly marker: number;
}
const holds: Hold[] = [];

/** Runs a function that holds its stream up until it returns. */
export function whileHolding(hold: Hold, run: () => void): void {
  holds.push(hold);
  try {
    run();
  } finally {
    holds.splice(holds.indexOf(hold), 1);
  }
}

/**
 * Whether a wait for `sequence` is one for the very function that waits: the stream is held by it, or by a host function that this thread would serve
 * after it. An aborted stream holds nothing.
 */
function waitsForItself({ machine, index }: AclDevice, stream: number, sequence: number): boolean {
  if (holds.length === 0) {
    return false; // this thread runs no callback
  }
  const state = Atomics.load(machine.words, (Layout.STREAMS + stream * Stream.SIZE + Stream.STATE) >> 2);
  const inTheWay = (hold: Hold): boolean => hold.device.index === index && hold.stream === stream && hold.marker < sequence;
  return state === StreamState.LIVE && (holds.some(inTheWay) || (serving && [...hostCalls].some(inTheWay)));
}

let serving = false;
/** Host functions served so far: whoever blocks sees that something moved. */
let served = 0;

/** Serves what is due. True if it did something. */
function serveHostCalls(): boolean {
  if (serving) {
    return false; // a host function that blocks: the rest waits for it, as on CANN's one callback thread
  }
  serving = true;
  let did = false;
  try {
    for (const call of hostCalls) {
      if (call.device.machine.core.fence(call.stream) >= call.marker) {
        hostCalls.delete(call);
        served++;
        call.serve();
        did = true;
      }
    }
  } finally {
    serving = false;
  }
  return did;
}

/** Whether some stream's head waits with a time-out: then time alone moves it. */
function hasTimedWait(machine: Machine): boolean {
  const { words, bytes, core } = machine;
  if (words[(Layout.HEADER + Header.POLLED) >> 2] === 0) {
    return false;
  }
  for (let stream = 0; stream < machine.streamHigh; stream++) {
    const fence = core.fence(stream);
    if (fence < core.tail(stream)) {
      const at = (Layout.STREAMS + stream * Stream.SIZE) >> 2;
      const slot = words[at + (Stream.RING >> 2)]! + ((fence + 1) & words[at + (Stream.MASK >> 2)]!) * Task.SIZE;
      const op = bytes[slot + Task.OP];
      if ((op === TaskOp.WAIT || op === TaskOp.WAIT_VALUE) && words[(slot + Task.P3) >> 2] !== 0) {
        return true;
      }
    }
  }
  return false;
}

/** Lets `ms` of the driver's clock pass on a driver whose cores run on this thread. */
function passTime(machine: Machine, stream: number, ms: number): void {
  if (machine.driver.name === "sim") {
    const cancel = machine.driver.timer(ms, () => {});
    machine.driver.block(stream, Number.MAX_SAFE_INTEGER, ms);
    cancel();
  } else {
    nap(ms);
    machine.step(64);
  }
}

/** True if `sequence` of `stream` has retired, false if `timeoutMs` have passed or nothing can move any more. @throws AclError 507899 if the device is lost */
export function blockOn(device: AclDevice, stream: number, sequence: number, timeoutMs: number): boolean {
  return blockUntil(device, stream, sequence, timeoutMs) === "reached";
}

/**
 * Blocks until `sequence` of `stream` has retired, `timeoutMs` of the driver's clock have passed, or nothing can move any more (stuck): on a driver
 * whose cores run on this thread, nobody else is there.
 */
export function blockUntil(device: AclDevice, stream: number, sequence: number, timeoutMs: number): "reached" | "timeout" | "stuck" {
  const { machine } = device;
  const { driver, core } = machine;
  const end = driver.now() + timeoutMs * 1000;
  for (;;) {
    if (core.fence(stream) >= sequence) {
      machine.progress();
      return "reached";
    }
    if (serveHostCalls()) {
      continue;
    }
    if (waitsForItself(device, stream, sequence)) {
      return "stuck";
    }
    const leftMs = (end - driver.now()) / 1000;
    if (leftMs <= 0) {
      return "timeout";
    }
    for (const hook of turnHooks) {
      hook();
    }
    const slice = Math.min(leftMs, hostCalls.size > 0 || expectsMessages() ? SHORT_MS : turnHooks.size > 0 ? TURN_MS : SLICE_MS);
    const before = served;
    const sliceEnd = driver.now() + slice * 1000;
    if (machine.block(stream, sequence, slice) || served !== before) {
      continue;
    }
    if (driver.name === "threads") {
      drain();
      if (!machine.opener) {
        askToLook(device.index);
      }
    } else if (driver.now() < sliceEnd && !serveHostCalls() && core.fence(stream) < sequence) {
      if (hasTimedWait(machine)) {
        passTime(machine, stream, STEP_MS);
      } else {
        // A deadlock: nobody is left who could move anything. The time-out passes all the same.
        if (driver.name === "sim" && Number.isFinite(leftMs)) {
          passTime(machine, stream, leftMs);
        }
        return "stuck";
      }
    }
  }
}

/** Sets the 64-bit word at `offset` and makes the cores look at who waits for it. */
export function setWord(machine: Machine, offset: number, value: bigint): void {
  Atomics.store(new BigUint64Array(machine.memory.buffer, offset, 1), 0, value);
  machine.driver.kick();
}
