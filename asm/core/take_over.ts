/** Locks of host threads that died: taken over, and what they guarded put right. */
import { repairStream } from "./submit";
import { rebuildPool } from "../mem/pool";
import { inherit, unlock } from "../sync/lock";
import { Stream } from "../abi/stream";

/** See CoreExports.takeOver. 1 repaired and free, 0 the lock was no longer that thread's. */
export function takeOver(lock: u32, holder: u32, kind: u32): i32 {
  if (!inherit(<usize>lock, holder)) return 0;
  if (kind == 0) repairStream(<usize>lock - Stream.LOCK);
  else if (kind == 2) rebuildPool(); // the tables (kind 1) need nothing: an entry comes to life with its last store
  unlock(<usize>lock);
  return 1;
}
