/** MATMUL, CONV and POOL -> records. */
import { ConvBlock, ConvMode, Opcode, PANEL, PoolKind } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { DTYPES } from "../graph/dtype";
import type { Encoded } from "./encoded";
import { isDepthwise, packedConvSize, packedMatmulSize } from "./pack";
import { encodeStrip } from "./strip-encode";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, MACS_PER_NS, TILE_OVERHEAD_NS, unitsPerTile } from "./tiles";
import type { Instruction, Strip, View, Window } from "./types";
import { product } from "./views";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

/** Rows and pixels of the kernels' inner blocks: tiles are multiples, so that only the last block is short. */
const ROW_BLOCK = 60;
/** Above this many bytes of weights a tile keeps to some of the columns, or every tile streams them all. */
const COLUMN_BYTES = 1 << 20;
const TAP_LIMIT = 3072;
const GATHER_LIMIT = 3072;
const GATHER_CHANNELS = 16;

const MATMUL_DTYPES: ReadonlySet<string> = new Set(["float32", "float64", "int32", "uint32", "int64", "uint64"]);

interface Epilogue {
  readonly bytes?: Uint8Array;
  readonly elementNs: number;
}

function encodeEpilogue(strip: Strip | undefined, target: View, node: string, table: TensorTable, axes?: readonly number[]): Epilogue {
  if (!strip) return { elementNs: 0 };
  if (strip.outputs.some(({ view }) => view.dims.join() !== target.dims.join())) {
    throw new AclError(100000, `node "${node}": the outputs of an epilogue must have the dims of its target [${target.dims}]`);
  }
  const { bytes, elementNs } = encodeStrip(strip, { node, accumulator: target, ...(axes ? { axes } : {}) }, table);
  return { bytes, elementNs };
}

/** A matrix times one shared B is one taller matrix when its batch lies evenly behind its rows. */
function foldBatch(instruction: Of<"matmul">): Of<"matmul"> {
  const { target, a, b, epilogue, packed } = instruction;
  if (epilogue || target.dims.length < 3) return instruction;
  const outer = target.dims.length - 2;
  const shared = packed || b.strides.slice(0, outer).every((stride, axis) => stride === 0 || b.dims[axis] === 1);
  const axis = outer - 1;
  const m = target.dims[outer]!;
  const even = (view: View): boolean => m === 1 || view.strides[axis] === view.strides[outer]! * m;
  if (!shared || !even(target) || !even(a)) return instruction;
  const merge = (view: View): View => {
    const stride = m === 1 ? view.strides[axis]! : view.strides[outer]!;
    return {
      ...view,
      dims: [...view.dims.slice(0, axis), view.dims[axis]! * m, view.dims[outer + 1]!],
      strides: [...view.strides.slice(0, axis), stride, view.strides[outer + 1]!],
    };
  };
  const drop = (view: View): View => ({ ...view, dims: view.dims.toSpliced(axis, 1), strides: view.strides.toSpliced(axis, 1) });
  return foldBatch({ ...instruction, target: merge(target), a: merge(a), b: packed ? b : drop(b) });
}

function checkMatmul({ target, a, b, packed, node }: Of<"matmul">): void {
  const fail = (what: string): never => {
    throw new AclError(100000, `node "${node}": matmul ${what}`);
  };
  const rank = target.dims.length;
  if (rank < 2 || a.dims.length !== rank) fail(`target has ${rank} dims and a has ${a.dims.length}: both need the batch dims, two at least`);
  if (a.dtype !== target.dtype || b.dtype !== target.dtype || !MATMUL_DTYPES.has(target.dtype)) {
    throw new AclError(
      100026,
      `node "${node}": matmul of ${a.dtype} and ${b.dtype} into ${target.dtype}: cast to one of ${[...MATMUL_DTYPES].join(", ")}`,
    );
  }
  const k = a.dims[rank - 1]!;
  if (a.dims.slice(0, -1).join() !== target.dims.slice(0, -1).join()) fail(`has a [${a.dims}] for target [${target.dims}]`);
  if (packed) {
    if (target.dtype !== "float32") fail("takes packed weights in float32 only");
    if (target.strides[rank - 1] !== 4 && target.dims[rank - 1] !== 1) fail("with packed weights needs a target with dense columns: copy afterwards");
  } else if ([...target.dims.slice(0, -2), k, target.dims[rank - 1]].join() !== b.dims.join())
    fail(`has b [${b.dims}] for a [${a.dims}] and target [${target.dims}]`);
}

