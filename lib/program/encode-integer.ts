/** PACK_INTEGER and MATMUL_INTEGER -> records, and their verification. */
import { Opcode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { type Build, BYTES_PER_NS, TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { InstructionRecord, TensorRecord } from "./image";
import { packedIntegerSize } from "./pack-integer";
import { encodeStrip } from "./strip-encode";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, LONGEST_TILE_NS, unitsPerTile } from "./tiles";
import type { Instruction, View } from "./types";
import { product } from "./views";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

const isByte = ({ dtype }: { readonly dtype: string }): boolean => dtype === "int8" || dtype === "uint8";
/** Dims of B that may be its columns: three of an image. */
const COLUMN_DIMS = 3;

export function encodePackInteger({ target, source, columnDims, node }: Of<"pack_integer">, table: TensorTable, { panel }: Build): Encoded {
  const [batches = 0, size = 0] = target.dims;
  const columns = product(source.dims.slice(-columnDims));
  const k = batches === 0 || columns === 0 ? 0 : product(source.dims) / batches / columns;
  if (!isByte(source) || target.dtype !== "int8" || columnDims < 1 || columnDims > COLUMN_DIMS || size !== packedIntegerSize(k, columns, panel)) {
    throw new AclError(100000, `node "${node}": cannot pack ${source.dtype} [${source.dims}] into ${target.dtype} [${target.dims}]`);
  }
  const columnNs = 1 + (4 * k) / BYTES_PER_NS;
  const perTile = Math.max(panel, ceilDiv(unitsPerTile(columns, columnNs, panel), panel) * panel);
  const tiles = Math.max(1, batches * ceilDiv(columns, perTile));
  const params = [perTile, k, columnDims];
  return {
    op: Opcode.PACK_INTEGER,
    tiles,
    costNs: batches * columns * columnNs + tiles * TILE_OVERHEAD_NS,
    operands: [table.add(target), table.add(source)],
    params,
  };
}

/** @returns what is wrong, or undefined */
export function packIntegerFault(it: InstructionRecord, [target, source]: readonly TensorRecord[], panel: number): string | undefined {
  const [perTile, k, columnDims] = it.params as [number, number, number];
  if (!target || !source || it.operands.length !== 2 || target.dims.length !== 2 || columnDims < 1 || columnDims > COLUMN_DIMS)
    return "packs no matrix";
  const columns = product(source.dims.slice(-columnDims));
  const whole = source.dims.length > columnDims && product(source.dims) === target.dims[0]! * k * columns;
  const fits = target.dims[1]! >= packedIntegerSize(k, columns, panel) && (target.strides[1] === 1 || target.dims[1]! <= 1);
  if (!isByte(source) || target.dtype !== "int8" || !whole || !fits || perTile < 1 || perTile % panel !== 0)
    return "packs a matrix that does not fit";
  return it.tiles === Math.max(1, target.dims[0]! * ceilDiv(columns, perTile)) ? undefined : "has tiles that do not cover its matrix";
}

/** Columns that the kernel works on at a time; a strip program runs over the rows of a tile one by one, so they are long. */
const LONGEST_ROW = 1024;
const SHORTEST_ROW = 256;
/** Rows that share what is read and widened of B: the kernel's block. */
const ROW_BLOCK = 128;
/** Fewer than these share too little, even where a tile then takes longer than others. */
const LEAST_ROWS = 32;
/** Sums that a block has room for. */
const BLOCK_CELLS = 65536;
/** The faster of the kernels that a processor may have takes half of what is reckoned here. */
const LONGEST_NS = 2 * LONGEST_TILE_NS;

/** Rows, columns and matrices of one tile. */
function integerTiles(m: number, n: number, batches: number, cellNs: number, panel: number): [number, number, number] {
  // A block of rows that is all there is goes in columns, for the sake of other cores.
  const wanted = m <= ROW_BLOCK ? unitsPerTile(n, m * cellNs, SHORTEST_ROW) : (2 * LONGEST_NS) / (ROW_BLOCK * cellNs);
  const longest = Math.min(LONGEST_ROW, Math.max(SHORTEST_ROW, wanted));
  const columns = n <= longest ? Math.max(n, 1) : ceilDiv(n, ceilDiv(n, longest) * panel) * panel;
  const rowNs = columns * cellNs;
  const most = Math.min(ROW_BLOCK, Math.floor(BLOCK_CELLS / columns), Math.max(LEAST_ROWS, Math.floor(LONGEST_NS / rowNs)));
  // Blocks of equal and even size: Strassen's scheme takes halves of them.
  const rows = m <= most ? Math.max(m, 1) : unitsPerTile(m, rowNs, 2 * ceilDiv(m, 2 * ceilDiv(m, most)));
  return [rows, columns, rows >= m && columns >= n ? unitsPerTile(batches, m * rowNs) : 1];
}

/** Matrices that share one B are one taller matrix where their rows, and the zero points of those, lie evenly behind each other. */
function foldBatch(instruction: Of<"matmul_integer">): Of<"matmul_integer"> {
  const { target, a, b, zeroA, zeroB } = instruction;
  const outer = target.dims.length - 2;
  const [axis, m] = [outer - 1, target.dims[outer]!];
  if (outer < 1) return instruction;
  const shared = [b, zeroB].every(({ dims, strides }) => strides.slice(0, outer).every((stride, i) => stride === 0 || dims[i] === 1));
  const even = (view: View): boolean => m === 1 || view.dims[axis] === 1 || view.strides[axis] === view.strides[outer]! * m;
  if (!shared || ![target, a, zeroA].every(even)) return instruction;
  const merge = (view: View): View => ({
    ...view,
    dims: view.dims.toSpliced(axis, 2, view.dims[axis]! * m),
    strides: view.strides.toSpliced(axis, 2, m === 1 ? view.strides[axis]! : view.strides[outer]!),
  });
  const drop = (view: View): View => ({ ...view, dims: view.dims.toSpliced(axis, 1), strides: view.strides.toSpliced(axis, 1) });
  return foldBatch({ ...instruction, target: merge(target), a: merge(a), b: drop(b), zeroA: merge(zeroA), zeroB: drop(zeroB) });
}

function checkMatmul({ target, a, b, zeroA, zeroB, epilogue, node }: Of<"matmul_integer">, panel: number): void {
  const [batch, [m, n, k]] = [target.dims.slice(0, -2), [...target.dims.slice(-2), a.dims.at(-1)!] as [number, number, number]];
  const wrong =
    target.dims.length < 2 ||
    a.dims.join() !== [...batch, m, k].join() ||
    b.dims.join() !== [...batch, packedIntegerSize(k, n, panel)].join() ||
    zeroA.dims.join() !== [...batch, m].join() ||
    zeroB.dims.join() !== [...batch, n].join();
  if (wrong) throw new AclError(100000, `node "${node}": integer matmul of [${a.dims}] and packed [${b.dims}] into [${target.dims}]`);
  if (!isByte(a) || !isByte(zeroB) || zeroA.dtype !== a.dtype || b.dtype !== "int8" || (!epilogue && target.dtype !== "int32")) {
    throw new AclError(
      100026,
      `node "${node}": integer matmul of ${a.dtype} and ${zeroB.dtype} into ${target.dtype}: takes int8 and uint8, gives int32`,
    );
  }
  if (!epilogue && target.strides.at(-1) !== 4 && n !== 1)
    throw new AclError(100000, `node "${node}": integer matmul needs a target with dense columns`);
}

export function encodeMatmulInteger(given: Of<"matmul_integer">, table: TensorTable, { panel, macsPerNs }: Build): Encoded {
  checkMatmul(given, panel);
  // The epilogue numbers its elements row by row, whether the batch is folded or not.
  const strip = given.epilogue && encodeStrip(given.epilogue, { node: given.node, accumulatorType: "i32" }, table);
  const { target, a, b, zeroA, zeroB } = foldBatch(given);
  const [m, n, k] = [...target.dims.slice(-2), a.dims.at(-1)!] as [number, number, number];
  const batches = product(target.dims.slice(0, -2));
  const cellNs = k / (2 * macsPerNs) + (strip?.elementNs ?? 0) + 0.1;
  const [rows, columns, together] = integerTiles(m, n, batches, cellNs, panel);
  const tiles = Math.max(1, ceilDiv(m, rows) * ceilDiv(n, columns) * ceilDiv(batches, together));
  return {
    op: Opcode.MATMUL_INTEGER,
    tiles,
    costNs: batches * m * n * cellNs + tiles * TILE_OVERHEAD_NS,
    operands: [target, a, b, zeroA, zeroB].map((view) => table.add(view)),
    params: [rows, columns, k, 0, together],
    ...(strip ? { block: strip.bytes } : {}),
  };
}

/** @returns what is wrong, or undefined. The strip program is checked by its caller. */
export function matmulIntegerFault(it: InstructionRecord, tensors: readonly TensorRecord[], panel: number): string | undefined {
  const [target, a, b, zeroA, zeroB] = tensors;
  const [rows, columns, k, , together] = it.params as [number, number, number, number, number];
  if (!target || !a || !b || !zeroA || !zeroB || tensors.length !== 5 || target.dims.length < 2 || rows < 1 || columns < 1 || together < 1) {
    return "is no integer product";
  }
  const [batch, [m, n]] = [target.dims.slice(0, -2), target.dims.slice(-2) as [number, number]];
  const size = b.dims.at(-1)!;
  const dims = [
    [a, [...batch, m, k]],
    [b, [...batch, size]],
    [zeroA, [...batch, m]],
    [zeroB, [...batch, n]],
  ] as const;
  if (dims.some(([tensor, right]) => tensor.dims.join() !== right.join()) || size < packedIntegerSize(k, n, panel) || b.strides.at(-1) !== 1) {
    return "has operands that do not fit its target";
  }
  if (!isByte(a) || !isByte(zeroB) || zeroA.dtype !== a.dtype || b.dtype !== "int8") return "multiplies dtypes that have no kernel";
  if (it.block === 0 && (target.dtype !== "int32" || (target.strides.at(-1) !== 4 && n !== 1))) return "has a target that is not dense int32";
  if (columns % panel !== 0 && columns < n) return "cuts panels";
  const tiles = ceilDiv(m, rows) * ceilDiv(n, columns) * ceilDiv(product(batch), together);
  return it.tiles === Math.max(1, tiles) ? undefined : "has tiles that do not cover its target";
}
