/** Names of this thread's kernels, for error texts: the device knows them by number. */
import type { Machine } from "../host/machine";

const names = new WeakMap<Machine, Map<number, string>>();
/** Unloaded binaries keep their names for errors that are read later, so many. */
const KEPT = 4096;
/** Exports of a module that can be told apart. */
export const FUNCTION_LIMIT = 1024;

/** The number of function `index` of binary `id`: what a fault record calls its node. */
export function kernelNumber(id: number, index: number): number {
  return (id * FUNCTION_LIMIT + index) >>> 0;
}

export function rememberKernel(machine: Machine, number: number, name: string): void {
  let known = names.get(machine);
  if (known === undefined) {
    known = new Map();
    names.set(machine, known);
  }
  known.set(number, name);
  if (known.size > KEPT) {
    known.delete(known.keys().next().value as number);
  }
}

export function kernelName(machine: Machine, number: number): string {
  const name = names.get(machine)?.get(number);
  return name === undefined
    ? `function ${number % FUNCTION_LIMIT} of kernel binary ${Math.floor(number / FUNCTION_LIMIT)}, which another thread loaded`
    : `kernel "${name}"`;
}
