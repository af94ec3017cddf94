/**
 * The virtual clock: each core has a time of its own, a stream's work starts when both are ready, and work moves the core's time on by what it costs.
 * Copies run on the engine of their direction and leave the core free; a driver steps the core whose time is lowest. On a wall clock all of this is one branch.
 */
import { Header, Layout, TIMED_LANES } from "../abi/device";
import { Stream } from "../abi/stream";
import { Region } from "../abi/program";
import { CopyDescriptor, Probe, Task, TaskOp } from "../abi/task";
import { sizeShift } from "../micro/load";
import { streamAt } from "../sync/fence";
import { clock, isVirtual, setCoreTime } from "./local";
import { slotOf } from "./streams";

const HEADER: usize = Layout.HEADER;

/** A host submits a task: it cannot start before the host's own time. DONE holds that until the task retires. */
export function stampIssued(record: usize): void {
  if (isVirtual()) store<f64>(record, clock(), Task.DONE);
}

/** A task comes to the head of its stream: the stream has waited for the host if that was slower. */
export function followHost(sc: usize, record: usize): void {
  if (isVirtual()) store<f64>(sc, max<f64>(load<f64>(sc, Stream.TIME), load<f64>(record, Task.DONE)), Stream.TIME);
}

/** The core cannot start work of this stream before the stream's own time. */
export function catchUp(sc: usize): void {
  if (isVirtual()) setCoreTime(max<f64>(clock(), load<f64>(sc, Stream.TIME)));
}

/** The stream starts to work: on a virtual clock in the lane that is free first, and not before. Returns that lane + 1. */
export function enterLane(sc: usize, lanes: u32): u32 {
  if (!isVirtual() || lanes > TIMED_LANES) return 1;
  let best: usize = 0;
  for (let lane: usize = 1; lane < <usize>lanes; lane++) {
    if (load<f64>(HEADER + (lane << 3), Header.LANE_TIMES) < load<f64>(HEADER + (best << 3), Header.LANE_TIMES)) best = lane;
  }
  store<f64>(sc, max<f64>(load<f64>(sc, Stream.TIME), load<f64>(HEADER + (best << 3), Header.LANE_TIMES)), Stream.TIME);
  return <u32>best + 1;
}

/** The stream stops working, as far as its own time has come. */
export function leaveLane(sc: usize, lane: u32): void {
  if (isVirtual()) store<f64>(HEADER + (<usize>(lane - 1) << 3), load<f64>(sc, Stream.TIME), Header.LANE_TIMES);
}

/** A tile of the open region has run: it cost its share of the region. */
export function spendTile(sc: usize, region: usize): void {
  if (!isVirtual()) return;
  setCoreTime(clock() + <f64>load<u32>(region, Region.COST_NS) / <f64>load<u32>(region, Region.TILES) / 1000);
  store<f64>(sc, max<f64>(load<f64>(sc, Stream.END), clock()), Stream.END);
}

/** All tiles of the region have ended. */
export function closeRegion(sc: usize): void {
  if (isVirtual()) store<f64>(sc, max<f64>(load<f64>(sc, Stream.TIME), load<f64>(sc, Stream.END)), Stream.TIME);
}

function bytesOf(op: u32, record: usize): f64 {
  switch (op) {
    case TaskOp.COPY:
      return <f64>load<u32>(record, Task.P2);
    case TaskOp.REDUCE:
      return <f64>(<u64>load<u32>(record, Task.P2) << sizeShift(load<u32>(record, Task.P3)));
    case TaskOp.COPY_POINTED:
      return <f64>load<u32>(record, Task.P4);
    case TaskOp.COPY_DESCRIBED:
      return <f64>load<u64>(load<u32>(record, Task.P0), CopyDescriptor.BYTES);
    case TaskOp.COPY_2D:
      return <f64>load<u32>(record, Task.P4) * <f64>load<u32>(record, Task.P5);
    case TaskOp.FILL:
      return <f64>load<u32>(record, Task.P1);
    case TaskOp.COPY_STRIDED:
      return <f64>load<u32>(load<u32>(record, Task.P0), 12); // Tensor.BYTES of the target
    default:
      return 0;
  }
}

