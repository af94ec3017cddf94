/** `npurt doctor`: facts of the machine, warnings, and devices that are really opened. */
import { Device } from "../index";
import { type Machine, machine, warnings } from "./machine";
import { errorText, formatBytes, formatMs, print, printJson, table } from "./output";

const DRIVERS = ["threads", "inline", "sim"] as const;
const CHECK_BYTES = 4096;
const CHECK_LIMIT_MS = 10_000;

interface DeviceCheck {
  readonly driver: string;
  readonly ok: boolean;
  readonly cores?: number;
  /** From the call of open to the first result, and to the moment when every core is up. */
  readonly firstResultMs?: number;
  readonly readyMs?: number;
  readonly error?: string;
}

export async function doctor({ json }: { json?: boolean }): Promise<void> {
  const facts = machine();
  const found = warnings(facts);
  const devices: DeviceCheck[] = [];
  for (const driver of DRIVERS) devices.push(await checkDevice(driver));
  if (json) {
    printJson({ ...facts, devices, warnings: found });
  } else {
    print(table([...rows(facts), ...devices.map(deviceRow)], ""));
    for (const warning of found) print(`\nwarning: ${warning}`);
  }
  if (devices.some(({ ok }) => !ok)) throw new Error("a device does not work here; see above");
}

/** Fills device memory by a task and reads it back: memory, stream, core and completion all have to work for that. */
async function checkDevice(driver: (typeof DRIVERS)[number]): Promise<DeviceCheck> {
  try {
    const startedAt = performance.now();
    const device = await Device.open({ driver });
    try {
      const buffer = device.allocate(CHECK_BYTES);
      const stream = device.createStream();
      stream.memset(buffer, 0xa5);
      const bytes = new Uint8Array(CHECK_BYTES);
      stream.memcpy(bytes, buffer);
      // Real time, whatever clock the driver has.
      await stream.synchronize({ signal: AbortSignal.timeout(CHECK_LIMIT_MS) });
      const firstResultMs = performance.now() - startedAt;
      if (bytes.some((byte) => byte !== 0xa5)) throw new Error("memory read back from the device is not what was written");
      await device.ready();
      return { driver, ok: true, cores: device.info().cores, firstResultMs, readyMs: performance.now() - startedAt };
    } finally {
      await device.close();
    }
  } catch (error) {
    return { driver, ok: false, error: errorText(error, false) };
  }
}

function deviceRow({ driver, ok, cores, firstResultMs, readyMs, error }: DeviceCheck): string[] {
  const name = `device ${driver}`;
  if (!ok || firstResultMs === undefined || readyMs === undefined) return [name, `FAILED: ${error}`];
  return [name, `ok: ${cores} core${cores === 1 ? "" : "s"}, first result after ${formatMs(firstResultMs)}, all cores after ${formatMs(readyMs)}`];
}
function rows(facts: Machine): string[][] {
  const { cpu, memory, wasm, addon } = facts;
  const on = Object.entries(wasm).filter(([, has]) => has);
  const off = Object.entries(wasm).filter(([, has]) => !has);
  return [
    ["npurt", facts.npurt],
    ["node", `${facts.node} (V8 ${facts.v8})${facts.nodeFlags.length > 0 ? ` ${facts.nodeFlags.join(" ")}` : ""}`],
    ["platform", facts.platform],
    ["cpu", `${cpu.count} x ${cpu.model}`],
    ["cpus for npurt", `${cpu.available} available, ${cpu.allowed ?? "?"} allowed by cpuset, quota ${cpu.quota ?? "none"}: ${cpu.cores} cores`],
    ["memory", `${formatBytes(memory.totalBytes)}, limit ${memory.limitBytes === undefined ? "none" : formatBytes(memory.limitBytes)}`],
    ["huge pages", memory.hugePages ?? "unknown"],
    ["wasm", `${on.map(([name]) => name).join(", ")}${off.length > 0 ? ` (not: ${off.map(([name]) => name).join(", ")})` : ""}`],
    ["addon", addon.loaded ? "loaded" : `not loaded: ${addon.why}`],
  ];
}
