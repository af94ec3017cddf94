/** Copies and cache hints whose addresses stand in device memory: what stands there when the task runs counts, so a queued task can be given new ones. */
import { CopyDescriptor } from "../../../asm/abi/task";
import { Direction } from "../../../asm/abi/device";
import { invalidParam } from "../../errors/make";
import { TaskOp } from "../../host/layout";
import { resolve, resolveOn } from "../addresses";
import { handle, integer, list, dict, pointer } from "../args";
import { barrierPlaces, noteBarrier } from "../barriers";
import { current } from "../contexts";
import { checkCount, Kind } from "../copies";
import { type AclStream, checkLaunch, ownStream, submitTask } from "../streams";
import { call } from "../table";

const DESCRIBED = TaskOp.COPY_DESCRIBED | (Direction.DEVICE_TO_DEVICE << 8);
const POINTED = TaskOp.COPY_POINTED | (Direction.DEVICE_TO_DEVICE << 8);
const POINTER_BYTES = 8;
const MOST_BYTES = 2 ** 32 - 1;
/** aclrtCmoType. */
enum Hint {
  PREFETCH,
  WRITEBACK,
  INVALID,
  FLUSH,
}
const BARRIERS = 6;

function checkInner(kind: number, what: string): void {
  if (kind !== Kind.DEVICE_TO_DEVICE && kind !== Kind.DEFAULT) {
    throw invalidParam(`${what}: kind is ${kind}; addresses in device memory are for copies within a device: pass 3, or 4`);
  }
}

function descriptorAt(stream: AclStream, address: number, what: string): number {
  const offset = resolveOn(stream.device, address, CopyDescriptor.SIZE, `${what}: desc`);
  if (offset % POINTER_BYTES !== 0) {
    throw invalidParam(`${what}: desc is not a multiple of 8; align it`);
  }
  return offset;
}

function checkHint(type: number, what: string): Hint {
  if (Hint[type] === undefined) {
    throw invalidParam(`${what}: cmoType is ${type}; pass 0 (prefetch), 1 (write back), 2 (invalidate) or 3 (flush)`);
  }
  return type;
}

/** Prefetch reads the range; memory is coherent with every cache, so the other hints find their work done and only keep their place in the stream. */
function hint(source: number, sizeBytes: number, type: number, streamHandle: number, what: string): { stream: AclStream; sequence: number } {
  const stream = ownStream(streamHandle, what);
  checkLaunch(stream, what);
  const kind = checkHint(type, what);
  if (sizeBytes <= 0 || sizeBytes > MOST_BYTES) {
    throw invalidParam(`${what}: size is ${sizeBytes}; pass 1 to ${MOST_BYTES}`);
  }
  const offset = resolveOn(stream.device, source, sizeBytes, `${what}: src`);
  const sequence = kind === Hint.PREFETCH ? submitTask(stream, what, TaskOp.TOUCH, offset, sizeBytes) : submitTask(stream, what, TaskOp.NOP);
  return { stream, sequence };
}

export interface BarrierInfo {
  readonly cmoType?: number;
  readonly barrierId?: number;
}

