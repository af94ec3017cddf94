/**
 * A stream moves on: its owner runs tasks from the head, opens regions, retires. Ownership is a CAS on OWNER; while tiles of a region are out,
 * it stays with the run, and the completer of the region goes on as owner.
 */
import { Code } from "../abi/errors";
import { Context, Core, FailureMode, Phase, TraceKind, Work } from "../abi/device";
import { Frame, Stream, StreamState } from "../abi/stream";
import { HOST_WAKE_COST_NS, Program, Region, WAKE_COST_NS } from "../abi/program";
import { RUN_UNBOUNDED, Task, TaskOp } from "../abi/task";
import { nextRegion } from "../kernels/control";
import { attachArena, releaseArena } from "../mem/frame";
import { advanceFence } from "../sync/fence";
import { giveLane, takeLane } from "../sync/lane";
import { bell } from "../sync/park";
import { setReady } from "../sync/ready";
import { contextOf, failRun } from "./fault";
import { clock, coreId, isHost, me, traceRing } from "./local";
import { runTask } from "./tasks";
import { endTile, enterKernel, leaveKernel, publishTiles, runTile } from "./tiles";
import { closeRegion, followHost, spendTask, stampDone } from "./time";
import { trace } from "./trace";
import { BLOCKED, tryWait } from "./wait";

const KILLED: i32 = -1;
/** A tile was run, and others of its region are still out: whoever finishes the last one goes on. */
const OUT: i32 = -2;
/** Programs lie above this; a frame names one that lies beside it by the distance. */
const NEARBY: u32 = 0x10000;

// @ts-ignore: decorator
@inline
export function slotOf(sc: usize, sequence: u64): usize {
  return <usize>load<u32>(sc, Stream.RING) + (<usize>(<u32>sequence & load<u32>(sc, Stream.MASK)) << 6);
}

/** True if a core that takes OWNER now could do something. */
export function hasHead(sc: usize): bool {
  if (atomic.load<u32>(sc, Stream.OWNER) || atomic.load<u32>(sc, Stream.WAITING)) return false;
  if (load<u32>(sc, Stream.PROGRAM)) return true; // a run that gave way to the budget
  const ring = load<u32>(sc, Stream.RING);
  if (!ring || atomic.load<u32>(sc, Stream.STATE) == StreamState.STOPPED) return false;
  const sequence = atomic.load<u64>(sc, Stream.FENCE) + 1;
  // acquire: pairs with the publish in `submit`
  return atomic.load<u32>(slotOf(sc, sequence), Task.READY) == <u32>sequence;
}

/** Claims the head if nobody has it. Returns the work done, -1 if killed. */
export function tryHead(stream: u32, sc: usize, budget: i32): i32 {
  if (!hasHead(sc) || atomic.cmpxchg<u32>(sc, 0, coreId + 1, Stream.OWNER) != 0) return 0;
  return advance(stream, sc, budget);
}

/** Gives the stream up and looks once more: a record published before OWNER fell was skipped by those who saw it taken. */
function giveUp(stream: u32, sc: usize): void {
  giveLane(sc);
  atomic.store<u32>(sc, 0, Stream.OWNER);
  if (hasHead(sc)) {
    setReady(stream, load<u32>(sc, Stream.PRIORITY));
    bell(1);
  }
}

