/** Writes small WebAssembly modules byte by byte, for modules that no compiler would make. */
const leb = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...leb(value >>> 7)]);
const text = (value: string): number[] => [...leb(value.length), ...Buffer.from(value)];
const list = (items: readonly (readonly number[])[]): number[] => [...leb(items.length), ...items.flat()];

export const I32 = 0x7f;
export const I64 = 0x7e;
export const V128 = 0x7b;

export const type = (params: readonly number[], results: readonly number[] = []): number[] => [
  0x60,
  ...leb(params.length),
  ...params,
  ...leb(results.length),
  ...results,
];
export const importFunction = (name: string, index: number, from = "env"): number[] => [...text(from), ...text(name), 0, ...leb(index)];
export const importMemory = (name = "memory", limits: readonly number[] = [0, 1]): number[] => [...text("env"), ...text(name), 2, ...limits];
export const importGlobal = (name: string, valueType: number, mutable: number): number[] => [...text("env"), ...text(name), 3, valueType, mutable];
export const importTable = (name: string): number[] => [...text("env"), ...text(name), 1, 0x70, 0, 1];
export const exportFunction = (name: string, index: number): number[] => [...text(name), 0, ...leb(index)];
export const exportGlobal = (name: string, index: number): number[] => [...text(name), 3, ...leb(index)];
/** A constant i32 global. */
export const constantGlobal = (value: number): number[] => [I32, 0, ...constant(value), 0x0b];
const body = (code: readonly number[]): number[] => [...leb(code.length + 2), 0, ...code, 0x0b];
export const NOP = 0x01;
/** An active segment at what `offset` computes. */
export const activeData = (offset: readonly number[], bytes: readonly number[]): number[] => [0, ...offset, 0x0b, ...leb(bytes.length), ...bytes];
export const passiveData = (bytes: readonly number[]): number[] => [1, ...leb(bytes.length), ...bytes];
export const constant = (value: number): number[] => [0x41, ...leb(value)];
export const globalGet = (index: number): number[] => [0x23, index];
export const dylink = (sizeBytes: number, align: number): number[] => {
  const info = [...leb(sizeBytes), ...leb(align), 0, 0];
  return [...text("dylink.0"), 1, ...leb(info.length), ...info];
};
export const needs = (library: string): number[] => {
  const info = list([text(library)]);
  return [...text("dylink.0"), 2, ...leb(info.length), ...info];
};

export interface Parts {
  readonly custom?: readonly number[];
  readonly types?: readonly (readonly number[])[];
  readonly imports?: readonly (readonly number[])[];
  /** Type index and code of each function. */
  readonly functions?: readonly (readonly [type: number, code: readonly number[]])[];
  readonly memories?: readonly (readonly number[])[];
  readonly globals?: readonly (readonly number[])[];
  readonly exports?: readonly (readonly number[])[];
  readonly start?: number;
  readonly data?: readonly (readonly number[])[];
}

/** One kernel `Run()` that does nothing, on the device's memory, changed by `parts`. */
export function wasm(parts: Parts = {}): Uint8Array {
  const types = parts.types ?? [type([])];
  const imports = parts.imports ?? [importMemory()];
  const functions = parts.functions ?? [[0, [NOP]]];
  const exports = parts.exports ?? [exportFunction("Run", 0)];
  const section = (id: number, contents: readonly number[] | undefined): number[] =>
    contents === undefined ? [] : [id, ...leb(contents.length), ...contents];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(0, parts.custom),
    ...section(1, list(types)),
    ...section(2, list(imports)),
    ...section(3, list(functions.map(([index]) => leb(index)))),
    ...section(5, parts.memories && list(parts.memories)),
    ...section(6, parts.globals && list(parts.globals)),
    ...section(7, list(exports)),
    ...section(8, parts.start === undefined ? undefined : leb(parts.start)),
    ...section(10, list(functions.map(([, code]) => body(code)))),
    ...section(11, parts.data && list(parts.data)),
  ]);
}
