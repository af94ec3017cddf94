/** PROBE: deliberate misbehaviour, for tests of the fault and kill protocol. */
import { Instruction } from "../abi/program";
import { Probe } from "../abi/task";
import { addressOf, record } from "./view";

/** Address of this core's poison word; set by the core before each tile. */
let poison: usize = 0;

export function setPoison(address: usize): void {
  poison = address;
}

export function poisonWord(): usize {
  return poison;
}

/** Traps when this core was told to stop what it runs: every unbounded kernel calls this in its loop. */
@inline
export function poll(): void {
  if (poison != 0 && load<u32>(poison) != 0) unreachable();
}

export function misbehave(probe: u32, argument: u32): void {
  switch (<i32>probe) {
    case Probe.UNREACHABLE: unreachable(); break;
    case Probe.OUT_OF_BOUNDS: store<u32>(0xfffffffc, argument); break;
    case Probe.DIVIDE_BY_ZERO: store<u32>(0, 1 / (argument & 0)); break;
    // An atomic load in the loop: the optimizer may not take it for an empty, endless loop.
    case Probe.RUNAWAY: while (atomic.load<u32>(0) != 0xffffffff) {} break;
    case Probe.RUNAWAY_POLLING: while (atomic.load<u32>(0) != 0xffffffff) poll(); break;
    case Probe.SPIN: {
      let x: u32 = 1;
      for (let i: u32 = 0; i < argument; i++) x = x * 1664525 + 1013904223;
      // The result is used, so the loop stays; address 0 is the null page, never read as data.
      if (x == 0) store<u32>(4, x);
      break;
    }
    default: break;
  }
}

export function runProbe(program: usize, instruction: usize, tile: u32, frame: usize): void {
  const probe = load<u32>(instruction, Instruction.P0);
  if (probe == Probe.COUNT) {
    const counter = addressOf(record(program, load<u32>(instruction, Instruction.T0)), frame) + (<usize>tile << 2);
    store<u32>(counter, load<u32>(counter) + 1);
    return;
  }
  misbehave(probe, load<u32>(instruction, Instruction.P1));
}
