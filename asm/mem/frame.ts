/** Arenas: a run takes one when it starts and gives it back when it retires, so memory in use is bounded by what runs, not by what is queued. */
import { ArenaPool, Binding, Frame } from "../abi/stream";
import { joinList, wakeList } from "../sync/fence";

/** False: none is free; the stream then sits in the pool's list of waiters. */
export function attachArena(frame: usize, stream: u32, sc: usize): bool {
  const pool = <usize>load<u32>(frame, Frame.ARENAS);
  if (!pool) return true;
  if (takeArena(pool, frame)) return true;
  joinList(pool + ArenaPool.WAITERS, stream, sc);
  if (atomic.load<u64>(pool, ArenaPool.FREE)) wakeList(pool + ArenaPool.WAITERS);
  return false;
}

function takeArena(pool: usize, frame: usize): bool {
  let free = atomic.load<u64>(pool, ArenaPool.FREE);
  while (free) {
    const slot = <u32>ctz<u64>(free);
    // acquire: pairs with the release in `releaseArena`, so the last run's bytes are behind us
    const seen = atomic.cmpxchg<u64>(pool, free, free & (free - 1), ArenaPool.FREE);
    if (seen == free) {
      store<u32>(frame, slot + 1, Frame.SLOT);
      store<u32>(frame + Frame.BASES, load<u32>(pool, ArenaPool.BASE) + slot * load<u32>(pool, ArenaPool.STRIDE), Binding.ARENA << 2);
      return true;
    }
    free = seen;
  }
  return false;
}

export function releaseArena(frame: usize): void {
  const pool = <usize>load<u32>(frame, Frame.ARENAS);
  const slot = load<u32>(frame, Frame.SLOT);
  if (!pool || !slot) return;
  store<u32>(frame, 0, Frame.SLOT);
  atomic.or<u64>(pool, (<u64>1) << (slot - 1), ArenaPool.FREE);
  if (atomic.load<u32>(pool, ArenaPool.WAITERS)) wakeList(pool + ArenaPool.WAITERS);
}
