/**
 * The layouts that matrix units read, as strided copies: NC1HWC0 splits the channels of NCHW into groups, FRACTAL_NZ cuts the last two axes into 16-row
 * fractals. What a group or fractal has beyond the tensor is 0. Element order inside a piece is all that changes, so there and back is the identity.
 */
import { invalidParam } from "../errors/make";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { TaskOp } from "../host/layout";
import { deviceAddress } from "./address";
import type { StreamCore } from "./stream-core";
import { submitStrided } from "./strided";

export type Format = "ND" | "NC1HWC0" | "FRACTAL_NZ";

export interface FormatConversion {
  /** Logical dims: NCHW for NC1HWC0, at least two axes for FRACTAL_NZ. */
  readonly dims: readonly number[];
  readonly dtype: DtypeName;
  readonly from: Format;
  readonly to: Format;
}

const FRACTAL = 16;

/** Elements of a group: 32 bytes of one-byte types, else 16 elements. */
function groupOf(dtype: DtypeName): number {
  return DTYPES[dtype].bytes === 1 ? 32 : FRACTAL;
}

const product = (dims: readonly number[]): number => dims.reduce((all, dim) => all * dim, 1);

function check(what: string, dims: readonly number[], dtype: DtypeName, format: Format): void {
  const bytes = DTYPES[dtype]?.bytes ?? 0;
  if (bytes === 0 || bytes > 8 || !Array.isArray(dims) || !dims.every((dim) => Number.isInteger(dim) && dim > 0)) {
    throw invalidParam(`${what}: dims must be whole numbers above 0, and the dtype one of at most 8 bytes, not ${String(dtype)}`);
  }
  if (format !== "ND" && format !== "NC1HWC0" && format !== "FRACTAL_NZ") {
    throw invalidParam(`${what}: format ${String(format)} is unknown; pass ND, NC1HWC0 or FRACTAL_NZ`);
  }
  if ((format === "NC1HWC0" && dims.length !== 4) || (format === "FRACTAL_NZ" && dims.length < 2)) {
    throw invalidParam(`${what}: ${format} of [${dims.join(", ")}]; NC1HWC0 takes NCHW, FRACTAL_NZ at least two axes`);
  }
}

/** Dims of a tensor as it lies in memory. */
export function storageDims(dims: readonly number[], dtype: DtypeName, format: Format): readonly number[] {
  check("storageDims", dims, dtype, format);
  const group = groupOf(dtype);
  if (format === "NC1HWC0") {
    const [n, c, h, w] = dims as [number, number, number, number];
    return [n, Math.ceil(c / group), h, w, group];
  }
  if (format === "FRACTAL_NZ") {
    const [rows, columns] = dims.slice(-2) as [number, number];
    return [...dims.slice(0, -2), Math.ceil(columns / group), Math.ceil(rows / FRACTAL), FRACTAL, group];
  }
  return dims;
}

/** Bytes of a tensor as it lies in memory. */
export function storageBytes(dims: readonly number[], dtype: DtypeName, format: Format): number {
  return product(storageDims(dims, dtype, format)) * DTYPES[dtype].bytes;
}

/** A block that both layouts have as a strided view; strides and offsets in elements. */
interface Piece {
  readonly dims: readonly number[];
  readonly plain: { readonly strides: readonly number[]; readonly offset: number };
  readonly packed: { readonly strides: readonly number[]; readonly offset: number };
}

/** Runs of whole units and the rest: [first unit, units, elements of each]. */
function parts(size: number, unit: number): [number, number, number][] {
  const whole = Math.floor(size / unit);
  const found: [number, number, number][] = [];
  if (whole > 0) {
    found.push([0, whole, unit]);
  }
  if (size % unit > 0) {
    found.push([whole, 1, size % unit]);
  }
  return found;
}

function channelPieces([n, c, h, w]: readonly [number, number, number, number], group: number): Piece[] {
  const groups = Math.ceil(c / group);
  const area = h * w;
  return parts(c, group).map(([first, units, elements]) => ({
    dims: [n, units, h, w, elements],
    plain: { strides: [c * area, group * area, w, 1, area], offset: first * group * area },
    packed: { strides: [groups * area * group, area * group, w * group, group, 1], offset: first * area * group },
  }));
}

