/**
 * The body of a core's worker, as a string: it boots as fast as a file, and works in bundlers and in Jest, where no path can be relied on.
 * It gets everything through workerData. `loop` parks inside WebAssembly, so the worker's own event loop never runs while the device is open.
 */
import type { CoreKernels } from "./kernels";
import { Core, Layout } from "./layout";
import { USER_KERNELS } from "./user-kernel";

/** Steps of niceness between a core and the threads with event loops: where there is no CPU for each, what answers requests goes first. */
const NICER = 10;

export interface CoreBoot {
  readonly module: WebAssembly.Module;
  /** The micro module of the device's kernel build. */
  readonly kernels: WebAssembly.Module;
  /** A faster form of it, to be compiled here. */
  readonly own: CoreKernels | undefined;
  readonly memory: WebAssembly.Memory;
  readonly core: number;
  readonly spinUs: number;
  /** The addon's binary and the CPU that this core keeps to. */
  readonly pin: { readonly addon: string; readonly cpu: number } | undefined;
  /** See TRAPS in traps.ts. */
  readonly traps: readonly (readonly [string, number, number])[];
  readonly otherTrap: readonly [number, number];
}

/** `recover` may itself run device code that traps (the completer goes on with the stream), hence it sits inside the loop's try. */
export const CORE_BODY = `"use strict";
const { parentPort, workerData: d } = require("node:worker_threads");
// As wallClock in module.ts.
let base, quickest = Infinity;
for (let look = 0; look < 8; look++) {
  const before = performance.now(), [s, n] = process.hrtime(), took = performance.now() - before;
  if (took < quickest) [quickest, base] = [took, s * 1e6 + n / 1e3 - (before + took / 2) * 1e3];
}
const compile = ({ bytes, flags, after }) => {
  const v8 = require("node:v8");
  for (const flag of flags) v8.setFlagsFromString(flag);
  try {
    return new WebAssembly.Module(bytes);
  } finally {
    for (const flag of after) v8.setFlagsFromString(flag);
  }
};
const core = new WebAssembly.Instance(d.module, {
  micro: new WebAssembly.Instance(d.own ? compile(d.own) : d.kernels, { env: { memory: d.memory } }).exports,
  env: { memory: d.memory, clock: () => base + performance.now() * 1e3, kernel: userKernels(d.memory) },
}).exports;
core.bindCore(d.core);
let tid = 0;
try {
  tid = Number(require("node:fs").readlinkSync("/proc/thread-self").split("/").pop());
  Atomics.store(new Int32Array(d.memory.buffer), ${Layout.CORES >> 2} + d.core * ${Core.SIZE >> 2} + ${Core.TID >> 2}, tid);
} catch {} // not Linux: a host that blocks cannot see this thread end
parentPort.postMessage(0);
try {
  const os = require("node:os"); // takes a millisecond: after the core is known to be up
  if (tid !== 0) os.setPriority(tid, Math.min(19, os.getPriority(tid) + ${NICER})); // of this thread alone
  if (d.pin) require(d.pin.addon).setAffinity([d.pin.cpu]);
} catch {} // refused: event loops compete with cores
let trapped, pending = false;
for (;;) {
  try {
    if (pending) {
      pending = false;
      const message = String(trapped && trapped.message);
      const found = d.traps.find((t) => message.includes(t[0]));
      const answer = found ? core.recover(found[2], found[1]) : core.recover(d.otherTrap[1], d.otherTrap[0]);
      if (answer === 0) throw new Error("core " + d.core + " trapped outside a kernel: " + (trapped && trapped.stack));
      if (answer < 0) break;
    }
    core.loop(d.spinUs);
    break;
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError) && !(error instanceof RangeError)) throw error;
    trapped = error;
    pending = true;
  }
}${USER_KERNELS}`;
