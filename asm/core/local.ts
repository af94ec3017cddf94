/** Core-local registers: who this instance is. A host thread's instance has a thread id and, if it may run device code, a core record too. */
import { Core, CoreState, Header, KERNEL_SCRATCH_BYTES, Layout, Phase, WORKER_LIMIT } from "../abi/device";
import { bind } from "../micro/module";

/** Address of this core's record; 0 = this instance runs no device code. */
export let me: usize = 0;
export let coreId: u32 = 0;
/** SCRATCH_BYTES that only this core touches. */
export let scratch: usize = 0;
/** Name of this host thread in lock words: thread + 1. */
export let lockName: u32 = 0;
/** Trace ring, re-read at each step; 0 = off. */
export let traceRing: usize = 0;

export function bindCore(core: u32): void {
  coreId = core;
  me = Layout.CORES + <usize>core * Core.SIZE;
  scratch = load<u32>(me, Core.SCRATCH);
  bind(scratch + KERNEL_SCRATCH_BYTES);
  atomic.store<u32>(me, Phase.IDLE, Core.PHASE);
  atomic.store<u32>(me, CoreState.UP, Core.STATE);
}

/** A host thread that runs device code itself: it takes nothing that may run without bound. */
export function isHost(): bool {
  return coreId >= WORKER_LIMIT;
}

export function bindThread(thread: u32): void {
  lockName = thread + 1;
}

export function refreshTrace(): void {
  traceRing = load<u32>(Layout.HEADER, Header.TRACE);
}

// @ts-ignore: decorator
@external("env", "clock")
declare function wallClock(): f64;

/** This core's own time on a virtual clock, in us; below 0: the clock is the driver's. */
let virtualNow: f64 = -1;

/** Microseconds. */
export function clock(): f64 {
  return virtualNow >= 0 ? virtualNow : wallClock();
}

export function isVirtual(): bool {
  return virtualNow >= 0;
}

/** See CoreExports.setCoreTime. */
export function setCoreTime(us: f64): void {
  virtualNow = us;
}
