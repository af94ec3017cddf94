/** A model compiled for one set of shapes: its program on the device, its frames, and the straight-line checks of what is fed. */
import { ArenaPool } from "../../asm/abi/stream";
import type { CompiledProgram, Port } from "../compile/types";
import { copyBytes, copyOf } from "../host/copy-bytes";
import { PoolTag } from "../host/layout";
import type { Machine } from "../host/machine";
import type { DataStore } from "./data-store";
import type { DeviceCore } from "./device-core";
import { outputGone } from "./feeds";
import { Frame } from "./frame";
import { make } from "./internals";
import { overlaps, pinnedAddress } from "./pinned";
import { arrayOf, Tensor, type TensorData } from "./tensor";
import type { Feeds, Results } from "./types";

const ALIGN = 64;
/** Arenas are bits of one 64-bit word. */
const MOST_ARENAS = 64;

export type FrameTaker = (frame: Frame | undefined, error: unknown) => void;

export class Variant {
  readonly device: DeviceCore;
  readonly machine: Machine;
  readonly name: string;
  readonly program: CompiledProgram;
  readonly data: DataStore;
  /** Addresses on the device. */
  readonly image: number;
  readonly arenas: number;
  /** Frames that serve nobody now, last used last: it is the warmest. */
  readonly #free: Frame[] = [];
  readonly #limit: number;
  #made = 0;
  #prepared = 0;
  #freed = false;
  readonly #waiting: FrameTaker[] = [];
  readonly #inputNames: readonly string[];
  readonly #inputArrays: readonly string[];
  readonly #outputNames: readonly string[];

  /** `inTurns`: runs share one arena, so that only one makes progress at a time. */
  constructor(device: DeviceCore, name: string, program: CompiledProgram, data: DataStore, frames: number, inTurns: boolean) {
    this.device = device;
    this.machine = device.machine;
    this.name = name;
    this.program = program;
    this.data = data;
    this.#limit = frames;
    // Results share the dims of their ports: nobody may change them.
    for (const { dims } of [...program.inputs, ...program.outputs]) {
      Object.freeze(dims);
    }
    this.#inputNames = program.inputs.map((port) => port.name);
    this.#inputArrays = program.inputs.map((port) => arrayOf(port.dtype).name);
    this.#outputNames = program.outputs.map((port) => port.name);
    this.image = this.machine.allocate(program.image.length, PoolTag.PROGRAM, `the program of ${name}`);
    this.machine.bytes.set(program.image, this.image);
    try {
      this.arenas = this.#makeArenas(inTurns ? 1 : frames);
    } catch (error) {
      this.machine.release(this.image);
      throw error;
    }
  }

