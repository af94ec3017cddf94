/** The trace ring: a record per tile, task and run while Header.TRACE is set. Readers take records whose READY matches their slot number. */
import { Header, Layout, Trace, TraceKind } from "../abi/device";
import { clock, coreId, traceRing } from "./local";

/** `start` is the clock when the work began; the end is now. */
export function trace(kind: TraceKind, stream: u32, op: u32, sequence: u64, node: u32, tile: u32, program: usize, start: f64): void {
  const number = atomic.add<u32>(Layout.HEADER + Header.TRACE_NEXT, 1);
  const slot = traceRing + <usize>(number & load<u32>(Layout.HEADER, Header.TRACE_MASK)) * Trace.SIZE;
  atomic.store<u32>(slot, 0, Trace.READY);
  store<u32>(slot, kind, Trace.KIND);
  store<u32>(slot, coreId, Trace.CORE);
  store<u32>(slot, stream, Trace.STREAM);
  store<u32>(slot, op, Trace.OP);
  store<u64>(slot, sequence, Trace.SEQUENCE);
  store<u32>(slot, node, Trace.NODE);
  store<u32>(slot, tile, Trace.TILE);
  store<f64>(slot, start, Trace.START);
  store<f64>(slot, clock(), Trace.END);
  store<u32>(slot, <u32>program, Trace.PROGRAM);
  // release: the record is whole; pairs with the load in lib/diag/trace.ts
  atomic.store<u32>(slot, number + 1, Trace.READY);
}
