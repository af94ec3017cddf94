/** Where sessions run: the device they are given, the one that is open, or one that the first of them opens. */
import { invalidParam, notSupported } from "../errors/make";
import { Device } from "../runtime/device";
import { openDevices } from "../runtime/device-core";
import { coreOf, make } from "../runtime/internals";
import { env } from "./env";
import type { InferenceSession } from "./ort";

const MOST_CORES = 64;

/** The device of a new session. A device that is opened here stays open: sessions come and go, and it keeps no process alive. */
export async function deviceFor(
  options: InferenceSession.SessionOptions,
  { device }: InferenceSession.NpurtExecutionProviderOption,
): Promise<Device> {
  if (device !== undefined && !(device instanceof Device)) {
    throw invalidParam(`InferenceSession.create: execution provider "npurt": device must be what Device.open returned`);
  }
  const lowest = openDevices.get(Math.min(...openDevices.keys()));
  const profiling = options.enableProfiling === true;
  if (device === undefined && lowest === undefined) {
    const asked = options.intraOpNumThreads || env.wasm.numThreads || 0;
    return Device.open({ trace: profiling, ...(asked > 0 ? { cores: Math.min(asked, MOST_CORES) } : {}) });
  }
  const chosen = device ?? make.device(lowest!);
  if (profiling && coreOf.device(chosen).options.traceRecords === 0) {
    throw notSupported(`InferenceSession.create: enableProfiling: device ${chosen.id} keeps no trace; open it with trace: true`);
  }
  return chosen;
}
