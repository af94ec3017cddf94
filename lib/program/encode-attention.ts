/** ATTENTION -> record, and its verification. */
import { ATTENTION_ROWS, ATTENTION_WIDTH, AttentionForm, Opcode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { type Build, TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { InstructionRecord, TensorRecord } from "./image";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, evenUnits, FEW_TILES, LONGEST_TILE_NS } from "./tiles";
import type { Instruction, View } from "./types";
import { collapse, product } from "./views";

/** Nanoseconds of a score besides its products: mask, largest of the row, exponent and sum. */
const SCORE_NS = 1;
/** Nanoseconds of an element of K or V on its way into a panel: once a tile. */
const PACK_NS = 0.4;

/** @returns what is wrong with the dims [..., rows, depth] of such views, or undefined */
function misfit(views: readonly Pick<View, "dtype" | "dims">[]): string | undefined {
  const [target, q, k, , mask] = views as [View, View, View, View, View | undefined];
  const rank = target.dims.length;
  if (rank < 2 || views.some(({ dtype }) => dtype !== "float32")) return "takes float32 matrices";
  const batch = target.dims.slice(0, -2);
  const [rows, values, depth, keys] = [target.dims[rank - 2]!, target.dims[rank - 1]!, q.dims[rank - 1]!, k.dims[rank - 2]!];
  const wanted = [[...batch, rows, depth], [...batch, keys, depth], [...batch, keys, values], ...(mask ? [[...batch, rows, keys]] : [])];
  if (views.slice(1).some(({ dims }, i) => dims.join() !== wanted[i]!.join())) return "has operands that do not fit each other";
  return depth > ATTENTION_WIDTH || values > ATTENTION_WIDTH ? `has heads wider than ${ATTENTION_WIDTH}` : undefined;
}

export function encodeAttention(instruction: Extract<Instruction, { op: "attention" }>, table: TensorTable, { macsPerNs }: Build): Encoded {
  const { target, q, k, v, mask, scale, causal, zeros, node } = instruction;
  const views = [target, q, k, v, ...(mask ? [mask] : [])];
  const fault = misfit(views) ?? (target.strides.at(-1) === 4 || target.dims.at(-1) === 1 ? undefined : "needs dense rows in its target");
  if (fault) throw new AclError(100000, `node "${node}": attention ${fault}: ${views.map(({ dtype, dims }) => `${dtype} [${dims}]`).join(", ")}`);
  const outer = target.dims.length - 2;
  const batch = collapse({ dims: target.dims.slice(0, outer), strides: views.map(({ strides }) => strides.slice(0, outer)) });
  const operands = views.map((view, i) => {
    const inner = view === target && view.dims[outer + 1] === 1 ? [view.strides[outer]!, 4] : view.strides.slice(outer);
    return table.add(view, [...batch.dims, ...view.dims.slice(outer)], [...batch.strides[i]!, ...inner]);
  });
  const [batches, rows, keys] = [product(batch.dims), target.dims[outer]!, k.dims[outer]!];
  const width = q.dims[outer + 1]! + target.dims[outer + 1]!;
  const rowNs = Math.max(1, keys * (width / macsPerNs + SCORE_NS));
  // Whole matrices, so that K and V are packed once; cut where a tile would take too long, or two cores could not share the work.
  const most = Math.max(1, Math.min(ATTENTION_ROWS, Math.floor(LONGEST_TILE_NS / rowNs)));
  const shared = batches >= FEW_TILES || batches % 2 === 0;
  const perTile = evenUnits(rows, Math.min(most, Math.max(rows, 1)), shared ? 0 : batches * rows * rowNs);
  const tiles = Math.max(1, batches * ceilDiv(rows, perTile));
  const bits = new DataView(new ArrayBuffer(4));
  bits.setFloat32(0, scale);
  return {
    op: Opcode.ATTENTION,
    tiles,
    costNs: batches * rows * rowNs + tiles * (keys * width * PACK_NS + TILE_OVERHEAD_NS),
    operands,
    params: [perTile, bits.getUint32(0), (causal ?? 0) >>> 0],
    flags: (causal === undefined ? 0 : AttentionForm.CAUSAL) | (zeros ? AttentionForm.ZEROS : 0),
  };
}

/** @returns what is wrong, or undefined */
export function attentionFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [perTile] = it.params as [number];
  if (tensors.length < 4 || tensors.length > 5) return `has ${tensors.length} operands, not 4 or 5`;
  const fault = misfit(tensors);
  if (fault) return fault;
  const [target] = tensors as [TensorRecord];
  if (product(target.dims) > 0 && target.strides[target.dims.length - 1] !== 4) return "writes rows that are not dense";
  if (it.flags > (AttentionForm.CAUSAL | AttentionForm.ZEROS)) return "has a form that does not exist";
  if (perTile < 1 || perTile > ATTENTION_ROWS) return `has tiles of ${perTile} rows`;
  const tiles = product(target.dims.slice(0, -2)) * ceilDiv(target.dims[target.dims.length - 2]!, perTile);
  return it.tiles === Math.max(1, tiles) ? undefined : `has ${it.tiles} tiles for work of ${tiles}`;
}
