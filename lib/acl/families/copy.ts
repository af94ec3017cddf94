/** Copies and fills. */
import { invalidParam } from "../../errors/make";
import { TaskOp } from "../../host/layout";
import { dict, handle, integer, list, pointer, type Pointer } from "../args";
import { resolve } from "../addresses";
import { batchAsync, batchSync } from "../batches";
import { checkCount, copyAsync, copyRowsAsync, copyRowsSync, copySync } from "../copies";
import { current } from "../contexts";
import { type AclStream, checkLaunch, ownStream, submitTask, syncStream } from "../streams";
import { call } from "../table";

const COPY_ARGS = [pointer("dst"), integer("destMax"), pointer("src"), integer("count"), integer("kind")] as const;
const ROW_ARGS = [
  pointer("dst"),
  integer("dpitch"),
  pointer("src"),
  integer("spitch"),
  integer("width"),
  integer("height"),
  integer("kind"),
] as const;
const SET_ARGS = [pointer("dst"), integer("maxCount"), integer("value"), integer("count")] as const;
const BATCH_ARGS = [
  list("dsts", integer),
  list("destMaxs", integer),
  list("srcs", integer),
  list("sizes", integer),
  list("attrs", dict),
  list("attrsIndexes", integer),
] as const;

/** Sets `count` units of `unitBytes` now. */
function setNow(target: Pointer, most: number, value: number, count: number, unitBytes: 1 | 4, what: string): void {
  current(what);
  checkCount(count * unitBytes, most, what);
  const { bytes } = resolve(target, count * unitBytes, `${what}: dst`);
  if (unitBytes === 1) {
    bytes.fill(value & 0xff);
  } else {
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).fill(Buffer.from(Uint32Array.of(value >>> 0).buffer));
  }
}

function setAsync(target: Pointer, most: number, value: number, count: number, unitBytes: 1 | 4, stream: AclStream, what: string): void {
  checkLaunch(stream, what);
  checkCount(count * unitBytes, most, what);
  const spot = resolve(target, count * unitBytes, `${what}: dst`);
  if (spot.device !== stream.device) {
    syncStream(stream, Number.POSITIVE_INFINITY, what);
    setNow(target, most, value, count, unitBytes, what);
  } else if (count > 0) {
    submitTask(stream, what, TaskOp.FILL, spot.offset, count * unitBytes, unitBytes === 1 ? value & 0xff : value >>> 0, unitBytes);
  }
}

function aligned(target: Pointer, what: string): void {
  if (typeof target === "number" && target % 4 !== 0) {
    throw invalidParam(`${what}: the address is not a multiple of 4; align it`);
  }
}

