/** The per-call state of a program in device memory: header and bases, then the inputs, then the outputs, in one block that is reused from call to call. */
import { Binding, Frame as Words } from "../../asm/abi/stream";
import type { Port } from "../compile/types";
import { PoolTag, TaskOp } from "../host/layout";
import type { Machine } from "../host/machine";
import type { StreamCore } from "./stream-core";
import { arrayOf, type TensorData, type TensorDataConstructor } from "./tensor";
import type { Variant } from "./variant";

const ALIGN = 64;
/** STATUS before a run: a task that is refused (stopped context, aborted stream) leaves it as it is. */
const UNTOUCHED = 0xffff_ffff;

const align = (bytes: number): number => Math.ceil(bytes / ALIGN) * ALIGN;
const endOf = (ports: readonly Port[]): number => ports.reduce((end, port) => Math.max(end, port.offsetBytes + port.sizeBytes), 0);

export class Frame {
  readonly variant: Variant;
  readonly address: number;
  readonly inputs: readonly TensorData[];
  readonly outputs: readonly TensorData[];
  readonly outputArrays: readonly TensorDataConstructor[];
  /** Serves runs that name no stream. */
  readonly stream: StreamCore;
  readonly #machine: Machine;
  /** Index of the header in `words`. */
  readonly #at: number;
  /** Addresses of its own inputs and outputs, and those that the bases say: a run may use pinned memory in place. */
  readonly #own: number[] = [];
  readonly #bound: number[] = [];
  #data = 0;
  /** Where and what the latest run was. */
  ranOn: StreamCore;
  sequence = 0;

  constructor(variant: Variant, stream: StreamCore) {
    const { machine } = variant;
    const { inputs, outputs } = variant.program;
    this.variant = variant;
    this.stream = stream;
    this.ranOn = stream;
    this.#machine = machine;
    const bindings = Binding.FIRST_INPUT + inputs.length + outputs.length;
    const headBytes = align(Words.BASES + 4 * bindings);
    const inputBytes = align(endOf(inputs));
    const sizeBytes = headBytes + inputBytes + align(endOf(outputs));
    this.address = machine.allocate(sizeBytes, PoolTag.FRAME, `a frame of ${variant.name}`);
    this.#at = this.address >>> 2;
    machine.words.fill(0, this.#at, (this.address + headBytes) >>> 2);
    const words = machine.words;
    words[this.#at + (Words.PROGRAM >> 2)] = variant.image;
    words[this.#at + (Words.ARENAS >> 2)] = variant.arenas;
    words[this.#at + (Words.BINDINGS >> 2)] = bindings;
    const base = this.#at + (Words.BASES >> 2);
    const place = (ports: readonly Port[], first: number, block: number): TensorData[] =>
      ports.map((port, i) => {
        this.#own.push(block + port.offsetBytes);
        words[base + first + i] = block + port.offsetBytes;
        const array = arrayOf(port.dtype);
        return new array(machine.memory.buffer, block + port.offsetBytes, port.sizeBytes / array.BYTES_PER_ELEMENT);
      });
    this.outputArrays = outputs.map((port) => arrayOf(port.dtype));
    this.inputs = place(inputs, Binding.FIRST_INPUT, this.address + headBytes);
    this.outputs = place(outputs, Binding.FIRST_INPUT + inputs.length, this.address + headBytes + inputBytes);
    this.#bound.push(...this.#own);
  }

  /** The next run has port `port` (inputs, then outputs) at `address`; 0: in the frame. */
  bind(port: number, address: number): void {
    const place = address || this.#own[port]!;
    if (this.#bound[port] !== place) {
      this.#bound[port] = place;
      this.#machine.words[this.#at + (Words.BASES >> 2) + Binding.FIRST_INPUT + port] = place;
    }
  }

  rangeOf(port: number, sizeBytes: number): { readonly start: number; readonly end: number } {
    const start = this.#bound[port]!;
    return { start, end: start + sizeBytes };
  }

  /** Whether the latest run had that port outside the frame. */
  elsewhere(port: number): boolean {
    return this.#bound[port] !== this.#own[port];
  }

  /** Ready for a run: bases as they are now, no verdict yet. */
  arm(): void {
    const words = this.#machine.words;
    const data = this.variant.data.address;
    if (data !== this.#data) {
      this.#data = data;
      words[this.#at + (Words.BASES >> 2) + Binding.DATA] = data;
    }
    words[this.#at + (Words.CANCEL >> 2)] = 0;
    words[this.#at + (Words.STATUS >> 2)] = UNTOUCHED;
  }

  /** Queues a run on `stream`, behind the run before: two at a time would write into each other's buffers. */
  launchOn(stream: StreamCore): void {
    const { ranOn, sequence } = this;
    if (ranOn !== stream && this.#machine.core.fence(ranOn.index) < sequence) {
      stream.submit(TaskOp.WAIT, ranOn.index, sequence >>> 0, Math.floor(sequence / 2 ** 32));
    }
    this.arm();
    this.ranOn = stream;
    this.sequence = stream.submit(TaskOp.RUN, this.address);
  }

  /** The code with which the latest run ended; 0 = well. `refused`: it never began. */
  get status(): number {
    return this.#machine.words[this.#at + (Words.STATUS >> 2)]!;
  }

  get refused(): boolean {
    return this.status === UNTOUCHED;
  }

  /** Fault number + 1 of `status`. */
  get fault(): number {
    return this.#machine.words[this.#at + (Words.FAULT >> 2)]!;
  }

  /** The run in flight retires with `code` at its next region edge. */
  cancel(code: number): void {
    Atomics.store(this.#machine.words, this.#at + (Words.CANCEL >> 2), code);
  }

  free(): void {
    this.#machine.release(this.address);
  }
}
