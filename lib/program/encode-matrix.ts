/** MATMUL, CONV and POOL -> records. */
import { ConvBlock, ConvMode, Opcode, PoolKind } from "../../asm/abi/isa";
import { AclError } from "../errors/acl-error";
import { DTYPES } from "../graph/dtype";
import { type Build, TILE_OVERHEAD_NS, WEIGHT_BYTES_PER_NS } from "./costs";
import type { Encoded } from "./encoded";
import { isDepthwise, packedConvSize, packedMatmulSize, packedWinogradSize, RUN_LIMIT } from "./pack";
import { splitEpilogue } from "./closing";
import { encodeStrip } from "./strip-encode";
import type { TensorTable } from "./tensor-table";
import { ceilDiv, evenUnits, FEW_TILES, LONGEST_TILE_NS, SPLIT_NS, stripColumns, unitsPerTile } from "./tiles";
import type { Instruction, Strip, View, Window } from "./types";
import { collapse, product } from "./views";
import { isPlain, planarViews, takesWinograd } from "./winograd";

type Of<Op extends Instruction["op"]> = Extract<Instruction, { op: Op }>;

/** Rows and pixels of the kernels' inner blocks: tiles are about so many, or a multiple. */
const ROW_BLOCK = 60;
/** Above this many bytes of weights a tile keeps to some of the columns, or every tile streams them all. */
const COLUMN_BYTES = 1 << 19;
const TAP_LIMIT = 3072;
/** Taps times channels of a window that is gathered, or whose runs may have to be copied at the borders. */
const GATHER_LIMIT = 4096;
/** Below this many channels the runs of a kernel row are too short for the micro-kernel: gathered windows make one long run. */
const GATHER_CHANNELS = 24;
/**
 * Patches that a tile of Winograd wants at least: they are the rows of its 36 products, and each tile reads all weights. An image is halved all the
 * same, so that two cores can share it, unless it is tiny.
 */
const WINOGRAD_PATCHES = 24;
/** Columns of B that a tile packs for itself when nobody packed them before. */
const UNPACKED_COLUMNS = 64;

const MATMUL_DTYPES: ReadonlySet<string> = new Set(["float32", "float64", "int32", "uint32", "int64", "uint64"]);

interface Epilogue {
  /** Fields of an instruction that name the epilogue. */
  readonly fields: Pick<Encoded, "flags" | "block">;
  readonly bias: readonly number[];
  readonly greatest: number;
  readonly elementNs: number;
}

/** `axis` holds the columns of the product, or is undefined where the kernel stores without its closing steps. */
export function encodeEpilogue(
  strip: Strip | undefined,
  target: View,
  axis: number | undefined,
  node: string,
  table: TensorTable,
  axes?: readonly number[],
): Epilogue {
  if (strip?.outputs.some(({ view }) => view.dims.join() !== target.dims.join())) {
    throw new AclError(100000, `node "${node}": the outputs of an epilogue must have the dims of its target [${target.dims}]`);
  }
  const { bias, flags, greatest, rest } = axis === undefined ? { flags: 0, greatest: 0, rest: strip } : splitEpilogue(strip, target, axis);
  const encoded = rest && encodeStrip(rest, { node, accumulator: target, ...(axes ? { axes } : {}) }, table);
  return {
    fields: { flags, ...(encoded ? { block: encoded.bytes } : {}) },
    bias: bias ? [table.add(bias, [bias.dims[axis!]!], [4])] : [],
    greatest,
    elementNs: encoded?.elementNs ?? 0,
  };
}

