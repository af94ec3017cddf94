/** What of an epilogue the f32 matrix kernels do themselves: the bias of each column first, then relu and an upper limit. */
import { Closing } from "../../asm/abi/isa";
import type { Strip, StripOpName, StripValue, View } from "./types";

export interface SplitEpilogue {
  readonly bias?: View;
  readonly flags: number;
  /** Bits of the upper limit. */
  readonly greatest: number;
  /** What is left to a strip program. */
  readonly rest?: Strip;
}

type Op = Extract<StripValue, { kind: "op" }>;
const NOTHING: SplitEpilogue = { flags: 0, greatest: 0 };

const bitsOf = (value: number): number => new Uint32Array(new Float32Array([value]).buffer)[0]!;

/** One f32 per column, side by side, whatever the other dims. */
const isPerColumn = ({ dtype, dims, strides }: View, axis: number): boolean =>
  dtype === "float32" && (strides[axis] === 4 || dims[axis] === 1) && dims.every((dim, i) => i === axis || dim === 1 || strides[i] === 0);

class Splitter {
  #values: StripValue[];
  #at: number;
  bias: View | undefined;
  flags = 0;
  greatest = 0;

  constructor(
    readonly strip: Strip,
    readonly axis: number,
  ) {
    this.#values = [...strip.values];
    this.#at = strip.values.findIndex(({ kind }) => kind === "accumulator");
  }

  /** The one operation that reads the value at hand, if nothing else does. */
  #onlyReader(): { op: Op; index: number } | undefined {
    const readers = this.#values.flatMap((value, index) => (value.kind === "op" && value.args.includes(this.#at) ? [{ op: value, index }] : []));
    const stored = this.strip.outputs.some(({ value }) => value === this.#at);
    const [first, ...others] = readers;
    return first && others.length === 0 && !stored && first.op.type === "f32" ? first : undefined;
  }

  /** The number that the next operation `op` combines with the value at hand. */
  #constantOf(op: StripOpName): { value: number; index: number } | undefined {
    const reader = this.#onlyReader();
    if (reader?.op.op !== op) return undefined;
    const other = this.#values[reader.op.args.find((arg) => arg !== this.#at) ?? this.#at]!;
    return other.kind === "constant" && other.type === "f32" ? { value: Number(other.value), index: reader.index } : undefined;
  }

  #takeBias(): void {
    const reader = this.#onlyReader();
    if (reader?.op.op !== "add") return;
    const other = this.#values[reader.op.args.find((arg) => arg !== this.#at) ?? this.#at]!;
    if (other.kind !== "input" || other.type !== "f32" || !isPerColumn(other.view, this.axis)) return;
    this.bias = other.view;
    this.flags |= Closing.BIAS;
    this.#at = reader.index;
  }

  /** relu or max with 0, then min with a number that is not below 0. */
  #takeLimits(): void {
    const reader = this.#onlyReader();
    const floor = this.#constantOf("max");
    const relu = reader?.op.op === "relu" ? reader.index : floor?.value === 0 ? floor.index : undefined;
    if (relu !== undefined) {
      this.flags |= Closing.RELU;
      this.#at = relu;
    }
    const cap = this.#constantOf("min");
    if (cap === undefined || !(cap.value >= 0)) return;
    this.flags |= Closing.CAPPED;
    this.greatest = bitsOf(cap.value);
    this.#at = cap.index;
  }

  run(): SplitEpilogue {
    if (this.#at < 0 || this.#values.filter(({ kind }) => kind === "accumulator").length !== 1) return { ...NOTHING, rest: this.strip };
    const start = this.#at;
    this.#takeBias();
    this.#takeLimits();
    if (this.#at === start) return { ...NOTHING, rest: this.strip };
    const split = { ...(this.bias ? { bias: this.bias } : {}), flags: this.flags, greatest: this.greatest };
    if (this.strip.outputs.every(({ value }) => value === this.#at)) return split;
    return { ...split, rest: this.#rest() };
  }

  /** The strip with the value at hand as its accumulator, without what only that value read. */
  #rest(): Strip {
    this.#values[this.#at] = { kind: "accumulator", type: "f32" };
    const used = new Set(this.strip.outputs.map(({ value }) => value));
    for (let i = this.#values.length - 1; i >= 0; i--) {
      const value = this.#values[i]!;
      if (used.has(i) && value.kind === "op") for (const arg of value.args) used.add(arg);
    }
    const place = new Map<number, number>();
    const values: StripValue[] = [];
    for (const [i, value] of this.#values.entries()) {
      if (!used.has(i)) continue;
      place.set(i, values.length);
      values.push(value.kind === "op" ? { ...value, args: value.args.map((arg) => place.get(arg)!) } : value);
    }
    return { values, outputs: this.strip.outputs.map(({ view, value }) => ({ view, value: place.get(value)! })) };
  }
}

/** `axis`: the columns of the product among the dims of its target. */
export function splitEpilogue(strip: Strip | undefined, target: View, axis: number): SplitEpilogue {
  if (!strip) return NOTHING;
  const ours = strip.outputs.length === 1 && strip.outputs[0]!.view.dtype === "float32" && target.dtype === "float32";
  return ours ? new Splitter(strip, axis).run() : { ...NOTHING, rest: strip };
}
