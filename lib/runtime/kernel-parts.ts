/** What a kernel binary consists of, once it is read. */

/** Types of parameters and results, as the binary format numbers them. */
export type ValueType = "i32" | "i64" | "f32" | "f64" | "other";

export interface FunctionType {
  readonly params: readonly ValueType[];
  readonly results: readonly ValueType[];
}

export interface KernelExport {
  readonly name: string;
  /** Index among the module's exports. */
  readonly index: number;
  readonly type: FunctionType;
  /** Of its code. */
  readonly codeBytes: number;
}

/** A variable among the static data. */
export interface KernelSymbol {
  readonly offset: number;
  /** Up to the next exported symbol or the end of the data: a module does not say more. */
  readonly sizeBytes: number;
}

/** Bytes for the module's static data, from `offset` of its data block on. */
export interface DataPart {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

export interface KernelModule {
  /** What the cores instantiate. */
  readonly bytes: Uint8Array;
  readonly functions: ReadonlyMap<string, KernelExport>;
  readonly symbols: ReadonlyMap<string, KernelSymbol>;
  readonly dataBytes: number;
  readonly data: readonly DataPart[];
  readonly tableElements: number;
  readonly prints: boolean;
}

/** Variables among `dataBytes` of static data: exported constants whose value is a place there. */
export function symbolTable(
  exported: readonly { readonly name: string; readonly target: number }[],
  constants: ReadonlyMap<number, number>,
  dataBytes: number,
): Map<string, KernelSymbol> {
  const placed = exported.map(({ name, target }) => ({ name, offset: constants.get(target) ?? -1 }));
  const within = placed.filter(({ offset }) => offset >= 0 && offset < dataBytes);
  const end = (offset: number): number => Math.min(dataBytes, ...within.map((other) => other.offset).filter((other) => other > offset));
  return new Map(within.map(({ name, offset }) => [name, { offset, sizeBytes: end(offset) - offset }]));
}
