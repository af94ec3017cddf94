/** Strip -> block (asm/abi/strip.ts): implicit casts, operand modes, registers by linear scan. */
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
import { AclError } from "../errors/acl-error";
import type { DtypeName } from "../graph/dtype";
import type { TensorTable } from "./tensor-table";
import type { Strip, StripOpName, StripType, StripValue, View } from "./types";
import { arityOf, codeOf, isDefined, isPlain, isStripDtype, operationCost, rangeOf, registerOf, resultOf, TYPE_CODES, typeBytes } from "./strip-ops";
import { foldStrip } from "./strip-fold";
import { type Grouping, inputMode } from "./strip-operand";
import { collapse, elementBytes, isContiguous, product, type Shape } from "./views";
import { bindingIndex } from "./tensor-table";

/** A value after implicit casts are explicit. `args` index the same list. */
type Step =
  | { kind: "input"; view: View | undefined; type: StripType }
  | { kind: "constant"; type: StripType; value: number | bigint }
  | { kind: "op"; op: StripOpName | "move"; operand: StripType; type: StripType; args: number[] };

interface Output {
  readonly view: View;
  readonly value: number;
}

export interface EncodedStrip {
  readonly bytes: Uint8Array;
  readonly elements: number;
  /** Elements per strip. */
  readonly step: number;
  /** Of one element, loads and stores included. */
  readonly elementNs: number;
}

export interface StripPlace {
  readonly node: string;
  /** What `accumulator` values are: a view of memory (MATMUL, CONV), or undefined for a buffer that the instruction hands over (REDUCE). */
  readonly accumulator?: View;
  /** Register type of that buffer. */
  readonly accumulatorType?: StripType;
  /** Order of the axes in which elements are numbered, if not that of the views. */
  readonly axes?: readonly number[];
}

const sameBits = (a: StripType, b: StripType): boolean => a === b || (a[0] !== "f" && b[0] !== "f" && typeBytes(a) === typeBytes(b));

/** Appends casts so that every value has the type its user wants. */
class Normalizer {
  readonly steps: Step[] = [];
  readonly #at: number[] = [];
  readonly outputs: Output[] = [];

  constructor(
    readonly strip: Strip,
    readonly place: StripPlace,
  ) {
    for (const value of strip.values) this.#at.push(this.#value(value));
    for (const { view, value } of strip.outputs) {
      if (!isStripDtype(view.dtype)) this.#fail(`cannot store ${view.dtype}`);
      const at = this.#at[value];
      if (at === undefined) this.#fail(`output uses value ${value}, which does not exist`);
      this.outputs.push({ view, value: this.#narrow(at!, view.dtype) });
    }
  }

  #fail(what: string): never {
    throw new AclError(100000, `node "${this.place.node}": strip program ${what}`);
  }

  #push(step: Step): number {
    return this.steps.push(step) - 1;
  }

  #cast(value: number, to: StripType): number {
    const from = this.steps[value]!.type;
    return sameBits(from, to) ? value : this.#push({ kind: "op", op: `cast_${to}`, operand: from, type: to, args: [value] });
  }

  #value(value: StripValue): number {
    if (value.kind === "constant") return this.#push({ kind: "constant", type: value.type, value: value.value });
    if (value.kind === "accumulator") {
      const natural = this.place.accumulator ? registerOf(this.place.accumulator.dtype) : (this.place.accumulatorType ?? value.type);
      return this.#cast(this.#push({ kind: "input", view: this.place.accumulator, type: natural }), value.type);
    }
    if (value.kind === "input") {
      if (!isStripDtype(value.view.dtype)) this.#fail(`cannot load ${value.view.dtype}`);
      return this.#cast(this.#push({ kind: "input", view: value.view, type: registerOf(value.view.dtype) }), value.type);
    }
    const arity = arityOf(value.op);
    if (value.args.length !== arity || !isDefined(value.op, value.type))
      this.#fail(`has ${value.op} of ${value.type} with ${value.args.length} arguments`);
    const args = value.args.map((arg, i) => {
      const at = this.#at[arg];
      if (at === undefined) this.#fail(`op ${value.op} uses value ${arg} before it exists`);
      const want = value.op === "select" && i === 0 ? "i32" : value.type;
      if (!sameBits(this.steps[at!]!.type, want)) this.#fail(`op ${value.op} wants ${want} but argument ${i} is ${this.steps[at!]!.type}`);
      return at!;
    });
    return this.#push({ kind: "op", op: value.op, operand: value.type, type: resultOf(value.op, value.type), args });
  }

  /** The value as the register type of `dtype`; floats saturate into narrow integers, integers keep their low bits. */
  #narrow(value: number, dtype: DtypeName): number {
    const from = this.steps[value]!.type;
    if (dtype === "bool")
      return sameBits(from, "i32") ? value : this.#push({ kind: "op", op: "cast_bool", operand: from, type: "i32", args: [value] });
    const range = rangeOf(dtype);
    const cast = this.#cast(value, registerOf(dtype));
    if (!range || !from.startsWith("f")) return cast;
    const low = this.#push({ kind: "constant", type: "i32", value: range[0] });
    const high = this.#push({ kind: "constant", type: "i32", value: range[1] });
    return this.#push({ kind: "op", op: "clip", operand: "i32", type: "i32", args: [cast, low, high] });
  }
}

