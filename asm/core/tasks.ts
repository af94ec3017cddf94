/** Tasks that are one piece of work: copies, fills, event records, values, probes. Runs in phase KERNEL, so a bad address is a fault and nothing worse. */
import { Layout } from "../abi/device";
import { Event } from "../abi/stream";
import { Probe, Task, TaskOp } from "../abi/task";
import { misbehave } from "../kernels/probe";
import { runDma } from "../mem/dma";
import { clock } from "./local";

export function runTask(op: u32, record: usize): void {
  switch (op) {
    case TaskOp.RECORD:
      store<f64>(Layout.EVENTS + <usize>load<u32>(record, Task.P0) * Event.SIZE, clock(), Event.TIME);
      break;
    case TaskOp.WRITE_VALUE:
      atomic.store<u64>(<usize>load<u32>(record, Task.P0), <u64>load<u32>(record, Task.P1) | (<u64>load<u32>(record, Task.P2) << 32));
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
