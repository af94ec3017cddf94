/** Plain data that host and runtime share. */
import type { SimCosts } from "./driver-virtual";
import type { Kernels } from "./kernels";

export type DriverName = "threads" | "sim" | "inline";

/** Adversity for the sim driver; each is a probability from 0 to 1. */
export interface SimFaults {
  /** A core that has work loses its turn for a random number of picks. */
  readonly stall?: number;
  /** A sleeping core does not hear the bell. */
  readonly skippedWakeUp?: number;
}

export interface MachineOptions {
  readonly device: number;
  readonly driver: DriverName;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly firstSequence: number;
  readonly seed: number;
  readonly faults: SimFaults;
  /** sim: costs of tasks, for a clock that tells what the device would take. */
  readonly costs?: SimCosts | undefined;
  readonly spinUs: number;
  readonly watchdogMs: number;
  readonly traceRecords: number;
  /** Highest kernel build allowed, and whether a lower one is an error. */
  readonly kernels?: string | undefined;
  readonly strict?: boolean | undefined;
}

/** What another Node thread needs to attach: can be posted. */
export interface MachineToken {
  readonly memory: WebAssembly.Memory;
  readonly module: WebAssembly.Module;
  readonly kernels: Kernels;
  readonly device: number;
  readonly abi: number;
}
