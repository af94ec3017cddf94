/** RNN -> record, and its verification. */
import { GATE_BLOCK, Opcode, RnnKind } from "../../asm/abi/isa";
import { SCRATCH_BYTES } from "../../asm/abi/device";
import { AclError } from "../errors/acl-error";
import { TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { InstructionRecord, TensorRecord } from "./image";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { Instruction, RnnName } from "./types";

const KINDS: Readonly<Record<RnnName, { readonly kind: RnnKind; readonly gates: number; readonly extra: number }>> = {
  lstm: { kind: RnnKind.LSTM, gates: 4, extra: 3 },
  gru: { kind: RnnKind.GRU, gates: 3, extra: 0 },
  gru_reset_after: { kind: RnnKind.GRU_RESET_AFTER, gates: 3, extra: 1 },
  tanh: { kind: RnnKind.TANH, gates: 1, extra: 0 },
  relu: { kind: RnnKind.RELU, gates: 1, extra: 0 },
};
const padded = (hidden: number): number => Math.ceil(hidden / GATE_BLOCK) * GATE_BLOCK;

/** Most hidden units: gates and state have to fit a core's scratch memory. */
export const HIDDEN_LIMIT = Math.floor(SCRATCH_BYTES / 4 / 10 / GATE_BLOCK) * GATE_BLOCK;
/** Numbers of packed recurrent weights. */
export const packedRnnSize = (gates: number, hidden: number): number => gates * padded(hidden) * hidden;

/** Recurrent weights [gates * hidden, hidden] -> per gate [column block][row][GATE_BLOCK], zeros in the padding. */
export function packRnn(weights: Float32Array, gates: number, hidden: number): Float32Array {
  const packed = new Float32Array(packedRnnSize(gates, hidden));
  for (let gate = 0; gate < gates; gate++) {
    for (let unit = 0; unit < hidden; unit++) {
      const block = gate * padded(hidden) * hidden + Math.floor(unit / GATE_BLOCK) * hidden * GATE_BLOCK + (unit % GATE_BLOCK);
      for (let row = 0; row < hidden; row++) {
        packed[block + row * GATE_BLOCK] = weights[(gate * hidden + unit) * hidden + row]!;
      }
    }
  }
  return packed;
}

export function encodeRnn(instruction: Extract<Instruction, { op: "rnn" }>, table: TensorTable): Encoded {
  const { kind, target, source, weights, state, cell, extra, node } = instruction;
  const form = KINDS[kind];
  const [steps = 0, batch = 0, hidden = 0] = target.dims;
  const views = [target, source, weights, state, cell ?? state, ...(extra ? [extra] : [])];
  if (views.some(({ dtype }) => dtype !== "float32")) {
    throw new AclError(100026, `node "${node}": rnn takes float32 only: cast first`);
  }
  if (hidden > HIDDEN_LIMIT) {
    throw new AclError(100024, `node "${node}": ${hidden} hidden units do not fit a core's scratch memory; it takes ${HIDDEN_LIMIT}`);
  }
  const operands = views.map((view) => (view === weights ? table.add(view, [packedRnnSize(form.gates, hidden)], [4]) : table.add(view)));
  const stepNs = form.gates * (hidden * padded(hidden) * 0.12 + hidden * 8) + 120;
  const perTile = unitsPerTile(batch, steps * stepNs);
  const tiles = Math.max(1, ceilDiv(batch, perTile));
  return {
    op: Opcode.RNN,
    tiles,
    costNs: batch * steps * stepNs + tiles * TILE_OVERHEAD_NS,
    operands,
    params: [form.kind, form.gates, extra ? form.extra : 0, perTile],
  };
}

/** @returns what is wrong, or undefined */
export function rnnFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [kind, gates, extra, perTile] = it.params as [number, number, number, number];
  const form = Object.values(KINDS).find((each) => each.kind === kind);
  const [target, source, weights, state, cell, more] = tensors;
  if (!form || gates !== form.gates || (extra !== 0 && extra !== form.extra) || !cell || extra > 0 !== (more !== undefined) || tensors.length > 6) {
    return "is no recurrence that exists";
  }
  if (kind === RnnKind.GRU_RESET_AFTER && extra === 0) {
    return "lacks the bias that its reset gate scales";
  }
  const [steps = 0, batch = 0, hidden = 0] = target!.dims;
  const rows = (tensor: TensorRecord, dims: readonly number[]): boolean =>
    tensor.dtype === "float32" && tensor.dims.join() === dims.join() && (tensor.strides[dims.length - 1] === 4 || dims[dims.length - 1]! <= 1);
  const fits =
    hidden <= HIDDEN_LIMIT &&
    perTile >= 1 &&
    rows(target!, [steps, batch, hidden]) &&
    rows(source!, [steps, batch, gates * hidden]) &&
    rows(weights!, [packedRnnSize(gates, hidden)]) &&
    rows(state!, [batch, hidden]) &&
    rows(cell, [batch, hidden]) &&
    (!more || rows(more, [extra * hidden]));
  return fits ? undefined : "has operands that do not fit its target";
}
