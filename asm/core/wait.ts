/** Waits at the head of a stream: for a fence, or for a 64-bit word; either may time out. */
import { Code } from "../abi/errors";
import { Header, Layout } from "../abi/device";
import { Stream } from "../abi/stream";
import { Compare, Task, TaskOp } from "../abi/task";
import { joinList, reached, streamAt, wakeList } from "../sync/fence";
import { clock } from "./local";
import { endWait, followFence, followWord, waitBegan } from "./time";

/** The stream sits in a list and its owner must give it up. */
export const BLOCKED: u32 = 1;

function holds(word: u64, value: u64, compare: u32): bool {
  switch (compare) {
    case Compare.GREATER_EQUAL:
      return word >= value;
    case Compare.EQUAL:
      return word == value;
    case Compare.AND:
      return (word & value) != 0;
    case Compare.NOR:
      return ~(word | value) != 0;
    case Compare.LESS:
      return word < value;
    case Compare.GREATER:
      return word > value;
    case Compare.LESS_EQUAL:
      return word <= value;
    default:
      return word != value;
  }
}

// @ts-ignore: decorator
@inline
function operand(record: usize): u64 {
  return <u64>load<u32>(record, Task.P1) | (<u64>load<u32>(record, Task.P2) << 32);
}

/** Looks only: a second look after joining a list must not consume the word. */
function isOver(op: u32, record: usize): bool {
  if (op == TaskOp.WAIT) return reached(streamAt(load<u32>(record, Task.P0)), operand(record));
  return holds(atomic.load<u64>(<usize>load<u32>(record, Task.P0)), operand(record), load<u32>(record, Task.P4));
}

/** What came of a look at the condition. */
const HELD: u32 = 0;
const PASSED: u32 = 1;
const LATE: u32 = 2;

/** Goes through, with the word set to 0 if the task asks for it: of several waiters one does. */
function pass(op: u32, sc: usize, record: usize): u32 {
  if (op == TaskOp.WAIT) {
    if (!isOver(op, record)) return HELD;
    return followFence(sc, record) ? PASSED : LATE;
  }
  const address = <usize>load<u32>(record, Task.P0);
  let word = atomic.load<u64>(address);
  while (holds(word, operand(record), load<u32>(record, Task.P4))) {
    const seen = load<u32>(record, Task.P5) ? atomic.cmpxchg<u64>(address, word, 0) : word;
    if (seen == word) {
      followWord(sc);
      return PASSED;
    }
    word = seen;
  }
  return HELD;
}

/** 0: the stream goes on; BLOCKED; or the code with which the wait retires. The caller owns the stream. */
export function tryWait(op: u32, stream: u32, sc: usize, record: usize): u32 {
  const passed = pass(op, sc, record);
  if (passed != HELD) {
    store<f64>(sc, 0, Stream.WAIT_SINCE);
    return passed == LATE ? Code.TASK_TIMEOUT : 0;
  }
  const timeoutMs = load<u32>(record, Task.P3);
  if (timeoutMs) {
    const since = load<f64>(sc, Stream.WAIT_SINCE);
    if (since == 0) store<f64>(sc, waitBegan(sc), Stream.WAIT_SINCE);
    else if (clock() - since >= <f64>timeoutMs * 1000) {
      endWait(sc, timeoutMs);
      store<f64>(sc, 0, Stream.WAIT_SINCE);
      return Code.TASK_TIMEOUT;
    }
  }
  // A fence tells its waiters; a word does not, nor does time: those waits are polled.
  const polled = timeoutMs != 0 || op == TaskOp.WAIT_VALUE;
  const list = polled ? Layout.HEADER + Header.POLLED : streamAt(load<u32>(record, Task.P0)) + Stream.WAITERS;
  joinList(list, stream, sc);
  if (isOver(op, record)) wakeList(list);
  return BLOCKED;
}