function fractalPieces(batch: number, rows: number, columns: number, group: number): Piece[] {
  const across = Math.ceil(columns / group);
  const down = Math.ceil(rows / FRACTAL);
  const fractal = FRACTAL * group;
  return parts(columns, group).flatMap(([left, wide, width]) =>
    parts(rows, FRACTAL).map(([top, high, height]) => ({
      dims: [batch, wide, high, height, width],
      plain: { strides: [rows * columns, group, FRACTAL * columns, columns, 1], offset: top * FRACTAL * columns + left * group },
      packed: { strides: [across * down * fractal, down * fractal, fractal, group, 1], offset: (left * down + top) * fractal },
    })),
  );
}

function piecesOf(dims: readonly number[], dtype: DtypeName, format: Format): Piece[] {
  const group = groupOf(dtype);
  if (format === "NC1HWC0") {
    return channelPieces(dims as [number, number, number, number], group);
  }
  const [rows, columns] = dims.slice(-2) as [number, number];
  return fractalPieces(product(dims.slice(0, -2)), rows, columns, group);
}

/** Between ND and one of the others; the addresses have been checked for their bytes. */
function repack(core: StreamCore, target: number, source: number, dims: readonly number[], dtype: DtypeName, format: Format, packs: boolean): void {
  const { bytes } = DTYPES[dtype];
  const packedBytes = storageBytes(dims, dtype, format);
  if (packs && packedBytes > product(dims) * bytes) {
    core.submit(TaskOp.FILL, core.localOffset(target, packedBytes, "convertFormat: target"), packedBytes, 0, 1);
  }
  const view = (address: number, piece: Piece, { strides, offset }: Piece["plain"]) => ({
    address,
    dtype,
    dims: piece.dims,
    strides: strides.map((stride) => stride * bytes),
    offsetBytes: offset * bytes,
  });
  for (const piece of piecesOf(dims, dtype, format)) {
    const [to, from] = packs ? [piece.packed, piece.plain] : [piece.plain, piece.packed];
    submitStrided(core, view(target, piece, to), view(source, piece, from));
  }
}

/**
 * Queues the conversion of a tensor from `source` to `target`, which must not overlap.
 * @throws AclError 107000 for dims that a format cannot have, or a range that leaves its allocation
 */
export function convertFormat(core: StreamCore, target: number, source: number, { dims, dtype, from, to }: FormatConversion): void {
  const what = "convertFormat";
  check(what, dims, dtype, from);
  check(what, dims, dtype, to);
  const sourceBytes = storageBytes(dims, dtype, from);
  const sourceAt = core.localOffset(source, sourceBytes, `${what}: source`);
  const targetBytes = storageBytes(dims, dtype, to);
  const targetAt = core.localOffset(target, targetBytes, `${what}: target`);
  if (sourceAt < targetAt + targetBytes && targetAt < sourceAt + sourceBytes) {
    throw invalidParam(`${what}: source and target overlap; convert into memory of its own`);
  }
  if (from === to) {
    core.submit(TaskOp.COPY, targetAt, sourceAt, sourceBytes);
  } else if (from === "ND") {
    repack(core, target, source, dims, dtype, to, true);
  } else if (to === "ND") {
    repack(core, target, source, dims, dtype, from, false);
  } else {
    throughPlain(core, target, source, dims, dtype, from, to);
  }
}

function throughPlain(core: StreamCore, target: number, source: number, dims: readonly number[], dtype: DtypeName, from: Format, to: Format): void {
  const { staging } = core.device;
  const plain = staging.take(product(dims) * DTYPES[dtype].bytes);
  const address = deviceAddress(core.device.index, plain);
  repack(core, address, source, dims, dtype, from, false);
  repack(core, target, address, dims, dtype, to, true);
  staging.give(plain, core.index, core.machine.core.tail(core.index));
}
