/**
 * Runs a plan on one core instance, without streams: encode, verify, place, run every tile in shuffled order. Each run happens twice, in different
 * orders and over different scratch; the bytes must be equal, and nothing outside the written views may change.
 */
import fs from "node:fs";
import path from "node:path";
import { Core, Layout, SCRATCH_BYTES } from "../../../dist/asm/abi/device";
import { Instruction as Record, Program, Region } from "../../../dist/asm/abi/program";
import { Frame } from "../../../dist/asm/abi/stream";
import { chooseKernels } from "../../../dist/lib/host/kernels";
import { BUILDS } from "../../../dist/lib/program/costs";
import { encode } from "../../../dist/lib/program/encode";
import { verify } from "../../../dist/lib/program/verify";
import type { DtypeName } from "../../../lib/graph/dtype";
import type { Blob, Instruction, RegionPlan, View } from "../../../lib/program/types";
import { BYTES, decode, encode as encodeValues } from "./numbers";

interface KernelExports {
  executeTile(program: number, instruction: number, tile: number, frame: number, scratch: number): void;
  nextRegion(program: number, frame: number, region: number): number;
  runDma(task: number): void;
  bindCore(core: number): void;
}

/** Shared by all tests of a file: 64 MiB, of which the device's tables are unused. */
const PAGES = 1024;
const SCRATCH = 0x500000;
const FRAME = SCRATCH + 2 * SCRATCH_BYTES;
const TASK = FRAME + 4096;
const PROGRAM = FRAME + 65536;
const DATA = 0xa00000;
const GUARD = 64;

export const memory = new WebAssembly.Memory({ initial: PAGES, maximum: 65536, shared: true });
export const bytes = new Uint8Array(memory.buffer);
export const words = new DataView(memory.buffer);
const kernels = new WebAssembly.Module(fs.readFileSync(path.join(__dirname, "../../../dist/asm/core.wasm")));
/** The build that the environment asks for: what is tested holds for each of them. */
const micro = chooseKernels();
/** Columns of packed panels in that build. */
export const panel = BUILDS[micro.used].panel;
export const core = new WebAssembly.Instance(kernels, {
  env: {
    memory,
    clock: () => 0,
    kernel: () => {
      throw new Error("no user's kernel belongs into these tests");
    },
  },
  micro: new WebAssembly.Instance(micro.module, { env: { memory } }).exports as Record<string, unknown>,
}).exports as unknown as KernelExports;
words.setUint32(Layout.CORES + Core.SCRATCH, SCRATCH, true);
core.bindCore(0);

export const rowMajor = (dims: readonly number[], size: number): number[] => {
  const strides = new Array<number>(dims.length);
  let step = size;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= dims[axis]!;
  }
  return strides;
};

export const count = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1);

/** Seeded, so that a failure comes back. */
export function random(seed: number): () => number {
  let x = (seed * 2654435761 + 12345) | 0 || 1;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) / 4294967296;
  };
}

/** A plan under construction: views over blobs of the data and arena bindings. */
export class Plan {
  readonly blobs: Blob[] = [];
  readonly #contents = new Map<Blob, Uint8Array>();
  #end = { data: 0, arena: GUARD };

  #blob(binding: "data" | "arena", sizeBytes: number, contents?: Uint8Array): Blob {
    const blob: Blob = { id: this.blobs.length, name: `blob${this.blobs.length}`, binding, sizeBytes, offsetBytes: this.#end[binding] };
    this.#end[binding] += Math.ceil(sizeBytes / 64) * 64 + GUARD;
    this.blobs.push(blob);
    if (contents) this.#contents.set(blob, contents);
    return blob;
  }