export const copyCalls = {
  memcpy: call({
    c: "aclrtMemcpy",
    args: COPY_ARGS,
    returns: "ret",
    doc: "Copies now; which way is seen from the addresses.",
    blocks: true,
    run(dst, most, src, count, kind): void {
      current("memcpy");
      copySync(dst, most, src, count, kind, "memcpy");
    },
  }),
  memcpy_async: call({
    c: "aclrtMemcpyAsync",
    args: [...COPY_ARGS, handle("stream")],
    returns: "ret",
    doc: "Copies in stream order; with pageable host memory it waits for the stream and copies then.",
    run: (dst, most, src, count, kind, stream): void => copyAsync(dst, most, src, count, kind, ownStream(stream, "memcpy_async"), "memcpy_async"),
  }),
  memcpy_async_with_condition: call({
    c: "aclrtMemcpyAsyncWithCondition",
    args: [...COPY_ARGS, handle("stream")],
    returns: "ret",
    doc: "In stream order if the memory allows it, else now.",
    run(dst, most, src, count, kind, stream): void {
      const what = "memcpy_async_with_condition";
      copyAsync(dst, most, src, count, kind, ownStream(stream, what), what);
    },
  }),
  memcpy2d: call({
    c: "aclrtMemcpy2d",
    args: ROW_ARGS,
    returns: "ret",
    doc: "Copies rows between host and device now.",
    blocks: true,
    run(target, targetPitch, source, sourcePitch, width, height, kind): void {
      current("memcpy2d");
      copyRowsSync({ target, targetPitch, source, sourcePitch, width, height, kind }, "memcpy2d");
    },
  }),
  memcpy2d_async: call({
    c: "aclrtMemcpy2dAsync",
    args: [...ROW_ARGS, handle("stream")],
    returns: "ret",
    doc: "Copies rows in stream order.",
    run(target, targetPitch, source, sourcePitch, width, height, kind, stream): void {
      const what = "memcpy2d_async";
      copyRowsAsync({ target, targetPitch, source, sourcePitch, width, height, kind }, ownStream(stream, what), what);
    },
  }),
  memcpy_batch: call({
    c: "aclrtMemcpyBatch",
    args: BATCH_ARGS,
    returns: "[value, ret]",
    doc: "Many copies between host and device now; the value is the index of the entry that was wrong.",
    none: 0,
    blocks: true,
    run(targets, targetSizes, sources, sizes, attrs, attrsIndexes) {
      current("memcpy_batch");
      return batchSync({ targets, targetSizes, sources, sizes, attrs, attrsIndexes, everyWay: false }, "memcpy_batch");
    },
  }),
  memcpy_batch_async: call({
    c: "aclrtMemcpyBatchAsync",
    args: [...BATCH_ARGS, handle("stream")],
    returns: "[value, ret]",
    doc: "The same in stream order, as one task; their order among each other is open.",
    none: 0,
    run(targets, targetSizes, sources, sizes, attrs, attrsIndexes, stream) {
      const what = "memcpy_batch_async";
      return batchAsync({ targets, targetSizes, sources, sizes, attrs, attrsIndexes, everyWay: false }, ownStream(stream, what), what);
    },
  }),
  memcpy_batch_v2: call({
    c: "aclrtMemcpyBatchV2",
    args: BATCH_ARGS,
    returns: "[value, ret]",
    doc: "As memcpy_batch, and from device to device too.",
    none: 0,
    blocks: true,
    run(targets, targetSizes, sources, sizes, attrs, attrsIndexes) {
      current("memcpy_batch_v2");
      return batchSync({ targets, targetSizes, sources, sizes, attrs, attrsIndexes, everyWay: true }, "memcpy_batch_v2");
    },
  }),
  memcpy_batch_async_v2: call({
    c: "aclrtMemcpyBatchAsyncV2",
    args: [...BATCH_ARGS, handle("stream")],
    returns: "[value, ret]",
    doc: "As memcpy_batch_async, and from device to device too.",
    none: 0,
    run(targets, targetSizes, sources, sizes, attrs, attrsIndexes, stream) {
      const what = "memcpy_batch_async_v2";
      return batchAsync({ targets, targetSizes, sources, sizes, attrs, attrsIndexes, everyWay: true }, ownStream(stream, what), what);
    },
  }),
  memset: call({
    c: "aclrtMemset",
    args: SET_ARGS,
    returns: "ret",
    doc: "Sets bytes now.",
    blocks: true,
    run: (dst, most, value, count): void => setNow(dst, most, value, count, 1, "memset"),
  }),
  memset_async: call({
    c: "aclrtMemsetAsync",
    args: [...SET_ARGS, handle("stream")],
    returns: "ret",
    doc: "Sets bytes in stream order.",
    run: (dst, most, value, count, stream): void => setAsync(dst, most, value, count, 1, ownStream(stream, "memset_async"), "memset_async"),
  }),
  memset_d32: call({
    c: "aclrtMemsetD32",
    args: SET_ARGS,
    returns: "ret",
    doc: "Sets 32-bit words now; maxCount counts bytes.",
    blocks: true,
    run(dst, most, value, count): void {
      aligned(dst, "memset_d32");
      setNow(dst, most, value, count, 4, "memset_d32");
    },
  }),
  memset_d32_async: call({
    c: "aclrtMemsetD32Async",
    args: [...SET_ARGS, handle("stream")],
    returns: "ret",
    doc: "Sets 32-bit words in stream order.",
    run(dst, most, value, count, stream): void {
      aligned(dst, "memset_d32_async");
      setAsync(dst, most, value, count, 4, ownStream(stream, "memset_d32_async"), "memset_d32_async");
    },
  }),
};
