/** What a WebAssembly trap means: V8's message -> the code and the reason that go into the fault record. */
import { Code, Trap } from "../../asm/abi/errors";

/** Part of the message, Trap, Code. The texts are equal on Node 20 to 26. Posted to workers, so plain data. */
export const TRAPS: readonly (readonly [string, number, number])[] = [
  ["unreachable", Trap.UNREACHABLE, Code.AICORE_EXCEPTION],
  ["memory access out of bounds", Trap.OUT_OF_BOUNDS, Code.AICORE_OUT_OF_BOUNDS],
  ["divide by zero", Trap.DIVIDE_BY_ZERO, Code.AICORE_EXCEPTION],
  ["remainder by zero", Trap.DIVIDE_BY_ZERO, Code.AICORE_EXCEPTION],
  ["divide result unrepresentable", Trap.INTEGER_OVERFLOW, Code.AICORE_EXCEPTION],
  ["unaligned", Trap.UNALIGNED, Code.AICORE_EXCEPTION],
  ["call stack size", Trap.STACK_OVERFLOW, Code.AICORE_TRAP],
];
export const OTHER_TRAP: readonly [number, number] = [Trap.OTHER, Code.AICORE_TRAP];

/** [Trap, Code] of an error that came out of the core. */
export function classify(error: unknown): readonly [trap: number, code: number] {
  const message = String((error as Error | undefined)?.message ?? error);
  for (const [part, trap, code] of TRAPS) {
    if (message.includes(part)) {
      return [trap, code];
    }
  }
  return OTHER_TRAP;
}

/** Words for error texts. */
export const TRAP_TEXTS: Readonly<Record<number, string>> = {
  [Trap.UNREACHABLE]: "executed an illegal instruction",
  [Trap.OUT_OF_BOUNDS]: "accessed an address outside the device's memory",
  [Trap.DIVIDE_BY_ZERO]: "divided an integer by zero",
  [Trap.INTEGER_OVERFLOW]: "overflowed an integer division",
  [Trap.UNALIGNED]: "made an unaligned atomic access",
  [Trap.STACK_OVERFLOW]: "overflowed its stack",
  [Trap.POISONED]: "ran longer than the watchdog allows and was stopped",
  [Trap.KILLED]: "ran longer than the watchdog allows; its core was terminated and replaced",
  [Trap.OTHER]: "trapped",
};
