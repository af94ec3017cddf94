/**
 * A bare machine for tests of the core: a memory, N core instances on this thread, one host instance, and a seeded generator that picks who steps.
 * It stands on the core's exports alone, so a failure here is the core's and nobody else's.
 */
import fs from "node:fs";
import path from "node:path";
import { Core, Layout, MAILBOX_BYTES, PoolTag, SCRATCH_BYTES, Thread } from "../../dist/asm/abi/device";
import { Opcode } from "../../dist/asm/abi/isa";
import { Instruction, Program, PROGRAM_MAGIC, Region, Tensor } from "../../dist/asm/abi/program";
import { ARGUMENT_RING_BYTES, Binding, Frame, RING_SLOTS } from "../../dist/asm/abi/stream";
import type { Probe } from "../../dist/asm/abi/task";
import { chooseKernels } from "../../dist/lib/host/kernels";
import type { CoreExports } from "../../lib/host/core-exports";

const wasm = path.join(__dirname, "../../dist/asm/core.wasm");
let compiled: WebAssembly.Module | undefined;

/** The core module, compiled once per process. */
export function coreModule(): WebAssembly.Module {
  compiled ??= new WebAssembly.Module(fs.readFileSync(wasm));
  return compiled;
}

function noKernels(): never {
  throw new Error("no user's kernel belongs into these tests");
}

/** xorshift32: the same seed gives the same schedule on every machine. */
export function generator(seed: number): (below: number) => number {
  let x = (seed * 2654435761 + 88172645) | 0 || 1;
  return (below) => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) % below;
  };
}

export interface MachineOptions {
  cores: number;
  seed: number;
  firstSequence?: number;
  pages?: number;
}

/** Where every counter that can wrap starts, so that each run crosses 2^32. */
export const NEAR_WRAP = 2 ** 32 - 100;

export class Machine {
  readonly memory: WebAssembly.Memory;
  readonly words: Uint32Array;
  readonly host: CoreExports;
  readonly cores: CoreExports[] = [];
  readonly random: (below: number) => number;
  clockUs = 0;
  /** Set by `startVirtualClock`: then the core whose time is lowest steps, as a driver with a virtual clock does. */
  virtual = false;

  constructor(readonly options: MachineOptions) {
    const pages = options.pages ?? 512;
    this.memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    this.words = new Uint32Array(this.memory.buffer);
    this.random = generator(options.seed);
    this.host = this.instance();
    this.host.bindThread(0);
    this.host.format(pages, options.cores, 0, options.firstSequence ?? NEAR_WRAP);
    this.words[(Layout.THREADS + Thread.MAILBOX) >> 2] = this.allocate(MAILBOX_BYTES, PoolTag.SCRATCH);
    for (let core = 0; core < options.cores; core++) {
      this.giveScratch(core);
      const instance = this.instance();
      instance.bindCore(core);
      this.cores.push(instance);
    }
  }

  giveScratch(core: number): void {
    this.words[(Layout.CORES + core * Core.SIZE + Core.SCRATCH) >> 2] = this.allocate(SCRATCH_BYTES, PoolTag.SCRATCH);
  }

  instance(): CoreExports {
    const micro = new WebAssembly.Instance(chooseKernels().module, { env: { memory: this.memory } }).exports;
    const imports = { micro, env: { memory: this.memory, clock: () => this.clockUs++, kernel: noKernels, abort: () => {} } };
    return new WebAssembly.Instance(coreModule(), imports).exports as unknown as CoreExports;
  }

  allocate(bytes: number, tag: number = PoolTag.USER): number {
    const address = this.host.allocate(bytes, tag, 0) >>> 0;
    if (address < 64) throw new Error(`test machine: allocate(${bytes}) gave ${address}`);
    this.words.fill(0, address >> 2, (address + bytes + 3) >> 2);
    return address;
  }

  context(): number {
    return this.host.createContext();
  }

  stream(context: number, priority = 0): number {
    const stream = this.host.createStream(context, priority);
    if (stream < 0) throw new Error(`test machine: createStream gave ${stream}`);
    const ring = this.allocate(RING_SLOTS * 64, PoolTag.RING);
    const args = this.allocate(ARGUMENT_RING_BYTES, PoolTag.RING);
    this.host.attachRing(stream, ring, RING_SLOTS, args);
    return stream;
  }

  startVirtualClock(): void {
    this.virtual = true;
    for (const core of this.cores) core.setCoreTime(0);
  }

  private earliest(): CoreExports {
    return this.cores.reduce((a, b) => (b.coreTime() < a.coreTime() ? b : a));
  }

