/** Verification of instructions: operands fit each other, tiles cover the work exactly, every block is what the kernel expects. */
import { Closing, ConvBlock, ConvMode, Fold, Opcode, PoolKind, ReduceMode } from "../../asm/abi/isa";
import { Program } from "../../asm/abi/program";
import { Probe } from "../../asm/abi/task";
import { attentionFault } from "./encode-attention";
import { cumulateFault, elementsFault, topKFault } from "./encode-elements";
import { gatherFault } from "./encode-gather";
import { sampleFault } from "./encode-sample";
import { matmulIntegerFault, packIntegerFault } from "./encode-integer";
import { rnnFault } from "./encode-rnn";
import type { Image, InstructionRecord, TensorRecord } from "./image";
import { isDepthwise, packedConvSize, packedMatmulSize, packedWinogradSize, RUN_LIMIT } from "./pack";
import { isFloatType, isStripDtype, registerOf, TYPE_CODES } from "./strip-ops";
import { type StripFacts, verifyStrip } from "./verify-strip";
import { ceilDiv } from "./tiles";
import { product } from "./views";
import { fitsPlanes, fitsWinograd } from "./winograd";

type Fail = (what: string) => never;

export interface Scope {
  readonly image: Image;
  readonly strips: { readonly start: number; readonly end: number };
  readonly regions: number;
  readonly tensorOf: (index: number) => TensorRecord;
  readonly fail: Fail;
}

const MATMUL_DTYPES: ReadonlySet<string> = new Set(["float32", "float64", "int32", "uint32", "int64", "uint64"]);
const POOL_DTYPES: ReadonlySet<string> = new Set(["float32", "float64", "int8", "uint8", "int32", "int64"]);
const COLUMN_FOLDS: readonly Fold[] = [Fold.SUM, Fold.MEAN, Fold.MAX, Fold.MIN, Fold.SUM_SQUARE];
/** Window fields stay below this, so that no coordinate leaves 32 bits. */
const FIELD_LIMIT = 2 ** 24;
const TAP_LIMIT = 3072;
/** Taps times channels of a gathered window. */
const GATHER_LIMIT = 4096;

class Check {
  readonly tensors: readonly TensorRecord[];

  constructor(
    readonly scope: Scope,
    readonly it: InstructionRecord,
  ) {
    this.tensors = it.operands.map(scope.tensorOf);
  }

  need(condition: boolean, what: string): void {
    if (!condition) this.scope.fail(what);
  }

  /** `fault`: what is wrong, if anything. */
  fits(fault: string | undefined): void {
    if (fault !== undefined) this.scope.fail(fault);
  }

  /** Columns of a panel of packed weights. */
  get panel(): number {
    return this.scope.image.header(Program.FLAGS);
  }

  operands(count: number): void {
    this.need(this.it.operands.length === count, `has ${this.it.operands.length} operands, not ${count}`);
  }

  tiles(count: number): void {
    this.need(this.it.tiles === Math.max(1, count), `has ${this.it.tiles} tiles for work of ${Math.max(1, count)}`);
  }

  strip(): StripFacts {
    const { image, strips, tensorOf, fail } = this.scope;
    this.need(this.it.block >= strips.start, "names a strip program outside its section");
    return verifyStrip(image, this.it.block, strips.end, tensorOf, (what) => fail(`strip program ${what}`));
  }

  /** An optional strip program over the elements of the target. */
  epilogue(elements: number): void {
    if (this.it.block === 0) return;
    const facts = this.strip();
    this.need(facts.elements === elements && facts.accumulator === undefined, "has an epilogue over other elements than its target's");
  }

  /** Operands of an f32 product: three, and the bias of each of its `columns`. */
  product(columns: number): void {
    const { flags } = this.it;
    const biased = (flags & Closing.BIAS) !== 0;
    this.operands(biased ? 4 : 3);
    this.need(flags < 8 && (flags === 0 || this.tensors[0]!.dtype === "float32"), "closes its sums in no known way");
    const bias = this.tensors[3];
    const fits = !bias || (bias.dtype === "float32" && bias.dims.join() === `${columns}` && (bias.strides[0] === 4 || columns === 1));
    this.need(fits, "has a bias that is not one dense float32 per column");
  }

