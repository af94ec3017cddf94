/** Plain data that host and runtime share. */
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
  readonly spinUs: number;
  readonly watchdogMs: number;
  readonly traceRecords: number;
}

/** What another Node thread needs to attach: can be posted. */
export interface MachineToken {
  readonly memory: WebAssembly.Memory;
  readonly module: WebAssembly.Module;
  readonly device: number;
  readonly abi: number;
}
