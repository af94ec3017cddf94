/**
 * Reads the trace ring of a device (asm/abi/device.ts, Trace) while its cores may still write to it.
 * Nothing here changes the device, so any thread that has its memory can read along.
 */
import { Header, Layout, MAGIC, Trace, TraceKind } from "../../asm/abi/device";
import { Opcode } from "../../asm/abi/isa";
import { PROGRAM_MAGIC, Program } from "../../asm/abi/program";
import { TaskOp } from "../../asm/abi/task";

export interface TraceRecord {
  readonly kind: "task" | "tile" | "run";
  readonly core: number;
  readonly stream: number;
  readonly sequence: number;
  /** Name of the task or instruction: `COPY`, `MATMUL`, `RUN`. */
  readonly op: string;
  /** Model node of a tile, where the program still says. */
  readonly node: string | undefined;
  readonly tile: number;
  /** Microseconds of the driver's clock. */
  readonly startUs: number;
  readonly endUs: number;
}

export interface TraceSnapshot {
  readonly device: number;
  readonly records: readonly TraceRecord[];
  /** Records that were overwritten, or being written, before they could be read. */
  readonly lost: number;
  /** Pass it as `from` to read on where this snapshot ends. */
  readonly next: number;
}

const KINDS = new Map<number, TraceRecord["kind"]>([
  [TraceKind.TASK, "task"],
  [TraceKind.TILE, "tile"],
  [TraceKind.RUN, "run"],
]);
/** No model has more nodes; a larger count means that the memory of the program was given back and reused. */
const NODE_LIMIT = 1 << 20;

/** Everything that the ring still holds from slot `from` on, oldest first. Empty when tracing is off. */
export function readTrace(memory: SharedArrayBuffer | ArrayBuffer, from = 0): TraceSnapshot {
  const words = new Int32Array(memory);
  const view = new DataView(memory);
  if (view.getUint32(Layout.HEADER + Header.MAGIC, true) !== MAGIC) return { device: 0, records: [], lost: 0, next: from };
  const device = view.getUint32(Layout.HEADER + Header.DEVICE, true);
  const ring = view.getUint32(Layout.HEADER + Header.TRACE, true);
  if (ring === 0) return { device, records: [], lost: 0, next: from };
  const slots = view.getUint32(Layout.HEADER + Header.TRACE_MASK, true) + 1;
  const next = Atomics.load(words, (Layout.HEADER + Header.TRACE_NEXT) >> 2) >>> 0;
  const first = Math.max(from, next - slots);
  const names = new NodeNames(view);
  const records: TraceRecord[] = [];
  let lost = first - from;
  for (let slot = first; slot < next; slot++) {
    const at = ring + (slot & (slots - 1)) * Trace.SIZE;
    const record = readRecord(words, view, at, slot, names);
    if (record === undefined) lost++;
    else records.push(record);
  }
  return { device, records, lost, next };
}

/** Undefined while a core writes the record: READY is read before and after the fields, and both must name this slot. */
function readRecord(words: Int32Array, view: DataView, at: number, slot: number, names: NodeNames): TraceRecord | undefined {
  const ready = (slot + 1) | 0;
  // acquire: pairs with the core's last store to READY, so the fields below are whole.
  if (Atomics.load(words, (at + Trace.READY) >> 2) !== ready) return undefined;
  const kind = KINDS.get(view.getUint32(at + Trace.KIND, true));
  const op = view.getUint32(at + Trace.OP, true);
  const record = {
    core: view.getUint32(at + Trace.CORE, true),
    stream: view.getUint32(at + Trace.STREAM, true),
    sequence: view.getUint32(at + Trace.SEQUENCE + 4, true) * 2 ** 32 + view.getUint32(at + Trace.SEQUENCE, true),
    tile: view.getUint32(at + Trace.TILE, true),
    startUs: view.getFloat64(at + Trace.START, true),
    endUs: view.getFloat64(at + Trace.END, true),
  };
  const node = kind === "tile" ? names.of(view.getUint32(at + Trace.PROGRAM, true), view.getUint32(at + Trace.NODE, true)) : undefined;
  if (kind === undefined || Atomics.load(words, (at + Trace.READY) >> 2) !== ready) return undefined;
  const opName = (kind === "tile" ? Opcode[op] : TaskOp[op]) ?? `OP ${op}`;
  return { kind, ...record, op: kind === "run" ? "RUN" : opName, node };
}

/** Node names of the programs in device memory, decoded once per program. */
class NodeNames {
  readonly #view: DataView;
  readonly #programs = new Map<number, readonly string[]>();

  constructor(view: DataView) {
    this.#view = view;
  }

  of(program: number, node: number): string | undefined {
    let names = this.#programs.get(program);
    if (names === undefined) {
      names = this.#decode(program);
      this.#programs.set(program, names);
    }
    return names[node];
  }

  /** The program may be gone: whatever stands there now, no read leaves the memory and no decoding throws. */
  #decode(program: number): readonly string[] {
    const view = this.#view;
    const inside = (at: number, bytes: number): boolean => at >= 0 && at + bytes <= view.byteLength;
    if (program === 0 || !inside(program, Program.SIZE) || view.getUint32(program + Program.MAGIC, true) !== PROGRAM_MAGIC) return [];
    const debug = program + view.getUint32(program + Program.DEBUG, true);
    const bytes = view.getUint32(program + Program.DEBUG_BYTES, true);
    if (debug === program || bytes < 4 || !inside(debug, bytes)) return [];
    const count = view.getUint32(debug, true);
    if (count > NODE_LIMIT || 4 + 4 * (count + 1) > bytes) return [];
    // TextDecoder reads shared memory too, but a private copy cannot change under it.
    const text = new Uint8Array(bytes);
    text.set(new Uint8Array(view.buffer, debug, bytes));
    const decoder = new TextDecoder();
    const offset = (index: number): number => view.getUint32(debug + 4 + 4 * index, true);
    return Array.from({ length: count }, (_, i) => decoder.decode(text.subarray(offset(i), offset(i + 1))));
  }
}