interface Operand {
  readonly mode: OperandMode;
  readonly tensor: number;
  readonly type: StripType;
  register: number;
}

function overlap(a: View, b: View, inputs: number): boolean {
  if (bindingIndex(a.blob.binding, inputs) !== bindingIndex(b.blob.binding, inputs)) return false;
  const span = (v: View): [number, number] => [v.blob.offsetBytes ?? 0, (v.blob.offsetBytes ?? 0) + v.blob.sizeBytes];
  const [aLow, aHigh] = span(a);
  const [bLow, bHigh] = span(b);
  return aLow < bHigh && bLow < aHigh;
}

/** Encodes one strip; registers are numbered operands first, then temporaries, then constants. */
class StripEncoder {
  readonly #steps: Step[];
  readonly #outputs: Output[];
  readonly #operands: Operand[] = [];
  readonly #register: number[] = [];
  readonly #constants: { type: StripType; value: number | bigint }[] = [];
  readonly #lastUse: number[];
  #registers = 0;
  #operationCount = 0;
  step = 0;

  constructor(
    strip: Strip,
    readonly place: StripPlace,
    readonly table: TensorTable,
  ) {
    const normal = new Normalizer(foldStrip(strip), place);
    this.#steps = normal.steps;
    this.#outputs = normal.outputs;
    this.#lastUse = this.#steps.map(() => -1);
  }

  #views(): View[] {
    const inputs = this.#steps.flatMap((step) => (step.kind === "input" && step.view ? [step.view] : []));
    return [...inputs, ...this.#outputs.map(({ view }) => view)];
  }

