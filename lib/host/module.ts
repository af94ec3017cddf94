/** The core module: read and compiled once per thread, always synchronously (1.4 ms; asynchronous compilation is not faster and can lose its promise). */
import fs from "node:fs";
import path from "node:path";
import { AclError } from "../errors/acl-error";
import type { CoreExports } from "./core-exports";
import { noUserKernels } from "./user-kernel";

let compiled: WebAssembly.Module | undefined;

/** The compiled core; other threads of this process may hand theirs over with `adoptModule`. */
export function coreModule(): WebAssembly.Module {
  if (compiled === undefined) {
    if (typeof WebAssembly === "undefined") {
      throw new AclError(507033, "this process has no WebAssembly, which the device is made of; start Node.js without --jitless");
    }
    const file = path.join(__dirname, "../../asm/core.wasm");
    try {
      compiled = new WebAssembly.Module(fs.readFileSync(file));
    } catch (error) {
      throw new AclError(507033, `the device core ${file} cannot be loaded; install npurt again or run its build`, { cause: error });
    }
  }
  return compiled;
}

/** Uses a module that came with a device token instead of compiling it again. */
export function adoptModule(module: WebAssembly.Module): void {
  compiled ??= module;
}

/** An instance over `memory`, with one of the micro module `kernels` for itself; `clock` is the driver's, in microseconds. */
export function instantiate(memory: WebAssembly.Memory, clock: () => number, kernels: WebAssembly.Module): CoreExports {
  const micro = new WebAssembly.Instance(kernels, { env: { memory } }).exports as Record<string, unknown>;
  return new WebAssembly.Instance(coreModule(), { micro, env: { memory, clock, kernel: noUserKernels } }).exports as unknown as CoreExports;
}

interface HostInstance {
  clock: () => number;
  core: CoreExports;
  kernels: WebAssembly.Module;
}
const hostInstances = new WeakMap<WebAssembly.Memory, HostInstance>();

/** This thread's own instance over `memory`. A parked memory keeps it for the next device: an instance costs 10 KB of garbage and 0.3 ms. */
export function hostInstance(memory: WebAssembly.Memory, clock: () => number, kernels: WebAssembly.Module): CoreExports {
  const known = hostInstances.get(memory);
  if (known?.kernels === kernels) {
    known.clock = clock;
    return known.core;
  }
  const instance = { clock, kernels } as HostInstance;
  instance.core = instantiate(memory, () => instance.clock(), kernels);
  hostInstances.set(memory, instance);
  return instance.core;
}

/**
 * Microseconds of the system's monotonic clock: the same for every thread of the machine, 30 ns a call.
 * Of several looks at both clocks the quickest counts: a thread that lost its CPU between the two would be off by as much for good.
 */
export function wallClock(): () => number {
  let [offset, quickest] = [0, Number.POSITIVE_INFINITY];
  for (let look = 0; look < 8; look++) {
    const before = performance.now();
    const [seconds, nanos] = process.hrtime();
    const took = performance.now() - before;
    if (took < quickest) {
      [quickest, offset] = [took, seconds * 1e6 + nanos / 1e3 - (before + took / 2) * 1e3];
    }
  }
  return () => offset + performance.now() * 1e3;
}
