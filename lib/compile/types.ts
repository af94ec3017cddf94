/** What the compiler takes and gives. Everything here can be posted between threads. */
import type { DtypeName } from "../graph/dtype";
import type { BuildName } from "../program/costs";

/** A dim is a number, or a name where the model leaves it open. */
export type SymbolicDim = number | string;

export interface ValueInfo {
  readonly name: string;
  readonly dtype: DtypeName;
  readonly dims: readonly SymbolicDim[];
}

export interface ModelInfo {
  readonly name: string;
  readonly producer: string;
  readonly irVersion: number;
  readonly opsets: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
}

export interface CompileOptions {
  /** Folder that external data may be read from; nothing outside it is ever opened. Undefined: external data is refused. */
  readonly folder?: string;
  /** Concrete dims of each graph input. Inputs whose dims are all numbers may be left out. Without any, open dims count as 1. */
  readonly shapes?: Readonly<Record<string, readonly number[]>>;
  /** Data blobs that the executor already holds: key -> byte offset in the data binding; the next free offset is `dataBytes`. */
  readonly known?: Readonly<Record<string, number>>;
  readonly dataBytes?: number;
  /** The kernel build that the program is for. Default `relaxed`. */
  readonly build?: BuildName;
  /** `direct`: no Winograd, whose rounding errors are about ten times larger. Default `fast`. */
  readonly precision?: "fast" | "direct";
  /** Passes to leave out, or the last pass to run (debugging). */
  readonly disable?: readonly string[];
  readonly stopAfter?: string;
}

/** A value at a fixed place in the adjacent block of inputs (or outputs) of a frame. */
export interface Port {
  readonly name: string;
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  /** Bytes from the start of the input (output) block, 64-aligned. */
  readonly offsetBytes: number;
  /** Bytes on the device. */
  readonly sizeBytes: number;
}

export interface DataSegment {
  readonly key: string;
  readonly offsetBytes: number;
  readonly bytes: Uint8Array;
}

export interface CompiledProgram {
  readonly image: Uint8Array;
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly arenaBytes: number;
  /** Estimate for one run on one core. */
  readonly costNs: number;
  readonly instructionCount: number;
  readonly regionCount: number;
}

export interface CompileResult {
  readonly info: ModelInfo;
  readonly program: CompiledProgram;
  /** Data that `known` did not have yet. */
  readonly data: readonly DataSegment[];
  /** End of the data binding after these segments. */
  readonly dataBytes: number;
}
