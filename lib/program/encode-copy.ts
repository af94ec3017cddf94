/** COPY, MAP and REDUCE -> records. */
import { Fold, Opcode, ReduceMode } from "../../asm/abi/isa";
import { StripBlock } from "../../asm/abi/strip";
import { AclError } from "../errors/acl-error";
import { BYTES_PER_NS, TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import { encodeStrip } from "./strip-encode";
import { isFloatType, isStripDtype, registerOf, TYPE_CODES } from "./strip-ops";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { FoldName, Instruction, Strip, StripType, View } from "./types";
import { collapse, elementBytes, isContiguous, product, reorder, type Shape } from "./views";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

/** A strip as an instruction of its own. */
export function encodeMap(instruction: Of<"map">, table: TensorTable): Encoded {
  const { strip, node } = instruction;
  // Elements are independent, so they are numbered as they lie in the result: runs of a result in another order than its dims stay runs.
  const axes = strip.outputs[0] && memoryOrder(strip.outputs[0].view);
  const { bytes, elements, step, elementNs } = encodeStrip(strip, { node, ...(axes && { axes }) }, table);
  const perTile = Math.max(1, ceilDiv(unitsPerTile(elements, elementNs, step), step)) * step;
  new DataView(bytes.buffer).setUint32(StripBlock.TILE, perTile, true);
  const tiles = Math.max(1, ceilDiv(elements, perTile));
  return { op: Opcode.MAP, tiles, costNs: elements * elementNs + tiles * TILE_OVERHEAD_NS, block: bytes };
}

/** Axes of a view, outermost in memory first. */
const memoryOrder = ({ dims, strides }: View): number[] =>
  dims.map((_, axis) => axis).sort((a, b) => Math.abs(strides[b]!) - Math.abs(strides[a]!) || a - b);

/** Target order outermost first, then as few dims as possible; a dim that is dense in the source goes next to the innermost (a blocked transpose). */
function copyShape(target: View, source: View): Shape {
  const shape = collapse(reorder({ dims: target.dims, strides: [target.strides, source.strides] }, memoryOrder(target)));
  const size = elementBytes(target);
  const last = shape.dims.length - 1;
  const dense = shape.strides[1]!.indexOf(size);
  if (dense < 0 || dense >= last - 1 || shape.strides[1]![last] === size) return shape;
  const order = shape.dims.map((_, axis) => axis).filter((axis) => axis !== dense);
  return reorder(shape, [...order.slice(0, -1), dense, order[order.length - 1]!]);
}

export function encodeCopy(instruction: Of<"copy">, table: TensorTable): Encoded {
  const { target, source, node } = instruction;
  if (target.dims.join() !== source.dims.join()) {
    throw new AclError(100000, `node "${node}": copy from dims [${source.dims}] to [${target.dims}]: they must be equal, broadcast the source first`);
  }
  if (target.dtype !== source.dtype) {
    const strip: Strip = { values: [{ kind: "input", view: source, type: registerOf(source.dtype) }], outputs: [{ view: target, value: 0 }] };
    return encodeMap({ op: "map", node, strip }, table);
  }
  const shape = copyShape(target, source);
  const size = elementBytes(target);
  const width = shape.dims[shape.dims.length - 1]!;
  const rows = width === 0 ? 0 : product(shape.dims) / width;
  const runs = shape.strides.every((strides) => strides[strides.length - 1] === size);
  const elementNs = runs ? (2 * size) / BYTES_PER_NS : 0.3;
  const rowNs = width * elementNs + 5;
  const columns = unitsPerTile(width, elementNs, 64);
  const perTile = columns < width ? 1 : Math.max(1, unitsPerTile(rows, rowNs, 16));
  const tiles = Math.max(1, ceilDiv(rows, perTile) * ceilDiv(width, columns));
  const operands = [table.add(target, shape.dims, shape.strides[0]), table.add(source, shape.dims, shape.strides[1])];
  return { op: Opcode.COPY, tiles, costNs: rows * rowNs + tiles * TILE_OVERHEAD_NS, operands, params: [perTile, columns] };
}

const FOLDS: Readonly<Record<FoldName, Fold>> = {
  sum: Fold.SUM,
  mean: Fold.MEAN,
  max: Fold.MAX,
  min: Fold.MIN,
  prod: Fold.PROD,
  sum_square: Fold.SUM_SQUARE,
  l1: Fold.L1,
  log_sum_exp: Fold.LOG_SUM_EXP,
  all: Fold.ALL,
  any: Fold.ANY,
  arg_max: Fold.ARG_MAX,
  arg_min: Fold.ARG_MIN,
};
const COLUMN_FOLDS: ReadonlySet<FoldName> = new Set(["sum", "mean", "max", "min", "sum_square"]);

/** The register type of the folded value. */
function foldedType(fold: FoldName, source: StripType): StripType {
  if (fold === "arg_max" || fold === "arg_min") return "i64";
  return fold === "all" || fold === "any" ? "i32" : source;
}

export function encodeReduce(instruction: Of<"reduce">, table: TensorTable): Encoded {
  const { target, source, fold, axes, node, after } = instruction;
  const outer = source.dims.length - axes;
  const type = registerOf(source.dtype);
  if (axes < 0 || outer < 0 || !isStripDtype(source.dtype) || target.dims.join() !== source.dims.slice(0, outer).join()) {
    throw new AclError(100000, `node "${node}": cannot reduce ${axes} innermost axes of ${source.dtype} [${source.dims}] to [${target.dims}]`);
  }
  if (fold === "log_sum_exp" && !isFloatType(type))
    throw new AclError(100026, `node "${node}": log_sum_exp needs floats, not ${source.dtype}: cast first`);
  const folded = foldedType(fold, type);
  const strip = after ?? { values: [{ kind: "accumulator", type: folded }], outputs: [{ view: target, value: 0 }] };
  const encoded = encodeStrip(strip, { node, accumulatorType: folded }, table);
  const rows = collapse({ dims: source.dims.slice(0, outer), strides: [source.strides.slice(0, outer)] });
  const inner = collapse({ dims: source.dims.slice(outer), strides: [source.strides.slice(outer)] });
  const length = product(source.dims.slice(outer));
  const size = elementBytes(source);
  const lineOf = rows.dims[rows.dims.length - 1]!;
  const columns =
    source.dtype === "float32" &&
    COLUMN_FOLDS.has(fold) &&
    rows.strides[0]![rows.dims.length - 1] === size &&
    lineOf >= 8 &&
    length > 1 &&
    lineOf > 1;
  const dims = [...rows.dims, ...inner.dims];
  const strides = [...rows.strides[0]!, ...inner.strides[0]!];
  const dense = isContiguous(dims, strides, size);
  const elementNs =
    fold === "log_sum_exp" ? 12 : columns ? 0.25 : (dense ? 0.1 : 0.9) + (source.dtype === "float32" && COLUMN_FOLDS.has(fold) ? 0.1 : 0.8);
  const rowNs = length * elementNs + 10 + encoded.elementNs;
  const perTile = unitsPerTile(encoded.elements, rowNs, 16);
  const tiles = Math.max(1, ceilDiv(encoded.elements, perTile));
  const operands = [table.add(target), table.add(source, dims, strides)];
  const mode = columns ? ReduceMode.COLUMNS : ReduceMode.ROWS;
  const params = [FOLDS[fold], rows.dims.length, perTile, TYPE_CODES[type], mode, length];
  return { op: Opcode.REDUCE, tiles, costNs: encoded.elements * rowNs + tiles * TILE_OVERHEAD_NS, operands, params, block: encoded.bytes };
}
