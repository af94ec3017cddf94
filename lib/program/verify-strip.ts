/** Verification of one strip block: registers exist and are written before they are read, sizes agree, views are what their mode says. */
import {
  CONSTANT_LIMIT,
  GROUP,
  OperandMode,
  REGISTER_BYTES,
  REGISTER_LIMIT,
  SPLAT_BYTES,
  StripBlock,
  StripCode,
  StripOperand,
  StripOperation,
} from "../../asm/abi/strip";
import type { StripOpName, StripType as TypeName } from "./types";
import { isDefined, isPlain, isStripDtype, registerOf, resultOf, TYPE_NAMES, typeBytes, opOf } from "./strip-ops";
import type { Image, TensorRecord } from "./image";
import { isContiguous, product } from "./views";

export interface StripFacts {
  readonly elements: number;
  readonly step: number;
  readonly tile: number;
  /** Type of the ACCUMULATOR operand, if it has one. */
  readonly accumulator: TypeName | undefined;
}

/** What a register holds while the operations are followed: bytes per element, and whether operations may write it. */
interface Held {
  bytes: number;
  readonly owner: "input" | "splat" | "direct" | "temporary" | "constant";
}

type Fail = (what: string) => never;

/** `bytes`: of an element in the register. */
function checkInput(mode: number, tensor: TensorRecord, elements: number, step: number, bytes: number, fail: Fail): void {
  const { dims, strides, elementBytes: size } = tensor;
  const whole = product(dims) === elements;
  if (mode === OperandMode.FLAT && !(whole && isContiguous(dims, strides, size))) fail("reads a view as flat that is not");
  if (mode === OperandMode.SPLAT && elements > 0 && product(dims) < 1) fail("splats a view without elements");
  if (mode === OperandMode.GATHER && !(whole && dims.length > 0)) fail("gathers a view of another size");
  if (mode === OperandMode.PERIODIC) {
    const last = dims.length - 1;
    const period = dims[last] ?? 0;
    const flat = strides[last] === size && strides.slice(0, -1).every((stride) => stride === 0);
    const held = step % Math.max(period, 1) === 0 ? step : step + period;
    if (!whole || !flat || period < 1 || held * bytes > REGISTER_BYTES) fail("repeats a view whose period does not fit its strips");
  }
}

function checkOutput(mode: number, tensor: TensorRecord, elements: number, fail: Fail): void {
  const { dims, strides, elementBytes: size, dtype } = tensor;
  if (product(dims) !== elements || dims.length === 0) fail("writes a view of another size");
  if (mode !== OperandMode.SCATTER && !isContiguous(dims, strides, size)) fail("writes a view as flat that is not");
  if (mode === OperandMode.DIRECT && !isPlain(dtype)) fail(`writes ${dtype} in place`);
}

class BlockReader {
  readonly held: (Held | undefined)[] = [];
  readonly stored: { register: number; bytes: number }[] = [];
  accumulator: TypeName | undefined;
  #widest = 4;

  constructor(
    readonly image: Image,
    readonly at: number,
    readonly tensorOf: (index: number) => TensorRecord,
    readonly fail: Fail,
  ) {}

  half(field: number): number {
    return this.image.view.getUint16(this.at + field, true);
  }

  byte(at: number): number {
    return this.image.view.getUint8(at);
  }

  operand(at: number, elements: number, step: number): void {
    const mode = this.byte(at + StripOperand.MODE);
    const type = TYPE_NAMES[this.byte(at + StripOperand.TYPE)] ?? this.fail("has an operand of no register type");
    const register = this.byte(at + StripOperand.REGISTER);
    const registers = this.half(StripBlock.REGISTERS);
    if (register >= registers || mode > OperandMode.SCATTER) this.fail("has an operand in no register or mode");
    const bytes = typeBytes(type);
    this.#widest = Math.max(this.#widest, bytes);
    if (mode === OperandMode.ACCUMULATOR) {
      // The kernel looks at the record of every operand, also where it has none: it has to exist.
      if (this.accumulator !== undefined || this.image.u32(at + StripOperand.TENSOR) !== 0) this.fail("has two accumulators, or one with a view");
      this.accumulator = type;
      this.#own(register, { bytes, owner: "input" });
      return;
    }
    const tensor = this.tensorOf(this.image.u32(at + StripOperand.TENSOR));
    if (!isStripDtype(tensor.dtype) || registerOf(tensor.dtype) !== type) this.fail(`holds ${tensor.dtype} as ${type}`);
    if (mode < OperandMode.ACCUMULATOR) {
      checkInput(mode, tensor, elements, step, Math.max(bytes, tensor.elementBytes), this.fail);
      this.#own(register, { bytes, owner: mode === OperandMode.SPLAT ? "splat" : "input" });
      return;
    }
    checkOutput(mode, tensor, elements, this.fail);
    if (mode === OperandMode.DIRECT) this.#own(register, { bytes: -bytes, owner: "direct" });
    this.stored.push({ register, bytes });
  }