export const indirectCalls = {
  get_memcpy_desc_size: call({
    c: "aclrtGetMemcpyDescSize",
    args: [integer("kind")],
    returns: "[value, ret]",
    doc: "Bytes of device memory that a descriptor takes.",
    none: 0,
    run(kind): number {
      checkInner(kind, "get_memcpy_desc_size");
      return CopyDescriptor.SIZE;
    },
  }),
  set_memcpy_desc: call({
    c: "aclrtSetMemcpyDesc",
    args: [integer("desc"), integer("kind"), integer("srcAddr"), integer("dstAddr"), integer("count"), integer("config")],
    returns: "ret",
    doc: "Writes a descriptor now: source, target and bytes of a copy within the device. Target 0: only a cache hint for the source. config is reserved (0).",
    run(desc, kind, source, target, count, config): void {
      const what = "set_memcpy_desc";
      checkInner(kind, what);
      current(what);
      if (config !== 0 || count < 0 || count > MOST_BYTES) {
        throw invalidParam(`${what}: config is ${config} and count ${count}; pass 0, and 0 to ${MOST_BYTES} bytes`);
      }
      const { bytes } = resolve(desc, CopyDescriptor.SIZE, `${what}: desc`);
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      view.setBigUint64(CopyDescriptor.TARGET, BigInt(target), true);
      view.setBigUint64(CopyDescriptor.SOURCE, BigInt(source), true);
      view.setBigUint64(CopyDescriptor.BYTES, BigInt(count), true);
    },
  }),
  memcpy_async_with_desc: call({
    c: "aclrtMemcpyAsyncWithDesc",
    args: [integer("desc"), integer("kind"), handle("stream")],
    returns: "ret",
    doc: "The copy that the descriptor describes when the task runs. An address that is not the device's is a fault of the task (507042).",
    run(desc, kind, streamHandle): void {
      const what = "memcpy_async_with_desc";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      checkInner(kind, what);
      submitTask(stream, what, DESCRIBED, descriptorAt(stream, desc, what));
    },
  }),
  memcpy_async_with_offset: call({
    c: "aclrtMemcpyAsyncWithOffset",
    args: [
      integer("dst"),
      integer("destMax"),
      integer("dstDataOffset"),
      integer("src"),
      integer("count"),
      integer("srcDataOffset"),
      integer("kind"),
      handle("stream"),
    ],
    returns: "ret",
    doc: "dst and src are addresses in device memory of the addresses: read when the task runs, and moved on by the offsets.",
    run(dst, most, dstOffset, src, count, srcOffset, kind, streamHandle): void {
      const what = "memcpy_async_with_offset";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      checkInner(kind, what);
      checkCount(count, Math.min(most, MOST_BYTES), what);
      if (dstOffset < 0 || srcOffset < 0 || dstOffset > MOST_BYTES || srcOffset > MOST_BYTES) {
        throw invalidParam(`${what}: offsets are ${dstOffset} and ${srcOffset}; pass 0 to ${MOST_BYTES}`);
      }
      const to = resolveOn(stream.device, dst, POINTER_BYTES, `${what}: dst`);
      const from = resolveOn(stream.device, src, POINTER_BYTES, `${what}: src`);
      submitTask(stream, what, POINTED, to, dstOffset, from, srcOffset, count);
    },
  }),
  cmo_async: call({
    c: "aclrtCmoAsync",
    args: [integer("src"), integer("size"), integer("cmoType"), handle("stream")],
    returns: "ret",
    doc: "Cache hint in stream order: prefetch (0) reads the range; write back (1), invalidate (2) and flush (3) check it, as memory is coherent.",
    run(source, size, type, stream): void {
      hint(source, size, type, stream, "cmo_async");
    },
  }),
  cmo_async_with_barrier: call({
    c: "aclrtCmoAsyncWithBarrier",
    args: [integer("src"), integer("size"), integer("cmoType"), integer("barrierId"), handle("stream")],
    returns: "ret",
    doc: "The same, with a number that cmo_wait_barrier waits for.",
    run(source, size, type, barrier, streamHandle): void {
      const what = "cmo_async_with_barrier";
      if (barrier < 0 || barrier > MOST_BYTES) {
        throw invalidParam(`${what}: barrierId is ${barrier}; pass 0 to ${MOST_BYTES}`);
      }
      const { stream, sequence } = hint(source, size, type, streamHandle, what);
      noteBarrier(stream, barrier, type, sequence);
    },
  }),
  cmo_wait_barrier: call({
    c: "aclrtCmoWaitBarrier",
    args: [list("barrierInfo", (name) => dict<BarrierInfo>(name)), handle("stream")],
    returns: "ret",
    doc: "The stream waits until the hints {cmoType, barrierId} that this thread queued have been carried out, in whatever stream; at most 6.",
    run(infos, streamHandle): void {
      const what = "cmo_wait_barrier";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      if (infos.length === 0 || infos.length > BARRIERS) {
        throw invalidParam(`${what}: ${infos.length} barriers; pass 1 to ${BARRIERS}`);
      }
      const places = infos.flatMap(({ cmoType = -1, barrierId = -1 }) => barrierPlaces(stream, barrierId, checkHint(cmoType, what), what));
      for (const { stream: other, sequence } of places) {
        submitTask(stream, what, TaskOp.WAIT, other, sequence, Math.floor(sequence / 2 ** 32));
      }
    },
  }),
  cmo_async_with_desc: call({
    c: "aclrtCmoAsyncWithDesc",
    args: [pointer("desc"), integer("descSize"), integer("cmoType"), handle("stream")],
    returns: "ret",
    doc: "A prefetch (0) of what a descriptor of set_memcpy_desc with target 0 describes when the task runs; other hints keep their place in the stream.",
    run(desc, size, type, streamHandle): void {
      const what = "cmo_async_with_desc";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      const kind = checkHint(type, what);
      if (size !== CopyDescriptor.SIZE || typeof desc !== "number") {
        throw invalidParam(`${what}: descSize is ${size}; pass device memory of the size that get_memcpy_desc_size tells`);
      }
      const at = descriptorAt(stream, desc, what);
      if (stream.device.machine.words[(at + CopyDescriptor.TARGET) >>> 2] !== 0) {
        throw invalidParam(`${what}: the descriptor has a target, which makes it a copy; set it with dstAddr 0`);
      }
      submitTask(stream, what, kind === Hint.PREFETCH ? DESCRIBED : TaskOp.NOP, at);
    },
  }),
};