export function encodeMatmul(given: Of<"matmul">, table: TensorTable): Encoded {
  checkMatmul(given);
  const instruction = foldBatch(given);
  const { target, a, b, packed, node } = instruction;
  const rank = target.dims.length;
  const [m, n, k] = [target.dims[rank - 2]!, target.dims[rank - 1]!, a.dims[rank - 1]!];
  const batches = product(target.dims.slice(0, -2));
  const epilogue = encodeEpilogue(instruction.epilogue, target, node, table);
  const fast = target.dtype === "float32";
  const cellNs = k / (fast ? (m < 4 ? MACS_PER_NS / 3 : MACS_PER_NS) : 0.7) + epilogue.elementNs + 0.1;
  const wide = n > 2 * PANEL && (k * n * 4 > COLUMN_BYTES || m < ROW_BLOCK);
  // A tall matrix is cut by rows, a flat or wide one by columns too.
  const columns = wide ? Math.max(Math.min(n, 64), unitsPerTile(n, Math.min(m, ROW_BLOCK) * cellNs, PANEL * 4)) : Math.max(n, 1);
  const rows = unitsPerTile(m, columns * cellNs, ROW_BLOCK);
  const whole = rows >= m && columns >= n;
  const together = whole ? unitsPerTile(batches, m * n * cellNs) : 1;
  const tiles = Math.max(1, ceilDiv(m, rows) * ceilDiv(n, columns) * ceilDiv(batches, together));
  const panels = { dims: [packedMatmulSize(k, n)], strides: [4] };
  const operands = [table.add(target), table.add(a), packed ? table.add(b, panels.dims, panels.strides) : table.add(b)];
  return {
    op: Opcode.MATMUL,
    tiles,
    costNs: batches * m * n * cellNs + tiles * TILE_OVERHEAD_NS,
    operands,
    params: [rows, columns, k, packed ? 1 : 0, together],
    ...(epilogue.bytes ? { block: epilogue.bytes } : {}),
  };
}

/** Axes of a logical [N, C, spatial...] view in the order of memory. */
const channelsLast = (rank: number): number[] => [0, ...Array.from({ length: rank - 2 }, (_, i) => i + 2), 1];

/** [N, C, spatial...] -> [N, D, H, W, C] with leading spatial dims of one. */
function spatialRecord(view: View, table: TensorTable): number {
  const spatial = view.dims.length - 2;
  const dims = [view.dims[0]!, ...new Array<number>(3 - spatial).fill(1), ...view.dims.slice(2), view.dims[1]!];
  const strides = [view.strides[0]!, ...new Array<number>(3 - spatial).fill(0), ...view.strides.slice(2), view.strides[1]!];
  return table.add(view, dims, strides);
}

/** Geometry block; throws where the window and the views do not belong together. */
function geometry(window: Window, target: View, source: View, node: string): DataView {
  const spatial = target.dims.length - 2;
  const parts = [window.kernel, window.strides, window.dilations, window.padsBegin, window.padsEnd];
  const whole = parts.every(
    (part, i) => part.length === spatial && part.every((value) => Number.isInteger(value) && value >= (i < 3 ? 1 : 0) && value < 2 ** 24),
  );
  if (spatial < 1 || spatial > 3 || source.dims.length !== spatial + 2 || !whole || source.dims[0] !== target.dims[0]) {
    throw new AclError(
      100000,
      `node "${node}": a window over [${source.dims}] into [${target.dims}] needs 1 to 3 spatial dims and one positive entry for each`,
    );
  }
  if (product(window.kernel) > TAP_LIMIT) {
    throw new AclError(
      100000,
      `node "${node}": the window [${window.kernel}] has ${product(window.kernel)} taps; the device takes ${TAP_LIMIT}: use MATMUL over gathered windows or REDUCE`,
    );
  }
  const block = new DataView(new ArrayBuffer(ConvBlock.SIZE));
  const fields = [ConvBlock.KERNEL, ConvBlock.STRIDES, ConvBlock.DILATIONS, ConvBlock.PADS, ConvBlock.PADS_END];
  for (const [f, part] of parts.entries()) {
    const padded = [...new Array<number>(3 - spatial).fill(f < 3 ? 1 : 0), ...part];
    for (const [i, value] of padded.entries()) block.setUint32(fields[f]! + i * 4, value, true);
  }
  block.setUint32(ConvBlock.GROUPS, 1, true);
  return block;
}

function convMode(channels: number, columns: number, groups: number, taps: number): ConvMode {
  if (isDepthwise(channels, columns, groups)) return ConvMode.DEPTHWISE;
  return channels < GATHER_CHANNELS && taps * channels <= GATHER_LIMIT ? ConvMode.GATHER : ConvMode.POINTERS;
}

