/** TensorProto -> Stored. Raw and packed float data stay views of the file; only varint-packed integers and sub-byte types are unpacked. */
import { AclError } from "../../errors/acl-error";
import { DTYPES, type DtypeName, dtypeName } from "../../graph/dtype";
import type { Stored } from "../../graph/tensor";
import { readExternal } from "./external";
import type { TensorProto } from "./generated/messages";

/** No tensor of a model is larger than the device's address space. */
const LARGEST_BYTES = 2 ** 32;
const EXTERNAL = 1;

/** @throws AclError 100012 when dims and data do not fit together, 100026 for an element type that a device cannot hold */
export function importTensor(proto: TensorProto, folder: string | undefined, what: string): Stored {
  const dtype = dtypeName(proto.dataType);
  if (dtype === undefined) {
    throw new AclError(100012, `${what} has element type ${proto.dataType}, which ONNX does not define`);
  }
  if (DTYPES[dtype].bytes === 0) {
    throw new AclError(100026, `${what} holds strings; a device has numbers only: encode them before the model`);
  }
  const dims = proto.dims.map((dim) => Number(dim));
  const count = checkDims(dtype, dims, what);
  const packedBytes = Math.ceil((count * DTYPES[dtype].bits) / 8);
  if (proto.dataLocation === EXTERNAL) {
    return { dtype, dims, bytes: unpackBits(readExternal(proto, folder, packedBytes), dtype, count) };
  }
  if (proto.rawData.byteLength > 0 || count === 0) {
    if (proto.rawData.byteLength !== packedBytes) {
      throw wrongLength(what, proto.rawData.byteLength, dtype, dims, packedBytes);
    }
    return { dtype, dims, bytes: unpackBits(proto.rawData, dtype, count) };
  }
  return { dtype, dims, bytes: typedData(proto, dtype, dims, count, what) };
}

/** The number of elements. @throws AclError 100012 */
export function checkDims(dtype: DtypeName, dims: readonly number[], what: string): number {
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (dims.some((dim) => !Number.isSafeInteger(dim) || dim < 0) || !(count * DTYPES[dtype].bytes <= LARGEST_BYTES)) {
    throw new AclError(100012, `${what} has dims [${dims}], which no device can hold`);
  }
  return count;
}

function wrongLength(what: string, got: number, dtype: DtypeName, dims: readonly number[], need: number): AclError {
  return new AclError(100012, `${what} holds ${got} bytes of data, ${dtype}[${dims}] needs ${need}; the file is damaged`);
}

/** 2- and 4-bit types take one byte per element on the device. */
function unpackBits(packed: Uint8Array, dtype: DtypeName, count: number): Uint8Array {
  const { bits } = DTYPES[dtype];
  if (bits >= 8) {
    return packed;
  }
  const bytes = new Uint8Array(count);
  const signed = dtype.startsWith("int");
  const perByte = 8 / bits;
  for (let i = 0; i < count; i++) {
    const low = (packed[Math.floor(i / perByte)]! >> ((i % perByte) * bits)) & (2 ** bits - 1);
    bytes[i] = signed && low >= 2 ** (bits - 1) ? low - 2 ** bits : low;
  }
  return bytes;
}

function typedData(proto: TensorProto, dtype: DtypeName, dims: readonly number[], count: number, what: string): Uint8Array {
  const need = count * DTYPES[dtype].bytes;
  const fixed =
    dtype === "float32" || dtype === "complex64" ? proto.floatData : dtype === "float64" || dtype === "complex128" ? proto.doubleData : undefined;
  if (fixed) {
    const bytes = fixed.length === 1 ? fixed[0]! : Buffer.concat(fixed);
    if (bytes.byteLength !== need) {
      throw wrongLength(what, bytes.byteLength, dtype, dims, need);
    }
    return bytes;
  }
  const wide = dtype === "int64" ? proto.int64Data : dtype === "uint64" || dtype === "uint32" ? proto.uint64Data : undefined;
  const { bits } = DTYPES[dtype];
  const words = varints(wide ?? proto.int32Data, what);
  const expected = bits >= 8 ? count : Math.ceil((count * bits) / 8);
  if (words.length !== expected) {
    throw new AclError(100012, `${what} holds ${words.length} values, ${dtype}[${dims}] needs ${expected}; the file is damaged`);
  }
  const step = bits >= 8 ? DTYPES[dtype].bytes : 1;
  const bytes = new Uint8Array(expected * step);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < expected; i++) {
    if (step === 8) {
      view.setBigUint64(i * 8, BigInt.asUintN(64, words[i]!), true);
    } else {
      const low = Number(BigInt.asUintN(32, words[i]!));
      step === 4 ? view.setUint32(i * 4, low, true) : step === 2 ? view.setUint16(i * 2, low, true) : view.setUint8(i, low);
    }
  }
  return unpackBits(bytes, dtype, count);
}

function varints(chunks: readonly Uint8Array[], what: string): bigint[] {
  const words: bigint[] = [];
  for (const chunk of chunks) {
    let word = 0n;
    let shift = 0n;
    for (const byte of chunk) {
      word |= BigInt(byte & 127) << shift;
      shift += 7n;
      if (byte < 128) {
        words.push(BigInt.asUintN(64, word));
        word = 0n;
        shift = 0n;
      } else if (shift > 63n) {
        throw new AclError(100012, `${what} holds an integer of more than 64 bits; the file is damaged`);
      }
    }
    if (shift !== 0n) {
      throw new AclError(100012, `${what} ends inside an integer; the file is damaged`);
    }
  }
  return words;
}
