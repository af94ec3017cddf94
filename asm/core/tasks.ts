/** Tasks that are one piece of work: copies, fills, event records, values, probes. Runs in phase KERNEL, so a bad address is a fault and nothing worse. */
import { Layout } from "../abi/device";
import { Event } from "../abi/stream";
import { Probe, Task, TaskOp, Update } from "../abi/task";
import { misbehave } from "../kernels/probe";
import { runDma } from "../mem/dma";
import { eventNow } from "./time";

/** Changes the 64-bit word of a WRITE_VALUE. Streams that wait for it look again when this task retires. */
function update(record: usize): void {
  const address = <usize>load<u32>(record, Task.P0);
  const value = <u64>load<u32>(record, Task.P1) | (<u64>load<u32>(record, Task.P2) << 32);
  switch (load<u32>(record, Task.P3)) {
    case Update.ADD:
      atomic.add<u64>(address, value);
      break;
    case Update.OR:
      atomic.or<u64>(address, value);
      break;
    case Update.AND:
      atomic.and<u64>(address, value);
      break;
    default:
      atomic.store<u64>(address, value);
  }
}

export function runTask(op: u32, sc: usize, record: usize): void {
  switch (op) {
    case TaskOp.RECORD:
      store<f64>(Layout.EVENTS + <usize>load<u32>(record, Task.P0) * Event.SIZE, eventNow(sc), Event.TIME);
      break;
    case TaskOp.WRITE_VALUE:
      update(record);
      break;
    case TaskOp.PROBE:
      if (load<u32>(record, Task.P0) == Probe.MIX) {
        const word = <usize>load<u32>(record, Task.P2);
        store<u32>(word, load<u32>(word) * 31 + load<u32>(record, Task.P1));
      } else misbehave(load<u32>(record, Task.P0), load<u32>(record, Task.P1));
      break;
    default:
      runDma(record);
  }
}
