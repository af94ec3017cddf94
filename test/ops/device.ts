/**
 * Runs a compiled program through the core's `executeTile`, region by region, without streams or drivers. The tiles of a region run in a seeded
 * random order, so work that shares a region without being independent shows up as wrong numbers.
 */
import fs from "node:fs";
import path from "node:path";
import { KERNEL_SCRATCH_BYTES } from "../../dist/asm/abi/device";
import { Instruction, Program, Region } from "../../dist/asm/abi/program";
import { Binding, Frame } from "../../dist/asm/abi/stream";
import type { CompileResult, Port } from "../../dist/lib/compile/types";
import { chooseKernels, instantiateKernels } from "../../dist/lib/host/kernels";
import { decode, encode, type Tensor } from "../../dist/lib/graph/tensor";

const PAGES = 4096;
const SCRATCH = 0x10000;
const FRAME = SCRATCH + 0x140000;
const START = FRAME + 0x20000;
/** Bytes around every binding that must stay as they are. */
const GUARD = 256;
const POISON = 0xa5;

interface Core {
  nextRegion(program: number, frame: number, region: number): number;
  executeTile(program: number, instruction: number, tile: number, frame: number, scratch: number): void;
}

let shared: { readonly memory: WebAssembly.Memory; readonly core: Core } | undefined;

function device(): { readonly memory: WebAssembly.Memory; readonly core: Core } {
  if (!shared) {
    const memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES, shared: true });
    const module = new WebAssembly.Module(fs.readFileSync(path.join(__dirname, "../../dist/asm/core.wasm")));
    // Programs that no device is named for are compiled for the builds with narrow panels.
    const micro = instantiateKernels(chooseKernels({ kernels: "relaxed" }).module, memory, SCRATCH + KERNEL_SCRATCH_BYTES);
    const own = WebAssembly.Module.imports(module).filter((each) => each.module === "env");
    const env = Object.fromEntries(own.map(({ name }) => [name, name === "memory" ? memory : () => 0]));
    shared = { memory, core: new WebAssembly.Instance(module, { env, micro } as never).exports as unknown as Core };
  }
  return shared;
}

/** Outputs of one run. The arena starts as garbage: nothing may be read before it is written. */
export function runOnDevice({ program, data, dataBytes }: CompileResult, feeds: Readonly<Record<string, Tensor>>, seed = 1): Tensor[] {
  const { memory, core } = device();
  const bytes = new Uint8Array(memory.buffer);
  const words = new DataView(memory.buffer);
  let next = START;
  const guarded: [number, number][] = [];
  const place = (size: number): number => {
    const at = next + GUARD;
    bytes.fill(POISON, next, at + Math.ceil(size / 64) * 64 + GUARD);
    guarded.push([next, at], [at + size, at + size + GUARD]);
    next = at + Math.ceil((size + GUARD) / 64) * 64;
    return at;
  };
  const image = place(program.image.byteLength);
  bytes.set(program.image, image);
  const dataAt = place(dataBytes);
  for (const segment of data) {
    bytes.set(segment.bytes, dataAt + segment.offsetBytes);
  }
  const arena = place(program.arenaBytes);
  const inputs = program.inputs.map((port) => {
    const at = place(port.sizeBytes);
    bytes.set(encode(feeds[port.name]!).bytes, at);
    return at;
  });
  const outputs = program.outputs.map((port) => place(port.sizeBytes));
  const bases = [dataAt, arena, ...inputs, ...outputs];
  words.setUint32(FRAME + Frame.PROGRAM, image, true);
  words.setUint32(FRAME + Frame.BINDINGS, bases.length, true);
  bases.forEach((base, index) => words.setUint32(FRAME + Frame.BASES + (Binding.DATA + index) * 4, base, true));
  const regions = image + words.getUint32(image + Program.REGIONS, true);
  const instructions = image + words.getUint32(image + Program.INSTRUCTIONS, true);
  words.setUint32(FRAME + Frame.DEPTH, 0, true);
  for (let region = 0; region < words.getUint32(image + Program.REGION_COUNT, true); ) {
    if (words.getUint32(regions + region * Region.SIZE + Region.TILES, true) === 0) {
      region = core.nextRegion(image, FRAME, region);
      continue;
    }
    const first = words.getUint32(regions + region * Region.SIZE + Region.FIRST, true);
    const count = words.getUint32(regions + region * Region.SIZE + Region.COUNT, true);
    const tiles: [number, number][] = [];
    for (let i = 0; i < count; i++) {
      const instruction = instructions + (first + i) * Instruction.SIZE;
      for (let tile = 0; tile < words.getUint32(instruction + Instruction.TILES, true); tile++) {
        tiles.push([instruction, tile]);
      }
    }
    for (const [instruction, tile] of shuffled(tiles, seed + region)) {
      core.executeTile(image, instruction, tile, FRAME, SCRATCH);
    }
    region++;
  }
  for (const [low, high] of guarded) {
    const changed = bytes.subarray(low, high).findIndex((byte) => byte !== POISON);
    if (changed >= 0) {
      throw new Error(`byte ${low + changed} outside every binding was written`);
    }
  }
  return program.outputs.map((port, index) => read(bytes, outputs[index]!, port));
}

function read(bytes: Uint8Array, at: number, { dtype, dims, sizeBytes }: Port): Tensor {
  return decode({ dtype, dims, bytes: bytes.slice(at, at + sizeBytes) });
}

function shuffled<T>(list: readonly T[], seed: number): T[] {
  const result = [...list];
  let state = seed | 1;
  for (let i = result.length - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = state % (i + 1);
    [result[i], result[j]] = [result[j]!, result[i]!];
  }
  return result;
}
