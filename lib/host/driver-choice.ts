/** Which driver the options ask for. */
import type { Driver } from "./driver";
import { InlineDriver } from "./driver-inline";
import { ThreadsDriver } from "./driver-threads";
import type { Machine } from "./machine";
import type { MachineOptions } from "./types";

export function makeDriver(machine: Machine, { driver, cores, seed, faults, costs, spinUs, watchdogMs }: MachineOptions): Driver {
  if (driver === "inline") {
    return new InlineDriver(machine);
  }
  if (driver === "threads") {
    return new ThreadsDriver(machine, cores, spinUs, watchdogMs);
  }
  // Loaded by those who simulate: it is no part of a service's start.
  if (costs !== undefined) {
    const { VirtualDriver } = require("./driver-virtual") as typeof import("./driver-virtual");
    return new VirtualDriver(machine, cores, seed, costs);
  }
  const { SimDriver } = require("./driver-sim") as typeof import("./driver-sim");
  return new SimDriver(machine, cores, seed, faults);
}