  control(): void {
    this.need(this.it.tiles === 0, "is a control instruction with tiles");
    this.need(
      this.it.op === Opcode.RETURN || this.it.params[0]! <= this.scope.regions,
      `goes to region ${this.it.params[0]} of ${this.scope.regions}`,
    );
  }

  scalar(i: number, int64: boolean): void {
    const tensor = this.tensors[i]!;
    this.need(product(tensor.dims) >= 1 && (int64 ? tensor.dtype === "int64" : tensor.elementBytes <= 8), "reads a scalar that is none");
  }
}

function verifyCopy(check: Check): void {
  const [rows, columns] = check.it.params as [number, number];
  check.operands(2);
  const [target, source] = check.tensors as [TensorRecord, TensorRecord];
  check.need(target.dims.join() === source.dims.join() && target.dtype === source.dtype, "copies between views of other dims or dtypes");
  check.need(rows >= 1 && columns >= 1, "has empty tiles");
  const width = target.dims[target.dims.length - 1] ?? 1;
  check.tiles(width === 0 ? 0 : ceilDiv(product(target.dims) / width, rows) * ceilDiv(width, columns));
}

function verifyMap(check: Check): void {
  const facts = check.strip();
  check.need(facts.accumulator === undefined, "has an accumulator");
  check.need(facts.tile >= facts.step && facts.tile % facts.step === 0, "has tiles that cut strips");
  check.tiles(ceilDiv(facts.elements, facts.tile));
}

function verifyReduce(check: Check): void {
  const [fold, outer, perTile, type, mode, length] = check.it.params as [number, number, number, number, number, number];
  check.operands(2);
  const [target, source] = check.tensors as [TensorRecord, TensorRecord];
  check.need(fold <= Fold.ARG_MIN && isStripDtype(source.dtype), "folds in no known way");
  const register = registerOf(source.dtype);
  check.need(TYPE_CODES[register] === type && (fold !== Fold.LOG_SUM_EXP || isFloatType(register)), `folds ${source.dtype} as another type`);
  check.need(outer >= 1 && outer < source.dims.length && perTile >= 1, "has no rows or no elements in them");
  const rows = product(source.dims.slice(0, outer));
  check.need(product(source.dims.slice(outer)) === length && product(target.dims) === rows, "folds views that do not fit");
  const facts = check.strip();
  const folded = fold === Fold.ARG_MAX || fold === Fold.ARG_MIN ? "i64" : fold === Fold.ALL || fold === Fold.ANY ? "i32" : register;
  check.need(facts.elements === rows && (facts.accumulator === undefined || facts.accumulator === folded), "hands other values to its strip program");
  if (mode === ReduceMode.COLUMNS) {
    const line = source.strides[outer - 1] === 4 && source.dtype === "float32";
    check.need(line && COLUMN_FOLDS.includes(fold) && source.dims[outer - 1]! > 0, "cannot fold these columns");
  } else check.need(mode === ReduceMode.ROWS, "folds in no known mode");
  check.tiles(ceilDiv(rows, perTile));
}

function verifyMatmul(check: Check): void {
  const [rows, columns, k, packed, together] = check.it.params as [number, number, number, number, number];
  check.product(check.tensors[0]?.dims.at(-1) ?? 0);
  const [target, a, b] = check.tensors as [TensorRecord, TensorRecord, TensorRecord];
  const rank = target.dims.length;
  check.need(rank >= 2 && rows >= 1 && columns >= 1 && together >= 1 && packed <= 1, "is not a matrix product");
  check.need(MATMUL_DTYPES.has(target.dtype) && a.dtype === target.dtype && b.dtype === target.dtype, "multiplies dtypes that have no kernel");
  const [m, n] = [target.dims[rank - 2]!, target.dims[rank - 1]!];
  const batch = target.dims.slice(0, -2);
  check.need([...batch, m, k].join() === a.dims.join(), "has a left side of other dims");
  if (packed) {
    const dense = target.strides[rank - 1] === 4 || n === 1;
    check.need(target.dtype === "float32" && dense, "has packed weights for a target that is not dense float32");
    check.need(
      product(b.dims) >= packedMatmulSize(k, n, check.panel) && b.strides[b.dims.length - 1] === 4 && b.dims.length === 1,
      "has too few packed weights",
    );
  } else check.need([...batch, k, n].join() === b.dims.join(), "has a right side of other dims");
  check.need(columns % check.panel === 0 || columns >= n, "cuts panels");
  const batches = product(batch);
  check.epilogue(batches * m * n);
  check.tiles(ceilDiv(m, rows) * ceilDiv(n, columns) * ceilDiv(batches, together));
}

