/** Which WebAssembly features this engine has: each is asked for with a module of a few bytes that uses it. Nothing is compiled. */

const I32 = 0x7f;
const V128 = 0x7b;
const END = 0x0b;
const DROP = 0x1a;
const CONST_0 = [0x41, 0];

/** A module with one function `() -> results` and, where given, one memory. Every length stays below 128, one LEB byte. */
function module(body: readonly number[], { results = [] as readonly number[], memory = [] as readonly number[] } = {}): Uint8Array<ArrayBuffer> {
  const section = (id: number, content: readonly number[]): number[] => [id, content.length, ...content];
  const code = [0, ...body, END];
  return new Uint8Array([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 0, results.length, ...results]),
    ...section(3, [1, 0]),
    ...(memory.length > 0 ? section(5, [1, ...memory]) : []),
    ...section(10, [1, code.length, ...code]),
  ]);
}

const SPLAT_0 = [...CONST_0, 0xfd, 15];
const PROBES: Readonly<Record<string, Uint8Array<ArrayBuffer>>> = {
  simd: module(SPLAT_0, { results: [V128] }),
  // i32.atomic.load on a shared memory (flags 3: shared, with a maximum)
  threads: module([...CONST_0, 0xfe, 0x10, 2, 0], { results: [I32], memory: [3, 1, 1] }),
  // memory.copy
  bulkMemory: module([...CONST_0, ...CONST_0, ...CONST_0, 0xfc, 10, 0, 0], { memory: [0, 1] }),
  // f32x4.relaxed_madd
  relaxedSimd: module([...SPLAT_0, ...SPLAT_0, ...SPLAT_0, 0xfd, 0x85, 2], { results: [V128] }),
  memory64: module([0x42, 0, 0x28, 2, 0, DROP], { memory: [4, 1] }),
};

export type WasmFeatures = Readonly<Record<"simd" | "threads" | "bulkMemory" | "relaxedSimd" | "memory64", boolean>>;

export function wasmFeatures(): WasmFeatures {
  return Object.fromEntries(Object.entries(PROBES).map(([name, bytes]) => [name, WebAssembly.validate(bytes)])) as WasmFeatures;
}