  /** A dense tensor with these values (numbers or bigints, row-major). */
  input(dtype: DtypeName, dims: readonly number[], values: readonly (number | bigint)[]): View {
    const raw = encodeValues(dtype, values);
    return { blob: this.#blob("data", raw.length, raw), dtype, offsetBytes: 0, dims, strides: rowMajor(dims, BYTES[dtype]) };
  }

  /** An uninitialised tensor of the arena, dense; `fill` gives it contents. */
  output(dtype: DtypeName, dims: readonly number[], fill?: readonly (number | bigint)[]): View {
    const raw = fill && encodeValues(dtype, fill);
    const blob = this.#blob("arena", count(dims) * BYTES[dtype], raw);
    return { blob, dtype, offsetBytes: 0, dims, strides: rowMajor(dims, BYTES[dtype]) };
  }

  #run(image: Uint8Array, seed: number): Uint8Array {
    const next = random(seed);
    const arena = DATA + Math.ceil((this.#end.data + 256) / 64) * 64;
    bytes.fill(seed & 255, SCRATCH, SCRATCH + SCRATCH_BYTES);
    core.bindCore(0); // the micro module keeps its constants in scratch
    bytes.fill(0xa5, DATA, arena + this.#end.arena);
    for (const [blob, contents] of this.#contents) bytes.set(contents, (blob.binding === "data" ? DATA : arena) + blob.offsetBytes!);
    bytes.set(image, PROGRAM);
    bytes.fill(0, FRAME, FRAME + 256);
    words.setUint32(FRAME + Frame.BASES, DATA, true);
    words.setUint32(FRAME + Frame.BASES + 4, arena, true);
    const field = (at: number): number => words.getUint32(PROGRAM + at, true);
    let region = 0;
    for (let steps = 0; region < field(Program.REGION_COUNT); steps++) {
      if (steps > 10000) throw new Error("control flow does not end");
      const at = PROGRAM + field(Program.REGIONS) + region * Region.SIZE;
      const first = words.getUint32(at + Region.FIRST, true);
      const tiles: [number, number][] = [];
      for (let i = 0; i < words.getUint32(at + Region.COUNT, true); i++) {
        const instruction = PROGRAM + field(Program.INSTRUCTIONS) + (first + i) * Record.SIZE;
        for (let tile = 0; tile < words.getUint32(instruction + Record.TILES, true); tile++) tiles.push([instruction, tile]);
      }
      for (let i = tiles.length - 1; i > 0; i--) {
        const j = Math.floor(next() * (i + 1));
        [tiles[i], tiles[j]] = [tiles[j]!, tiles[i]!];
      }
      for (const [instruction, tile] of tiles) core.executeTile(PROGRAM, instruction, tile, FRAME, SCRATCH);
      region = words.getUint32(at + Region.TILES, true) === 0 ? core.nextRegion(PROGRAM, FRAME, region) >>> 0 : region + 1;
    }
    return bytes.slice(DATA, arena + this.#end.arena);
  }

  /** Encodes, verifies and runs; returns a reader of views. */
  run(regions: readonly (RegionPlan | Instruction)[]): (view: View) => (number | bigint)[] {
    const plan = {
      regions: regions.map((region) => (Array.isArray(region) ? (region as RegionPlan) : [region as Instruction])),
      blobs: this.blobs,
      inputs: 0,
      outputs: 0,
      arenaBytes: this.#end.arena,
      build: micro.used,
    };
    const { image } = encode(plan);
    verify(image, [this.#end.data, this.#end.arena]);
    const one = this.#run(image, 1);
    const two = this.#run(image, 77);
    expect(Buffer.compare(one, two)).toBe(0);
    this.#checkGuards(one);
    return (view) => decode(view.dtype, this.#elements(one, view));
  }

  #arenaStart(all: Uint8Array): number {
    return all.length - this.#end.arena;
  }

  #checkGuards(all: Uint8Array): void {
    const covered = new Uint8Array(all.length);
    const arena = this.#arenaStart(all);
    for (const blob of this.blobs) {
      const start = (blob.binding === "data" ? 0 : arena) + blob.offsetBytes!;
      covered.fill(1, start, start + blob.sizeBytes);
      const contents = blob.binding === "data" ? this.#contents.get(blob) : undefined;
      if (contents) expect(Buffer.compare(all.subarray(start, start + blob.sizeBytes), contents)).toBe(0);
    }
    for (let at = 0; at < all.length; at++) if (covered[at] === 0 && all[at] !== 0xa5) throw new Error(`byte ${at} outside every blob was written`);
  }

  #elements(all: Uint8Array, view: View): Uint8Array {
    const size = BYTES[view.dtype];
    const total = count(view.dims);
    const base = (view.blob.binding === "data" ? 0 : this.#arenaStart(all)) + view.blob.offsetBytes! + view.offsetBytes;
    const out = new Uint8Array(total * size);
    for (let i = 0; i < total; i++) {
      let rest = i;
      let at = base;
      for (let axis = view.dims.length - 1; axis >= 0; axis--) {
        at += (rest % view.dims[axis]!) * view.strides[axis]!;
        rest = Math.floor(rest / view.dims[axis]!);
      }
      out.set(all.subarray(at, at + size), i * size);
    }
    return out;
  }
}

export const TASK_ADDRESS = TASK;
export const FREE_ADDRESS = DATA;

/** Units in the last place between a float32 result and the float64 truth. */
export function ulp32(actual: number, truth: number): number {
  if (Number.isNaN(truth) || Number.isNaN(actual)) return Number.isNaN(truth) && Number.isNaN(actual) ? 0 : Number.POSITIVE_INFINITY;
  const rounded = Math.fround(truth);
  if (actual === rounded) return 0;
  if (!Number.isFinite(rounded) || !Number.isFinite(actual)) return Number.POSITIVE_INFINITY;
  const exponent = Math.max(-126, Math.floor(Math.log2(Math.max(Math.abs(truth), 2 ** -149))));
  return Math.abs(actual - truth) / 2 ** (exponent - 23);
}

/** Largest relative error where `scale` is what the error is relative to. */
export function worst(actual: readonly (number | bigint)[], truth: readonly number[], scale: (i: number) => number): number {
  expect(actual.length).toBe(truth.length);
  return truth.reduce((most, value, i) => {
    if (Number.isNaN(value)) return Number.isNaN(Number(actual[i])) ? most : Number.POSITIVE_INFINITY;
    if (!Number.isFinite(value)) return Object.is(Number(actual[i]), value) ? most : Number.POSITIVE_INFINITY;
    return Math.max(most, Math.abs(Number(actual[i]) - value) / scale(i) || 0);
  }, 0);
}

/** Equal element by element (NaN equals NaN, zeros by sign); names the first difference, which a diff of long arrays takes minutes to find. */
export function agree(actual: readonly (number | bigint)[], expected: readonly (number | bigint)[]): void {
  const at = expected.findIndex((value, i) => !Object.is(value, actual[i]));
  if (at >= 0) throw new Error(`element ${at} of ${expected.length} is ${actual[at]}, expected ${expected[at]}`);
  expect(actual.length).toBe(expected.length);
}
