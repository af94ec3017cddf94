/** What the copy engine does to elements on their way: folding into the target, converting their dtype, changing their layout. */
import { Fold } from "../../../asm/abi/task";
import { invalidParam } from "../../errors/make";
import { DTYPES } from "../../graph/dtype";
import { TaskOp } from "../../host/layout";
import { deviceAddress } from "../../runtime/address";
import { convertFormat, type Format, storageBytes } from "../../runtime/format";
import { submitStrided } from "../../runtime/strided";
import { resolveOn } from "../addresses";
import { handle, integer, list, optional } from "../args";
import { Shared } from "../devices";
import { dtypeOf } from "../dtypes";
import { type AclStream, checkLaunch, ownStream, submitTask } from "../streams";
import { call } from "../table";

/** aclrtReduceKind. */
const FOLDS: ReadonlyMap<number, Fold> = new Map([
  [10, Fold.SUM],
  [11, Fold.MAX],
  [12, Fold.MIN],
]);
/** aclFormat. */
const FORMATS: ReadonlyMap<number, Format> = new Map([
  [0, "ND"],
  [2, "ND"],
  [3, "NC1HWC0"],
  [29, "FRACTAL_NZ"],
]);

function formatOf(number: number, what: string): Format {
  const format = FORMATS.get(number);
  if (format === undefined) {
    throw invalidParam(`${what}: format ${number} is not converted; pass 0 (NCHW), 2 (ND), 3 (NC1HWC0) or 29 (FRACTAL_NZ)`);
  }
  return format;
}

/** Address, as the streams' core takes it, of `sizeBytes` that the calls' checks let through. */
function checked(stream: AclStream, pointer: number, sizeBytes: number, what: string): number {
  return deviceAddress(stream.device.index, resolveOn(stream.device, pointer, sizeBytes, what));
}

export const formatCalls = {
  reduce_async: call({
    c: "aclrtReduceAsync",
    args: [integer("dst"), integer("src"), integer("count"), integer("kind"), integer("dtype"), handle("stream"), optional(integer("reserve"))],
    returns: "ret",
    doc: "Folds `count` bytes of src into dst in stream order: sum 10, max 11, min 12. Sums of integers wrap; NaN wins over max and min.",
    run(dst, src, count, kind, dtype, streamHandle, _reserve): void {
      const what = "reduce_async";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      const fold = FOLDS.get(kind);
      const { bytes, code } = DTYPES[dtypeOf(dtype, what)];
      if (fold === undefined || count <= 0 || count % bytes !== 0) {
        throw invalidParam(`${what}: kind is ${kind} and count ${count}; pass 10 (sum), 11 (max) or 12 (min), and a multiple of ${bytes} bytes`);
      }
      const target = resolveOn(stream.device, dst, count, `${what}: dst`);
      const source = resolveOn(stream.device, src, count, `${what}: src`);
      submitTask(stream, what, TaskOp.REDUCE, target, source, count / bytes, code, fold);
    },
  }),
  memcpy_convert_async: call({
    c: "npurt memcpy_convert_async",
    args: [integer("dst"), integer("dstDtype"), integer("src"), integer("srcDtype"), integer("elements"), handle("stream")],
    returns: "ret",
    doc: "Copies elements and converts their dtype on the way, in stream order: one task, and no bytes in between. Floats saturate into integers.",
    run(dst, dstDtype, src, srcDtype, elements, streamHandle): void {
      const what = "memcpy_convert_async";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      if (elements <= 0) {
        throw invalidParam(`${what}: elements is ${elements}; pass at least 1`);
      }
      const [to, from] = [dtypeOf(dstDtype, what), dtypeOf(srcDtype, what)];
      const target = checked(stream, dst, elements * DTYPES[to].bytes, `${what}: dst`);
      const source = checked(stream, src, elements * DTYPES[from].bytes, `${what}: src`);
      submitStrided(stream.core, { address: target, dtype: to, dims: [elements] }, { address: source, dtype: from, dims: [elements] });
      Atomics.add(stream.device.shared, Shared.CONVERTED_BYTES, elements * DTYPES[from].bytes);
    },
  }),
  npu_format_cast_size: call({
    c: "NpuFormatCastCalculateSizeAndFormat (aclnn)",
    args: [list("dims", integer), integer("dtype"), integer("format")],
    returns: "[value, ret]",
    doc: "Bytes of a tensor with these logical dims in a format.",
    none: 0,
    run(dims, dtype, format) {
      const what = "npu_format_cast_size";
      return storageBytes(dims, dtypeOf(dtype, what), formatOf(format, what));
    },
  }),
  npu_format_cast: call({
    c: "NpuFormatCast (aclnn)",
    args: [integer("dst"), integer("src"), list("dims", integer), integer("dtype"), integer("srcFormat"), integer("dstFormat"), handle("stream")],
    returns: "ret",
    doc: "Converts between ND (2, or NCHW 0), NC1HWC0 (3) and FRACTAL_NZ (29) in stream order, as strided copies; what a format has beyond the tensor is 0.",
    run(dst, src, dims, dtypeNumber, srcFormat, dstFormat, streamHandle): void {
      const what = "npu_format_cast";
      const stream = ownStream(streamHandle, what);
      checkLaunch(stream, what);
      const dtype = dtypeOf(dtypeNumber, what);
      const [from, to] = [formatOf(srcFormat, what), formatOf(dstFormat, what)];
      const target = checked(stream, dst, storageBytes(dims, dtype, to), `${what}: dst`);
      const source = checked(stream, src, storageBytes(dims, dtype, from), `${what}: src`);
      convertFormat(stream.core, target, source, { dims, dtype, from, to });
    },
  }),
};
