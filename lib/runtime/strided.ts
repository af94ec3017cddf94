/** COPY_STRIDED: two tensor records in device memory describe the ends. */
import { Tensor } from "../../asm/abi/program";
import { invalidParam, kindOf } from "../errors/make";
import { DTYPES } from "../graph/dtype";
import { TaskOp } from "../host/layout";
import { isObject } from "./internals";
import { dtypeEntry } from "./tensor";
import type { StridedView } from "./stream";
import type { StreamCore } from "./stream-core";

const MAX_RANK = 12;
const DIMS_PER_RECORD = 6;
/** A record and its continuation for ranks above six. */
const VIEW_BYTES = 2 * Tensor.SIZE;

interface Extent {
  readonly low: number;
  readonly high: number;
}

function rowMajorBytes(dims: readonly number[], elementBytes: number): number[] {
  const strides = new Array<number>(dims.length);
  let step = elementBytes;
  for (let axis = dims.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= dims[axis]!;
  }
  return strides;
}

/** Lowest and one past the highest byte that the view touches, relative to its first element. */
function extentOf(dims: readonly number[], strides: readonly number[], elementBytes: number): Extent {
  let low = 0;
  let high = elementBytes;
  for (const [axis, dim] of dims.entries()) {
    const reach = (dim - 1) * strides[axis]!;
    low += Math.min(0, reach);
    high += Math.max(0, reach);
  }
  return { low, high };
}

interface Checked {
  readonly first: number;
  readonly strides: readonly number[];
  readonly dtype: StridedView["dtype"];
  readonly dims: readonly number[];
  readonly bytes: number;
}

function check(core: StreamCore, view: StridedView, what: string): Checked {
  if (!isObject(view)) {
    throw invalidParam(`${what} is ${kindOf(view)}; pass { address, dtype, dims }`);
  }
  const { dims, dtype, offsetBytes = 0 } = view;
  const entry = dtypeEntry(dtype);
  if (entry === undefined || entry.bytes === 0) {
    throw invalidParam(`${what}: dtype ${kindOf(dtype)} is not held on a device`);
  }
  if (!Array.isArray(dims) || dims.length > MAX_RANK || !dims.every((dim) => Number.isInteger(dim) && dim >= 0)) {
    throw invalidParam(`${what}: dims must be at most ${MAX_RANK} whole numbers`);
  }
  const strides = view.strides ?? rowMajorBytes(dims, entry.bytes);
  if (!Array.isArray(strides) || strides.length !== dims.length || !strides.every(Number.isInteger) || !Number.isInteger(offsetBytes)) {
    throw invalidParam(`${what}: strides must be ${dims.length} whole numbers of bytes, and offsetBytes one`);
  }
  const { low, high } = dims.includes(0) ? { low: 0, high: 0 } : extentOf(dims, strides, entry.bytes);
  if (offsetBytes + low < 0) {
    throw invalidParam(`${what} starts ${-(offsetBytes + low)} bytes before its address; raise offsetBytes`);
  }
  const base = core.localOffset(view.address, offsetBytes + high, what);
  return { first: base + offsetBytes, strides, dtype, dims, bytes: high - low };
}

function write(words: Uint32Array, bytes: Uint8Array, at: number, view: Checked): void {
  words.fill(0, at >> 2, (at + VIEW_BYTES) >> 2);
  bytes[at + Tensor.DTYPE] = DTYPES[view.dtype].code;
  bytes[at + Tensor.RANK] = view.dims.length;
  words[(at + Tensor.OFFSET) >> 2] = view.first;
  words[(at + Tensor.BYTES) >> 2] = view.bytes;
  for (const [axis, dim] of view.dims.entries()) {
    const record = at + Math.floor(axis / DIMS_PER_RECORD) * Tensor.SIZE;
    const slot = (axis % DIMS_PER_RECORD) * 4;
    words[(record + Tensor.DIMS + slot) >> 2] = dim;
    words[(record + Tensor.STRIDES + slot) >> 2] = view.strides[axis]!;
  }
}

/** Queues the copy. The records are staged: they go back to the pool when the task has retired. */
export function submitStrided(core: StreamCore, target: StridedView, source: StridedView): void {
  core.open();
  const to = check(core, target, "stream.copy: target");
  const from = check(core, source, "stream.copy: source");
  if (to.dims.length !== from.dims.length || to.dims.some((dim, axis) => dim !== from.dims[axis])) {
    throw invalidParam(`stream.copy: target dims [${to.dims.join(", ")}] and source dims [${from.dims.join(", ")}] differ; use stride 0 to repeat`);
  }
  if (to.dims.includes(0)) {
    return;
  }
  const { machine, device } = core;
  const records = device.staging.take(2 * VIEW_BYTES);
  write(machine.words, machine.bytes, records, to);
  write(machine.words, machine.bytes, records + VIEW_BYTES, from);
  const sequence = machine.submit(core.index, TaskOp.COPY_STRIDED, records, records + VIEW_BYTES);
  device.staging.give(records, core.index, sequence);
}
