/** What passes hand on: each reads what those before it left and adds its own part. */
import type { Graph } from "../graph/ir";
import type { LoweredProgram } from "../ops/lowering";
import type { Blob, Instruction } from "../program/types";
import type { CompiledProgram, CompileOptions, DataSegment, ModelInfo } from "./types";

/** One run of arena bytes: a blob, and those that reuse its bytes in place. */
export interface Placement {
  readonly blobs: readonly Blob[];
  readonly sizeBytes: number;
  /** Regions, both included. */
  readonly first: number;
  readonly last: number;
  readonly offsetBytes: number;
}

export interface MemoryPlan {
  readonly arenaBytes: number;
  /** The most bytes that live at one time: no plan can need less. */
  readonly largestLiveBytes: number;
  readonly placements: readonly Placement[];
}

export interface CompileState {
  readonly options: CompileOptions;
  info: ModelInfo;
  readonly graph: Graph;
  program?: LoweredProgram;
  regions?: readonly (readonly Instruction[])[];
  plan?: MemoryPlan;
  data?: { readonly segments: readonly DataSegment[]; readonly end: number };
  compiled?: CompiledProgram;
}