export function encodeConv(instruction: Of<"conv">, table: TensorTable): Encoded {
  const { target, source, weights, window, groups, node } = instruction;
  const block = geometry(window, target, source, node);
  const [m, c] = [target.dims[1]!, source.dims[1]!];
  if ([target, source, weights].some(({ dtype }) => dtype !== "float32"))
    throw new AclError(100026, `node "${node}": conv takes float32 only: cast first`);
  if (groups < 1 || m % groups !== 0 || c % groups !== 0 || (target.strides[1] !== 4 && m > 1) || (source.strides[1] !== 4 && c > 1)) {
    throw new AclError(
      100000,
      `node "${node}": conv needs dense channels (NHWC) and ${groups} groups that divide ${c} input and ${m} output channels`,
    );
  }
  const taps = product(window.kernel);
  const channels = c / groups;
  const mode = convMode(channels, m / groups, groups, taps);
  const axes = channelsLast(target.dims.length);
  const epilogue = encodeEpilogue(instruction.epilogue, target, node, table, axes);
  const pixels = target.dims[0]! * product(target.dims.slice(2));
  const rate = mode === ConvMode.DEPTHWISE ? 4 : channels < 8 ? MACS_PER_NS / 2 : MACS_PER_NS;
  const cellNs = (taps * channels) / rate + epilogue.elementNs + 0.1;
  const few = pixels < 8 * ROW_BLOCK && taps * channels * m * 4 > COLUMN_BYTES / 2;
  const columns = groups === 1 && few ? unitsPerTile(m, Math.min(pixels, ROW_BLOCK) * cellNs, PANEL * 4) : Math.max(m, 1);
  const rows = unitsPerTile(pixels, columns * cellNs + taps * 2, mode === ConvMode.DEPTHWISE ? 4 : ROW_BLOCK);
  const tiles = Math.max(1, ceilDiv(pixels, rows) * ceilDiv(m, columns));
  block.setUint32(ConvBlock.GROUPS, groups, true);
  block.setUint32(ConvBlock.MODE, mode, true);
  block.setUint32(ConvBlock.ROWS, rows, true);
  block.setUint32(ConvBlock.COLUMNS, columns, true);
  const packed = packedConvSize([m, channels, ...window.kernel], groups);
  const operands = [spatialRecord(target, table), spatialRecord(source, table), table.add(weights, [packed], [4])];
  return {
    op: Opcode.CONV,
    tiles,
    costNs: pixels * (m * cellNs + taps * 2) + tiles * TILE_OVERHEAD_NS,
    operands,
    params: [0],
    geometry: new Uint8Array(block.buffer),
    ...(epilogue.bytes ? { block: epilogue.bytes } : {}),
  };
}

const POOL_KINDS = { max: PoolKind.MAX, average: PoolKind.AVERAGE, average_include_pad: PoolKind.AVERAGE_INCLUDE_PAD } as const;
const MAX_DTYPES: ReadonlySet<string> = new Set(["float32", "float64", "int8", "uint8", "int32", "int64"]);

export function encodePool(instruction: Of<"pool">, table: TensorTable): Encoded {
  const { target, source, window, kind, node } = instruction;
  const block = geometry(window, target, source, node);
  const fits = kind === "max" ? MAX_DTYPES.has(target.dtype) : target.dtype === "float32" || target.dtype === "float64";
  if (!fits || source.dtype !== target.dtype) {
    throw new AclError(100026, `node "${node}": ${kind} pool of ${source.dtype} into ${target.dtype} is not defined: cast first`);
  }
  if (target.dims[1] !== source.dims[1]) throw new AclError(100000, `node "${node}": pool from ${source.dims[1]} to ${target.dims[1]} channels`);
  const channels = target.dims[1]!;
  const taps = product(window.kernel);
  const pixels = target.dims[0]! * product(target.dims.slice(2));
  const lines = target.dtype === "float32" && channels >= 4 && target.strides[1] === 4 && source.strides[1] === 4;
  const pixelNs = taps * (lines ? 3 + channels * 0.06 : channels * 3) + channels * 0.2 * (DTYPES[target.dtype].bytes / 4);
  const rows = unitsPerTile(pixels, pixelNs, 4);
  const tiles = Math.max(1, ceilDiv(pixels, rows));
  block.setUint32(ConvBlock.ROWS, rows, true);
  block.setUint32(ConvBlock.COLUMNS, Math.max(channels, 1), true);
  const operands = [spatialRecord(target, table), spatialRecord(source, table)];
  return {
    op: Opcode.POOL,
    tiles,
    costNs: pixels * pixelNs + tiles * TILE_OVERHEAD_NS,
    operands,
    params: [0, POOL_KINDS[kind]],
    geometry: new Uint8Array(block.buffer),
  };
}
