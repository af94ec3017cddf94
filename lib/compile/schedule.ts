/**
 * schedule: instructions into regions. An instruction joins the open region unless it reads or writes what an instruction there writes, or writes
 * what one there reads. Order is kept: moving work earlier would only lengthen lifetimes, and tiles already fill the cores.
 */
import type { Instruction, View } from "../program/types";
import { overlaps, readsOf, writesOf } from "./operands";
import type { CompileState } from "./state";

export function scheduleRegions(state: CompileState): void {
  state.regions = regionsOf(state.program!.instructions);
}

export function regionsOf(instructions: readonly Instruction[]): Instruction[][] {
  const regions: Instruction[][] = [];
  let open: Instruction[] = [];
  let [reads, writes]: [View[], View[]] = [[], []];
  const labels = new Map<number, number>();
  const close = (): void => {
    if (open.length > 0) {
      regions.push(open);
    }
    open = [];
    [reads, writes] = [[], []];
  };
  const clash = (some: readonly View[], others: readonly View[]): boolean => some.some((a) => others.some((b) => overlaps(a, b)));
  for (const instruction of instructions) {
    if (instruction.op === "label" || isControl(instruction)) {
      // Control has a region of its own; a label names the region that comes next.
      close();
      instruction.op === "label" ? labels.set(instruction.label, regions.length) : regions.push([instruction]);
      continue;
    }
    const [itsReads, itsWrites] = [readsOf(instruction), writesOf(instruction)];
    if (clash(itsReads, writes) || clash(itsWrites, writes) || clash(itsWrites, reads)) {
      close();
    }
    open.push(instruction);
    reads.push(...itsReads);
    writes.push(...itsWrites);
  }
  close();
  return labels.size === 0 ? regions : regions.map((region) => region.map((instruction) => resolved(instruction, labels)));
}

const isControl = ({ op }: Instruction): boolean => op === "branch" || op === "loop" || op === "call" || op === "return";

/** Labels are known once all regions are. */
function resolved(instruction: Instruction, labels: ReadonlyMap<number, number>): Instruction {
  return "to" in instruction ? { ...instruction, to: labels.get(instruction.to)! } : instruction;
}
