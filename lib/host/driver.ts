/** What a driver is: who runs `step`, and how a host thread waits for a fence. The rest of the house does not know which one it has. */
import type { CoreExports } from "./core-exports";
import type { DriverName } from "./types";

/** What setTimeout can wait; beyond, it fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

export interface Driver {
  readonly name: DriverName;
  /** Cores that can take work now: while it is 0, whoever submits has to run the work, or to wait for `ready`. */
  readonly coresUp: number;
  /** The host's instance as the machine is to use it, where the driver's clock decides what the host may see. */
  view?(core: CoreExports): CoreExports;
  /** Lets the cores boot; returns at once. */
  start(): void;
  /** Resolves when every core is up; rejects with 507033 if one cannot start. */
  ready(): Promise<void>;
  /** Work became visible (a task was submitted): sees to it that somebody looks; `cores` of them if they sleep, default one. */
  kick(cores?: number): void;
  /**
   * Blocks the calling thread until `sequence` of `stream` has retired (true), `timeoutMs` of the driver's clock have passed, or nothing can move any more (false).
   */
  block(stream: number, sequence: number, timeoutMs: number): boolean;
  /** Somebody was added to `completions` for this fence: `machine.progress` is called when it has moved. Never calls back before it returns. */
  watch(stream: number, sequence: number): void;
  /** Calls `fire` after `delayMs` of the driver's clock, unless the function returned is called before. */
  timer(delayMs: number, fire: () => void): () => void;
  /** The driver's clock in microseconds. */
  now(): number;
  /** Regular look at the cores while work is in flight: stuck and dead ones. */
  check(): void;
  /** Ends the cores. No task runs after it resolves. */
  stop(): Promise<void>;
}
