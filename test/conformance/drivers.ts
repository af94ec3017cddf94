/** The drivers that every conformance test runs on. The sim one is hostile: cores stall and miss wake-ups, counters start just below 2^32. */
import { AclError, Device, type DeviceOptions } from "npurt";

export const DRIVERS: readonly DeviceOptions[] = [
  { driver: "inline" },
  { driver: "sim", cores: 3, seed: 7, faults: { stall: 0.05, skippedWakeUp: 0.2 } },
  { driver: "threads", cores: 2 },
];

/** One test per driver, each with a device of its own that is closed afterwards. */
export function onEachDriver(name: string, body: (device: Device, driver: string) => Promise<void>, options: DeviceOptions = {}): void {
  for (const driver of DRIVERS) {
    test(`${name} (${driver.driver})`, async () => {
      const device = await Device.open({ memoryBytes: 64 << 20, ...driver, ...options });
      try {
        await body(device, driver.driver as string);
      } finally {
        await device.close({ timeoutMs: 0 });
      }
    });
  }
}

/** The AclError that `work` ends with; fails the test if it ends well or otherwise. */
export async function failureOf(work: (() => unknown) | Promise<unknown>): Promise<AclError> {
  let result: unknown;
  try {
    result = await (typeof work === "function" ? work() : work);
  } catch (error) {
    if (error instanceof AclError) {
      return error;
    }
    throw error;
  }
  throw new Error(`expected an AclError, got ${String(result)}`);
}

/** 0, 1, 2, ... */
export function ramp(length: number, first = 0): Int32Array {
  return Int32Array.from({ length }, (_, i) => first + i);
}