  #own(register: number, held: Held): void {
    if (this.held[register]) this.fail("gives one register to two operands");
    this.held[register] = held;
  }

  /** Bytes per element of what `register` holds. */
  read(register: number): number {
    const held = this.held[register];
    if (!held || held.bytes < 0) this.fail(`reads register ${register} before it is written`);
    return held!.bytes;
  }

  operation(at: number): void {
    const code = this.byte(at + StripOperation.CODE);
    const type = TYPE_NAMES[this.byte(at + StripOperation.TYPE)] ?? this.fail("has an operation of no register type");
    const name = opOf(code) ?? this.fail(`has operation ${code}, which does not exist`);
    if (code !== StripCode.MOVE && !isDefined(name as StripOpName, type)) this.fail(`has ${name} of ${type}`);
    const size = typeBytes(type);
    const registers = this.half(StripBlock.REGISTERS);
    for (const [i, field] of [StripOperation.A, StripOperation.B, StripOperation.C].entries()) {
      const register = this.byte(at + field);
      const bytes = this.read(register);
      const isCondition = code === StripCode.SELECT && i === 0;
      // Constants are 64 bytes whatever their type.
      if (this.held[register]!.owner !== "constant" && bytes !== (isCondition ? 4 : size)) this.fail(`mixes registers of ${bytes} and ${size} bytes`);
    }
    const target = this.byte(at + StripOperation.TARGET);
    if (target >= registers) this.fail("writes a register that does not exist");
    const result = code === StripCode.MOVE ? size : typeBytes(resultOf(name as StripOpName, type));
    this.#widest = Math.max(this.#widest, size, result);
    const held = this.held[target];
    if (!held) this.held[target] = { bytes: result, owner: "temporary" };
    else if (held.owner === "direct" && Math.abs(held.bytes) === result) held.bytes = result;
    else if (held.owner === "temporary") held.bytes = result;
    else this.fail("writes over an operand");
  }

  finish(step: number): void {
    for (const { register, bytes } of this.stored) {
      if (this.read(register) !== bytes || this.held[register]!.owner === "splat") this.fail("stores a register that does not hold its values");
    }
    if (step * this.#widest > REGISTER_BYTES) this.fail(`has strips of ${step} elements of ${this.#widest} bytes`);
  }
}

/** Checks the block at byte `at` of the image; `limit` is the end of the strips section. */
export function verifyStrip(image: Image, at: number, limit: number, tensorOf: (index: number) => TensorRecord, fail: Fail): StripFacts {
  if (at % 16 !== 0 || at + StripBlock.SIZE > limit) fail("lies outside its section");
  const reader = new BlockReader(image, at, tensorOf, fail);
  const [operands, operations] = [reader.half(StripBlock.OPERANDS), reader.half(StripBlock.OPERATIONS)];
  const [constants, registers] = [reader.half(StripBlock.CONSTANTS), reader.half(StripBlock.REGISTERS)];
  const [elements, step, tile] = [image.u32(at + StripBlock.ELEMENTS), image.u32(at + StripBlock.STEP), image.u32(at + StripBlock.TILE)];
  const operandsAt = at + StripBlock.SIZE + constants * SPLAT_BYTES;
  const operationsAt = operandsAt + operands * StripOperand.SIZE;
  const end = operationsAt + operations * StripOperation.SIZE;
  if (end > limit || registers > REGISTER_LIMIT || constants > CONSTANT_LIMIT) fail("is larger than its section or the device");
  if (step < GROUP || step % GROUP !== 0 || step > REGISTER_BYTES / 4) fail(`has strips of ${step} elements`);
  for (let i = 0; i < operands; i++) reader.operand(operandsAt + i * StripOperand.SIZE, elements, step);
  for (let i = 0; i < constants; i++) reader.held[registers + i] = { bytes: 4, owner: "constant" };
  for (let i = 0; i < operations; i++) reader.operation(operationsAt + i * StripOperation.SIZE);
  reader.finish(step);
  if (reader.stored.length === 0) fail("has no output");
  return { elements, step, tile, accumulator: reader.accumulator };
}