function verifyMatmulInteger(check: Check): void {
  check.fits(matmulIntegerFault(check.it, check.tensors, check.panel));
  if (check.it.block === 0) return;
  const facts = check.strip();
  const fits = facts.elements === product(check.tensors[0]!.dims) && (facts.accumulator ?? "i32") === "i32";
  check.need(fits, "has an epilogue over other elements than its sums");
}

/** Reads and checks the window of CONV and POOL; returns its kernel. */
function verifyWindow(check: Check): { kernel: number[]; block: number } {
  const { image, strips } = check.scope;
  const block = check.it.params[0]!;
  check.need(block >= strips.start && block % 16 === 0 && block + ConvBlock.SIZE <= strips.end, "names a window outside its section");
  const triple = (field: number): number[] => [0, 4, 8].map((at) => image.u32(block + field + at));
  const [kernel, steps, dilations] = [triple(ConvBlock.KERNEL), triple(ConvBlock.STRIDES), triple(ConvBlock.DILATIONS)];
  const pads = [...triple(ConvBlock.PADS), ...triple(ConvBlock.PADS_END)];
  check.need(
    [...kernel, ...steps, ...dilations].every((value) => value >= 1 && value < FIELD_LIMIT),
    "has a window with sizes out of range",
  );
  check.need(pads.every((value) => value < FIELD_LIMIT) && product(kernel) <= TAP_LIMIT, "has a window with pads or taps out of range");
  const [target, source] = check.tensors as [TensorRecord, TensorRecord];
  check.need(
    target.dims.length === 5 && source.dims.length === 5 && target.dims[0] === source.dims[0],
    "slides over views that are not [N, D, H, W, C]",
  );
  for (let i = 0; i < 3; i++) {
    const reach = target.dims[i + 1]! * steps[i]! + kernel[i]! * dilations[i]! + pads[i + 3]! + source.dims[i + 1]!;
    check.need(reach < 2 ** 31, "reaches past 32 bits");
  }
  check.need(image.u32(block + ConvBlock.ROWS) >= 1 && image.u32(block + ConvBlock.COLUMNS) >= 1, "has empty tiles");
  return { kernel, block };
}

function verifyConv(check: Check): void {
  check.product(check.tensors[0]?.dims[4] ?? 0);
  const { kernel, block } = verifyWindow(check);
  const [target, source, weights] = check.tensors as [TensorRecord, TensorRecord, TensorRecord];
  const { image } = check.scope;
  const [groups, mode] = [image.u32(block + ConvBlock.GROUPS), image.u32(block + ConvBlock.MODE)];
  const [rows, columns] = [image.u32(block + ConvBlock.ROWS), image.u32(block + ConvBlock.COLUMNS)];
  const [m, c] = [target.dims[4]!, source.dims[4]!];
  check.need(
    [target, source, weights].every(({ dtype }) => dtype === "float32"),
    "convolves another dtype than float32",
  );
  check.need(groups >= 1 && m % groups === 0 && c % groups === 0, "has groups that do not divide the channels");
  if (mode === ConvMode.PLANES) {
    verifyPlanes(check, kernel, block);
    return;
  }
  const dense = (target.strides[4] === 4 || m <= 1) && (source.strides[4] === 4 || c <= 1);
  check.need(dense || mode === ConvMode.WINOGRAD, "needs dense channels");
  const depthwise = isDepthwise(c / groups, m / groups, groups);
  check.need(mode <= ConvMode.WINOGRAD && (mode === ConvMode.DEPTHWISE) === depthwise && c / groups <= RUN_LIMIT, "has the wrong mode");
  const gathers = mode === ConvMode.GATHER || mode === ConvMode.RUNS;
  check.need(!gathers || (product(kernel) * c) / groups <= GATHER_LIMIT, "gathers more than its buffer");
  if (mode === ConvMode.RUNS) {
    const whole = image.u32(block + ConvBlock.DILATIONS + 8) === 1 && (source.strides[3] === c * 4 || source.dims[3] === 1);
    check.need(groups === 1 && whole, "reads runs where there are none");
  }
  const winograd = mode === ConvMode.WINOGRAD;
  if (winograd) verifyWinograd(check, kernel, block, groups);
  const size = winograd ? packedWinogradSize(m, c, check.panel) : packedConvSize([m, c / groups, ...kernel], groups, check.panel);
  check.need(weights.dims.length === 1 && weights.dims[0]! >= size && (weights.strides[0] === 4 || size === 0), "has too few packed weights");
  const whole = columns >= m || depthwise;
  check.need(whole || (groups === 1 && columns % check.panel === 0 && !(winograd && check.it.block !== 0)), "cuts panels, groups or an epilogue");
  const pixels = product(target.dims.slice(0, 4));
  check.epilogue(pixels * m);
  if (winograd) check.tiles(target.dims[0]! * ceilDiv(ceilDiv(target.dims[2]!, 4), rows) * ceilDiv(m, columns));
  else check.tiles(ceilDiv(pixels, rows) * ceilDiv(m, columns));
}

