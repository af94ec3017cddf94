/** SparseTensorProto -> Stored, with its zeros: nothing behind the importer knows sparse tensors. */
import { AclError } from "../../errors/acl-error";
import { DTYPES } from "../../graph/dtype";
import { decode, type Stored } from "../../graph/tensor";
import type { SparseTensorProto } from "./generated/messages";
import { checkDims, importTensor } from "./tensor";

/** The name of a sparse initializer is that of its values. */
export const sparseName = ({ values }: SparseTensorProto): string => values?.name ?? "";

/** @throws AclError 100012 when values, indices and dims do not fit together */
export function importSparse(proto: SparseTensorProto | undefined, folder: string | undefined, what: string): Stored {
  if (!proto?.values || !proto.indices) {
    throw new AclError(100012, `${what} is sparse and lacks its values or indices; the file is damaged`);
  }
  const values = importTensor(proto.values, folder, `the values of ${what}`);
  const indices = importTensor(proto.indices, folder, `the indices of ${what}`);
  const { dtype } = values;
  const dims = proto.dims.map(Number);
  const count = checkDims(dtype, dims, what);
  const [given = 0] = values.dims;
  const isLinear = indices.dims.length === 1;
  const wanted = isLinear ? [given] : [given, dims.length];
  if (values.dims.length !== 1 || indices.dtype !== "int64" || indices.dims.join() !== wanted.join()) {
    throw new AclError(
      100012,
      `${what} is sparse: its values have dims [${values.dims}] and its indices are ${indices.dtype}[${indices.dims}]; they must be [n], and int64[n] or int64[n, ${dims.length}]`,
    );
  }
  const size = DTYPES[dtype].bytes;
  const bytes = new Uint8Array(count * size);
  const places = decode(indices).data;
  for (let i = 0; i < given; i++) {
    const place = isLinear ? [Number(places[i])] : dims.map((_, axis) => Number(places[i * dims.length + axis]));
    if (place.some((at, axis) => at < 0 || at >= (isLinear ? count : dims[axis]!))) {
      throw new AclError(100012, `${what} is sparse: its index [${place}] lies outside [${dims}]; the file is damaged`);
    }
    const at = isLinear ? place[0]! : place.reduce((offset, index, axis) => offset * dims[axis]! + index, 0);
    bytes.set(values.bytes.subarray(i * size, (i + 1) * size), at * size);
  }
  return { dtype, dims, bytes };
}
