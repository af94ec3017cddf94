/** CONV in form planes -> record. */
import { ConvBlock, ConvMode, Opcode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { encodeEpilogue, geometry, spatialRecord } from "./encode-matrix";
import { type Build, TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { Instruction } from "./types";
import { product } from "./views";
import { takesPlanes } from "./winograd";

export function encodePlanes(given: Extract<Instruction, { op: "conv" }>, table: TensorTable, build: Build): Encoded {
  const { target, source, weights, window, groups, node } = given;
  const block = geometry(window, target, source, node);
  if (!takesPlanes(target, source, window, groups)) {
    throw new AclError(
      100000,
      `node "${node}": conv over planes takes 2-D float32 views with dense rows of 4 columns at least and one channel per group`,
    );
  }
  const [samples, channels, height, width] = target.dims as [number, number, number, number];
  const taps = product(window.kernel);
  const epilogue = encodeEpilogue(given.epilogue, target, 1, node, table);
  const total = samples * channels * height;
  const rowNs = width * (taps / (build.macsPerNs / 2) + epilogue.elementNs + 0.2) + 5;
  const rows = unitsPerTile(total, rowNs, Math.min(height, 64));
  const tiles = Math.max(1, ceilDiv(total, rows));
  block.setUint32(ConvBlock.GROUPS, groups, true);
  block.setUint32(ConvBlock.MODE, ConvMode.PLANES, true);
  block.setUint32(ConvBlock.ROWS, rows, true);
  block.setUint32(ConvBlock.COLUMNS, channels, true);
  const operands = [spatialRecord(target, table), spatialRecord(source, table), table.add(weights, [channels * taps], [4])];
  return {
    op: Opcode.CONV,
    tiles,
    costNs: total * rowNs + tiles * TILE_OVERHEAD_NS,
    operands: [...operands, ...epilogue.bias],
    params: [0, 0, 0, 0, 0, epilogue.greatest],
    geometry: new Uint8Array(block.buffer),
    ...epilogue.fields,
  };
}
