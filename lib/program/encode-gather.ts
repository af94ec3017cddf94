/** GATHER -> record, and its verification. */
import { Opcode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { BYTES_PER_NS, TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { InstructionRecord, TensorRecord } from "./image";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { Instruction } from "./types";
import { elementBytes } from "./views";

export function encodeGather(instruction: Extract<Instruction, { op: "gather" }>, table: TensorTable): Encoded {
  const { target, source, indices, node } = instruction;
  const [outer = 0, count = 0, inner = 0] = target.dims;
  if (target.dims.length !== 3 || source.dims.join() !== [outer, source.dims[1], inner].join() || indices.dims.join() !== `${count}`) {
    throw new AclError(100000, `node "${node}": cannot gather [${target.dims}] from [${source.dims}] by [${indices.dims}]`);
  }
  if (target.dtype !== source.dtype || (indices.dtype !== "int64" && indices.dtype !== "int32")) {
    throw new AclError(100026, `node "${node}": gather of ${source.dtype} into ${target.dtype} by ${indices.dtype}: cast first`);
  }
  const rowNs = 8 + (2 * inner * elementBytes(target)) / BYTES_PER_NS;
  const rows = unitsPerTile(outer * count, rowNs);
  const tiles = Math.max(1, ceilDiv(outer * count, rows));
  const operands = [table.add(target), table.add(source), table.add(indices)];
  return { op: Opcode.GATHER, tiles, costNs: outer * count * rowNs + tiles * TILE_OVERHEAD_NS, operands, params: [rows] };
}

/** @returns what is wrong, or undefined */
export function gatherFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [target, source, indices] = tensors;
  if (!target || !source || !indices || tensors.length !== 3 || target.dims.length !== 3 || source.dims.length !== 3 || it.params[0]! < 1) {
    return "is no gather that exists";
  }
  const dense = indices.dims.length === 1 && (indices.strides[0] === indices.elementBytes || indices.dims[0]! <= 1);
  const fits =
    dense &&
    (indices.dtype === "int64" || indices.dtype === "int32") &&
    indices.dims[0] === target.dims[1] &&
    source.dtype === target.dtype &&
    source.dims[0] === target.dims[0] &&
    source.dims[2] === target.dims[2];
  return fits ? undefined : "has operands that do not fit its target";
}
