/** The tensor table of a program: one record per distinct view. Two records for more than six dims. */
import { Binding } from "../../asm/abi/stream";
import { Tensor } from "../../asm/abi/program";
import { AclError } from "../errors/acl-error";
import { DTYPES } from "../graph/dtype";
import type { BindingName, View } from "./types";
import { reachOf } from "./views";

export const RECORD_DIMS = 6;
export const RANK_LIMIT = 12;

export function bindingIndex(binding: BindingName, inputs: number): number {
  if (binding === "data") return Binding.DATA;
  if (binding === "arena") return Binding.ARENA;
  return "input" in binding ? Binding.FIRST_INPUT + binding.input : Binding.FIRST_INPUT + inputs + binding.output;
}

export class TensorTable {
  readonly #records: Uint8Array[] = [];
  readonly #index = new Map<string, number>();

  constructor(readonly inputs: number) {}

  get count(): number {
    return this.#records.length;
  }

  /** Index of the record of `view` seen through `dims` and `strides`. */
  add(view: View, dims: readonly number[] = view.dims, strides: readonly number[] = view.strides): number {
    if (dims.length > RANK_LIMIT) {
      throw new AclError(
        100000,
        `view of "${view.blob.name}" has ${dims.length} dims after merging; the device takes ${RANK_LIMIT}: reshape or copy first`,
      );
    }
    const blobOffset = view.blob.offsetBytes;
    if (blobOffset === undefined) {
      throw new AclError(100000, `blob "${view.blob.name}" has no offset: run the memory planner before encoding`);
    }
    const binding = bindingIndex(view.blob.binding, this.inputs);
    const offset = blobOffset + view.offsetBytes;
    const size = DTYPES[view.dtype].bytes;
    const { low, high } = reachOf(dims, strides, size);
    if (size === 0 || view.offsetBytes + low < 0 || view.offsetBytes + high > view.blob.sizeBytes) {
      throw new AclError(
        100000,
        `a ${view.dtype} view of "${view.blob.name}" touches bytes ${view.offsetBytes + low} to ${view.offsetBytes + high} of ${view.blob.sizeBytes}`,
      );
    }
    const key = `${binding} ${view.dtype} ${offset} ${dims.join()} ${strides.join()}`;
    const known = this.#index.get(key);
    if (known !== undefined) return known;
    const records = dims.length > RECORD_DIMS ? 2 : 1;
    const bytes = new Uint8Array(records * Tensor.SIZE);
    const out = new DataView(bytes.buffer);
    out.setUint16(Tensor.BINDING, binding, true);
    out.setUint8(Tensor.DTYPE, DTYPES[view.dtype].code);
    out.setUint8(Tensor.RANK, dims.length);
    out.setUint32(Tensor.OFFSET, offset, true);
    out.setUint32(Tensor.BYTES, high - low, true);
    for (const [axis, dim] of dims.entries()) {
      const at = axis < RECORD_DIMS ? axis * 4 : Tensor.SIZE + (axis - RECORD_DIMS) * 4;
      out.setUint32(Tensor.DIMS + at, dim, true);
      out.setInt32(Tensor.STRIDES + at, strides[axis]!, true);
    }
    const index = this.#records.length;
    for (let i = 0; i < records; i++) this.#records.push(bytes.subarray(i * Tensor.SIZE, (i + 1) * Tensor.SIZE));
    this.#index.set(key, index);
    return index;
  }

  /** All records, in order. */
  bytes(): Uint8Array {
    const all = new Uint8Array(this.#records.length * Tensor.SIZE);
    for (const [i, record] of this.#records.entries()) all.set(record, i * Tensor.SIZE);
    return all;
  }
}