/** A matrix times one shared B is one taller matrix when its batch lies evenly behind its rows. */
function foldBatch(instruction: Of<"matmul">): Of<"matmul"> {
  const { target, a, b, packed } = instruction;
  if (target.dims.length < 3) return instruction;
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

/** Columns of tiles of about equal width, whole panels each. */
const evenColumns = (n: number, perTile: number, totalNs: number, panel: number): number =>
  Math.min(Math.max(n, 1), evenUnits(ceilDiv(n, panel), Math.max(1, perTile / panel), totalNs) * panel);

/** Rows, columns (`least` or more, if it has them) and matrices of one tile. Rows that share a B not packed before stay together: each column is packed once. */
function matmulTiles(m: number, n: number, batches: number, cellNs: number, packed: boolean, streams: boolean, panel: number, least: number) {
  if (!packed && m >= ROW_BLOCK) {
    const cut = evenUnits(m, unitsPerTile(m, Math.min(n, UNPACKED_COLUMNS) * cellNs, 4 * ROW_BLOCK));
    const rows = cut * 2 > m ? m : cut;
    const columns = rows < m ? Math.min(n, 4 * UNPACKED_COLUMNS) : unitsPerTile(n, m * cellNs, Math.max(panel, UNPACKED_COLUMNS));
    return [rows, columns, rows >= m && columns >= n ? unitsPerTile(batches, m * n * cellNs) : 1];
  }
  const wide = n > 2 * panel && (streams || m < 2 * ROW_BLOCK);
  const totalNs = batches * m * n * cellNs;
  // A tall matrix is cut by rows, a flat or wide one by columns too; what does not stay in cache of the weights is read once for as many rows as can be.
  const columns = wide
    ? evenColumns(n, Math.max(Math.min(n, least), unitsPerTile(n, Math.min(m, ROW_BLOCK) * cellNs, panel * 4)), totalNs, panel)
    : Math.max(n, 1);
  const most = Math.max(1, Math.floor(LONGEST_TILE_NS / (columns * cellNs) / ROW_BLOCK)) * ROW_BLOCK;
  const shared = (batches * ceilDiv(n, columns)) % 2 === 0;
  const rows = evenUnits(m, wide && streams ? Math.min(m, most) : unitsPerTile(m, columns * cellNs, ROW_BLOCK), shared ? 0 : totalNs);
  return [rows, columns, rows >= m && columns >= n ? unitsPerTile(batches, m * n * cellNs) : 1];
}

export function encodeMatmul(given: Of<"matmul">, table: TensorTable, build: Build): Encoded {
  checkMatmul(given);
  const last = given.target.dims.length - 1;
  const fast = given.target.dtype === "float32" && (given.packed || given.target.strides[last] === 4);
  // The epilogue numbers its elements row by row, whether the batch is folded or not.
  const epilogue = encodeEpilogue(given.epilogue, given.target, fast ? last : undefined, given.node, table);
  return encodeProduct(given, epilogue, table, build);
}

/** Of a product that adds up `k` numbers: a panel that is not full costs a whole one, and its weights are read once for `rows` rows. */
const productNs = (k: number, n: number, rows: number, { panel, macsPerNs }: Build): number =>
  k * ((ceilDiv(n, panel) * panel) / Math.max(n, 1)) * (1 / macsPerNs + 4 / WEIGHT_BYTES_PER_NS / Math.max(rows, 1));

function encodeProduct(given: Of<"matmul">, epilogue: Epilogue, table: TensorTable, build: Build): Encoded {
  const { target, a, b, packed } = foldBatch(given);
  const rank = target.dims.length;
  const [m, n, k] = [target.dims[rank - 2]!, target.dims[rank - 1]!, a.dims[rank - 1]!];
  const batches = product(target.dims.slice(0, -2));
  const fast = target.dtype === "float32";
  const { panel } = build;
  const cellNs = (fast ? productNs(k, n, m, build) : k / 0.7) + epilogue.elementNs + build.resultNs;
  const least = epilogue.fields.block ? stripColumns(m, cellNs) : 64;
  const [rows, columns, together] = matmulTiles(m, n, batches, cellNs, packed || !fast, k * n * 4 > COLUMN_BYTES, panel, least) as [
    number,
    number,
    number,
  ];
  const tiles = Math.max(1, ceilDiv(m, rows) * ceilDiv(n, columns) * ceilDiv(batches, together));
  const panels = { dims: [packedMatmulSize(k, n, panel)], strides: [4] };
  const operands = [table.add(target), table.add(a), packed ? table.add(b, panels.dims, panels.strides) : table.add(b), ...epilogue.bias];
  return {
    op: Opcode.MATMUL,
    tiles,
    costNs: batches * m * n * cellNs + tiles * TILE_OVERHEAD_NS,
    operands,
    params: [rows, columns, k, packed ? 1 : 0, together, epilogue.greatest],
    ...epilogue.fields,
  };
}

/** Axes of a logical [N, C, spatial...] view in the order of memory. */
const channelsLast = (rank: number): number[] => [0, ...Array.from({ length: rank - 2 }, (_, i) => i + 2), 1];

/** [N, C, spatial...] -> [N, D, H, W, C] with leading spatial dims of one. */
export function spatialRecord(view: View, table: TensorTable): number {
  const spatial = view.dims.length - 2;
  const dims = [view.dims[0]!, ...new Array<number>(3 - spatial).fill(1), ...view.dims.slice(2), view.dims[1]!];
  const strides = [view.strides[0]!, ...new Array<number>(3 - spatial).fill(0), ...view.strides.slice(2), view.strides[1]!];
  return table.add(view, dims, strides);
}

/** Geometry block; throws where the window and the views do not belong together. */
export function geometry(window: Window, target: View, source: View, node: string): DataView {
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

/** Bytes between neighbours if all pixels of [N, C, spatial...] are evenly spaced; undefined if not, or if there is only one. */
function evenPixels({ dims, strides }: View): number | undefined {
  const shape = collapse({ dims: [dims[0]!, ...dims.slice(2)], strides: [[strides[0]!, ...strides.slice(2)]] });
  return shape.dims.length === 1 ? shape.strides[0]![0]! : undefined;
}

function convMode({ source, window, groups }: Of<"conv">, outputs: number): ConvMode {
  const taps = product(window.kernel);
  const channels = source.dims[1]! / groups;
  if (isDepthwise(channels, outputs / groups, groups)) return ConvMode.DEPTHWISE;
  if (channels < GATHER_CHANNELS && taps * channels <= GATHER_LIMIT) return ConvMode.GATHER;
  const last = source.dims.length - 1;
  const dense = source.strides[last] === source.dims[1]! * 4 || source.dims[last] === 1;
  const runs = groups === 1 && dense && window.dilations[window.dilations.length - 1] === 1 && taps * channels <= GATHER_LIMIT;
  return runs ? ConvMode.RUNS : ConvMode.POINTERS;
}

function checkConv({ target, source, weights, groups, window, node, form }: Of<"conv">): void {
  const [m, c] = [target.dims[1]!, source.dims[1]!];
  if ([target, source, weights].some(({ dtype }) => dtype !== "float32"))
    throw new AclError(100026, `node "${node}": conv takes float32 only: cast first`);
  const dense = (target.strides[1] === 4 || m <= 1) && (source.strides[1] === 4 || c <= 1);
  if (groups < 1 || m % groups !== 0 || c % groups !== 0 || !(dense || form === "winograd")) {
    throw new AclError(
      100000,
      `node "${node}": conv needs dense channels (NHWC) and ${groups} groups that divide ${c} input and ${m} output channels`,
    );
  }
  if (c / groups > RUN_LIMIT) throw new AclError(100000, `node "${node}": conv takes ${RUN_LIMIT} channels per group at most, not ${c / groups}`);
  if (form === "winograd" && !takesWinograd(target, source, window, groups)) {
    throw new AclError(100000, `node "${node}": winograd takes dense 2-D views, a 3 x 3 window, strides and dilations of 1 and one group`);
  }
}

/** 1 x 1 with nothing around it is a matrix product: pixels x channels. */
function asProduct(instruction: Of<"conv">, table: TensorTable, build: Build): Encoded | undefined {
  const { target, source, weights, window, groups, node, epilogue } = instruction;
  if (groups !== 1 || !isPlain(window, 1)) return undefined;
  const [to, from] = [evenPixels(target), evenPixels(source)];
  if (to === undefined || from === undefined) return undefined;
  const pixels = target.dims[0]! * product(target.dims.slice(2));
  const flat = (view: View, pitch: number): View => ({ ...view, dims: [pixels, view.dims[1]!], strides: [pitch, 4] });
  const [a, c] = [flat(source, from), flat(target, to)];
  const closing = encodeEpilogue(epilogue, target, 1, node, table, channelsLast(target.dims.length));
  return encodeProduct({ op: "matmul", node, target: c, a, b: weights, packed: true }, closing, table, build);
}

export function encodeConv(given: Of<"conv">, table: TensorTable, build: Build): Encoded {
  const instruction = given.form === "planar" ? { ...given, ...planarViews(given.target, given.source, given.window) } : given;
  const { target, source, weights, window, groups, node } = instruction;
  const block = geometry(window, target, source, node);
  checkConv(instruction);
  const product1 = asProduct(instruction, table, build);
  if (product1) return product1;
  const [m, c] = [target.dims[1]!, source.dims[1]!];
  const winograd = instruction.form === "winograd";
  const mode = winograd ? ConvMode.WINOGRAD : convMode(instruction, m);
  const planar = winograd && target.strides[1] !== 4 && m > 1;
  const axes = planar ? target.dims.map((_, axis) => axis) : channelsLast(given.target.dims.length);
  const epilogue = encodeEpilogue(given.epilogue, given.target, 1, node, table, axes);
  const cut = winograd ? winogradTiles(target, c, epilogue.elementNs, build) : directTiles(instruction, mode, epilogue.elementNs, build);
  block.setUint32(ConvBlock.GROUPS, groups, true);
  block.setUint32(ConvBlock.MODE, mode, true);
  block.setUint32(ConvBlock.ROWS, cut.rows, true);
  block.setUint32(ConvBlock.COLUMNS, cut.columns, true);
  const packed = winograd ? packedWinogradSize(m, c, build.panel) : packedConvSize([m, c / groups, ...window.kernel], groups, build.panel);
  const operands = [spatialRecord(target, table), spatialRecord(source, table), table.add(weights, [packed], [4])];
  return {
    op: Opcode.CONV,
    tiles: cut.tiles,
    costNs: cut.costNs + cut.tiles * TILE_OVERHEAD_NS,
    operands: [...operands, ...epilogue.bias],
    params: [0, 0, 0, 0, 0, epilogue.greatest],
    geometry: new Uint8Array(block.buffer),
    ...epilogue.fields,
  };
}

interface Cut {
  readonly rows: number;
  readonly columns: number;
  readonly tiles: number;
  readonly costNs: number;
}

/** Part of the outputs whose window reaches over a border. */
const borderShare = ({ padsBegin, padsEnd, strides }: Window, { dims }: View): number =>
  1 - padsBegin.reduce((inside, pad, i) => inside * Math.max(0, 1 - (pad + padsEnd[i]!) / (strides[i]! * Math.max(dims[i + 2]!, 1))), 1);

/** Of one output, and of a pixel's window before it is multiplied. */
function directCosts(
  { target, source, window, groups }: Of<"conv">,
  mode: ConvMode,
  pixels: number,
  build: Build,
): [cellNs: number, pixelNs: number] {
  const taps = product(window.kernel);
  const [m, channels] = [target.dims[1]! / groups, source.dims[1]! / groups];
  // The kernel takes outputs at a border one by one.
  if (mode === ConvMode.DEPTHWISE) return [((2 * taps) / build.macsPerNs + build.resultNs) * (1 + borderShare(window, target)), 5 + taps];
  const cellNs = productNs(taps * channels, m, pixels, build) * 1.1 + build.resultNs;
  if (mode !== ConvMode.GATHER) return [cellNs, 5 + taps];
  const runs = source.strides[1] === 4 ? taps / window.kernel[window.kernel.length - 1]! : taps * channels;
  return [cellNs, 5 + groups * (2 * runs + 0.1 * taps * channels)];
}

function directTiles(instruction: Of<"conv">, mode: ConvMode, epilogueNs: number, build: Build): Cut {
  const { target, source, window, groups } = instruction;
  const [m, k] = [target.dims[1]!, (product(window.kernel) * source.dims[1]!) / groups];
  const pixels = target.dims[0]! * product(target.dims.slice(2));
  const [ownNs, pixelNs] = directCosts(instruction, mode, pixels, build);
  const cellNs = ownNs + epilogueNs;
  const few = pixels < 8 * ROW_BLOCK && k * m * 4 > COLUMN_BYTES;
  const totalNs = pixels * (m * cellNs + pixelNs);
  const perCut = unitsPerTile(m, Math.min(pixels, ROW_BLOCK) * cellNs, build.panel * 4);
  const columns = groups === 1 && few ? evenColumns(m, perCut, totalNs, build.panel) : Math.max(m, 1);
  const rowNs = columns * cellNs + pixelNs;
  const run = mode === ConvMode.DEPTHWISE ? 4 : 1;
  const perTile = unitsPerTile(pixels, rowNs, run === 1 ? ROW_BLOCK : run);
  const rows = ceilDiv(evenUnits(pixels, perTile, ceilDiv(m, columns) % 2 === 0 ? 0 : totalNs), run) * run;
  const tiles = Math.max(1, ceilDiv(pixels, rows) * ceilDiv(m, columns));
  return { rows, columns, tiles, costNs: totalNs };
}

/** Rows per tile, `most` or fewer, with which the busier of two cores has least to do. */
function evenRows(most: number, least: number, down: number, samples: number): number {
  if (samples * ceilDiv(down, most) >= FEW_TILES) return most;
  const busier = (rows: number): number => ceilDiv(samples * ceilDiv(down, rows), 2) * rows;
  let best = most;
  for (let rows = most - 1; rows >= Math.max(1, least); rows--) if (busier(rows) < busier(best)) best = rows;
  return best;
}

/** Tiles are rows of 4 x 4 outputs of one sample, or its outputs in parts. */
function winogradTiles({ dims }: View, inputs: number, epilogueNs: number, build: Build): Cut {
  const { panel } = build;
  const [samples, outputs, height, width] = dims as [number, number, number, number];
  const [down, across] = [ceilDiv(height, 4), ceilDiv(width, 4)];
  // 36 products in place of 144, and transforms that cost about a nanosecond per ten numbers.
  const products = 36 * productNs(inputs, outputs, samples * down * across, build) * outputs * 1.25;
  const tileNs = products + (inputs + outputs) * (panel > 8 ? 4 : 7) + 16 * outputs * (epilogueNs + build.resultNs);
  const costNs = samples * down * across * tileNs;
  // A small image is halved by outputs, so that each core reads half of the weights; not if a strip program would have to run pixel by pixel.
  if (samples === 1 && down * across <= WINOGRAD_PATCHES && costNs > SPLIT_NS && epilogueNs === 0 && outputs >= 2 * panel) {
    const columns = ceilDiv(ceilDiv(outputs, panel), costNs > 8 * SPLIT_NS && outputs >= 4 * panel ? 4 : 2) * panel;
    return { rows: down, columns, tiles: ceilDiv(outputs, columns), costNs };
  }
  const most = Math.max(unitsPerTile(down, across * tileNs), Math.min(ceilDiv(WINOGRAD_PATCHES, across), ceilDiv(down, down * across < 16 ? 1 : 2)));
  const rows = evenRows(most, Math.ceil(WINOGRAD_PATCHES / 2 / across), down, samples);
  return { rows, columns: Math.max(outputs, 1), tiles: Math.max(1, samples * ceilDiv(down, rows)), costNs };
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
  const pixelNs = taps * (lines ? 4 + channels * 0.12 : channels * 3) + channels * 0.4 * (DTYPES[target.dtype].bytes / 4);
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
