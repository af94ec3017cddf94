/**
 * schedule: instructions into regions. An instruction joins the open region unless it reads or writes what an instruction there writes, or writes
 * what one there reads. Order is kept: moving work earlier would only lengthen lifetimes, and tiles already fill the cores.
 */
import type { Instruction, View } from "../program/types";
import { overlaps, readsOf, writesOf } from "./operands";
import type { CompileState } from "./pipeline";

export function scheduleRegions(state: CompileState): void {
  state.regions = regionsOf(state.program!.instructions);
}

export function regionsOf(instructions: readonly Instruction[]): Instruction[][] {
  const regions: Instruction[][] = [];
  let open: Instruction[] = [];
  let [reads, writes]: [View[], View[]] = [[], []];
  const clash = (some: readonly View[], others: readonly View[]): boolean => some.some((a) => others.some((b) => overlaps(a, b)));
  for (const instruction of instructions) {
    const [itsReads, itsWrites] = [readsOf(instruction), writesOf(instruction)];
    if (clash(itsReads, writes) || clash(itsWrites, writes) || clash(itsWrites, reads)) {
      regions.push(open);
      open = [];
      [reads, writes] = [[], []];
    }
    open.push(instruction);
    reads.push(...itsReads);
    writes.push(...itsWrites);
  }
  if (open.length > 0) {
    regions.push(open);
  }
  return regions;
}
