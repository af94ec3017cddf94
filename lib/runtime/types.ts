/** Types of the public API that inner files share. Public declarations import them from here, so that they never reach the device's layouts. */
import type { Tensor, TensorData } from "./tensor";

export interface WaitOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** What a run is fed: tensors, or bare arrays for inputs whose dims are known. */
export type Feeds = Readonly<Record<string, Tensor | TensorData>>;
export type Results = Record<string, Tensor>;
/** Dims by input name. */
export type Shapes = Readonly<Record<string, readonly number[]>>;

export interface LoadProgress {
  readonly phase: string;
  /** 0 to 1 over the whole load. */
  readonly fraction: number;
}