  /** As many arenas as runs can make progress at once: memory is bounded by what runs, not by what is queued. */
  #makeArenas(frames: number): number {
    const { arenaBytes } = this.program;
    if (arenaBytes === 0) {
      return 0;
    }
    const count = Math.min(frames, MOST_ARENAS, Math.max(1, this.machine.cores) + (this.machine.driver.name === "threads" ? 1 : 0));
    const stride = Math.ceil(arenaBytes / ALIGN) * ALIGN;
    const address = this.machine.allocate(ArenaPool.SIZE + count * stride, PoolTag.ARENA, `${count} arenas of ${this.name}`);
    const { words } = this.machine;
    words.fill(0, address >>> 2, (address + ArenaPool.SIZE) >>> 2);
    words[(address + ArenaPool.BASE) >>> 2] = address + ArenaPool.SIZE;
    words[(address + ArenaPool.STRIDE) >>> 2] = stride;
    words[(address + ArenaPool.FREE) >>> 2] = count >= 32 ? 0xffff_ffff : 2 ** count - 1;
    words[(address + ArenaPool.FREE + 4) >>> 2] = count > 32 ? 2 ** (count - 32) - 1 : 0;
    return address;
  }

  /** A frame if one is to be had now. */
  take(): Frame | undefined {
    const frame = this.#free.pop();
    if (frame !== undefined || this.#made >= this.#limit) {
      return frame;
    }
    const made = new Frame(this, this.device.context.runStream());
    this.#made++;
    return made;
  }

  /** Calls `taken` with a frame when one is free, or with the error that there will be none; first come, first served. */
  takeLater(taken: FrameTaker): void {
    this.#waiting.push(taken);
  }

  /** The device is gone, and the frames that are out with it. */
  fail(error: unknown): void {
    // One that gives up may let another one queue.
    for (let taken = this.#waiting.shift(); taken !== undefined; taken = this.#waiting.shift()) {
      taken(undefined, error);
    }
  }

  give(frame: Frame): void {
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#free.push(frame);
    } else {
      next(frame, undefined);
    }
  }

  /** A frame that is not part of the pool; its owner ends it with `giveUp`. */
  prepare(): Frame {
    const frame = new Frame(this, this.device.context.runStream());
    this.#prepared++;
    return frame;
  }

  giveUp(frame: Frame): void {
    this.#prepared--;
    frame.free();
  }

  /** Nobody uses the program: no run is in flight, and none can start without `take`. */
  get idle(): boolean {
    return this.#prepared === 0 && this.#free.length === this.#made && this.#waiting.length === 0;
  }

  /** The arrays of `feeds` by input, if they are exactly this variant's inputs in name, dtype and dims. Each feed is read once: an array of another size never gets further. */
  accept(feeds: Feeds): TensorData[] | undefined {
    const { inputs } = this.program;
    const names = this.#inputNames;
    const fed: TensorData[] = [];
    let count = 0;
    for (const name in feeds) {
      const at = name === names[count] ? count : names.indexOf(name);
      const port = inputs[at];
      const feed = feeds[name];
      if (port === undefined || feed === undefined || feed === null) {
        return undefined;
      }
      if (feed instanceof Tensor) {
        if (feed.dtype !== port.dtype || !sameDims(feed.dims, port.dims) || feed.data.byteLength !== port.sizeBytes) {
          return undefined;
        }
        fed[at] = feed.data;
      } else if (feed.constructor?.name !== this.#inputArrays[at] || feed.byteLength !== port.sizeBytes || !ArrayBuffer.isView(feed)) {
        return undefined;
      } else {
        fed[at] = feed;
      }
      count++;
    }
    return count === inputs.length ? fed : undefined;
  }

  /**
   * Puts the arrays of all inputs, which have the size of their ports, into the frame, and says where the outputs go. What lies in pinned memory of
   * the device is used there: feeds are read, and outputs written, while the run goes on.
   */
  load(frame: Frame, fed: readonly TensorData[], into: Results | undefined): void {
    const { inputs } = frame;
    for (let i = 0; i < inputs.length; i++) {
      const data = fed[i]!;
      const address = pinnedAddress(this.machine, data);
      frame.bind(i, address);
      if (address === 0) {
        const { sizeBytes } = this.program.inputs[i]!;
        copyBytes(inputs[i]!, data, sizeBytes);
        this.machine.counters.copiedBytes += sizeBytes;
      }
    }
    for (let i = 0; i < frame.outputs.length; i++) {
      frame.bind(inputs.length + i, into === undefined ? 0 : this.#placeOf(i, frame, into));
    }
  }

  /** Where output `i` goes; 0: into the frame, also if something else of this run lies there. */
  #placeOf(i: number, frame: Frame, into: Results): number {
    const { data } = into[this.#outputNames[i]!]!;
    const start = pinnedAddress(this.machine, data);
    if (start === 0) {
      return 0;
    }
    const others = [...this.program.inputs, ...this.program.outputs.slice(0, i)].map(({ sizeBytes }, port) => frame.rangeOf(port, sizeBytes));
    return overlaps({ start, end: start + data.byteLength }, others) ? 0 : start;
  }

  /** The outputs of a run that ended well: new tensors, or `into` filled. */
  results(frame: Frame, into: Results | undefined): Results {
    const { outputs } = frame;
    const { counters } = this.machine;
    if (into !== undefined) {
      for (let i = 0; i < outputs.length; i++) {
        const { data } = into[this.#outputNames[i]!]!;
        const { sizeBytes } = this.program.outputs[i]!;
        if (data.byteLength !== sizeBytes) {
          throw outputGone(this.name, this.#outputNames[i]!);
        }
        if (!frame.elsewhere(frame.inputs.length + i)) {
          copyBytes(data, outputs[i]!, sizeBytes);
          counters.copiedBytes += sizeBytes;
        }
      }
      return into;
    }
    const results: Results = {};
    for (let i = 0; i < outputs.length; i++) {
      const port = this.program.outputs[i]!;
      results[port.name] = make.tensor(port.dtype, port.dims, copyOf(outputs[i]!, frame.outputArrays[i]!, port.sizeBytes));
      counters.copiedBytes += port.sizeBytes;
    }
    return results;
  }

  /** True if `outputs` has a fitting tensor for every output. Extra names are for `checkOutputs` to find. */
  fits(outputs: Results): boolean {
    const ports = this.program.outputs;
    let count = 0;
    for (const _ in outputs) {
      count++;
    }
    for (let i = 0; i < ports.length; i++) {
      const port = ports[i]!;
      const tensor = outputs[port.name];
      const fitting = tensor instanceof Tensor && tensor.dtype === port.dtype && sameDims(tensor.dims, port.dims);
      if (!fitting || tensor.data.byteLength !== port.sizeBytes) {
        return false;
      }
    }
    return count === ports.length;
  }

  port(name: string, side: "inputs" | "outputs"): Port | undefined {
    return this.program[side].find((port) => port.name === name);
  }

  /** Its memory went back: compile these shapes again. */
  get freed(): boolean {
    return this.#freed;
  }

  /** Gives all memory back; the variant must be idle. */
  free(): void {
    this.#freed = true;
    for (const frame of this.#free.splice(0)) {
      frame.free();
    }
    this.#made = 0;
    this.machine.release(this.image);
    if (this.arenas !== 0) {
      this.machine.release(this.arenas);
    }
  }
}

export function sameDims(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) {
    return false;
  }
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) {
      return false;
    }
  }
  return true;
}
