/** Barriers of cache hints: where the hints with a number stand, so that another stream can wait for them. */
import { invalidParam } from "../errors/make";
import type { AclDevice } from "./devices";
import type { Place } from "./events";
import { type AclStream, destroyHooks } from "./streams";

interface Hinted extends Place {
  readonly type: number;
}

/** By device and number; of each stream the latest, as tasks of a stream end in order. */
const barriers = new Map<AclDevice, Map<number, Hinted[]>>();

export function noteBarrier({ device, index }: AclStream, barrier: number, type: number, sequence: number): void {
  const known = barriers.get(device) ?? new Map<number, Hinted[]>();
  barriers.set(device, known);
  const others = (known.get(barrier) ?? []).filter((one) => one.stream !== index || one.type !== type);
  known.set(barrier, [...others, { stream: index, sequence, type }]);
}

/** @throws AclError 107000 if this thread queued no such hint */
export function barrierPlaces({ device }: AclStream, barrier: number, type: number, what: string): readonly Place[] {
  const places = (barriers.get(device)?.get(barrier) ?? []).filter((one) => one.type === type);
  if (places.length === 0) {
    throw invalidParam(`${what}: no hint of type ${type} was queued with barrier ${barrier}; call cmo_async_with_barrier first`);
  }
  return places;
}

destroyHooks.add(({ device, index }) => {
  for (const [barrier, list] of barriers.get(device) ?? []) {
    const left = list.filter(({ stream }) => stream !== index);
    if (left.length === 0) {
      barriers.get(device)?.delete(barrier);
    } else {
      barriers.get(device)?.set(barrier, left);
    }
  }
});

export function forgetBarriers(): void {
  barriers.clear();
}
