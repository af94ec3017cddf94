/** Hardware lanes: how many streams may be at work at once. A stream takes one when it starts on its head and gives it back when it stops. */
import { Header, Layout } from "../abi/device";
import { Stream } from "../abi/stream";
import { enterLane, leaveLane } from "../core/time";
import { joinList, wakeList } from "./fence";

const LANES: usize = Layout.HEADER + Header.LANES;
const FREE: usize = Layout.HEADER + Header.LANES_FREE;
const WAITERS: usize = Layout.HEADER + Header.LANE_WAITERS;

function take(): bool {
  let free = atomic.load<u32>(FREE);
  while (free) {
    const seen = atomic.cmpxchg<u32>(FREE, free, free - 1);
    if (seen == free) return true;
    free = seen;
  }
  return false;
}

/** False: none is free; the stream then sits in the list of lane waiters. */
export function takeLane(stream: u32, sc: usize): bool {
  const lanes = load<u32>(LANES);
  if (!lanes || load<u32>(sc, Stream.LANE)) return true;
  if (take()) {
    store<u32>(sc, enterLane(sc, lanes), Stream.LANE);
    return true;
  }
  joinList(WAITERS, stream, sc);
  if (atomic.load<u32>(FREE)) wakeList(WAITERS);
  return false;
}

export function giveLane(sc: usize): void {
  const lane = load<u32>(sc, Stream.LANE);
  if (!lane) return;
  leaveLane(sc, lane);
  store<u32>(sc, 0, Stream.LANE);
  atomic.add<u32>(FREE, 1);
  if (atomic.load<u32>(WAITERS)) wakeList(WAITERS);
}
