/** From a code and a fault record in device memory to an AclError that says who, where and why. */
import { Opcode } from "../../asm/abi/isa";
import { Instruction, Program, PROGRAM_MAGIC } from "../../asm/abi/program";
import { AclError, type AclErrorDetails, type Failure, type TaskInfo } from "../errors/acl-error";
import { errorEntry } from "../errors/table";
import { Code, FAULT_LIMIT, Fault, Header, Layout, TaskOp, Trap, WORKER_LIMIT } from "../host/layout";
import type { Machine } from "../host/machine";
import { TRAP_TEXTS } from "../host/traps";
import { kernelName } from "./kernel-names";

/** Name of node `index` from the debug section of the program at `program`: u32 count, u32 offsets (count + 1), UTF-8. */
function nodeName(machine: Machine, program: number, index: number): string | undefined {
  const { words, bytes } = machine;
  const word = (field: number): number => words[(program + field) >> 2] ?? 0;
  if (program === 0 || word(Program.MAGIC) !== PROGRAM_MAGIC || word(Program.DEBUG) === 0) {
    return undefined;
  }
  const debug = program + word(Program.DEBUG);
  const size = word(Program.DEBUG_BYTES);
  const count = words[debug >> 2] ?? 0;
  if (index >= count || 4 * (count + 2) > size) {
    return undefined;
  }
  const from = words[(debug >> 2) + 1 + index]!;
  const to = words[(debug >> 2) + 2 + index]!;
  return to <= size ? bytes.toString("utf8", debug + from, debug + to) : undefined;
}

const KERNEL_CODES: ReadonlySet<number> = new Set([Code.VECTOR_TIMEOUT, Code.VECTOR_EXCEPTION, Code.VECTOR_TRAP, Code.VECTOR_OUT_OF_BOUNDS]);

function describeWork(machine: Machine, op: string, program: number, word: (field: number) => number, node: string | undefined): string {
  if (program === 0) {
    return `the ${op} task`;
  }
  const tile = word(Fault.TILE);
  if (KERNEL_CODES.has(word(Fault.CODE))) {
    return `block ${tile} of ${kernelName(machine, word(Fault.NODE))}`;
  }
  return `tile ${tile} of node "${node ?? word(Fault.NODE)}"`;
}

/** Instructions that take positions from data and stop at one that is out of range. */
const INDEXED: ReadonlySet<number> = new Set([Opcode.GATHER, Opcode.GATHER_ELEMENTS, Opcode.SCATTER_ELEMENTS, Opcode.ROI_ALIGN]);

/** What a trap of an instruction at address `instruction` (0: there is none, or its program is gone) means. */
function describeTrap(machine: Machine, trap: number, instruction: number): string | undefined {
  if (trap === Trap.UNREACHABLE && instruction !== 0 && INDEXED.has(machine.bytes[instruction + Instruction.OP]!)) {
    return "met an index out of range";
  }
  return TRAP_TEXTS[trap] ?? TRAP_TEXTS[Trap.OTHER];
}

export interface FaultInfo extends Failure {
  readonly node?: string;
  readonly task: TaskInfo;
  readonly core: number;
  readonly tile: number;
}

/** Fault record number `number` (1-based, as device words name it); undefined if it is 0 or has been overwritten. */
export function readFault(machine: Machine, number: number): FaultInfo | undefined {
  const count = Atomics.load(machine.words, (Layout.HEADER + Header.FAULT_COUNT) >> 2);
  if (number === 0 || count - (number - 1) > FAULT_LIMIT) {
    return undefined;
  }
  const at = Layout.FAULTS + ((number - 1) % FAULT_LIMIT) * Fault.SIZE;
  const word = (field: number): number => machine.words[(at + field) >> 2]!;
  const program = word(Fault.PROGRAM);
  const node = nodeName(machine, program, word(Fault.NODE));
  const op = TaskOp[word(Fault.TASK)] ?? `op ${word(Fault.TASK)}`;
  const sequence = word(Fault.SEQUENCE) + word(Fault.SEQUENCE + 4) * 2 ** 32;
  const task = { device: machine.device, stream: word(Fault.STREAM), sequence, op };
  const core = word(Fault.CORE);
  const who = core < WORKER_LIMIT ? `core ${core}` : "the calling thread";
  const what = describeWork(machine, op, program, word, node);
  const why = describeTrap(machine, word(Fault.TRAP), node === undefined ? 0 : word(Fault.INSTRUCTION));
  const code = word(Fault.CODE);
  const text = `${what} ${why} on ${who} (task ${sequence} of stream ${task.stream})`;
  return { code, text, task, core, tile: word(Fault.TILE), ...(node === undefined ? {} : { node }) };
}

/** The error for `code` with the story of fault `number` (0 = there is none). `where` says whose failure it is. */
export function deviceFailure(machine: Machine, code: number, number: number, where: string, all: readonly Failure[] = []): AclError {
  const fault = readFault(machine, number);
  const text = fault === undefined ? `${where}: ${errorEntry(code).text} (code ${code})` : `${where}: ${fault.text}`;
  const own: Failure = fault ?? { code, text };
  const details: AclErrorDetails = {
    failures: all.length > 0 ? all : [own],
    ...(fault === undefined ? {} : { task: fault.task }),
    ...(fault?.node === undefined ? {} : { node: fault.node }),
  };
  return new AclError(code, text, details);
}

/** Every fault record still there of `stream` with a sequence above `after`, oldest first. */
export function faultsOf(machine: Machine, stream: number, after: number): readonly FaultInfo[] {
  const count = Atomics.load(machine.words, (Layout.HEADER + Header.FAULT_COUNT) >> 2);
  const found: FaultInfo[] = [];
  for (let number = Math.max(1, count - FAULT_LIMIT + 1); number <= count; number++) {
    const fault = readFault(machine, number);
    if (fault !== undefined && fault.task.stream === stream && fault.task.sequence > after) {
      found.push(fault);
    }
  }
  return found;
}