/** Marks the task `sequence` as done with `status` (0 or a code; `fault` = number + 1 of its record) and moves the fence. */
export function retire(sc: usize, sequence: u64, status: u32, fault: u32): void {
  const record = slotOf(sc, sequence);
  store<u32>(record, status, Task.STATUS);
  stampDone(sc, record);
  if (status) {
    // CONTINUE: a later failure overwrites an earlier one. The fault number goes first: whoever reads ERROR may read it.
    store<u32>(sc, fault, Stream.ERROR_FAULT);
    store<u32>(sc, load<u32>(sc, Stream.FAILURES) + 1, Stream.FAILURES);
    atomic.store<u32>(sc, status, Stream.ERROR);
    const context = contextOf(sc);
    // An abort was asked for: what it ends is no failure that stops the context.
    const failed = atomic.load<u32>(sc, Stream.STATE) != StreamState.ABORTING;
    if (failed && load<u32>(context, Context.MODE) == FailureMode.STOP && atomic.cmpxchg<u32>(context, 0, status, Context.ERROR) == 0) {
      store<u32>(context, fault, Context.FAULT);
    }
  }
  store<u32>(sc, load<u32>(record, Task.ARGUMENT_END), Stream.ARGUMENT_HEAD);
  if (me) store<u32>(me, load<u32>(me, Core.TASKS) + 1, Core.TASKS); // a host that reaps for a killed core has no record
  advanceFence(sc, sequence);
}

/** Code with which the tasks of this stream retire without running: the latch of STOP mode, or an abort. */
// @ts-ignore: decorator
@inline
function refusal(sc: usize): u32 {
  const latched = atomic.load<u32>(contextOf(sc), Context.ERROR);
  if (latched) return latched;
  return atomic.load<u32>(sc, Stream.STATE) == StreamState.ABORTING ? Code.STREAM_ABORT : 0;
}

/**
 * Goes on with a stream that the caller owns, for about `budget` tasks and tiles. When it returns, the stream is given up, or its open region has it.
 * Returns the work done, -1 if this core was killed.
 */
export function advance(stream: u32, sc: usize, budget: i32): i32 {
  let did = 0;
  for (;;) {
    const running = load<u32>(sc, Stream.PROGRAM) != 0;
    if (running) {
      const more = stepRun(stream, sc, budget - did);
      if (more == KILLED) return KILLED;
      if (more == 0) return did; // the run gave way
      did++;
      if (more == OUT) return did;
      continue;
    }
    const sequence = load<u64>(sc, Stream.FENCE) + 1; // only the owner moves the fence
    const record = slotOf(sc, sequence);
    if (did >= budget || atomic.load<u32>(record, Task.READY) != <u32>sequence || atomic.load<u32>(sc, Stream.STATE) == StreamState.STOPPED) break;
    let refused = refusal(sc);
    const op = <u32>load<u8>(record, Task.OP);
    // Once: a stream at a run in flight, or at a wait, has been here before and its time does not fall.
    followHost(sc, record);
    if (!refused && (op == TaskOp.WAIT || op == TaskOp.WAIT_VALUE)) {
      refused = tryWait(op, stream, sc, record);
      if (refused == BLOCKED) break;
    }
    if (refused) {
      retire(sc, sequence, refused, load<u32>(contextOf(sc), Context.FAULT));
      did++;
      continue;
    }
    const unbounded = op == TaskOp.RUN && (load<u8>(record, Task.FLAGS) & RUN_UNBOUNDED) != 0;
    if (unbounded && isHost()) break;
    if (!takeLane(stream, sc)) break;
    const start = traceRing ? clock() : 0;
    if (op == TaskOp.RUN) {
      if (!beginRun(stream, sc, <usize>load<u32>(record, Task.P0))) break;
      store<u32>(sc, unbounded ? 1 : 0, Stream.UNBOUNDED);
      if (traceRing) store<f64>(sc, start, Stream.STARTED);
      continue;
    } else if (op != TaskOp.NOP && op != TaskOp.WAIT && op != TaskOp.WAIT_VALUE) {
      enterKernel(stream, sc, 0, 0, Work.TASK);
      runTask(op, sc, record);
      if (!leaveKernel()) return KILLED;
    }
    spendTask(sc, op, record);
    if (traceRing) trace(TraceKind.TASK, stream, op, sequence, 0, 0, 0, start);
    retire(sc, sequence, 0, 0);
    did++;
  }
  giveUp(stream, sc);
  return did;
}

