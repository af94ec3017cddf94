/**
 * Locks of host threads. The word names its owner, so that the lock of a thread that died can be taken over. Cores never take one.
 * A holder does bounded work and never waits; one that seems stuck is either descheduled or dead: the host finds out which.
 */
import { lockName } from "../core/local";

const SPINS: i32 = 2048;

/** False after about 20 us of trying: the caller looks whether the holder still lives. */
export function tryLock(lock: usize): bool {
  // acquire: pairs with the release in `unlock`
  if (atomic.cmpxchg<u32>(lock, 0, lockName) == 0) return true;
  for (let i = 0; i < SPINS; i++) {
    if (atomic.load<u32>(lock) == 0 && atomic.cmpxchg<u32>(lock, 0, lockName) == 0) return true;
  }
  return false;
}

export function unlock(lock: usize): void {
  // release: publishes what the lock guards; pairs with the CAS in `tryLock`
  atomic.store<u32>(lock, 0);
}

/** Takes the lock from a dead holder. False if it is no longer his. */
export function inherit(lock: usize, holder: u32): bool {
  return atomic.cmpxchg<u32>(lock, holder, lockName) == holder;
}
