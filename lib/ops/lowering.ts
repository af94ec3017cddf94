/**
 * What an operator's `lower` writes to: instructions over views. Values are logical; this class decides where they live.
 * A value without elements gets a view and no instruction.
 */
import { AclError } from "../errors/acl-error";
import { internal } from "../errors/make";
import { DTYPES, type DtypeName } from "../graph/dtype";
import { describeNode, type Node, type Value } from "../graph/ir";
import { decode, encode, sizeOf, type Stored, type Tensor } from "../graph/tensor";
import type { Blob, ConvForm, BindingName, FoldName, Instruction, MergeName, RnnName, Strip, View, Window } from "../program/types";
import { type BuildName, BUILDS, USUAL_BUILD } from "../program/costs";
import { packedIntegerSize } from "../program/pack-integer";
import { StripBuilder, stripType } from "./strip-builder";
import { channelsLast, dense, isDense, permuteView, sameLayout } from "./views";

/** The program of a graph while it is being lowered. */
export class LoweredProgram {
  readonly instructions: Instruction[] = [];
  readonly blobs: Blob[] = [];
  readonly views = new Map<Value, View>();
  /** Bytes of each data blob under the key that names them for as long as the model lives. */
  readonly data = new Map<Blob, { readonly key: string; readonly bytes: Uint8Array }>();
  /** Blobs of the graph's outputs: a row-major output is written in place. */
  readonly outputs = new Map<Value, Blob>();
  /** Columns of packed panels. */
  readonly panel: number;
  /** No Winograd. */
  readonly direct: boolean;
  readonly #keys = new Map<string, Blob>();

  constructor(options: { readonly build?: BuildName; readonly precision?: "fast" | "direct" } = {}) {
    this.panel = BUILDS[options.build ?? USUAL_BUILD].panel;
    this.direct = options.precision === "direct";
  }

  blob(name: string, binding: BindingName, sizeBytes: number): Blob {
    const blob: Blob = { id: this.blobs.length, name, binding, sizeBytes };
    this.blobs.push(blob);
    return blob;
  }

  #labels = 0;
  /** A fresh label: the target of a branch until regions have numbers. */
  label(): number {
    return this.#labels++;
  }

  /** A data blob; the same key gives the same blob, and `bytes` is asked for only the first time. */
  dataBlob(name: string, key: string, bytes: () => Uint8Array): Blob {
    const known = this.#keys.get(key);
    if (known) {
      return known;
    }
    const content = bytes();
    const blob = this.blob(name, "data", content.byteLength);
    this.#keys.set(key, blob);
    this.data.set(blob, { key, bytes: content });
    return blob;
  }

  viewOf(value: Value): View {
    const known = this.views.get(value);
    if (known) {
      return known;
    }
    const { constant } = value;
    if (!constant) {
      throw internal(`value "${value.name}" is read before it is lowered`);
    }
    const view = dense(
      this.dataBlob(value.name, keyOf(value), () => constant.bytes),
      constant.dtype,
      constant.dims,
    );
    this.views.set(value, view);
    return view;
  }
}

/** Content up to this size is its own name. */
const SMALL_CONSTANT = 1024;

/** Names the bytes of a constant: an initializer by its name, a folded value (whose bytes depend on the shapes) by its content. */
export function keyOf(value: Value): string {
  if (value.source !== undefined) {
    return `i:${value.source}`;
  }
  const { dtype, dims, bytes } = value.constant!;
  if (bytes.length <= SMALL_CONSTANT) {
    return `c:${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1")}:${dtype}:${dims}`;
  }
  // Loaded here: few models need it, and it is the slowest module to load of all.
  const { createHash } = require("node:crypto") as typeof import("node:crypto");
  return `h:${createHash("sha1").update(bytes).digest("base64url")}:${dtype}:${dims}`;
}

/** A node's input during lowering. Its blob is made only when somebody asks for the view. */
export class Operand {
  #decoded: Tensor | undefined;

  constructor(
    readonly value: Value,
    private readonly program: LoweredProgram,
  ) {}

  get dtype(): DtypeName {
    return this.value.dtype!;
  }
  get dims(): readonly number[] {
    return this.value.dims as readonly number[];
  }
  get view(): View {
    return this.program.viewOf(this.value);
  }
  get stored(): Stored | undefined {
    return this.value.constant;
  }
  get constant(): Tensor | undefined {
    if (!this.#decoded && this.value.constant) {
      this.#decoded = decode(this.value.constant);
    }
    return this.#decoded;
  }
  /** The number of a constant with one element. */
  get scalar(): number | bigint | undefined {
    return this.value.constant && sizeOf(this.dims) === 1 ? this.constant!.data[0] : undefined;
  }
}

/** What one node may become. A model that asks for more (a mirror of thousands of elements) is damaged, or would run for ever in pieces. */
const MOST_INSTRUCTIONS = 4096;

