/** Launches that may still fail: what exception callbacks tell of the function and its arguments. Known to the thread that launched. */
import type { AclDevice } from "./devices";

export interface KnownLaunch {
  /** Handle of the function. */
  readonly fn: number;
  /** Address of the arguments, or a copy of them. */
  readonly args: number | Uint8Array;
  readonly argsBytes: number;
  /** Tells the callback of the function's binary. */
  tell(info: number): void;
}

/** More than a device remembers faults for all rings of busy streams; beyond, the oldest are forgotten. */
const KEPT = 4096;
const SEQUENCES = 2 ** 40;

/** By stream and sequence, oldest first. */
const launches = new Map<AclDevice, Map<number, KnownLaunch>>();

const keyOf = (stream: number, sequence: number): number => stream * SEQUENCES + (sequence % SEQUENCES);

export function noteLaunch({ device, index }: { readonly device: AclDevice; readonly index: number }, sequence: number, launch: KnownLaunch): void {
  const known = launches.get(device) ?? new Map<number, KnownLaunch>();
  launches.set(device, known);
  known.set(keyOf(index, sequence), launch);
  if (known.size > KEPT) {
    known.delete(known.keys().next().value as number);
  }
}

export function launchAt(device: AclDevice, stream: number, sequence: number): KnownLaunch | undefined {
  return launches.get(device)?.get(keyOf(stream, sequence));
}

export function forgetLaunches(): void {
  launches.clear();
}