function verifyPlanes(check: Check, kernel: readonly number[], block: number): void {
  const [target, source, weights] = check.tensors as [TensorRecord, TensorRecord, TensorRecord];
  const { image } = check.scope;
  const [steps, dilations] = [ConvBlock.STRIDES, ConvBlock.DILATIONS].map((field) => [4, 8].map((at) => image.u32(block + field + at)));
  const [samples, , height, width, channels] = target.dims as [number, number, number, number, number];
  const flat = ({ dims, strides }: TensorRecord): boolean => dims[1] === 1 && (strides[3] === 4 || dims[3]! <= 1);
  check.need(kernel[0] === 1 && source.dims[4] === channels && image.u32(block + ConvBlock.GROUPS) === channels, "is no depthwise convolution");
  check.need(flat(target) && flat(source) && fitsPlanes(width, kernel.slice(1), steps!, dilations!), "slides over planes that it does not take");
  const size = channels * product(kernel);
  check.need(weights.dims.length === 1 && weights.dims[0]! >= size && weights.strides[0] === 4, "has too few packed weights");
  check.epilogue(samples * channels * height * width);
  check.tiles(ceilDiv(samples * channels * height, image.u32(block + ConvBlock.ROWS)));
}

function verifyWinograd(check: Check, kernel: readonly number[], block: number, groups: number): void {
  const { image } = check.scope;
  const ones = [ConvBlock.STRIDES, ConvBlock.DILATIONS].flatMap((field) => [4, 8].map((at) => image.u32(block + field + at)));
  check.need(kernel.join() === "1,3,3" && ones.every((value) => value === 1) && groups === 1, "has a window that Winograd does not take");
  const [target, source] = check.tensors as [TensorRecord, TensorRecord];
  const spatial = ({ dims, strides }: TensorRecord) => [dims[2]!, dims[3]!, dims[4]!, strides[2]!, strides[3]!, strides[4]!] as const;
  check.need(target.dims[1] === 1 && source.dims[1] === 1 && fitsWinograd(spatial(target), spatial(source)), "needs dense views");
  // Patches start at whole outputs minus the padding and read zeros outside the source, whatever its size.
  check.need(
    [4, 8].every((at) => image.u32(block + ConvBlock.PADS + at) < 2 ** 20),
    "has pads out of range",
  );
}

/** SOFTMAX and NORM: f32 rows, dense inside. */
function verifyRows(check: Check, operands: number): void {
  check.operands(operands);
  const [target, source, ...factors] = check.tensors as [TensorRecord, TensorRecord, ...TensorRecord[]];
  const last = target.dims.length - 1;
  check.need(last >= 0 && source.dims.join() === target.dims.join(), "works on rows of other dims");
  const dense = (tensor: TensorRecord): boolean => tensor.dtype === "float32" && tensor.strides[tensor.dims.length - 1] === 4;
  check.need(product(target.dims) === 0 || [target, source, ...factors].every(dense), "works on rows that are not dense float32");
  check.need(
    factors.every(({ dims }) => dims.join() === `${target.dims[last]}`),
    "has factors of another length than its rows",
  );
  check.need(check.it.params[0]! >= 1, "has empty tiles");
  check.tiles(target.dims[last] === 0 ? 0 : ceilDiv(product(target.dims.slice(0, last)), check.it.params[0]!));
}