export class Lowering {
  #emitted = 0;

  constructor(
    readonly program: LoweredProgram,
    readonly node: Node,
  ) {}

  get what(): string {
    return describeNode(this.node);
  }

  has(index: number): boolean {
    return this.node.outputs[index] !== undefined;
  }
  dims(index = 0): readonly number[] {
    return this.#output(index).dims as readonly number[];
  }
  dtype(index = 0): DtypeName {
    return this.#output(index).dtype!;
  }

  /** Fresh memory for output `index`, in the layout that the layout pass chose. */
  target(index = 0): View {
    const value = this.#output(index);
    const dims = this.dims(index);
    const output = this.program.outputs.get(value);
    const plain = output && dense(output, this.dtype(index), dims);
    const view = plain && isDense(plain, value.layout) ? plain : this.temporary(this.dtype(index), dims, value.layout, value.name);
    this.program.views.set(value, view);
    return view;
  }

  /** Output `index` is a view of memory that exists. */
  alias(view: View, index = 0): void {
    this.program.views.set(this.#output(index), view);
  }

  temporary(dtype: DtypeName, dims: readonly number[], layout?: readonly number[], name = `${this.node.name}.temporary`): View {
    return dense(this.program.blob(name, "arena", sizeOf(dims) * DTYPES[dtype].bytes), dtype, dims, layout);
  }

  /** Bytes derived from a constant at compile time (packed weights). `kind` must name everything that decides them besides the constant. */
  derived(of: Value, kind: string, dtype: DtypeName, dims: readonly number[], bytes: () => Uint8Array): View {
    return dense(this.program.dataBlob(of.name, `${keyOf(of)}|${kind}`, bytes), dtype, dims);
  }

  /** A constant that this lowering computed. */
  computed(tensor: Tensor): View {
    const stored = encode(tensor);
    const value: Value = { name: `${this.node.name}.constant`, dtype: stored.dtype, dims: stored.dims, constant: stored };
    return this.program.viewOf(value);
  }

  emit(instruction: DistributiveOmit<Instruction, "node">, elements: number): void {
    if (elements > 0) {
      if (++this.#emitted > MOST_INSTRUCTIONS) {
        throw new AclError(100024, `${this.what} would take more than ${MOST_INSTRUCTIONS} instructions; say it in smaller steps`);
      }
      this.program.instructions.push({ ...instruction, node: this.node.name } as Instruction);
    }
  }

  copy(target: View, source: View): void {
    this.emit({ op: "copy", target, source }, sizeOf(target.dims));
  }

  /** One strip over `target`: `body` gets the loaded operands and returns the value to store. */
  map(target: View, sources: readonly (View | Operand)[], body: (s: StripBuilder, ...args: number[]) => number): void {
    const strip = new StripBuilder(target.dims);
    const args = sources.map((source) => loadInto(strip, source));
    strip.output(target, body(strip, ...args));
    this.emit({ op: "map", strip: strip.strip() }, sizeOf(target.dims));
  }

  /** The usual elementwise operator: operands broadcast to the output. */
  elementwise(sources: readonly (View | Operand)[], body: (s: StripBuilder, ...args: number[]) => number): void {
    this.map(this.target(), sources, body);
  }

  /** Folds `axes` of `source`; `target` has the dims that are left, in order. */
  reduce(fold: FoldName, target: View, source: View, axes: readonly number[], after?: Strip): void {
    const kept = source.dims.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
    this.emit(
      { op: "reduce", fold, axes: axes.length, target, source: permuteView(source, [...kept, ...axes]), ...(after ? { after } : {}) },
      sizeOf(target.dims),
    );
  }

  matmul(target: View, a: View, b: View, packed: boolean, epilogue?: Strip): void {
    this.emit({ op: "matmul", target, a, b, packed, ...(epilogue ? { epilogue } : {}) }, sizeOf(target.dims));
  }

  /** int8 panels of the matrices [k, n] of `source` [batch..., k..., n...]; `columnDims` of its dims are n. */
  packInteger(source: View, batches: number, columnDims: number): View {
    const columns = sizeOf(source.dims.slice(source.dims.length - columnDims));
    const k = columns === 0 || batches === 0 ? 0 : sizeOf(source.dims) / columns / batches;
    const target = this.temporary("int8", [batches, packedIntegerSize(k, columns, this.program.panel)], undefined, `${this.node.name}.packed`);
    this.emit({ op: "pack_integer", target, source, columnDims }, sizeOf(target.dims));
    return target;
  }

  matmulInteger(target: View, a: View, b: View, zeroA: View, zeroB: View): void {
    this.emit({ op: "matmul_integer", target, a, b, zeroA, zeroB }, sizeOf(target.dims));
  }

  conv(target: View, source: View, weights: View, window: Window, groups: number, epilogue?: Strip, form: ConvForm = "direct"): void {
    this.emit({ op: "conv", target, source, weights, window, groups, form, ...(epilogue ? { epilogue } : {}) }, sizeOf(target.dims));
  }

  /** Rows are the innermost dim, dense and float32 in both views. */
  softmax(target: View, source: View): void {
    this.emit({ op: "softmax", target, source }, sizeOf(target.dims));
  }

  norm(target: View, source: View, scale: View, shift: View, epsilon: number): void {
    this.emit({ op: "norm", target, source, scale, shift, epsilon }, sizeOf(target.dims));
  }

  pool(kind: "max" | "average" | "average_include_pad", target: View, source: View, window: Window): void {
    this.emit({ op: "pool", kind, target, source, window }, sizeOf(target.dims));
  }

  /** Rows of `source` [outer, size, inner] by indices that are known at run time only. */
  gather(target: View, source: View, indices: View): void {
    this.emit({ op: "gather", target, source, indices }, sizeOf(target.dims));
  }

  /** Elements along the innermost dim of `source` by indices of the target's dims. */
  gatherElements(target: View, source: View, indices: View): void {
    this.emit({ op: "gather_elements", target, source, indices }, sizeOf(target.dims));
  }

  /** `target` holds its elements already; those of `source` meet the ones that `indices` name along the innermost dim. */
  scatterElements(merge: MergeName, target: View, source: View, indices: View): void {
    this.emit({ op: "scatter_elements", target, source, indices, merge }, sizeOf(source.dims));
  }

  topK(target: View, positions: View, source: View, largest: boolean): void {
    const k = target.dims[target.dims.length - 1]!;
    const work = this.temporary("int64", [sizeOf(target.dims.slice(0, -1)), k, 2], undefined, `${this.node.name}.work`);
    this.emit({ op: "top_k", target, positions, source, work, largest }, sizeOf(target.dims));
  }

  /** `state` and `cell` hold what comes before the first step; afterwards what the last one left. */
  rnn(kind: RnnName, target: View, source: View, weights: View, state: View, cell?: View, extra?: View): void {
    const operands = { target, source, weights, state, ...(cell ? { cell } : {}), ...(extra ? { extra } : {}) };
    this.emit({ op: "rnn", kind, ...operands }, sizeOf(target.dims));
  }

  /** The same elements dense in `layout` (row-major by default): the view itself, or a copy. */
  arranged(view: View, layout?: readonly number[]): View {
    if (isDense(view, layout)) {
      return { ...view, strides: dense(view.blob, view.dtype, view.dims, layout).strides };
    }
    const copy = this.temporary(view.dtype, view.dims, layout, `${view.blob.name}.arranged`);
    this.copy(copy, view);
    return copy;
  }

  /** [N, C, spatial...] with channels innermost in memory, which CONV and POOL work on. */
  channelsLast(view: View): View {
    return this.arranged(view, channelsLast(view.dims.length));
  }

  /** The same numbers as another element type. */
  converted(view: View, dtype: DtypeName): View {
    if (view.dtype === dtype) {
      return view;
    }
    const like = this.temporary(dtype, view.dims, memoryOrder(view), `${view.blob.name}.${dtype}`);
    this.map(like, [view], (_, value) => value!);
    return like;
  }

  /**
   * Output `index` as an instruction in `dtype` wants to write it: the output itself, or memory that `write` fills and that is then converted.
   * For kernels that know one element type or one layout only.
   */
  through(dtype: DtypeName, layout: readonly number[] | undefined, write: (target: View) => void, index = 0): void {
    const target = this.target(index);
    const wanted = dense(target.blob, target.dtype, target.dims, layout);
    if (target.dtype === dtype && sameLayout(target, wanted)) {
      write(wanted);
      return;
    }
    const inner = this.temporary(dtype, target.dims, layout);
    write(inner);
    this.map(target, [inner], (_, value) => value!);
  }

  /** @throws AclError 100024: the node is legal, this device cannot run it */
  unsupported(why: string): never {
    throw new AclError(100024, `${this.what}: ${why}`, { node: this.node.name });
  }

  #output(index: number): Value {
    return this.node.outputs[index]!;
  }
}

function loadInto(strip: StripBuilder, source: View | Operand): number {
  if (source instanceof Operand) {
    const { scalar } = source;
    return scalar === undefined ? strip.input(source.view) : strip.constant(stripType(source.dtype), scalar);
  }
  return strip.input(source);
}

/** Axes of a view from the largest stride to the smallest. */
function memoryOrder(view: View): number[] {
  const weight = (axis: number): number => Math.abs(view.strides[axis]!);
  return view.dims.map((_, axis) => axis).sort((a, b) => weight(b) - weight(a) || a - b);
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;
