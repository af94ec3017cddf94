/** GRID_SAMPLE and ROI_ALIGN -> records, and their verification. */
import { Border, Opcode, SampleMode } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { TILE_OVERHEAD_NS } from "./costs";
import type { Encoded } from "./encoded";
import type { InstructionRecord, TensorRecord } from "./image";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, unitsPerTile } from "./tiles";
import type { Instruction } from "./types";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

/** Nanoseconds of a position, and of one tap of one channel. */
const POSITION_NS = 40;
const TAP_NS = 0.4;

const bitsOf = (value: number): number => new Uint32Array(Float32Array.of(value).buffer)[0]!;

function tiled(units: number, unitNs: number) {
  const perTile = unitsPerTile(units, unitNs);
  const tiles = Math.max(1, ceilDiv(units, perTile));
  return { perTile, tiles, costNs: units * unitNs + tiles * TILE_OVERHEAD_NS };
}

interface Shaped {
  readonly dtype: string;
  readonly dims: readonly number[];
  readonly strides: readonly number[];
}

/** The innermost dim is dense float32. */
const isPacked = ({ dtype, dims, strides }: Shaped): boolean =>
  dtype === "float32" && (strides[dims.length - 1] === 4 || dims[dims.length - 1]! <= 1);

function gridFits(target: Shaped, source: Shaped, grid: Shaped): boolean {
  const [n, positions, channels] = target.dims;
  const axes = grid.dims[2];
  return (
    [target, source, grid].every(isPacked) &&
    target.dims.length === 3 &&
    source.dims.length === 5 &&
    source.dims[0] === n &&
    source.dims[4] === channels &&
    source.dims.slice(1, 4).every((dim) => dim > 0) &&
    grid.dims.slice(0, 2).join() === `${n},${positions}` &&
    (axes === 3 || (axes === 2 && source.dims[1] === 1))
  );
}

export function encodeGridSample({ target, source, grid, mode, border, alignCorners, node }: Of<"grid_sample">, table: TensorTable): Encoded {
  if (!gridFits(target, source, grid)) {
    throw new AclError(100000, `node "${node}": cannot sample [${source.dims}] at [${grid.dims}] into [${target.dims}]`);
  }
  const [n = 0, positions = 0, channels = 0] = target.dims;
  const taps = { nearest: 1, linear: 2, cubic: 4 }[mode] ** grid.dims[2]!;
  const { perTile, tiles, costNs } = tiled(n * positions, POSITION_NS + taps * (5 + channels * TAP_NS));
  const params = [
    perTile,
    SampleMode[mode.toUpperCase() as keyof typeof SampleMode],
    Border[border.toUpperCase() as keyof typeof Border],
    alignCorners ? 1 : 0,
  ];
  return { op: Opcode.GRID_SAMPLE, tiles, costNs, operands: [target, source, grid].map((view) => table.add(view)), params };
}

function roisFit(target: Shaped, source: Shaped, rois: Shaped, pictures: Shaped): boolean {
  return (
    [target, source, rois].every(isPacked) &&
    target.dims.length === 4 &&
    source.dims.length === 5 &&
    source.dims[1] === 1 &&
    source.dims[4] === target.dims[3] &&
    source.dims.slice(2, 4).every((dim) => dim > 0) &&
    rois.dims.join() === `${target.dims[0]},4` &&
    (rois.strides[0] === 16 || rois.dims[0]! <= 1) &&
    pictures.dtype === "int64" &&
    pictures.dims.join() === `${target.dims[0]}` &&
    (pictures.strides[0] === 8 || pictures.dims[0]! <= 1)
  );
}

export function encodeRoiAlign(instruction: Of<"roi_align">, table: TensorTable): Encoded {
  const { target, source, rois, pictures, mode, samples, scale, offset, node } = instruction;
  if (!roisFit(target, source, rois, pictures)) {
    throw new AclError(100000, `node "${node}": cannot align [${rois.dims}] in [${source.dims}] to [${target.dims}]`);
  }
  const [count = 0, high = 0, wide = 0, channels = 0] = target.dims;
  const binNs = POSITION_NS + (samples || 2) ** 2 * (20 + 4 * channels * TAP_NS);
  const { perTile, tiles, costNs } = tiled(count, high * wide * binNs);
  const operands = [target, source, rois, pictures].map((view) => table.add(view));
  return { op: Opcode.ROI_ALIGN, tiles, costNs, operands, params: [perTile, mode === "max" ? 1 : 0, samples, bitsOf(scale), bitsOf(offset)] };
}

/** @returns what is wrong, or undefined */
export function sampleFault(it: InstructionRecord, tensors: readonly TensorRecord[]): string | undefined {
  const [target, source, where, pictures] = tensors;
  const aligns = it.op === Opcode.ROI_ALIGN;
  if (!target || !source || !where || tensors.length !== (aligns ? 4 : 3) || it.params[0]! < 1) {
    return "samples in no known way";
  }
  if (!aligns && (it.params[1]! > SampleMode.CUBIC || it.params[2]! > Border.REFLECT)) {
    return "samples in no known way";
  }
  return (aligns ? roisFit(target, source, where, pictures!) : gridFits(target, source, where))
    ? undefined
    : "has operands that do not fit its target";
}