/** Makes the run of `frame` the stream's run in flight. False: no arena is free; the stream sits in the pool's list. */
function beginRun(stream: u32, sc: usize, frame: usize): bool {
  if (!attachArena(frame, stream, sc)) return false;
  store<u32>(frame, 0, Frame.STATUS);
  store<u32>(frame, 0, Frame.FAULT);
  store<u32>(frame, 0, Frame.DEPTH);
  store<u32>(sc, 0, Stream.RUN_FAULT_NUMBER);
  atomic.store<u32>(sc, 0, Stream.RUN_FAULT);
  store<u32>(sc, 0, Stream.REGION);
  store<u32>(sc, <u32>frame, Stream.FRAME);
  const program = load<u32>(frame, Frame.PROGRAM);
  store<u32>(sc, program < NEARBY ? <u32>frame + program : program, Stream.PROGRAM);
  return true;
}

/** One step of the run in flight: a control region, a region, or its end. Returns 1 for the work done; 0: the run gave way; OUT or KILLED. */
function stepRun(stream: u32, sc: usize, budget: i32): i32 {
  const program = <usize>load<u32>(sc, Stream.PROGRAM);
  const frame = <usize>load<u32>(sc, Stream.FRAME);
  const index = load<u32>(sc, Stream.REGION);
  const failed = atomic.load<u32>(sc, Stream.RUN_FAULT) | atomic.load<u32>(frame, Frame.CANCEL) | refusal(sc);
  if (failed || index >= load<u32>(program, Program.REGION_COUNT)) {
    finishRun(stream, sc, frame, program);
    return 1;
  }
  if (budget <= 0 || (isHost() && load<u32>(sc, Stream.UNBOUNDED))) {
    giveUp(stream, sc);
    return 0;
  }
  const region = program + load<u32>(program, Program.REGIONS) + <usize>index * Region.SIZE;
  const tiles = load<u32>(region, Region.TILES);
  if (tiles == 0) {
    const next = nextRegion(program, frame, index);
    if (next == u32.MAX_VALUE) failRun(sc, Code.AICORE_EXCEPTION, 0);
    else store<u32>(sc, next, Stream.REGION);
    return 1;
  }
  atomic.store<u32>(sc, tiles, Stream.PENDING);
  if (tiles == 1) {
    // Never published, so the tile is ours: no ticket, no ready bit, no contention. `recover` and `reap` finish it like any other.
    if (!runTile(stream, sc, region, 0)) return KILLED;
    atomic.store<u32>(sc, 0, Stream.PENDING);
    closeRegion(sc);
    store<u32>(sc, index + 1, Stream.REGION);
    return 1;
  }
  const first = publishTiles(sc, tiles);
  setReady(stream, load<u32>(sc, Stream.PRIORITY));
  // A program that a host runs is short: it is over before a core that sleeps could be of much help.
  if (load<u32>(region, Region.COST_NS) > (isHost() ? HOST_WAKE_COST_NS : WAKE_COST_NS)) bell(<i32>tiles - 1);
  if (!runTile(stream, sc, region, first)) return KILLED;
  return endTile(sc) ? 1 : OUT;
}

function finishRun(stream: u32, sc: usize, frame: usize, program: usize): void {
  const sequence = load<u64>(sc, Stream.FENCE) + 1;
  const fault = load<u32>(sc, Stream.RUN_FAULT_NUMBER);
  const failure = atomic.load<u32>(sc, Stream.RUN_FAULT) || refusal(sc);
  // A cancelled run is the caller's wish: it does not count as a failure of the stream.
  const status = failure || atomic.load<u32>(frame, Frame.CANCEL);
  store<u32>(frame, status, Frame.STATUS);
  store<u32>(frame, fault, Frame.FAULT);
  store<u32>(sc, 0, Stream.PROGRAM);
  releaseArena(frame);
  if (traceRing) trace(TraceKind.RUN, stream, TaskOp.RUN, sequence, 0, 0, program, load<f64>(sc, Stream.STARTED));
  retire(sc, sequence, failure, fault); // from here on the frame belongs to the host
}