  #shape(views: readonly View[]): Shape {
    const dims = views[0]!.dims;
    for (const view of views) {
      if (view.dims.join() !== dims.join()) {
        throw new AclError(100000, `node "${this.place.node}": a strip program mixes dims [${dims}] and [${view.dims}]: broadcast its views first`);
      }
    }
    const axes = this.place.axes ?? dims.map((_, axis) => axis);
    return collapse({ dims: axes.map((axis) => dims[axis]!), strides: views.map((view) => axes.map((axis) => view.strides[axis]!)) });
  }

  /** Gives inputs their mode and their own register. */
  #placeInputs(shape: Shape, group: Grouping, longest: number): number {
    const known = new Map<string, number>();
    let index = 0;
    for (const [i, step] of this.#steps.entries()) {
      if (step.kind !== "input") continue;
      let operand: Operand;
      if (step.view) {
        const { mode, dims, strides } = inputMode(step.view, shape, index++, group, longest);
        operand = { mode, tensor: this.table.add(step.view, dims, strides), type: step.type, register: this.#registers };
      } else operand = { mode: OperandMode.ACCUMULATOR, tensor: 0, type: step.type, register: this.#registers };
      const key = `${operand.mode} ${operand.tensor} ${operand.type}`;
      const same = known.get(key);
      if (same !== undefined) {
        this.#register[i] = same;
        continue;
      }
      known.set(key, this.#registers);
      this.#register[i] = this.#registers++;
      this.#operands.push(operand);
    }
    return index;
  }

  /** Outputs that an operation can write in place: dense, of the register's own dtype, and over nothing that a later operation reads in place. */
  #directTo(output: Output, shape: Shape, index: number): boolean {
    const { view, value } = output;
    const step = this.#steps[value]!;
    if (step.kind !== "op" || !isPlain(view.dtype) || !isContiguous(shape.dims, shape.strides[index]!, elementBytes(view))) return false;
    if (this.#outputs.find((other) => other.value === value) !== output) return false;
    return (
      this.#steps.every((later, at) => {
        if (at <= value || later.kind !== "op") return true;
        return later.args.every((arg) => {
          const source = this.#steps[arg]!;
          return source.kind !== "input" || source.view === undefined || !overlap(view, source.view, this.table.inputs);
        });
      }) &&
      this.#outputs.every((other) => {
        const source = this.#steps[other.value]!;
        return source.kind !== "input" || source.view === undefined || !overlap(view, source.view, this.table.inputs);
      })
    );
  }

  #placeOutputs(shape: Shape, first: number): void {
    for (const [o, output] of this.#outputs.entries()) {
      const { view } = output;
      const tensor = this.table.add(view, shape.dims, shape.strides[first + o]!);
      const type = registerOf(view.dtype);
      if (this.#directTo(output, shape, first + o)) {
        this.#register[output.value] = this.#registers;
        this.#operands.push({ mode: OperandMode.DIRECT, tensor, type, register: this.#registers++ });
        continue;
      }
      const dense = isContiguous(shape.dims, shape.strides[first + o]!, elementBytes(view));
      this.#operands.push({ mode: dense ? OperandMode.STORE : OperandMode.SCATTER, tensor, type, register: -1 - output.value });
    }
  }

  #constant(type: StripType, value: number | bigint): number {
    const at = this.#constants.findIndex((c) => c.type === type && Object.is(c.value, value));
    return at >= 0 ? at : this.#constants.push({ type, value }) - 1;
  }

  /** A splat register holds 64 bytes only, so storing one needs a move. */
  #moveStoredSplats(): void {
    for (const [o, output] of this.#outputs.entries()) {
      const source = this.#steps[output.value]!;
      const operand = source.kind === "input" ? this.#operands.find((each) => each.register === this.#register[output.value]) : undefined;
      if (source.kind !== "constant" && operand?.mode !== OperandMode.SPLAT) continue;
      const at = this.#steps.push({ kind: "op", op: "move", operand: source.type, type: source.type, args: [output.value] }) - 1;
      this.#outputs[o] = { view: output.view, value: at };
    }
  }

  #scan(): Uint8Array {
    for (const [i, step] of this.#steps.entries()) if (step.kind === "op") for (const arg of step.args) this.#lastUse[arg] = i;
    for (const { value } of this.#outputs) this.#lastUse[value] = Number.POSITIVE_INFINITY;
    const free: number[] = [];
    const operations: number[][] = [];
    const own = this.#registers;
    for (const [i, step] of this.#steps.entries()) {
      if (step.kind === "constant") this.#register[i] = -1 - this.#constant(step.type, step.value);
      if (step.kind !== "op") continue;
      const dying = [...new Set(step.args)].filter(
        (arg) => this.#lastUse[arg] === i && this.#register[arg]! >= own && this.#steps[arg]!.kind === "op",
      );
      const sizes = new Set([...step.args.map((arg) => typeBytes(this.#steps[arg]!.type)), typeBytes(step.type)]);
      const release = (): void => dying.forEach((arg) => free.push(this.#register[arg]!));
      // The target may take the place of an argument only where elements have one size: loops run forward.
      if (sizes.size === 1) release();
      if (this.#register[i] === undefined) this.#register[i] = free.pop() ?? this.#registers++;
      if (sizes.size !== 1) release();
      if (this.#lastUse[i] === -1 && this.#register[i]! >= own) free.push(this.#register[i]!);
      operations.push([i, ...step.args]);
    }
    this.#operationCount = operations.length;
    return this.#operationBytes(operations);
  }

  #operationBytes(operations: readonly number[][]): Uint8Array {
    const number = (value: number): number => (this.#register[value]! < 0 ? this.#registers - 1 - this.#register[value]! : this.#register[value]!);
    const bytes = new Uint8Array(operations.length * StripOperation.SIZE);
    for (const [n, [target, ...args]] of operations.entries()) {
      const step = this.#steps[target!]! as Step & { kind: "op" };
      const at = n * StripOperation.SIZE;
      bytes[at + StripOperation.CODE] = step.op === "move" ? StripCode.MOVE : codeOf(step.op);
      bytes[at + StripOperation.TYPE] = TYPE_CODES[step.operand];
      bytes[at + StripOperation.TARGET] = this.#register[target!]!;
      // Unused arguments repeat the first, so every field names a register that exists.
      bytes[at + StripOperation.A] = number(args[0]!);
      bytes[at + StripOperation.B] = number(args[1] ?? args[0]!);
      bytes[at + StripOperation.C] = number(args[2] ?? args[0]!);
    }
    return bytes;
  }

  encode(): EncodedStrip {
    const views = this.#views();
    const shape = this.#shape(views);
    // Two outputs of one value, or an output of an input, are stored at the end; the rest is decided per view.
    const longest = REGISTER_BYTES / Math.max(4, ...this.#steps.map((step) => typeBytes(step.type)));
    const group: Grouping = { size: GROUP, rest: 0 };
    const first = this.#placeInputs(shape, group, longest);
    this.#moveStoredSplats();
    this.#placeOutputs(shape, first);
    const operations = this.#scan();
    for (const operand of this.#operands) if (operand.register < 0) operand.register = this.#register[-1 - operand.register]!;
    if (this.#registers > REGISTER_LIMIT || this.#constants.length > CONSTANT_LIMIT) {
      throw new AclError(
        100000,
        `node "${this.place.node}": a strip program needs ${this.#registers} registers and ${this.#constants.length} constants; the device has ${REGISTER_LIMIT} and ${CONSTANT_LIMIT}: split it`,
      );
    }
    this.step = Math.floor((longest - group.rest) / group.size) * group.size;
    return { bytes: this.#block(product(shape.dims), operations), elements: product(shape.dims), step: this.step, elementNs: this.#cost() };
  }

  #cost(): number {
    let ns = 80 / this.step;
    for (const { mode, type } of this.#operands) {
      ns +=
        mode === OperandMode.GATHER || mode === OperandMode.SCATTER
          ? 0.8
          : mode === OperandMode.PERIODIC || mode === OperandMode.SPLAT
            ? 0.01
            : (0.1 * typeBytes(type)) / 4;
    }
    for (const step of this.#steps) if (step.kind === "op") ns += operationCost(step.op, step.operand);
    return ns;
  }

  #block(elements: number, operations: Uint8Array): Uint8Array {
    const operandsAt = StripBlock.SIZE + this.#constants.length * SPLAT_BYTES;
    const operationsAt = operandsAt + this.#operands.length * StripOperand.SIZE;
    const used = operationsAt + operations.length;
    const bytes = new Uint8Array(Math.ceil(used / 16) * 16);
    const out = new DataView(bytes.buffer);
    out.setUint16(StripBlock.OPERANDS, this.#operands.length, true);
    out.setUint16(StripBlock.OPERATIONS, this.#operationCount, true);
    out.setUint16(StripBlock.CONSTANTS, this.#constants.length, true);
    out.setUint16(StripBlock.REGISTERS, this.#registers, true);
    out.setUint32(StripBlock.ELEMENTS, elements, true);
    out.setUint32(StripBlock.STEP, this.step, true);
    out.setUint32(StripBlock.BYTES, bytes.length, true);
    for (const [i, { type, value }] of this.#constants.entries()) {
      for (let at = 0; at < SPLAT_BYTES; at += typeBytes(type)) putConstant(out, StripBlock.SIZE + i * SPLAT_BYTES + at, type, value);
    }
    for (const [i, operand] of this.#operands.entries()) {
      const at = operandsAt + i * StripOperand.SIZE;
      out.setUint32(at + StripOperand.TENSOR, operand.tensor, true);
      out.setUint8(at + StripOperand.MODE, operand.mode);
      out.setUint8(at + StripOperand.TYPE, TYPE_CODES[operand.type]);
      out.setUint8(at + StripOperand.REGISTER, operand.register);
    }
    bytes.set(operations, operationsAt);
    return bytes;
  }
}

function putConstant(out: DataView, at: number, type: StripType, value: number | bigint): void {
  if (type === "f32") out.setFloat32(at, Number(value), true);
  else if (type === "f64") out.setFloat64(at, Number(value), true);
  else if (typeBytes(type) === 4) out.setUint32(at, Number(BigInt.asUintN(32, BigInt(value))), true);
  else out.setBigUint64(at, BigInt.asUintN(64, BigInt(value)), true);
}

/** Encodes `strip`; its views go into `table`. TILE is left 0: the caller knows the work around it. */
export function encodeStrip(strip: Strip, place: StripPlace, table: TensorTable): EncodedStrip {
  if (strip.outputs.length === 0) throw new AclError(100000, `node "${place.node}": a strip program without outputs does nothing`);
  return new StripEncoder(strip, place, table).encode();
}
