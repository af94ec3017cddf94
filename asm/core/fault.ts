/** Faults: their records, and what a core (or the host on behalf of a killed core) does about the tile or task it held. */
import { Code, Trap } from "../abi/errors";
import { Context, Core, CoreState, FAULT_LIMIT, Fault, Header, Layout, Phase, Work } from "../abi/device";
import { Opcode } from "../abi/isa";
import { Stream } from "../abi/stream";
import { Instruction } from "../abi/program";
import { Task } from "../abi/task";
import { streamAt } from "../sync/fence";
import { clock, coreId, me } from "./local";
import { advance, retire, slotOf } from "./streams";
import { finishTile } from "./tiles";

const COUNT: usize = Layout.HEADER + Header.FAULT_COUNT;

// @ts-ignore: decorator
@inline
export function contextOf(sc: usize): usize {
  return Layout.CONTEXTS + <usize>load<u32>(sc, Stream.CONTEXT) * Context.SIZE;
}

/** Writes a fault record for the work that `core` names in its record. Returns its number + 1. */
function writeFault(core: u32, sc: usize, code: u32, trap: u32): u32 {
  const record = Layout.CORES + <usize>core * Core.SIZE;
  const number = atomic.add<u32>(COUNT, 1);
  const fault = Layout.FAULTS + <usize>(number % FAULT_LIMIT) * Fault.SIZE;
  const instruction = load<u32>(record, Core.INSTRUCTION);
  const sequence = load<u64>(sc, Stream.FENCE) + 1;
  store<u32>(fault, code, Fault.CODE);
  store<u32>(fault, load<u32>(record, Core.STREAM) - 1, Fault.STREAM);
  store<u64>(fault, sequence, Fault.SEQUENCE);
  store<u32>(fault, core, Fault.CORE);
  store<u32>(fault, load<u32>(record, Core.TILE), Fault.TILE);
  store<u32>(fault, instruction, Fault.INSTRUCTION);
  store<u32>(fault, instruction ? load<u32>(sc, Stream.PROGRAM) : 0, Fault.PROGRAM);
  store<u32>(fault, instruction ? load<u32>(instruction, Instruction.NODE) : 0, Fault.NODE);
  store<u32>(fault, load<u8>(slotOf(sc, sequence), Task.OP), Fault.TASK);
  store<u32>(fault, load<u32>(sc, Stream.CONTEXT), Fault.CONTEXT);
  store<u32>(fault, trap, Fault.TRAP);
  store<f64>(fault, clock(), Fault.TIME);
  return number + 1;
}

/** The first fault of a run gives it its code; the tiles that are left are claimed and skipped. */
export function failRun(sc: usize, code: u32, fault: u32): void {
  if (atomic.cmpxchg<u32>(sc, 0, code, Stream.RUN_FAULT) == 0) store<u32>(sc, fault, Stream.RUN_FAULT_NUMBER);
}

/** User kernels fail as the vector cores they would run on. */
function asVector(code: u32): u32 {
  switch (code) {
    case Code.AICORE_TIMEOUT: return Code.VECTOR_TIMEOUT;
    case Code.AICORE_EXCEPTION: return Code.VECTOR_EXCEPTION;
    case Code.AICORE_TRAP: return Code.VECTOR_TRAP;
    case Code.AICORE_OUT_OF_BOUNDS: return Code.VECTOR_OUT_OF_BOUNDS;
    default: return code;
  }
}

/** Finishes what `core` held, which has left phase KERNEL for good, as failed. */
function settle(core: u32, code: u32, trap: u32): void {
  const record = Layout.CORES + <usize>core * Core.SIZE;
  const stream = load<u32>(record, Core.STREAM) - 1;
  const sc = streamAt(stream);
  let why = trap;
  if (why == Trap.UNREACHABLE && atomic.load<u32>(record, Core.POISON)) why = Trap.POISONED;
  let cause: u32 = why == Trap.POISONED ? Code.AICORE_TIMEOUT : code;
  const instruction = <usize>load<u32>(record, Core.INSTRUCTION);
  if (instruction && load<u8>(instruction, Instruction.OP) == Opcode.KERNEL) cause = asVector(cause);
  const fault = writeFault(core, sc, cause, why);
  store<u32>(record, load<u32>(record, Core.TRAPS) + 1, Core.TRAPS);
  if (load<u32>(record, Core.KIND) == Work.TILE) {
    failRun(sc, cause, fault);
    finishTile(stream, sc, 0);
  } else {
    retire(sc, load<u64>(sc, Stream.FENCE) + 1, cause, fault);
    advance(stream, sc, 0);
  }
}

/** See CoreExports.recover. The trap has unwound this core's stack; its record still says what it held. */
export function recover(code: u32, trap: u32): i32 {
  const phase = atomic.cmpxchg<u32>(me, Phase.KERNEL, Phase.DEVICE, Core.PHASE);
  if (phase == Phase.KILLED) return -1;
  if (phase != Phase.KERNEL) return 0;
  settle(coreId, code, trap);
  atomic.store<u32>(me, Phase.IDLE, Core.PHASE);
  return 1;
}

/** See CoreExports.reap. Runs on a host thread after the worker has exited, so nothing writes for that core any more. */
export function reap(core: u32, code: u32): i32 {
  const record = Layout.CORES + <usize>core * Core.SIZE;
  const phase = atomic.load<u32>(record, Core.PHASE);
  atomic.and<u64>(Layout.HEADER + Header.SLEEPERS, ~((<u64>1) << core));
  atomic.store<u32>(record, CoreState.STOPPED, Core.STATE);
  if (phase == Phase.IDLE) return 0;
  if (phase != Phase.KILLED) return -1;
  settle(core, code, Trap.KILLED);
  atomic.store<u32>(record, Phase.IDLE, Core.PHASE);
  return 1;
}
