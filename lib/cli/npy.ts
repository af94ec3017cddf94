/** Reads and writes NumPy's .npy files (format versions 1 to 3) as dtype, dims and row-major little-endian bytes. */
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "../graph/dtype";

export interface NpyArray {
  readonly dtype: DtypeName;
  readonly dims: readonly number[];
  /** Row-major, little-endian; 2- and 4-bit types do not occur. */
  readonly bytes: Uint8Array;
}

const MAGIC = "\x93NUMPY";
const PARSE_FILE = 100006;
/** NumPy's type characters; bfloat16 and the 8-bit floats have none. */
const DESCRIPTORS: readonly (readonly [descr: string, dtype: DtypeName, bytes: number])[] = [
  ["f2", "float16", 2],
  ["f4", "float32", 4],
  ["f8", "float64", 8],
  ["i1", "int8", 1],
  ["i2", "int16", 2],
  ["i4", "int32", 4],
  ["i8", "int64", 8],
  ["u1", "uint8", 1],
  ["u2", "uint16", 2],
  ["u4", "uint32", 4],
  ["u8", "uint64", 8],
  ["b1", "bool", 1],
];

interface Header {
  readonly order: string;
  readonly descr: string;
  readonly fortran: boolean;
  readonly dims: readonly number[];
  readonly dataAt: number;
}

/** @throws AclError 100006 if `file` is not a whole .npy array of plain numbers; `name` says which file it was. */
export function readNpy(file: Uint8Array, name: string): NpyArray {
  const fail = (what: string): never => {
    throw new AclError(PARSE_FILE, `${name}: ${what}`, { solution: "Write it with numpy.save(path, array) from an array of numbers or booleans." });
  };
  const header = readHeader(file, fail);
  const known = DESCRIPTORS.find(([descr]) => descr === header.descr);
  if (known === undefined) return fail(`element type "${header.order}${header.descr}" is not supported`);
  const [, dtype, size] = known;
  const count = header.dims.reduce((product, dim) => product * dim, 1);
  const available = file.length - header.dataAt;
  if (available !== count * size) fail(`${available} bytes of data where ${dtype} [${header.dims.join(", ")}] needs ${count * size}`);
  let bytes: Uint8Array = file.slice(header.dataAt);
  if (header.order === ">") swapBytes(bytes, size);
  if (header.fortran && header.dims.length > 1) bytes = toRowMajor(bytes, header.dims, size);
  return { dtype, dims: header.dims, bytes };
}

function readHeader(file: Uint8Array, fail: (what: string) => never): Header {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (file.length < 10 || latin1(file.subarray(0, 6)) !== MAGIC) return fail("not a .npy file");
  const version = file[6] ?? 0;
  if (version < 1 || version > 3) return fail(`.npy version ${version} is not supported`);
  const textAt = version === 1 ? 10 : 12;
  if (file.length < textAt) return fail("cut off inside its header");
  const dataAt = textAt + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
  if (file.length < dataAt) return fail("cut off inside its header");
  const text = latin1(file.subarray(textAt, dataAt));
  const descr = /'descr'\s*:\s*'([<>|=])([a-zA-Z]\d+)'/.exec(text);
  const fortran = /'fortran_order'\s*:\s*(True|False)/.exec(text);
  const shape = /'shape'\s*:\s*\(([\d,\sL]*)\)/.exec(text);
  if (descr === null || fortran === null || shape === null) return fail(`header not understood: ${text.trim().slice(0, 120)}`);
  const dims = (shape[1] ?? "").split(",").flatMap((dim) => (dim.trim() === "" ? [] : [Number.parseInt(dim, 10)]));
  return { order: descr[1] ?? "", descr: descr[2] ?? "", fortran: fortran[1] === "True", dims, dataAt };
}

const latin1 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1");

function swapBytes(bytes: Uint8Array, size: number): void {
  for (let at = 0; at < bytes.length; at += size) bytes.subarray(at, at + size).reverse();
}

/** Column-major to row-major: the target is filled in order while an odometer walks the source. */
function toRowMajor(bytes: Uint8Array, dims: readonly number[], size: number): Uint8Array {
  const target = new Uint8Array(bytes.length);
  const strides: number[] = [];
  for (let axis = 0, stride = size; axis < dims.length; stride *= dims[axis] ?? 1, axis++) strides.push(stride);
  const index = dims.map(() => 0);
  for (let at = 0; at < bytes.length; at += size) {
    const from = index.reduce((sum, i, axis) => sum + i * (strides[axis] ?? 0), 0);
    target.set(bytes.subarray(from, from + size), at);
    for (let axis = dims.length - 1; axis >= 0; axis--) {
      const next = (index[axis] ?? 0) + 1;
      index[axis] = next < (dims[axis] ?? 0) ? next : 0;
      if (index[axis] !== 0) break;
    }
  }
  return target;
}

/** A version 1 file; its data starts at a multiple of 64 bytes, as NumPy writes it. */
export function writeNpy({ dtype, dims, bytes }: NpyArray): Uint8Array {
  const known = DESCRIPTORS.find(([, name]) => name === dtype);
  if (known === undefined) throw new AclError(100026, `a .npy file cannot hold ${dtype}`, { solution: "Cast it to float32 in the model." });
  const [descr, , size] = known;
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(", ");
  const text = `{'descr': '${size === 1 ? "|" : "<"}${descr}', 'fortran_order': False, 'shape': (${shape}), }`;
  const headerBytes = Math.ceil((10 + text.length + 1) / 64) * 64;
  const file = new Uint8Array(headerBytes + bytes.length);
  file.set(Buffer.from(MAGIC, "latin1"));
  file.set([1, 0, (headerBytes - 10) & 0xff, (headerBytes - 10) >> 8], 6);
  file.set(Buffer.from(`${text.padEnd(headerBytes - 11)}\n`, "latin1"), 10);
  file.set(bytes, headerBytes);
  return file;
}