/** A task has run: a copy took its engine's time, anything else the core's. */
export function spendTask(sc: usize, op: u32, record: usize): void {
  if (!isVirtual()) return;
  const overhead = load<f64>(HEADER, Header.TASK_COST);
  const bytes = bytesOf(op, record);
  if (bytes > 0) {
    const direction = <usize>(load<u8>(record, Task.FLAGS) & 3) << 3;
    const rate = load<f64>(HEADER + direction, Header.BANDWIDTHS);
    const start = max<f64>(load<f64>(HEADER + direction, Header.ENGINE_TIMES), load<f64>(sc, Stream.TIME));
    const end = start + overhead + (rate > 0 ? bytes / rate : 0);
    store<f64>(HEADER + direction, end, Header.ENGINE_TIMES);
    store<f64>(sc, end, Stream.TIME);
    return;
  }
  if (op == TaskOp.PROBE && load<u32>(record, Task.P0) == Probe.SPIN) {
    catchUp(sc);
    setCoreTime(clock() + overhead + <f64>load<u32>(record, Task.P1) / 1000);
    store<f64>(sc, clock(), Stream.TIME);
  } else {
    // Records, values and the like are the scheduler's: they take the stream's time and no core's.
    store<f64>(sc, load<f64>(sc, Stream.TIME) + overhead, Stream.TIME);
  }
}

/** A task retires: the stream's time is its time. */
export function stampDone(sc: usize, record: usize): void {
  if (isVirtual()) store<f64>(record, load<f64>(sc, Stream.TIME), Task.DONE);
}

/**
 * A wait is over: the stream goes on no earlier than the task it waited for was done (or, if that slot is in use again, than its stream is now).
 * False: that was after the wait's time-out, so the stream goes on when that is over.
 */
export function followFence(sc: usize, record: usize): bool {
  if (!isVirtual()) return true;
  const other = streamAt(load<u32>(record, Task.P0));
  const sequence = <u64>load<u32>(record, Task.P1) | (<u64>load<u32>(record, Task.P2) << 32);
  let time = load<f64>(other, Stream.TIME);
  if (load<u32>(other, Stream.RING)) {
    const slot = slotOf(other, sequence);
    if (atomic.load<u32>(slot, Task.READY) == <u32>sequence) time = load<f64>(slot, Task.DONE);
  }
  const since = load<f64>(sc, Stream.TIME);
  const limit = <f64>load<u32>(record, Task.P3) * 1000;
  const late = limit > 0 && time > since + limit;
  store<f64>(sc, late ? since + limit : max<f64>(since, time), Stream.TIME);
  return !late;
}

/** When a wait that blocks now began: on a virtual clock the stream's own time counts. */
export function waitBegan(sc: usize): f64 {
  return max<f64>(isVirtual() ? load<f64>(sc, Stream.TIME) : clock(), 1e-3);
}

/** The wait at the head has timed out: the stream goes on when its time is over. */
export function endWait(sc: usize, timeoutMs: u32): void {
  if (isVirtual()) store<f64>(sc, max<f64>(load<f64>(sc, Stream.TIME), load<f64>(sc, Stream.WAIT_SINCE) + <f64>timeoutMs * 1000), Stream.TIME);
}

/** A word has come true, seen by this core now. */
export function followWord(sc: usize): void {
  if (isVirtual()) store<f64>(sc, max<f64>(load<f64>(sc, Stream.TIME), clock()), Stream.TIME);
}

/** What an event records: when everything before it in its stream was done. */
export function eventNow(sc: usize): f64 {
  return isVirtual() ? load<f64>(sc, Stream.TIME) : clock();
}
