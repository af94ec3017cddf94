/** SOFTMAX and NORM -> records: functions of whole rows. */
import { Opcode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { Instruction, View } from "./types";
import { collapse, product } from "./views";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

/** Nanoseconds per element: three passes over a row that stays in the first-level cache. */
const SOFTMAX_NS = 0.8;
const NORM_NS = 0.6;
const ROW_NS = 80;

/** Records of target and source with as few dims as possible, and rows per tile. */
function rowsOf(target: View, source: View, elementNs: number, node: string, table: TensorTable): Encoded {
  const last = target.dims.length - 1;
  const dense = [target, source].every(({ dtype, dims, strides }) => dtype === "float32" && (strides[last] === 4 || dims[last] === 1));
  if (last < 0 || source.dims.join() !== target.dims.join() || !dense) {
    throw new AclError(
      100000,
      `node "${node}": rows of float32 [${source.dims}] into [${target.dims}] must have equal dims and a dense innermost one: copy or cast first`,
    );
  }
  const length = target.dims[last]!;
  const unit = [target, source].map((view) => (length === 1 ? view.strides.with(last, 4) : view.strides));
  const shape = collapse({ dims: target.dims, strides: unit }, 1);
  const rows = length === 0 ? 0 : product(shape.dims) / length;
  const rowNs = length * elementNs + ROW_NS;
  const perTile = unitsPerTile(rows, rowNs);
  const tiles = Math.max(1, ceilDiv(rows, perTile));
  const operands = [table.add(target, shape.dims, shape.strides[0]), table.add(source, shape.dims, shape.strides[1])];
  return { op: Opcode.SOFTMAX, tiles, costNs: rows * rowNs + tiles * TILE_OVERHEAD_NS, operands, params: [perTile] };
}

export function encodeSoftmax({ target, source, node }: Of<"softmax">, table: TensorTable): Encoded {
  return rowsOf(target, source, SOFTMAX_NS, node, table);
}

export function encodeNorm({ target, source, scale, shift, epsilon, node }: Of<"norm">, table: TensorTable): Encoded {
  const length = target.dims[target.dims.length - 1];
  for (const { dtype, dims, strides } of [scale, shift]) {
    if (dtype !== "float32" || dims.length !== 1 || dims[0] !== length || (strides[0] !== 4 && length !== 1)) {
      throw new AclError(100000, `node "${node}": scale and shift of norm must be dense float32 [${length}], not ${dtype} [${dims}]`);
    }
  }
  const rows = rowsOf(target, source, NORM_NS, node, table);
  const bits = new DataView(new ArrayBuffer(4));
  bits.setFloat32(0, epsilon);
  const operands = [...rows.operands!, table.add(scale, [length!], [4]), table.add(shift, [length!], [4])];
  return { ...rows, op: Opcode.NORM, operands, params: [rows.params![0]!, bits.getUint32(0)] };
}
