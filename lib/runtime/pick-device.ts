/** Choosing among the devices of this thread. */
import { AclError } from "../errors/acl-error";
import { checkOptions, invalidParam, nearestName } from "../errors/make";
import type { Device } from "./device";
import type { DeviceCore } from "./device-core";
import { coreOf } from "./internals";

const POLICIES = ["roundRobin", "leastLoaded", "memory"] as const;

export interface PickOptions {
  /** `roundRobin` (default): one after the other. `leastLoaded`: the fewest tasks in flight. `memory`: the most free memory. Ties go round. */
  readonly policy?: "roundRobin" | "leastLoaded" | "memory";
}

/** Grows with each pick, so that equal devices take turns. */
let turn = 0;

/** Tasks that are submitted and have not retired. */
function tasksInFlight(device: DeviceCore): number {
  let count = 0;
  for (const [stream, tail] of device.liveStreams()) {
    count += tail - device.machine.core.fence(stream);
  }
  return count;
}

const COSTS: Readonly<Record<(typeof POLICIES)[number], (device: DeviceCore) => number>> = {
  roundRobin: () => 0,
  leastLoaded: tasksInFlight,
  memory: (device) => -(device.machine.core.poolFree() >>> 0),
};

/**
 * The device of `devices` that is best by the policy; lost ones are left out.
 * @throws AclError 107000 for an unknown policy or no devices, 207004 if every one is lost
 */
export function pickDevice(devices: readonly Device[], options: PickOptions = {}): Device {
  checkOptions("pickDevice", options, ["policy"]);
  const policy = options.policy ?? "roundRobin";
  const cost = Object.hasOwn(COSTS, policy) ? COSTS[policy] : undefined;
  if (cost === undefined) {
    throw invalidParam(
      `pickDevice: policy "${String(policy)}" is unknown; did you mean "${nearestName(String(policy), POLICIES)}"? Valid: ${POLICIES.join(", ")}`,
    );
  }
  if (!Array.isArray(devices) || devices.length === 0) {
    throw invalidParam("pickDevice: pass the open devices to choose from");
  }
  const first = turn++;
  let best: Device | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < devices.length; i++) {
    const device = devices[(first + i) % devices.length] as Device;
    const core = coreOf.device(device);
    const own = core.machine.lost === undefined ? cost(core) : Number.POSITIVE_INFINITY;
    if (own < least) {
      least = own;
      best = device;
    }
  }
  if (best === undefined) {
    throw new AclError(207004, "pickDevice: every device is closed or lost; open one");
  }
  return best;
}