  /** One step of a core that the generator picks. Traps are recovered from as a driver does. Returns the work done. */
  stepSomeone(budget = 1): number {
    const core = this.virtual ? this.earliest() : this.cores[this.random(this.cores.length)]!;
    try {
      return core.step(budget);
    } catch (error) {
      if (core.recover(507015, trapOf(error)) !== 1) throw error;
      return 1;
    }
  }

  /** Steps until every stream's fence has reached its tail. Throws if nobody makes progress any more: a hang. */
  drain(streams: readonly number[]): void {
    let idle = 0;
    while (streams.some((stream) => this.host.fence(stream) < this.host.tail(stream))) {
      idle = this.stepSomeone(1 + this.random(4)) > 0 ? 0 : idle + 1;
      if (idle > 2000) throw new Error(`hang: ${this.describe(streams)}`);
    }
  }

  describe(streams: readonly number[]): string {
    return streams.map((s) => `stream ${s} fence ${this.host.fence(s)} tail ${this.host.tail(s)}`).join("; ");
  }

  program(regions: ProbeRegions): { address: number; counters: number } {
    return probeProgram(this, regions);
  }

  frame(program: number, data: number): number {
    return frameOf(this, program, data);
  }
}

/** What a builder of images needs of a device: its words, and zeroed memory. */
export interface DeviceMemory {
  readonly words: Uint32Array;
  allocate(bytes: number, tag?: number): number;
}

/** Per region a list of [probe, tiles, argument]. */
export type ProbeRegions = readonly (readonly (readonly [Probe, number, number])[])[];

/** An image of PROBE instructions: per region a list of [probe, tiles, argument]; COUNT counts at 4 bytes per tile from its own start in binding DATA. */
export function probeProgram(memory: DeviceMemory, regions: ProbeRegions): { address: number; counters: number } {
  const instructions = regions.flat();
  const tensors = Program.SIZE;
  const table = tensors + instructions.length * Tensor.SIZE;
  const code = (table + regions.length * Region.SIZE + 63) & ~63;
  const bytes = code + instructions.length * Instruction.SIZE;
  const address = memory.allocate(bytes, PoolTag.PROGRAM);
  const at = (offset: number) => (address + offset) >> 2;
  const set = (offset: number, value: number) => {
    memory.words[at(offset)] = value;
  };
  set(Program.MAGIC, PROGRAM_MAGIC);
  set(Program.BYTES, bytes);
  set(Program.TENSORS, tensors);
  set(Program.TENSOR_COUNT, instructions.length);
  set(Program.REGIONS, table);
  set(Program.REGION_COUNT, regions.length);
  set(Program.INSTRUCTIONS, code);
  set(Program.INSTRUCTION_COUNT, instructions.length);
  let first = 0;
  regions.forEach((region, r) => {
    const record = table + r * Region.SIZE;
    set(record + Region.FIRST, first);
    set(record + Region.COUNT, region.length);
    set(
      record + Region.TILES,
      region.reduce((sum, [, tiles]) => sum + tiles, 0),
    );
    set(record + Region.COST_NS, 1_000_000);
    first += region.length;
  });
  let counters = 0;
  instructions.forEach(([probe, tiles, argument], i) => {
    const tensor = tensors + i * Tensor.SIZE;
    set(tensor + Tensor.BINDING, Binding.DATA | (12 << 16) | (1 << 24)); // uint32, rank 1
    set(tensor + Tensor.OFFSET, counters * 4);
    set(tensor + Tensor.BYTES, tiles * 4);
    set(tensor + Tensor.DIMS, tiles);
    set(tensor + Tensor.STRIDES, 4);
    const instruction = code + i * Instruction.SIZE;
    set(instruction + Instruction.OP, Opcode.PROBE | (1 << 16));
    set(instruction + Instruction.TILES, tiles);
    set(instruction + Instruction.NODE, i);
    set(instruction + Instruction.T0, i);
    set(instruction + Instruction.P0, probe);
    set(instruction + Instruction.P1, argument);
    counters += tiles;
  });
  return { address, counters };
}

/** A frame for `program` whose DATA binding is `data`. */
export function frameOf(memory: DeviceMemory, program: number, data: number): number {
  const address = memory.allocate(Frame.BASES + 16, PoolTag.FRAME);
  memory.words[(address + Frame.PROGRAM) >> 2] = program;
  memory.words[(address + Frame.BINDINGS) >> 2] = 2;
  memory.words[(address + Frame.BASES) >> 2] = data;
  return address;
}

/** The device's number for a trap message; the product's own table is in lib/host. */
export function trapOf(error: unknown): number {
  const message = String((error as Error).message);
  if (message.includes("unreachable")) return 1;
  if (message.includes("out of bounds")) return 2;
  return message.includes("by zero") ? 3 : 9;
}

/** What Probe.MIX does to its word. */
export function mix(word: number, argument: number): number {
  return (Math.imul(word, 31) + argument) >>> 0;
}
