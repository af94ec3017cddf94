/** GATHER_ELEMENTS, SCATTER_ELEMENTS and TOP_K -> records, and their verification. */
import { Merge, Opcode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { InstructionRecord, TensorRecord } from "./image";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { Instruction, View } from "./types";
import { product } from "./views";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

/** Nanoseconds per element: an index, a bound, an access. */
const ELEMENT_NS = 2;
/** And of one that is compared with the worst of the best so far. */
const COMPARE_NS = 1.5;

const rowsOf = ({ dims }: { readonly dims: readonly number[] }): number => product(dims.slice(0, -1));
const outer = (dims: readonly number[]): string => dims.slice(0, -1).join();
const isIndex = ({ dtype }: { readonly dtype: string }): boolean => dtype === "int64" || dtype === "int32";

function tiled(rows: number, rowNs: number, multiple = 1) {
  const perTile = unitsPerTile(rows, rowNs, multiple);
  const tiles = Math.max(1, ceilDiv(rows, perTile));
  return { perTile, tiles, costNs: rows * rowNs + tiles * TILE_OVERHEAD_NS };
}

function requireFit(long: View, short: View, indices: View, node: string): void {
  const fits =
    short.dims.length > 0 &&
    short.dims.join() === indices.dims.join() &&
    outer(long.dims) === outer(short.dims) &&
    long.dims.length === short.dims.length;
  if (!fits || long.dtype !== short.dtype || !isIndex(indices)) {
    const [a, b, c] = [long, short, indices].map(({ dtype, dims }) => `${dtype}[${dims}]`);
    throw new AclError(100000, `node "${node}": elements of ${a} and ${b} cannot be named by ${c}`);
  }
}

export function encodeGatherElements({ target, source, indices, node }: Of<"gather_elements">, table: TensorTable): Encoded {
  requireFit(source, target, indices, node);
  const { perTile, tiles, costNs } = tiled(rowsOf(target), target.dims[target.dims.length - 1]! * ELEMENT_NS);
  return { op: Opcode.GATHER_ELEMENTS, tiles, costNs, operands: [target, source, indices].map((view) => table.add(view)), params: [perTile] };
}

export function encodeScatterElements({ target, source, indices, merge, node }: Of<"scatter_elements">, table: TensorTable): Encoded {
  requireFit(target, source, indices, node);
  // Neighbours that share their indices are moved as one run: a tile should not cut it short.
  const { perTile, tiles, costNs } = tiled(rowsOf(target), source.dims[source.dims.length - 1]! * ELEMENT_NS, 16);
  const operands = [target, source, indices].map((view) => table.add(view));
  return { op: Opcode.SCATTER_ELEMENTS, tiles, costNs, operands, params: [perTile, Merge[merge.toUpperCase() as keyof typeof Merge]] };
}

export function encodeTopK({ target, positions, source, work, largest, node }: Of<"top_k">, table: TensorTable): Encoded {
  const k = target.dims[target.dims.length - 1]!;
  const size = source.dims[source.dims.length - 1]!;
  const rows = rowsOf(target);
  if (
    target.dims.join() !== positions.dims.join() ||
    outer(target.dims) !== outer(source.dims) ||
    k > size ||
    work.dims.join() !== `${rows},${k},2`
  ) {
    throw new AclError(100000, `node "${node}": cannot take [${target.dims}] of [${source.dims}]`);
  }
  const { perTile, tiles, costNs } = tiled(rows, size * COMPARE_NS + k * Math.log2(k + 1) * 6);
  const operands = [target, positions, source, work].map((view) => table.add(view));
  return { op: Opcode.TOP_K, tiles, costNs, operands, params: [perTile, largest ? 1 : 0] };
}

const CUMULATED: ReadonlySet<string> = new Set(["float32", "float64", "int32", "uint32", "int64", "uint64"]);

export function encodeCumulate({ target, source, product: multiplies, exclusive, node }: Of<"cumulate">, table: TensorTable): Encoded {
  if (target.dims.length === 0 || target.dims.join() !== source.dims.join() || target.dtype !== source.dtype || !CUMULATED.has(target.dtype)) {
    throw new AclError(100000, `node "${node}": cannot cumulate ${source.dtype}[${source.dims}] into ${target.dtype}[${target.dims}]`);
  }
  const { perTile, tiles, costNs } = tiled(rowsOf(target), target.dims[target.dims.length - 1]! * ELEMENT_NS);
  const operands = [target, source].map((view) => table.add(view));
  return { op: Opcode.CUMULATE, tiles, costNs, operands, params: [perTile, multiplies ? 1 : 0, exclusive ? 1 : 0] };
}

/** @returns what is wrong, or undefined */
export function cumulateFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [target, source] = tensors;
  const fits =
    target !== undefined &&
    source !== undefined &&
    tensors.length === 2 &&
    target.dims.length > 0 &&
    it.params[0]! >= 1 &&
    target.dims.join() === source.dims.join() &&
    target.dtype === source.dtype &&
    CUMULATED.has(target.dtype);
  return fits ? undefined : "cumulates in no known way";
}

/** @returns what is wrong, or undefined */
export function elementsFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [target, source, indices] = tensors;
  const scatters = it.op === Opcode.SCATTER_ELEMENTS;
  if (!target || !source || !indices || tensors.length !== 3 || target.dims.length === 0 || it.params[0]! < 1 || it.params[1]! > Merge.MAX) {
    return "moves elements in no known way";
  }
  const [long, short] = scatters ? [target, source] : [source, target];
  const fits =
    isIndex(indices) &&
    short.dims.join() === indices.dims.join() &&
    outer(long.dims) === outer(short.dims) &&
    long.dims.length === short.dims.length &&
    long.dtype === short.dtype &&
    !(scatters && it.params[1] !== Merge.NONE && /^(float(16|8|4)|bfloat|complex|u?int[24]$)/.test(target.dtype));
  return fits ? undefined : "has operands that do not fit its target";
}

/** @returns what is wrong, or undefined */
export function topKFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [target, positions, source, work] = tensors;
  if (!target || !positions || !source || !work || tensors.length !== 4 || target.dims.length === 0 || it.params[0]! < 1) {
    return "is no top-k that exists";
  }
  const k = target.dims[target.dims.length - 1]!;
  const fits =
    positions.dtype === "int64" &&
    work.dtype === "int64" &&
    target.dtype === source.dtype &&
    positions.dims.join() === target.dims.join() &&
    outer(source.dims) === outer(target.dims) &&
    k <= source.dims[source.dims.length - 1]! &&
    work.dims.join() === `${rowsOf(target)},${k},2` &&
    (product(work.dims) === 0 || (work.strides[2] === 8 && work.strides[1] === 16 && (work.dims[0] === 1 || work.strides[0] === 16 * k)));
  return fits ? undefined : "has operands that do not fit its target";
}