function verifyPool(check: Check): void {
  check.operands(2);
  const { block } = verifyWindow(check);
  const [target, source] = check.tensors as [TensorRecord, TensorRecord];
  const kind = check.it.params[1]!;
  check.need(kind <= PoolKind.AVERAGE_INCLUDE_PAD && target.dtype === source.dtype && POOL_DTYPES.has(target.dtype), "pools in no known way");
  check.need(target.dims[4] === source.dims[4], "pools into another number of channels");
  check.tiles(ceilDiv(product(target.dims.slice(0, 4)), check.scope.image.u32(block + ConvBlock.ROWS)));
}

function verifyProbe(check: Check): void {
  const probe = check.it.params[0]!;
  check.need(probe <= Probe.MIX && check.it.tiles >= 1, "is a probe that does not exist");
  if (probe !== Probe.COUNT) return;
  check.operands(1);
  const [target] = check.tensors as [TensorRecord];
  check.need(target.bytes >= 4 * check.it.tiles && target.strides.every((stride) => stride >= 0), "counts past its view");
}

/** Rows are all dims but the innermost. */
function verifyElements(check: Check, fault: string | undefined): void {
  check.fits(fault);
  const [target] = check.tensors as [TensorRecord];
  check.tiles(Math.max(1, ceilDiv(product(target.dims.slice(0, -1)), check.it.params[0]!)));
}

function verifySample(check: Check): void {
  check.fits(sampleFault(check.it, check.tensors));
  const [target] = check.tensors as [TensorRecord];
  const units = check.it.op === Opcode.ROI_ALIGN ? target.dims[0]! : target.dims[0]! * target.dims[1]!;
  check.tiles(Math.max(1, ceilDiv(units, check.it.params[0]!)));
}

export function verifyInstruction(scope: Scope, it: InstructionRecord): void {
  const check = new Check(scope, it);
  switch (it.op as Opcode) {
    case Opcode.NOP:
      return check.tiles(1);
    case Opcode.COPY:
      return verifyCopy(check);
    case Opcode.MAP:
      return verifyMap(check);
    case Opcode.REDUCE:
      return verifyReduce(check);
    case Opcode.MATMUL:
      return verifyMatmul(check);
    case Opcode.PACK_INTEGER:
      return check.fits(packIntegerFault(it, check.tensors, check.panel));
    case Opcode.MATMUL_INTEGER:
      return verifyMatmulInteger(check);
    case Opcode.CONV:
      return verifyConv(check);
    case Opcode.POOL:
      return verifyPool(check);
    case Opcode.SOFTMAX:
      return verifyRows(check, 2);
    case Opcode.NORM:
      return verifyRows(check, 4);
    case Opcode.ATTENTION:
      return check.fits(attentionFault(it, check.tensors));
    case Opcode.PROBE:
      return verifyProbe(check);
    case Opcode.GATHER: {
      check.fits(gatherFault(it, check.tensors));
      const [target] = check.tensors as [TensorRecord];
      return check.tiles(ceilDiv(target.dims[0]! * target.dims[1]!, it.params[0]!));
    }
    case Opcode.GATHER_ELEMENTS:
    case Opcode.SCATTER_ELEMENTS:
      return verifyElements(check, elementsFault(it, check.tensors));
    case Opcode.CUMULATE:
      return verifyElements(check, cumulateFault(it, check.tensors));
    case Opcode.TOP_K:
      return verifyElements(check, topKFault(it, check.tensors));
    case Opcode.GRID_SAMPLE:
    case Opcode.ROI_ALIGN:
      return verifySample(check);
    case Opcode.RNN: {
      check.fits(rnnFault(it, check.tensors));
      return check.tiles(ceilDiv(check.tensors[0]!.dims[1]!, it.params[3]!));
    }
    case Opcode.BRANCH:
      check.operands(it.flags === 0 ? 1 : 0);
      if (it.flags === 0) check.scalar(0, false);
      return check.control();
    case Opcode.LOOP:
      check.operands(it.params[1] === 0 ? 2 : 3);
      check.scalar(0, true);
      check.scalar(1, true);
      if (it.params[1] !== 0) check.scalar(2, false);
      return check.control();
    case Opcode.CALL:
    case Opcode.RETURN:
      return check.control();
    default:
      scope.fail(`has opcode ${it.op}, which does not exist`);
  }
}
