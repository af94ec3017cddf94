/** Options of Device.open: names, ranges, defaults. */
import { readTopology } from "../host/topology";
import { MAX_MEMORY_BYTES, MIN_MEMORY_BYTES } from "../host/memory";
import { checkInteger, checkOptions, invalidParam, kindOf, nearestName } from "../errors/make";

export interface DeviceOptions {
  /** Which device, 0 to 63. Default: the first that is not open in this thread. */
  readonly device?: number;
  /** Who runs device code. `threads`: a worker per core. `inline`: the calling thread, inside calls and between turns of the event loop. `sim`: all cores on the calling thread in a seeded interleaving, in virtual time. Default `threads`. */
  readonly driver?: "threads" | "sim" | "inline";
  /** Cores of the device, 1 to 64. Default: the CPUs that this process may use (affinity and control groups included). inline has one. */
  readonly cores?: number;
  /** Size of the device's memory in bytes; untouched pages cost nothing. Default 1 GiB, at most 4 GiB - 64 KiB. */
  readonly memoryBytes?: number;
  /** sim: start of the random schedule. Default 1. */
  readonly seed?: number;
  /** sim: adversity, as probabilities from 0 to 1. */
  readonly faults?: { readonly stall?: number; readonly skippedWakeUp?: number };
  /**
   * sim: costs of tasks. Time is then what the device would take: bytes per microsecond by direction (device to device, host to device, device to host,
   * host to host), and what every task takes at least; a program takes what its compiler expects. Event times and time-outs are of that clock.
   */
  readonly costs?: { readonly bandwidths: readonly [number, number, number, number]; readonly taskUs: number };
  /**
   * A program estimated to run shorter than this many nanoseconds is run by the thread that opened the device, since waking a core costs more: above
   * 100,000 only one at a time, and 4 ms of them until the event loop has had its turn. Default 500,000; 0 switches it off.
   */
  readonly helpBelowNs?: number;
  /** A kernel that runs longer than this many milliseconds is stopped, and its core replaced if need be; waiting for a processor does not count. Default 10,000. */
  readonly watchdogMs?: number;
  /** How many microseconds an idle core looks for work before it sleeps. Default 50. */
  readonly spinUs?: number;
  /** Keep the last so many tasks and tiles for the timeline; true = 65,536. Default off. */
  readonly trace?: boolean | number;
  /** Highest kernel build to use: `base` (128-bit), `relaxed` (fused multiply-add), `wide` (256-bit, Node 24 on x64). What the engine cannot run falls back; `device.info().kernels` says why. Default: environment variable NPURT_KERNELS, else `wide`. */
  readonly kernels?: "base" | "relaxed" | "wide";
  /** Throw instead of falling back to a lower kernel build. Default false. */
  readonly strict?: boolean;
  /** Where all sequence counters start. For tests of long-running devices. Default 0; sim 2^32 - 100. */
  readonly firstSequence?: number;
}

export const DEVICE_LIMIT = 64;
const GIB = 2 ** 30;
const TRACE_RECORDS = 65536;
const NAMES: readonly (keyof DeviceOptions)[] = [
  "device",
  "driver",
  "cores",
  "memoryBytes",
  "seed",
  "faults",
  "costs",
  "helpBelowNs",
  "watchdogMs",
  "spinUs",
  "trace",
  "kernels",
  "strict",
  "firstSequence",
];
const DRIVERS = ["threads", "sim", "inline"] as const;

export interface ResolvedOptions {
  readonly driver: "threads" | "sim" | "inline";
  readonly cores: number;
  readonly memoryBytes: number;
  readonly seed: number;
  readonly faults: { readonly stall?: number; readonly skippedWakeUp?: number };
  readonly costs: DeviceOptions["costs"] | undefined;
  readonly helpBelowNs: number;
  readonly watchdogMs: number;
  readonly spinUs: number;
  readonly traceRecords: number;
  readonly kernels: string | undefined;
  readonly strict: boolean;
  readonly firstSequence: number;
}

function checkCosts(where: string, driver: string, costs: DeviceOptions["costs"]): void {
  if (costs === undefined) {
    return;
  }
  checkOptions(`${where}: costs`, costs, ["bandwidths", "taskUs"]);
  const { bandwidths, taskUs } = costs;
  const rates = Array.isArray(bandwidths) && bandwidths.length === 4 && bandwidths.every((rate) => Number.isFinite(rate) && rate > 0);
  if (driver !== "sim" || !rates || !(Number.isFinite(taskUs) && taskUs >= 0)) {
    throw invalidParam(`${where}: costs are for driver "sim": {bandwidths: four rates above 0 in bytes per microsecond, taskUs: at least 0}`);
  }
}

/** Checks everything the user gave and fills in the rest. @throws AclError 107000 naming the option and its range */
export function resolveOptions(options: DeviceOptions): ResolvedOptions {
  const where = "Device.open";
  checkOptions(where, options, NAMES);
  const driver = options.driver ?? "threads";
  if (!DRIVERS.includes(driver)) {
    throw invalidParam(
      `${where}: driver ${kindOf(driver)} is unknown; did you mean "${nearestName(typeof driver === "string" ? driver : "threads", DRIVERS)}"? Valid: ${DRIVERS.join(", ")}`,
    );
  }
  checkInteger(where, "cores", options.cores, 1, 64);
  checkInteger(where, "memoryBytes", options.memoryBytes, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES);
  checkInteger(where, "seed", options.seed, 0, 2 ** 32 - 1);
  checkInteger(where, "helpBelowNs", options.helpBelowNs, 0, 2 ** 52);
  checkInteger(where, "watchdogMs", options.watchdogMs, 1, 2 ** 31 - 1);
  checkInteger(where, "spinUs", options.spinUs, 0, 1_000_000);
  checkInteger(where, "firstSequence", options.firstSequence, 0, 2 ** 50);
  const trace = options.trace === true ? TRACE_RECORDS : options.trace === false ? 0 : (options.trace ?? 0);
  checkInteger(where, "trace", trace, 0, 2 ** 22);
  checkOptions(`${where}: faults`, options.faults, ["stall", "skippedWakeUp"]);
  for (const [name, value] of Object.entries(options.faults ?? {})) {
    if (typeof value !== "number" || !(value >= 0 && value <= 1)) {
      throw invalidParam(`${where}: faults.${name} is ${kindOf(value)}; pass a probability from 0 to 1`);
    }
  }
  checkCosts(where, driver, options.costs);
  return {
    driver,
    cores: driver === "inline" ? 1 : (options.cores ?? Math.min(64, readTopology().cores)),
    memoryBytes: options.memoryBytes ?? GIB,
    seed: options.seed ?? 1,
    faults: options.faults ?? {},
    costs: options.costs,
    helpBelowNs: options.helpBelowNs ?? 500_000,
    watchdogMs: options.watchdogMs ?? 10_000,
    spinUs: options.spinUs ?? 50,
    traceRecords: trace,
    kernels: options.kernels,
    strict: options.strict ?? false,
    firstSequence: options.firstSequence ?? (driver === "sim" ? 2 ** 32 - 100 : 0),
  };
}
